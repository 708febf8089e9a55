//! The HTTP operations on tenants.

pub mod create;
pub mod get;
pub mod list;
pub mod update;
