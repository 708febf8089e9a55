//! The HTTP operations on policies.

pub mod create;
pub mod list;
pub mod update;
