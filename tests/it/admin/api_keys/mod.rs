//! API keys.

pub(crate) mod changes;
pub(crate) mod create;
pub(crate) mod defaults;
pub(crate) mod ended;
pub(crate) mod expiry;
pub(crate) mod list;
pub(crate) mod validation;
