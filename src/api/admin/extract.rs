//! What the handlers of the admin plane take as arguments.

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;

use crate::api::body::idempotency_key;
use crate::api::errors::ApiError;
use crate::api::extract::body_bytes;
use crate::api::state::AppState;
use crate::domain::fields::Read;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::Json;

/// A valid body.
pub struct AdminJson<T> {
    /// The body.
    pub request: T,
    /// The same as it was sent, for the digest that tells a replay from another request.
    pub sent: Json,
}

impl<T: Read> FromRequest<AppState> for AdminJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = body_bytes(&parts.headers, body, state.body_limits).await?;
        let sent = Json::parse(&bytes)?;
        let request = T::from_json(sent.clone())?;
        Ok(Self { request, sent })
    }
}

/// A body that may be absent, which counts as an empty object.
pub struct OptionalAdminJson<T>(pub AdminJson<T>);

impl<T: Read> FromRequest<AppState> for OptionalAdminJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = body_bytes(&parts.headers, body, state.body_limits).await?;
        let sent = match bytes.trim_ascii().is_empty() {
            true => Json::Object(Vec::new()),
            false => Json::parse(&bytes)?,
        };
        let request = T::from_json(sent.clone())?;
        Ok(Self(AdminJson { request, sent }))
    }
}

/// The idempotency key of the header, if it is sent.
pub struct IdempotencyKeyHeader(pub Option<IdempotencyKey>);

impl FromRequestParts<AppState> for IdempotencyKeyHeader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        idempotency_key(&parts.headers, None).map(Self)
    }
}

/// The id in the path, as it was sent.
pub struct PathId(pub String);

impl FromRequestParts<AppState> for PathId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let invalid = |_| ApiError::invalid("The path is not valid UTF-8");
        let parameters = RawPathParams::from_request_parts(parts, state).await;
        let parameters = parameters.map_err(invalid)?;
        let id = parameters.iter().next().map(|(_, id)| id);
        // A path without parameters is that of another operation, and its last segment may be an id as well.
        let id = id.or_else(|| parts.uri.path().rsplit('/').next());
        Ok(Self(id.unwrap_or_default().to_owned()))
    }
}
