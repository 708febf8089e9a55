//! Reservations: one, or a list of them.

pub mod get;
pub mod list;
