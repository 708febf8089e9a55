//! Checks the URL of a receiver before anything is sent to it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio_rustls::TlsConnector;

use super::pattern::UrlPattern;
use super::pool::{ConnectionPool, LIMITS};
use super::resolver::{LookUpError, Resolver};
use super::tls::TrustedRoots;
use super::url::{AdmittedUrl, ReceiverUrl};
use super::{address, tls};
use crate::domain::cidr::Cidr;

/// Addresses of a host that are used.
const ADDRESSES_MAX: usize = 16;

/// Checks addresses and sends requests. Cheap to clone; the clones share their connections.
#[derive(Clone)]
pub struct Egress {
    resolver: Resolver,
    pub(super) tls: TlsConnector,
    pub(super) pool: Arc<ConnectionPool>,
}

/// The operator's rules for the URLs of receivers.
#[derive(Debug, Clone)]
pub struct SecurityPolicy {
    /// Networks that receivers must not be in, besides those that are always blocked, and those that are without `http`.
    pub blocked: Vec<Cidr>,
    /// Allowed patterns; when there are any, a URL must match one.
    pub patterns: Vec<UrlPattern>,
    /// Whether `http` is allowed.
    pub allow_http: bool,
}

/// Why a URL is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// It breaks a rule, as its text alone shows.
    #[error("{0}")]
    Violation(String),
    /// An address of its name is in a range that is not allowed. A tenant must not learn what a name resolves to inside the
    /// network, nor whether it does: the message is that of a name that does not resolve.
    #[error("has a host that does not resolve, or is in a range that is not allowed")]
    BlockedHost,
    /// The name does not resolve now, but may later.
    #[error("has a host that does not resolve, or is in a range that is not allowed")]
    Unresolvable,
    /// Nothing is known of the name, because too many names are looked up at the same time.
    #[error("too many host names are looked up at the same time")]
    Busy,
}

impl Egress {
    /// An egress that resolves names by `resolver` and trusts `roots`.
    pub fn new(resolver: Resolver, roots: &TrustedRoots) -> Self {
        Self {
            resolver,
            tls: tls::connector(roots),
            pool: ConnectionPool::new(LIMITS),
        }
    }

    /// Checks a URL: its form, the allowed patterns, and every address of its host. `owner`: for whom, because look-ups of names are
    /// shared out.
    pub async fn admit(
        &self,
        url: &str,
        policy: &SecurityPolicy,
        owner: &str,
    ) -> Result<AdmittedUrl, AdmissionError> {
        let violation = |why: &str| AdmissionError::Violation(why.to_owned());
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
                let found = self.resolver.addresses(url.host(), owner).await;
                found.map_err(|error| match error {
                    LookUpError::Busy => AdmissionError::Busy,
                    LookUpError::NotFound => AdmissionError::Unresolvable,
                })?
            }
        };
        let refused = |ip: &IpAddr| address::refusal(*ip, &policy.blocked, policy.allow_http);
        if let Some(why) = found.iter().find_map(refused) {
            return Err(match url.ip() {
                Some(_) => violation(&format!("is in a range that is not allowed: {why}")),
                None => AdmissionError::BlockedHost,
            });
        }
        let port = url.port();
        let addresses = found.into_iter().map(|ip| SocketAddr::new(ip, port));
        Ok(AdmittedUrl {
            addresses: addresses.take(ADDRESSES_MAX).collect(),
            url,
        })
    }
}
