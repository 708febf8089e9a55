//! The errors that clients get for errors of the layers below: one table for each family of refusals.

mod access;
mod api_key;
mod budget;
mod bulk;
mod event;
mod policy;
mod reservation;
mod tenant;
mod webhook;

use axum::http::{HeaderValue, StatusCode};

use super::dialect::headers::RATE_LIMIT_RESET;
use super::errors::{ApiError, Code};
use crate::domain::refusal::{Refusal, TooManyToSort};
use crate::store::{OperationError, StoreError};

/// An operation has called a script, which checked the API key.
impl From<OperationError> for ApiError {
    fn from(error: OperationError) -> Self {
        let error: Self = match error {
            OperationError::About(tenant, error) => return Self::from(*error).about(Some(tenant)),
            OperationError::Refused(refusal) => refusal.into(),
            OperationError::Store(error) => error.into(),
            OperationError::Record(error) => Self::internal(error),
            OperationError::Corrupt(_) => Self::internal(error),
        };
        error.after_check()
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Access(refusal) => refusal.into(),
            Refusal::Tenant(refusal) => refusal.into(),
            Refusal::Reservation(refusal) => refusal.into(),
            Refusal::Budget(refusal) => refusal.into(),
            Refusal::ApiKey(refusal) => refusal.into(),
            Refusal::Policy(refusal) => refusal.into(),
            Refusal::Webhook(refusal) => refusal.into(),
            Refusal::Bulk(refusal) => refusal.into(),
            Refusal::Event(refusal) => refusal.into(),
            Refusal::List(refusal) => refusal.into(),
        }
    }
}

impl From<TooManyToSort> for ApiError {
    fn from(refusal: TooManyToSort) -> Self {
        match refusal.is_of_runtime_plane {
            true => Self::invalid(refusal.to_string()),
            false => Self::new(
                StatusCode::BAD_REQUEST,
                Code::LimitExceeded,
                format!("Invalid sort_by: {refusal}"),
            ),
        }
    }
}

/// 503 where a retry may help, else 500.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::unavailable(error, 1),
            // Memory does not come back as fast as a connection.
            StoreError::Full => Self::unavailable(error, 5),
            StoreError::Script { .. }
            | StoreError::Reply { .. }
            | StoreError::Refused { .. }
            | StoreError::Deployment(_) => Self::internal(error),
        }
    }
}

impl ApiError {
    /// 429 until a time on the store's clock, in milliseconds. Both headers are in whole seconds.
    fn limited_until(message: impl Into<String>, retry_in_ms: i64, until_ms: i64) -> Self {
        let seconds = (retry_in_ms.max(0) as u64).div_ceil(1000);
        let reset = HeaderValue::from(until_ms / 1000);
        Self::limited(message, seconds).with_header(RATE_LIMIT_RESET, reset)
    }
}
