//! Why a request has no response.

/// Why there was no response. `Display` is safe to show to tenants: it is the same for all failures to connect, which would
/// else tell hosts and ports of a network apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum PostError {
    #[error("Connection failed")]
    ConnectTimeout,
    #[error("Request timed out")]
    Timeout,
    #[error("Connection failed")]
    Refused,
    #[error("Connection failed")]
    Unreachable,
    #[error("TLS/SSL handshake failed")]
    Tls,
    #[error("The connection ended without a response")]
    NoResponse,
    #[error("The response is not valid HTTP")]
    Malformed,
}
