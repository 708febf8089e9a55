//! HTTP, the description of the API, and settings.

pub(crate) mod clients;
pub(crate) mod connections;
mod docs_page;
pub(crate) mod examples;
pub(crate) mod hostile;
mod large_bodies;
pub(crate) mod logs;
pub(crate) mod matrix;
pub(crate) mod openapi;
pub(crate) mod openapi_requests;
mod request_rates;
pub(crate) mod serving;
pub(crate) mod settings;
mod spans;
pub(crate) mod timeouts;
