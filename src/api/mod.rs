//! HTTP.

pub mod dialect;
pub mod errors;
pub mod trace;

pub mod runtime;

pub mod admin;

pub mod body;
pub mod cursor;
pub mod query;
pub mod sort;

pub mod openapi;
pub mod ops;
