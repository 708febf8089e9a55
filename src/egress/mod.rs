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
mod failure;
mod head;
mod kept;
mod open;
mod pattern;
mod resolver;
mod stream;
mod target;
mod tls;
mod url;

pub use address::{BLOCKED_BY_DEFAULT, left_out};
pub use admission::{Egress, Inadmissible, SecurityPolicy};
pub use exchange::{Limits, Outbound, Posted};
pub use failure::PostError;
pub use kept::KEPT_MAX;
pub use pattern::{PatternError, UrlPattern};
pub use resolver::Resolver;
pub use target::Target;
pub use tls::{RootsError, TrustedRoots};
pub use url::{ReceiverUrl, UrlForm};
