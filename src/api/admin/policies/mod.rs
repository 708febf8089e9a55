//! Policies as requests and responses show them.

pub mod create;
pub mod list;
pub mod update;
