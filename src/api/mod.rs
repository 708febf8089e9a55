//! HTTP.

pub mod ops;
