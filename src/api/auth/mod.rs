//! Authentication: who calls, and what happens to a request whose key is refused.

pub mod access;
pub mod audit;
pub mod authenticate;
pub mod client_address;
pub mod failures;
mod unauthorized;
