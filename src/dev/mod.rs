//! The development stack: a private Redis, the API and the workers in one process.

pub mod child;
