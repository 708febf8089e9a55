//! What the handlers of the admin plane take as arguments and answer with.

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use crate::api::auth::admin::About;
use crate::api::body::idempotency_key;
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, Refused, body_bytes};
use crate::api::state::AppState;
use crate::domain::cause::Cause;
use crate::domain::fields::Read;
use crate::domain::ids::{IdempotencyKey, TenantId};
use crate::domain::json::Json;
use crate::domain::refusal::BadCredential;

/// A body that was read and found right.
pub struct AdminJson<T> {
    /// The body.
    pub request: T,
    /// The same as it was sent, for the digest by which its repetition is known.
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

/// A body that may be absent, which is as good as an empty object.
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

/// The header that names the attempt, where it is sent.
pub struct KeyHeader(pub Option<IdempotencyKey>);

impl FromRequestParts<AppState> for KeyHeader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        idempotency_key(&parts.headers, None).map(Self)
    }
}

/// The cause of what the request does.
pub struct Because(pub Cause);

impl FromRequestParts<AppState> for Because {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        let cause = parts.extensions.get::<Cause>().cloned();
        cause
            .map(Self)
            .ok_or_else(|| ApiError::unauthorized(BadCredential::NoAdminKey))
    }
}

/// The id that the path ends with, as it was sent.
pub struct Named(pub String);

impl FromRequestParts<AppState> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let id = Path::<String>::from_request_parts(parts, state).await;
        id.map(|Path(id)| Self(id))
            .map_err(|_| ApiError::invalid("The path is not valid UTF-8"))
    }
}

/// A refusal, with the tenant that the request was about.
pub struct Declined {
    /// What the client gets.
    pub error: ApiError,
    /// For the audit log.
    pub tenant: Option<TenantId>,
}

impl IntoResponse for Declined {
    fn into_response(self) -> Response {
        (self.tenant.map(About), Refused(self.error)).into_response()
    }
}

/// The outcome of an operation whose caller has been judged.
pub type Outcome<T> = Result<Answer<T>, Declined>;
