//! Outgoing requests to addresses that tenants have chosen.
//!
//! A name is resolved once, every address of it is checked, and the connection goes to one of these addresses, so a name
//! that resolves differently later has no effect. Redirects are not followed, proxies of the environment are not used, and
//! each exchange has one deadline. Connections are kept for the next delivery to the same recipient, whose addresses are
//! checked anew.

mod address;
mod admission;
mod connection;
mod exchange;
mod open;
mod pattern;
mod pool;
mod resolver;
mod tls;
mod url;

pub use address::{BLOCKED_BY_DEFAULT, unblocked_defaults};
pub use admission::{AdmissionError, Egress, SecurityPolicy};
pub use connection::PostError;
pub use exchange::{Limits, OutgoingRequest, ReceiverResponse, RetryAfter};
pub use pattern::{PatternError, UrlPattern};
pub use pool::POOL_MAX;
pub use resolver::Resolver;
pub use tls::{RootsError, TrustedRoots};
pub use url::{AdmittedUrl, ReceiverUrl, UrlError};
