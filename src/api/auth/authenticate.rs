//! Authentication comes before everything else that a request can get wrong.
//!
//! The script that does the work checks an API key, in the same step. A request that never gets as far (no such path, a
//! body that cannot be read) is checked here afterwards: its own response is sent only to the holder of a valid key. One with a large
//! body is checked here before that is read. The admin key is compared here, because it is configured here.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use smol_str::ToSmolStr as _;
use tokio::time::sleep;

use super::client_address::client_of;
use super::refused::{self, AlreadyAudited};
use crate::api::body::is_large;
use crate::api::context::{Context, SignedIn};
use crate::api::dialect::{Dialect, HeaderNames, headers, is_blank};
use crate::api::errors::ApiError;
use crate::api::operation::{Callers, Operation, Plane};
use crate::api::response::{caller_checked, note_checked, noting_checks};
use crate::api::state::AppState;
use crate::api::trace::correlation::Correlation;
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::cause::{Actor, Cause};
use crate::domain::refusal::{BadCredential, Refusal};
use crate::store::{ExtraRoundTrip, is_replay};
use crate::telemetry::{Next, Served};

/// How long a request beyond its tenant's rate waits before it is refused, and a wrong key after too many of them.
const LIMITED_AFTER: Duration = Duration::from_millis(250);

/// What the layer knows about its route.
pub struct Guard {
    /// Handles on the layers below.
    pub state: AppState,
    /// The plane whose rules the route follows.
    pub plane: Plane,
    /// The operation; `None` where path or method is unknown.
    pub operation: Option<&'static Operation>,
}

impl Guard {
    /// Unknown paths and methods need a credential that their plane takes: without a valid key they return 401.
    fn callers(&self) -> Callers {
        match (self.operation, self.plane) {
            (Some(operation), _) => operation.callers,
            (None, Plane::Runtime) => Callers::Both(None),
            (None, Plane::Admin) => Callers::Admin,
        }
    }
}

/// The layer around every route: passes the caller to the handler, and refuses requests without a valid key.
pub async fn authenticate(guard: Arc<Guard>, request: Request, next: Next) -> Served {
    // Its response is public, and browsers send it without credentials.
    if request.method() == Method::OPTIONS {
        return Ok(next.run(request).await);
    }
    // Limits the time that the request may wait for Redis in all.
    let served = noting_checks(identified(&guard, request, next));
    Ok(guard.state.store.serve(served).await)
}

async fn identified(guard: &Guard, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let (state, callers) = (&guard.state, guard.callers());
    let client = client_of(&state.trusted_proxies, &parts);
    let caller = match ambiguity(state.access.dialect(), &parts) {
        Some(error) => Err(error),
        None => caller_of(state, callers, &parts, client).await,
    };
    let cause = cause_of(guard, &parts, client, caller.as_ref().ok());
    let target = (guard.plane == Plane::Admin).then(|| (parts.method.clone(), parts.uri.clone()));
    let api_key_header = state.access.dialect().api_key_header(&parts.headers);
    let has_authorization = parts.headers.contains_key(header::AUTHORIZATION);
    let mut response = match &caller {
        Err(error) => {
            if error.status() == StatusCode::TOO_MANY_REQUESTS {
                sleep(LIMITED_AFTER).await;
            }
            refused(error.clone())
        }
        Ok(_) if guard.plane == Plane::Admin && is_traversal(parts.uri.path()) => {
            ApiError::invalid("The path must not hold . or .. segments").into_response()
        }
        Ok(caller) if let Err(error) = admitted(guard, caller, &parts.method) => {
            // Each refusal costs Redis a check of the key. Without the delay, a client could cause as many as it can send.
            sleep(LIMITED_AFTER).await;
            checked(guard, caller, refused(error)).await
        }
        Ok(caller) => {
            let context = parts.extensions.get_or_insert_default::<Context>();
            context.caller = Some(caller.clone());
            context.cause = Some(cause.clone());
            context.operation = guard.operation;
            let changes = guard.plane == Plane::Admin && parts.method != Method::GET;
            let first = match is_checked_first(guard, caller, &body) {
                true => Some(Box::pin(check_first(guard, caller)).await),
                false => None,
            };
            let response = match first {
                Some(Err(error)) => error.into_response(),
                Some(Ok(())) => {
                    note_checked();
                    next.run(Request::from_parts(parts, body)).await
                }
                None => next.run(Request::from_parts(parts, body)).await,
            };
            let mut response = checked(guard, caller, response).await;
            if is_replay() && response.status().is_success() {
                let yes = HeaderValue::from_static("true");
                response.headers_mut().insert(headers::REPLAYED, yes);
            }
            count(guard, caller, changes, &response);
            response
        }
    };
    let caller = caller.ok();
    refused::count_unauthorized(
        state,
        (guard.plane, callers, api_key_header, has_authorization),
        (caller.as_ref(), &cause),
        &mut response,
    );
    if let Some(target) = target
        && let Some(failed) = refused::failure(&response)
    {
        Box::pin(refused::audit(
            state,
            &target,
            &cause,
            caller.as_ref(),
            failed,
        ))
        .await;
    }
    if refused::is_wrong_api_key(&response) {
        let tenant = caller.as_ref().and_then(Caller::as_tenant);
        let key_id = tenant.map(|caller| caller.key_id.clone());
        if state.access.is_guessing((client, key_id)) {
            sleep(LIMITED_AFTER).await;
        }
    }
    response
}

async fn caller_of(
    state: &AppState,
    callers: Callers,
    parts: &Parts,
    client: IpAddr,
) -> Result<Caller, ApiError> {
    if let Some(SignedIn(caller)) = parts.extensions.get() {
        return match (callers, caller) {
            (Callers::Admin, Caller::Tenant(_)) => {
                Err(ApiError::unauthorized(BadCredential::NoAdminKey))
            }
            (Callers::Tenant(_), Caller::Admin(_)) => {
                Err(ApiError::unauthorized(BadCredential::NoKey))
            }
            _ => Ok(caller.clone()),
        };
    }
    let headers = &parts.headers;
    let admin_key = headers
        .get(headers::ADMIN_KEY)
        .filter(|value| !is_blank(value));
    match (callers, admin_key) {
        (Callers::Admin | Callers::Both(_), Some(key)) => {
            let admin = state.access.admin_caller(text(key), client)?;
            Ok(Caller::Admin(admin))
        }
        (Callers::Admin, None) => Err(ApiError::unauthorized(BadCredential::NoAdminKey)),
        (Callers::Tenant(_) | Callers::Public, _) | (Callers::Both(_), None) => {
            let key = state.access.dialect().api_key(headers);
            let key = key.ok_or_else(|| ApiError::unauthorized(BadCredential::NoKey))?;
            let caller = state.access.runtime_caller(text(key)).await?;
            Ok(Caller::Tenant(caller))
        }
    }
}

/// The response to a request that goes no further. One that has to wait has no audit entry: those before it have theirs.
fn refused(error: ApiError) -> Response {
    let mut response = error.into_response();
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        response.extensions_mut().insert(AlreadyAudited);
    }
    response
}

/// Whether the tenant may make one more request at present. Its key has not been checked yet. The runtime plane checks on its own how
/// much the tenant stores, since there a repeated request gets its response all the same.
fn admitted(guard: &Guard, caller: &Caller, method: &Method) -> Result<(), ApiError> {
    let Caller::Tenant(RuntimeCaller { tenant, .. }) = caller else {
        return Ok(());
    };
    guard.state.request_rates.check(guard.plane, tenant)?;
    let stores = guard.plane == Plane::Admin && ![Method::GET, Method::DELETE].contains(method);
    let too_large = || guard.state.store.stock_too_large(tenant);
    match stores.then(too_large).flatten() {
        Some(too_large) => Err(Refusal::from(too_large).into()),
        None => Ok(()),
    }
}

/// Counts a request if its key is valid: anybody could send one with another key. The response to a change of the admin plane is stored under its
/// idempotency key.
fn count(guard: &Guard, caller: &Caller, changes: bool, response: &Response) {
    if response.status() == StatusCode::UNAUTHORIZED {
        return;
    }
    let tenant = caller.as_tenant().map(|caller| &caller.tenant);
    if let Some(tenant) = tenant {
        let stored = response.body().size_hint().lower();
        let stored = if changes { stored } else { 0 };
        guard.state.request_rates.count(guard.plane, tenant, stored);
    }
    // It is unknown whether the key is valid.
    if response.status() != StatusCode::SERVICE_UNAVAILABLE {
        guard.state.ledger.traffic().tried(tenant, false);
    }
}

fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// The response of a route, or a refusal in its place where no script has checked the API key and it does not hold.
async fn checked(guard: &Guard, caller: &Caller, mut response: Response) -> Response {
    let Caller::Tenant(tenant) = caller else {
        return response;
    };
    // The runtime plane leaves the permission to the scripts.
    let permission = match guard.plane {
        Plane::Runtime => "",
        Plane::Admin => guard.callers().permission(),
    };
    if !caller_checked(&response)
        && let Err(error) = Box::pin(check(guard, caller, permission)).await
    {
        response = error.into_response();
    }
    let unknown = [StatusCode::UNAUTHORIZED, StatusCode::SERVICE_UNAVAILABLE];
    if !unknown.contains(&response.status()) {
        let name = &guard.state.access.dialect().header_names().tenant;
        if let Ok(tenant) = HeaderValue::from_str(tenant.tenant.as_str()) {
            response.headers_mut().insert(name, tenant);
        }
    }
    response
}

/// Whether the API key is checked before the body is read. Nobody makes a replica read a large one without a valid key.
fn is_checked_first(guard: &Guard, caller: &Caller, body: &Body) -> bool {
    let request = guard.operation.and_then(|it| it.declaration.request);
    request.is_some() && !caller.is_admin() && is_large(body)
}

/// Checks an API key and its permission, in a round trip of its own.
async fn check_first(guard: &Guard, caller: &Caller) -> Result<(), ApiError> {
    let store = &guard.state.store;
    store.extra_round_trip(ExtraRoundTrip::LargeBody);
    check(guard, caller, guard.callers().permission()).await
}

/// Checks an API key on its own, and whether it has a permission; empty for none.
async fn check(guard: &Guard, caller: &Caller, permission: &str) -> Result<(), ApiError> {
    let state = &guard.state;
    match (guard.plane, caller) {
        (_, Caller::Admin(_)) => Ok(()),
        (Plane::Runtime, Caller::Tenant(caller)) => {
            state.ledger.authenticate(caller, permission).await?;
            Ok(())
        }
        (Plane::Admin, Caller::Tenant(_)) => {
            state.store.admin_access(caller, permission, "").await?;
            Ok(())
        }
    }
}

/// The cause of what a request does, for events and audit.
fn cause_of(guard: &Guard, parts: &Parts, client: IpAddr, caller: Option<&Caller>) -> Cause {
    let dialect = guard.state.access.dialect();
    let words = dialect.words();
    let context = parts.extensions.get::<Context>();
    let correlation = context.and_then(|context| context.correlation.clone());
    let correlation = correlation
        .unwrap_or_else(|| Correlation::of_request(dialect, guard.plane, &parts.headers));
    Cause {
        source: match guard.plane {
            Plane::Runtime => words.runtime_source,
            Plane::Admin => words.admin_source,
        },
        actor: match caller {
            Some(Caller::Tenant(caller)) => Actor::ApiKey(caller.key_id.clone()),
            Some(Caller::Admin(admin)) => {
                let name = admin.name().cloned();
                match guard.callers().includes_tenants() {
                    true => Actor::AdminOnBehalfOf(name),
                    false => Actor::Admin(name),
                }
            }
            None => Actor::Admin(None),
        },
        source_ip: Some(client.to_smolstr()),
        request_id: Some(correlation.request_id),
        trace_id: correlation.trace_id,
        trace_flags: correlation.trace_flags,
    }
}

/// Refuses a request whose `Host` is missing or sent twice, or whose keys can be read in two ways: a proxy and this service might
/// read it differently.
fn ambiguity(dialect: Dialect, parts: &Parts) -> Option<ApiError> {
    let invalid = |message: String| Some(ApiError::invalid(message));
    if let Some(problem) = host_problem(parts) {
        return invalid(problem.to_owned());
    }
    let [(own, own_name), (other, other_name)] = [dialect, dialect.other()].map(|dialect| {
        let names = dialect.header_names();
        (&names.api_key, dialect.words().api_key_header)
    });
    let admin = (&headers::ADMIN_KEY, HeaderNames::ADMIN_KEY);
    for (name, written) in [(own, own_name), (other, other_name), admin] {
        if parts.headers.get_all(name).iter().count() > 1 {
            return invalid(format!("The header {written} is sent more than once"));
        }
    }
    let sent = |name: &HeaderName| {
        let value = parts.headers.get(name);
        value.filter(|value| !is_blank(value))
    };
    match (sent(own), sent(other), sent(&headers::ADMIN_KEY)) {
        (Some(key), Some(other), _) if key != other => invalid(format!(
            "The headers {own_name} and {other_name} have different values; send one of them"
        )),
        (own, other, Some(_)) if dialect == Dialect::Service && own.or(other).is_some() => {
            let (api_key, admin) = (
                dialect.api_key_header(&parts.headers),
                HeaderNames::ADMIN_KEY,
            );
            invalid(format!(
                "{api_key} and {admin} are both sent; send one of them"
            ))
        }
        _ => None,
    }
}

/// What is wrong with the `Host` of a request, if anything is.
pub fn host_problem(parts: &Parts) -> Option<&'static str> {
    match parts.headers.get_all(header::HOST).iter().count() {
        // HTTP/1.0 does not know it.
        0 if parts.version == Version::HTTP_11 => Some("The header Host is missing"),
        0 | 1 => None,
        _ => Some("The header Host is sent more than once"),
    }
}

/// A proxy in front may have resolved these segments, and so have applied the rules of another path than the one that is served.
fn is_traversal(path: &str) -> bool {
    path.contains("/../") || path.contains("/./") || path.ends_with("/..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_dot_segments_is_recognized() {
        assert!(is_traversal("/v1/admin/../x") && is_traversal("/v1/admin/.."));
        assert!(!is_traversal("/v1/admin/a..b"));
    }
}
