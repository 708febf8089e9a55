//! Requests that leave the service, to addresses that others have chosen.
//!
//! An address is resolved once, every address that the name has is judged, and the connection goes to exactly one of those:
//! a name that answers otherwise the second time is never asked a second time. Nothing is followed, no proxy of the
//! environment is used, and each exchange has a deadline over all of it.

mod address;
mod exchange;
mod pattern;
mod policy;
mod resolver;
mod tls;
mod url;

use std::net::{IpAddr, SocketAddr};

pub use address::BLOCKED_BY_DEFAULT;
pub use exchange::{Limits, Outbound, PostError, Posted};
pub use pattern::{PatternError, UrlPattern};
pub use policy::SecurityPolicy;
pub use resolver::Resolver;
pub use tls::{RootsError, TrustedRoots};
pub use url::{ReceiverUrl, UrlForm};

/// The way out. Cheap to clone.
#[derive(Clone)]
pub struct Egress {
    resolver: Resolver,
    tls: tokio_rustls::TlsConnector,
}

/// An address that was judged, with the socket addresses that it stood for then. Made by [`Egress::admit`] alone.
#[derive(Debug, Clone)]
pub struct Target {
    url: ReceiverUrl,
    addresses: Vec<SocketAddr>,
}

/// Why an address is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inadmissible {
    /// It breaks a rule, for sure. Says which, without telling what a name resolved to.
    #[error("{0}")]
    Violation(String),
    /// The name has no address now. Perhaps it will have.
    #[error("its host does not resolve")]
    Unresolvable,
}

impl Egress {
    /// Resolves by `resolver` and believes certificates that lead to `roots`.
    pub fn new(resolver: Resolver, roots: &TrustedRoots) -> Self {
        Self {
            resolver,
            tls: tls::connector(roots),
        }
    }

    /// Judges an address: its form, the patterns, and every address that its host has.
    ///
    /// # Errors
    /// [`Inadmissible`].
    pub async fn admit(&self, url: &str, policy: &SecurityPolicy) -> Result<Target, Inadmissible> {
        let violation = |why: &str| Inadmissible::Violation(why.to_owned());
        let url = ReceiverUrl::parse(url).map_err(|form| violation(&form.to_string()))?;
        if url.is_plain() && !policy.allow_http {
            return Err(violation("must be an https URL"));
        }
        let patterns = &policy.patterns;
        if !patterns.is_empty() && !patterns.iter().any(|pattern| pattern.matches(&url)) {
            return Err(violation("matches none of the allowed patterns"));
        }
        let found = match url.ip() {
            Some(ip) => vec![ip],
            None => {
                let found = self.resolver.addresses(url.host()).await;
                found.map_err(|_| Inadmissible::Unresolvable)?
            }
        };
        let refused = |ip: &IpAddr| address::refusal(*ip, &policy.blocked);
        if let Some(why) = found.iter().find_map(refused) {
            let which = match url.ip() {
                Some(_) => format!("is in a range that is not allowed: {why}"),
                // What a name resolves to inside is nobody's business outside.
                None => "has a host in a range that is not allowed".to_owned(),
            };
            return Err(Inadmissible::Violation(which));
        }
        let port = url.port();
        let addresses = found.into_iter().map(|ip| SocketAddr::new(ip, port));
        Ok(Target {
            addresses: addresses.collect(),
            url,
        })
    }
}
