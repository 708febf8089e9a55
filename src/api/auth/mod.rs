//! Authentication: who calls, and what happens to a request whose key is refused.

pub mod access;
pub mod authenticate;
pub mod backoff;
pub mod client_address;
pub mod failures;
pub mod refused;
pub mod request_rates;
