//! Reads for the operator's tools: verification, configuration checks and statistics.

pub(crate) mod inspect;
mod scan;
pub mod statistics;
pub mod verify;
