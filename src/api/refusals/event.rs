//! Refusals of operations on events.

use axum::http::StatusCode;

use crate::api::errors::{ApiError, Code};
use crate::domain::printable::printable;
use crate::domain::refusal::EventRefusal;

impl From<EventRefusal> for ApiError {
    fn from(EventRefusal::NotFound(id): EventRefusal) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            Code::EventNotFound,
            format!("There is no event {}", printable(&id)),
        )
    }
}
