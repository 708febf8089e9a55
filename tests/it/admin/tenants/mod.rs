//! Tenants.

pub(crate) mod closed;
pub(crate) mod create;
pub(crate) mod update;
