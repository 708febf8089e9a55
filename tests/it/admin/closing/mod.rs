//! Closing a tenant.

pub(crate) mod close;
pub(crate) mod cluster;
pub(crate) mod damage;
pub(crate) mod kill;
pub(crate) mod races;
pub(crate) mod resume;
