//! The HTTP operation on the audit log.

pub mod list;
