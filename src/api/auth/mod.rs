//! Authentication: who calls, and what happens to a request whose key is refused.

pub mod access;
mod ambiguous;
pub mod audit;
pub mod authenticate;
pub mod backoff;
pub mod client_address;
pub mod failures;
pub mod request_rates;
mod unauthorized;
