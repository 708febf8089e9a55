//! The rules for addresses of receivers.

pub mod get;
pub mod update;
