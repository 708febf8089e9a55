//! Authentication: who calls, and what happens to a request whose key is refused.

pub mod access;
pub mod admin;
pub mod client_address;
pub mod failures;
pub mod runtime;
