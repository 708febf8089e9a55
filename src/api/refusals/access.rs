//! Refusals of the caller.

use axum::http::StatusCode;

use crate::api::errors::{ApiError, Code};
use crate::domain::refusal::{AccessRefusal, BadCredential};

impl From<AccessRefusal> for ApiError {
    fn from(refusal: AccessRefusal) -> Self {
        use AccessRefusal as R;
        match refusal {
            R::Unauthorized(why) => Self::unauthorized(BadCredential::Key(why)),
            R::Forbidden(permission) => {
                Self::forbidden(format!("The API key lacks the permission {permission}"))
            }
            R::NotPermitted(permission) => Self::new(
                StatusCode::FORBIDDEN,
                Code::InsufficientPermissions,
                format!("The API key lacks the permission {permission}"),
            ),
            R::ScopeForbidden => Self::forbidden("The API key is restricted to other scopes"),
            R::OtherTenant => {
                Self::forbidden("The request names another tenant than the API key's")
            }
            R::IdempotencyMismatch => Self::conflict(
                Code::IdempotencyMismatch,
                "The idempotency key was first used with another request; use a new key",
            ),
            R::NotRepeatable => Self::invalid(
                "X-Idempotency-Key is not possible here: the response shows a secret, and there is no key to keep it under",
            ),
        }
    }
}
