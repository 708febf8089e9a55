//! Event queries.

pub(crate) mod list;
pub(crate) mod view;
