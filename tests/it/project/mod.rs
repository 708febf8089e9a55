//! The project itself: its rules and its scripts.

pub(crate) mod documents;
pub(crate) mod need;
pub(crate) mod tidy;
