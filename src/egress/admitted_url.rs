//! A URL that was checked.

use std::net::SocketAddr;

use super::url::ReceiverUrl;

/// A URL that passed the checks, with its resolved addresses. Only [`Egress::admit`](super::Egress::admit) makes one.
#[derive(Debug, Clone)]
pub struct AdmittedUrl {
    pub(super) url: ReceiverUrl,
    pub(super) addresses: Vec<SocketAddr>,
}
