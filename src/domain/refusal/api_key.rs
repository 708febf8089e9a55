//! Refusals of operations on API keys.

use crate::domain::api_key::permission::ApiKeyStatus;

/// Why an API key is not created, changed or revoked. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiKeyRefusal {
    /// There is no such key.
    NotFound(String),
    /// It has been revoked already.
    Revoked(String),
    /// It has been revoked or has expired, so it cannot be changed.
    Ended {
        /// The key.
        key_id: String,
        /// Which of the two.
        status: ApiKeyStatus,
    },
    /// The new key would never be valid.
    ExpiresInThePast,
}
