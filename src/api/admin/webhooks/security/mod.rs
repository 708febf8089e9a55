//! The HTTP operations on the rules for addresses of receivers.

pub mod get;
pub mod update;
