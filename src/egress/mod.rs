//! Outgoing requests to addresses that tenants have chosen.
//!
//! A name is resolved once, every address of it is checked, and the connection goes to one of these addresses, so a name
//! that resolves differently later has no effect. Redirects are not followed, proxies of the environment are not used, and
//! each exchange has one deadline.

mod address;
mod admission;
mod exchange;
mod pattern;
mod resolver;
mod tls;
mod url;

pub use address::{BLOCKED_BY_DEFAULT, left_out};
pub use admission::{Egress, Inadmissible, SecurityPolicy, Target};
pub use exchange::{Limits, Outbound, PostError, Posted};
pub use pattern::{PatternError, UrlPattern};
pub use resolver::Resolver;
pub use tls::{RootsError, TrustedRoots};
pub use url::{ReceiverUrl, UrlForm};
