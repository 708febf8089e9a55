//! Responses of handlers.

use std::cell::Cell;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::errors::ApiError;
use crate::domain::amount::{Amount, Unit};

/// The response of a handler: a status and a JSON body, or an error.
pub type Returns<T> = Result<CheckedJson<T>, ApiError>;

/// A response whose script has checked the API key.
#[derive(Debug)]
pub struct CheckedJson<T>(pub StatusCode, pub T);

/// The same with a secret in it, of which nobody on the way may keep a copy: behind [`NO_STORE`].
pub type CheckedSecret<T> = ([(HeaderName, &'static str); 1], CheckedJson<T>);

/// Forbids copies of a response.
pub const NO_STORE: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

tokio::task_local! {
    static CALLER_CHECKED: Cell<bool>;
}

impl<T> CheckedJson<T> {
    /// 200.
    pub fn ok(body: T) -> Self {
        Self(StatusCode::OK, body)
    }

    /// 201.
    pub fn created(body: T) -> Self {
        Self(StatusCode::CREATED, body)
    }
}

impl<T: Serialize> IntoResponse for CheckedJson<T> {
    fn into_response(self) -> Response {
        // Most have some hundred bytes.
        let mut body = Vec::with_capacity(1024);
        match serde_json::to_writer(&mut body, &self.1) {
            Ok(()) => {
                let json = [(
                    header::CONTENT_TYPE,
                    HeaderValue::from_static("application/json"),
                )];
                note_checked();
                (self.0, json, body).into_response()
            }
            Err(error) => ApiError::internal(error).into_response(),
        }
    }
}

/// Serves a request of which [`caller_checked`] knows whether its API key was checked.
pub fn noting_checks<F: Future>(request: F) -> impl Future<Output = F::Output> {
    CALLER_CHECKED.scope(Cell::new(false), request)
}

/// Notes that a script has checked the API key of the request. Outside of [`noting_checks`] it is checked once more.
pub fn note_checked() {
    let _ = CALLER_CHECKED.try_with(|checked| checked.set(true));
}

/// Whether a script has checked the API key before this response.
pub fn caller_checked(response: &Response) -> bool {
    let error = response.extensions().get::<ApiError>();
    let is_noted = CALLER_CHECKED.try_with(Cell::get).unwrap_or(false);
    is_noted || error.is_some_and(ApiError::caller_checked)
}

/// An amount of a record.
///
/// # Errors
/// 500 when it is negative: the record is corrupt.
pub fn amount(unit: Unit, value: i64) -> Result<Amount, ApiError> {
    Amount::new(unit, value).ok_or_else(|| ApiError::internal("a record has a negative amount"))
}
