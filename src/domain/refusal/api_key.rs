//! Refusals of operations on API keys.

use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::printable::printable;

/// Why an API key is not created, changed or revoked. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiKeyRefusal {
    /// There is no such key.
    #[error("There is no API key {}", printable(.0))]
    NotFound(String),
    /// It has been revoked already.
    #[error("The API key {} has been revoked already", printable(.0))]
    Revoked(String),
    /// It has been revoked or has expired, so it cannot be changed.
    #[error("The API key {} is {status} and cannot be changed any more", printable(.key_id))]
    Ended {
        /// The key.
        key_id: String,
        /// Which of the two.
        status: ApiKeyStatus,
    },
    /// The new key would never be valid.
    #[error("Validation failed: expires_at: must lie in the future")]
    ExpiresInThePast,
}
