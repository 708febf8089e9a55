//! Tenants as requests and responses show them.

pub mod create;
pub mod get;
pub mod list;
pub mod update;
