//! Authentication comes before everything that a request can get wrong.
//!
//! On the runtime plane the script that does the work judges the API key. A request that never gets as far (no such path,
//! a body that cannot be read) is judged here afterwards: its own answer is sent only to the holder of a good key.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::client_address::client_address;
use crate::api::auth::access::AccessError;
use crate::api::auth::failures as auth_failures;
use crate::api::auth::failures::{Origin, Plane};
use crate::api::dialect::{headers, is_blank};
use crate::api::errors::{ApiError, Code};
use crate::api::state::AppState;
use crate::api::trace::{Correlation, EffectiveTenant};
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::cause::{Actor, Cause};
use crate::domain::refusal::{BadCredential, Refusal};
use crate::ledger::LedgerError;

/// Marks a response whose script has judged the API key.
#[derive(Debug, Clone, Copy)]
pub struct Judged;

/// Names the caller of a runtime request, and sees to it that nobody without a good key learns more than that.
pub async fn runtime(State(state): State<AppState>, request: Request, next: Next) -> Response {
    // What can be asked here is public knowledge, and browsers ask it without credentials.
    if request.method() == Method::OPTIONS {
        return next.run(request).await;
    }
    // Whatever a request asks of the store, it is answered in time.
    let store = state.store.clone();
    store.serve(identified(state, request, next)).await
}

async fn identified(state: AppState, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let either = is_dual(&parts.method, parts.uri.path());
    let origin = Origin::of(&state, Plane::Runtime, &parts, either);
    let caller = caller_of(&state, &parts).await;
    let mut response = match &caller {
        Err(error) => error.clone().into_response(),
        Ok(caller) => {
            parts.extensions.insert(caller.clone());
            let response = next.run(Request::from_parts(parts, body)).await;
            judged(&state, caller, response).await
        }
    };
    auth_failures::note(&state, origin, caller.as_ref().ok(), &mut response);
    response
}

/// The answer to a request whose caller was named: 401 in its place where the key is not good and no script has said so.
async fn judged(state: &AppState, caller: &Caller, mut response: Response) -> Response {
    let Caller::Tenant(caller) = caller else {
        return response;
    };
    if response.extensions().get::<Judged>().is_none()
        && let Err(error) = state.ledger.authenticate(caller, "").await
    {
        return crate::api::refusals::error_of(error, None).into_response();
    }
    let refused = [401, 503].contains(&response.status().as_u16());
    if !refused {
        response
            .extensions_mut()
            .insert(EffectiveTenant(caller.tenant.clone()));
    }
    response
}

async fn caller_of(state: &AppState, parts: &Parts) -> Result<Caller, ApiError> {
    let headers = &parts.headers;
    let admin_key = headers
        .get(headers::ADMIN_KEY)
        .filter(|value| !is_blank(value));
    if let Some(key) = admin_key.filter(|_| is_dual(&parts.method, parts.uri.path())) {
        let admin = state.access.admin_caller(text(key));
        return admin.map(Caller::Admin).map_err(error_of);
    }
    key_caller(state, headers).await
}

/// Who a tenant's key claims to be.
///
/// # Errors
/// 401 when there is no such key.
pub async fn key_caller(state: &AppState, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let key = state.access.dialect().api_key(headers);
    let key = key.ok_or(AccessError::Missing).map_err(error_of)?;
    let caller = state.access.runtime_caller(text(key)).await;
    caller.map(Caller::Tenant).map_err(error_of)
}

/// The three operations that the admin key opens besides a tenant's; nothing else ever becomes one by accident.
fn is_dual(method: &Method, path: &str) -> bool {
    let Some(rest) = path.strip_prefix("/v1/reservations") else {
        return false;
    };
    let parts: Vec<&str> = rest.split('/').collect();
    match parts.as_slice() {
        [""] => *method == Method::GET,
        ["", id] => *method == Method::GET && !id.is_empty(),
        ["", id, "release"] => *method == Method::POST && !id.is_empty(),
        _ => false,
    }
}

fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// What a client is told who could not be named.
pub fn error_of(error: AccessError) -> ApiError {
    match error {
        AccessError::Missing => ApiError::unauthorized(BadCredential::NoKey),
        AccessError::BadKey(why) => ApiError::unauthorized(BadCredential::Key(why)),
        AccessError::BadAdminKey => ApiError::unauthorized(BadCredential::AdminKey),
        AccessError::Store(error) => crate::api::refusals::store_error(error),
    }
}

/// The cause of what a request does, for events and audit.
pub fn cause_of(
    state: &AppState,
    parts: &Parts,
    correlation: Correlation,
    caller: &Caller,
) -> Cause {
    Cause {
        source: state.access.dialect().words().runtime_source,
        actor: match caller {
            Caller::Tenant(caller) => Actor::ApiKey(caller.key_id.clone()),
            Caller::Admin(_) => Actor::AdminOnBehalfOf,
        },
        source_ip: Some(source_ip(state, parts).to_string()),
        request_id: Some(correlation.request_id),
        trace_id: correlation.trace_id,
        trace_flags: correlation.trace_flags,
    }
}

/// The client's address, so far as proxies can be believed.
pub fn source_ip(state: &AppState, parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |info| info.0.ip());
    client_address(&state.trusted_proxies, peer, &parts.headers)
}

/// The holder of an API key; admins have no business on these operations.
pub fn tenant_caller(caller: Caller) -> Result<RuntimeCaller, ApiError> {
    match caller {
        Caller::Tenant(caller) => Ok(caller),
        Caller::Admin(_) => Err(ApiError::unauthorized(BadCredential::NoKey)),
    }
}

/// A tenant may name itself in a filter, and nobody else.
///
/// # Errors
/// The refusal of a good key, or that the key is not good.
pub async fn own_tenant(
    state: &AppState,
    caller: &RuntimeCaller,
    named: Option<&str>,
) -> Result<(), LedgerError> {
    if named.is_none_or(|named| named == caller.tenant.as_str()) {
        return Ok(());
    }
    state.ledger.authenticate(caller, "").await?;
    Err(LedgerError::Refused(Refusal::ForeignTenant))
}

/// A path or method that does not exist.
pub async fn no_such_path() -> ApiError {
    ApiError::not_found("No such path")
}

/// A path that does not have this method; the router adds `Allow`.
pub async fn no_such_method(method: Method) -> ApiError {
    let message = format!("The path does not have the method {method}");
    ApiError::new(
        axum::http::StatusCode::METHOD_NOT_ALLOWED,
        Code::InvalidRequest,
        message,
    )
}
