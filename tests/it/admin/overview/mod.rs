//! The overview.

pub(crate) mod counts;
pub(crate) mod model;
