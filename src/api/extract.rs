//! Extractors.

use std::convert::Infallible;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::body;
use super::body_memory::BodyRoom;
use super::context::Context;
use super::errors::{ApiError, Code};
use super::operation::Operation;
use super::state::AppState;
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::cause::Cause;
use crate::domain::fields::Read;
use crate::domain::ids::{IdempotencyKey, PostId, ReservationId};
use crate::domain::payload_hash::{HashedRequest, PayloadHash};
use crate::domain::refusal::BadCredential;
use crate::evidence::{Endpoint, attested_body};

/// A request body of the runtime plane.
pub trait RuntimeBody: Read + Send {
    /// The key that a header may repeat.
    fn idempotency_key(&self) -> &IdempotencyKey;

    /// The endpoint that its evidence names, if it is attested.
    const ENDPOINT: Option<Endpoint>;
}

/// Makes types request bodies of the runtime plane, by their member `idempotency_key`, and names what attests them.
macro_rules! runtime_bodies {
    ($($request:ty: $endpoint:expr),* $(,)?) => {$(
        impl crate::api::extract::RuntimeBody for $request {
            const ENDPOINT: Option<crate::evidence::Endpoint> = $endpoint;

            fn idempotency_key(&self) -> &crate::domain::ids::IdempotencyKey {
                &self.idempotency_key
            }
        }
    )*};
}
pub(crate) use runtime_bodies;

/// A call of the runtime plane with a body: who calls, what the path names, and a valid body. Problems of the body come first, then
/// those of the path, then a header that contradicts the body.
pub struct RuntimeCall<T, P = (), C = RuntimeCaller> {
    /// The services.
    pub state: AppState,
    /// Caller.
    pub caller: C,
    /// The request, for events.
    pub cause: Cause,
    /// What the path names.
    pub path: P,
    /// The body, read as its type.
    pub body: HashedRequest<T>,
}

impl<T, P, C> FromRequest<AppState> for RuntimeCall<T, P, C>
where
    T: RuntimeBody,
    P: FromRequestParts<AppState>,
    C: FromRequestParts<AppState, Rejection = ApiError> + Send,
    ApiError: From<P::Rejection>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let caller = C::from_request_parts(&mut parts, state).await?;
        let cause = Cause::from_request_parts(&mut parts, state).await?;
        let bytes = body_bytes(&parts, body, state).await?;
        let json = state.body_limits.json(&bytes)?;
        let sizes = state.body_limits.check_members(&json, bytes.len());
        let (payload_hash, canonical) = PayloadHash::with_canonical(&json);
        let endpoint = T::ENDPOINT.filter(|_| state.ledger.attests());
        let attested =
            endpoint.map(|endpoint| attested_body(endpoint, &json, &payload_hash, canonical));
        let request = T::from_json(json)?;
        sizes?;
        let path = P::from_request_parts(&mut parts, state).await?;
        body::idempotency_key(&parts.headers, Some(request.idempotency_key()))?;
        let body = HashedRequest {
            request,
            payload_hash,
            attested,
        };
        Ok(Self {
            state: state.clone(),
            caller,
            cause,
            path,
            body,
        })
    }
}

/// A path without an id.
impl From<Infallible> for ApiError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The bytes of a JSON body within the limits. One that is not small waits until there is memory for it.
///
/// # Errors
/// 415 for another content type or encoding, 413 beyond the limit, 400 when the body ends early or takes too long, 503 without
/// memory before the request's deadline.
pub async fn body_bytes(parts: &Parts, content: Body, state: &AppState) -> Result<Bytes, ApiError> {
    let limits = state.body_limits;
    let limit = limits.bytes;
    body::check_media_type(&parts.headers)?;
    let too_large = || {
        let message = format!("The request body is larger than {limit} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidRequest, message)
    };
    let length = content.size_hint();
    if length.lower() > limit as u64 {
        return Err(too_large());
    }
    let _room = match body::is_large(&content) {
        true => {
            let bytes = length.upper().unwrap_or(u64::MAX).min(limit as u64);
            Some(Box::pin(room(parts, state, bytes as u32)).await?)
        }
        false => None,
    };
    let arrived = tokio::time::timeout(limits.time, read_up_to(limit, content)).await;
    let arrived = arrived.map_err(|_| {
        let message = format!(
            "The request body did not arrive within {} ms",
            limits.time.as_millis()
        );
        // The rest of it is not the next request.
        ApiError::invalid(message)
            .with_header(header::CONNECTION, HeaderValue::from_static("close"))
    })?;
    arrived.map_err(|error| match error.is::<LengthLimitError>() {
        true => too_large(),
        false => ApiError::invalid("Malformed request body: it ended early"),
    })
}

/// The bytes of a body. Most come in one piece, which is not copied.
async fn read_up_to(limit: usize, content: Body) -> Result<Bytes, BoxError> {
    let mut content = Limited::new(content, limit);
    let first = content.frame().await.transpose()?;
    let first = first.and_then(|frame| frame.into_data().ok());
    let first = first.unwrap_or_default();
    if content.is_end_stream() {
        return Ok(first);
    }
    let rest = content.collect().await?.to_bytes();
    Ok([first, rest].concat().into())
}

/// Room for a body of so many bytes, before the deadline of the request.
async fn room(parts: &Parts, state: &AppState, bytes: u32) -> Result<BodyRoom, ApiError> {
    let context = parts.extensions.get::<Context>();
    let caller = context.and_then(|context| context.caller.as_ref());
    let tenant = caller.and_then(Caller::as_tenant);
    let tenant = tenant.map(|caller| &caller.tenant);
    let waiting = state.store.begin_call()?;
    let room = state.body_memory.room(tenant, bytes);
    let room = tokio::time::timeout_at(waiting.deadline, room).await;
    let full = "other request bodies take all the memory for them";
    let room = room.ok().and_then(Result::ok);
    room.ok_or_else(|| ApiError::unavailable(full, 1).counted_as("body_memory"))
}

/// Takes what the layers around the route know of the request.
macro_rules! from_context {
    ($($part:ident: $known:ty),+) => {$(
        impl FromRequestParts<AppState> for $known {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
                let context = parts.extensions.get::<Context>();
                let known = context.and_then(|context| context.$part.clone());
                known.ok_or_else(|| ApiError::internal("the route lacks a layer"))
            }
        }
    )+};
}

from_context!(caller: Caller, cause: Cause, operation: &'static Operation);

/// The holder of an API key; the admin key is none.
impl FromRequestParts<AppState> for RuntimeCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        match Caller::from_request_parts(parts, state).await? {
            Caller::Tenant(caller) => Ok(caller),
            Caller::Admin(_) => Err(ApiError::unauthorized(BadCredential::NoKey)),
        }
    }
}

/// The usage event that the path names.
impl FromRequestParts<AppState> for PostId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let id = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let id = id.ok().and_then(|id| Self::parse(&id.0));
        id.ok_or_else(|| {
            ApiError::invalid("Validation failed: event_id: must have 1 to 128 characters")
        })
    }
}

/// The reservation that the path names.
impl FromRequestParts<AppState> for ReservationId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let id = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let id = id.ok().and_then(|id| Self::parse(&id.0));
        id.ok_or_else(|| {
            ApiError::invalid("Validation failed: reservation_id: must have 1 to 128 characters")
        })
    }
}
