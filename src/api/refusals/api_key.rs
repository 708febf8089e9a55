//! Refusals of operations on API keys.

use crate::api::errors::{ApiError, Code};
use crate::domain::printable::printable;
use crate::domain::refusal::ApiKeyRefusal;

impl From<ApiKeyRefusal> for ApiError {
    fn from(refusal: ApiKeyRefusal) -> Self {
        use ApiKeyRefusal as R;
        match refusal {
            R::NotFound(id) => Self::not_found(format!("There is no API key {}", printable(&id))),
            R::Revoked(id) => Self::conflict(
                Code::KeyRevoked,
                format!("The API key {} has been revoked already", printable(&id)),
            ),
            R::Ended { key_id, status } => Self::conflict(
                Code::InvalidRequest,
                format!(
                    "The API key {} is {status} and cannot be changed any more",
                    printable(&key_id)
                ),
            ),
            R::ExpiresInThePast => {
                Self::invalid("Validation failed: expires_at: must lie in the future")
            }
        }
    }
}
