//! Extractors of the admin plane.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::Method;
use axum::http::request::Parts;

use crate::admin;
use crate::api::body::idempotency_key;
use crate::api::errors::ApiError;
use crate::api::extract::body_bytes;
use crate::api::operation::Operation;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::fields::Read;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::{FreeObject, Json};
use crate::domain::payload_hash::PayloadHash;

/// A change under an idempotency key: body, target, and what the service needs besides.
///
/// Checked in this order: the header of the key, the body, the target, and last a key in the body against the header.
pub struct Change<T, S = ()> {
    /// The services.
    pub state: AppState,
    /// The caller.
    pub caller: Caller,
    /// The row of the index that was called.
    pub operation: &'static Operation,
    /// The body, read as its type.
    pub body: T,
    /// The target of the change.
    pub target: S,
    cause: Cause,
    idempotency_key: Option<IdempotencyKey>,
    payload_hash: PayloadHash,
}

impl<T, S> Change<T, S> {
    /// Arguments that all mutations share.
    pub fn request(&self) -> admin::Request<'_> {
        admin::Request {
            cause: &self.cause,
            idempotency_key: self.idempotency_key.as_ref(),
            payload_hash: &self.payload_hash,
        }
    }
}

impl<T: ChangeBody, S: ChangeTarget> FromRequest<AppState> for Change<T, S> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let (mut parts, content) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, state).await?;
        let operation = <&Operation>::from_request_parts(&mut parts, state).await?;
        let cause = Cause::from_request_parts(&mut parts, state).await?;
        let mut key = match T::HAS_KEY {
            true => None,
            false => idempotency_key(&parts.headers, None)?,
        };
        let PathId(id) = PathId::from_request_parts(&mut parts, state).await?;
        let bytes = match T::PRESENCE {
            Presence::Ignored => Bytes::new(),
            _ => body_bytes(&parts, content, state).await?,
        };
        let sent = match T::PRESENCE != Presence::Required && bytes.trim_ascii().is_empty() {
            true => Json::Object(Vec::new()),
            false => state.body_limits.json(&bytes)?,
        };
        let sizes = state.body_limits.check_members(&sent, bytes.len());
        // In a change of a record, `null` removes a member, so it is not the same as absent.
        let hash = match operation.method == Method::PATCH {
            true => PayloadHash::of_patch_and_target,
            false => PayloadHash::of_body_and_target,
        };
        let query = parts.uri.query().unwrap_or_default();
        let target = S::read(id, query, &caller);
        let target = target.map(|target| (hash(&sent, &target.selected()), target));
        let body = T::from_json(sent)?;
        body.check()?;
        sizes?;
        let (payload_hash, target) = target?;
        let payload_hash = match T::SHOWS_SECRET {
            true => payload_hash.of_caller(caller.identity()),
            false => payload_hash,
        };
        if T::HAS_KEY {
            key = idempotency_key(&parts.headers, body.idempotency_key())?;
        }
        Ok(Self {
            state: state.clone(),
            caller,
            operation,
            body,
            target,
            cause,
            idempotency_key: key,
            payload_hash,
        })
    }
}

/// The body of a change.
pub trait ChangeBody: Read {
    /// Whether it must be sent.
    const PRESENCE: Presence = Presence::Required;
    /// Whether the response shows a secret, so that a replay is for the caller of the first request alone.
    const SHOWS_SECRET: bool = false;
    /// Whether it has a member for the idempotency key.
    const HAS_KEY: bool = false;

    /// The member for the idempotency key.
    fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        None
    }

    /// What the types of its members do not say. It comes before the idempotency key.
    fn check(&self) -> Result<(), ApiError> {
        Ok(())
    }
}

/// Whether a body must be sent. An absent one counts as an empty object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must.
    Required,
    /// It may.
    Optional,
    /// The operation has no body; one that is sent is ignored.
    Ignored,
}

/// No body: as an empty object.
pub type NoBody = FreeObject;

impl ChangeBody for NoBody {
    const PRESENCE: Presence = Presence::Ignored;
}

/// The target of a change.
pub trait ChangeTarget: Sized {
    /// Reads the id in the path and the query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    fn read(id: String, query: &str, caller: &Caller) -> Result<Self, ApiError>;

    /// Names and values that identify the target, for the payload hash.
    fn selected(&self) -> Vec<(&'static str, &str)>;
}

/// The body alone names what is changed.
impl ChangeTarget for () {
    fn read(_: String, _: &str, _: &Caller) -> Result<Self, ApiError> {
        Ok(())
    }

    fn selected(&self) -> Vec<(&'static str, &str)> {
        Vec::new()
    }
}

impl ChangeTarget for PathId {
    fn read(id: String, _: &str, _: &Caller) -> Result<Self, ApiError> {
        Ok(Self(id))
    }

    fn selected(&self) -> Vec<(&'static str, &str)> {
        vec![("id", &self.0)]
    }
}

/// A valid body that no idempotency key belongs to.
pub struct AdminJson<T>(pub T);

impl<T: Read> FromRequest<AppState> for AdminJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = body_bytes(&parts, body, state).await?;
        Ok(Self(T::from_json(state.body_limits.json(&bytes)?)?))
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
