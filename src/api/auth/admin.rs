//! Authentication on the admin plane, and the audit entry of every request that is refused.
//!
//! Most operations are the admin key's alone. A few are open to tenants' keys as well; a script judges those keys, and a
//! request that never gets to its script is judged here afterwards, as on the runtime plane.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};

use crate::admin::{AdminError, Failure};
use crate::api::admin::refusals::error_of;
use crate::api::auth::access::AccessError;
use crate::api::auth::failures as auth_failures;
use crate::api::auth::failures::{Origin, Plane};
use crate::api::auth::runtime as identify;
use crate::api::auth::runtime::Judged;
use crate::api::dialect::{headers, is_blank};
use crate::api::errors::{ApiError, Code};
use crate::api::state::AppState;
use crate::api::trace::{Correlation, EffectiveTenant};
use crate::domain::caller::{AdminCaller, Caller};
use crate::domain::cause::{Actor, Cause};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::refusal::BadCredential;

/// The tenant that a request is about, for the audit log.
#[derive(Debug, Clone)]
pub struct About(pub TenantId);

impl IntoResponseParts for About {
    type Error = std::convert::Infallible;

    fn into_response_parts(
        self,
        mut response: ResponseParts,
    ) -> Result<ResponseParts, Self::Error> {
        response.extensions_mut().insert(self);
        Ok(response)
    }
}

/// Says that the audit log has an entry of the request already, though it failed.
#[derive(Debug, Clone, Copy)]
pub struct Booked;

impl IntoResponseParts for Booked {
    type Error = std::convert::Infallible;

    fn into_response_parts(
        self,
        mut response: ResponseParts,
    ) -> Result<ResponseParts, Self::Error> {
        response.extensions_mut().insert(self);
        Ok(response)
    }
}

/// Names the caller of a request, and books the request if it is refused.
pub async fn admin(State(state): State<AppState>, request: Request, next: Next) -> Response {
    // As on the runtime plane: public knowledge, so it takes no key and leaves no trace.
    if request.method() == Method::OPTIONS {
        return next.run(request).await;
    }
    let store = state.store.clone();
    store.serve(identified(state, request, next)).await
}

async fn identified(state: AppState, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let correlation = parts.extensions.get::<Correlation>().cloned();
    let tenants_too = permission(&parts.method, parts.uri.path()).is_some();
    let either = tenants_too && !is_tenants_alone(&parts.method, parts.uri.path());
    let origin = Origin::of(&state, Plane::Admin, &parts, either);
    let path = parts.uri.path().to_owned();
    let method = parts.method.clone();
    let caller = caller_of(&state, &parts, &path).await;
    let actor = match &caller {
        Ok(Caller::Tenant(caller)) => Actor::ApiKey(caller.key_id.clone()),
        Ok(Caller::Admin(_)) if tenants_too => Actor::AdminOnBehalfOf,
        _ => Actor::Admin,
    };
    let correlation = correlation.unwrap_or_else(Correlation::mint);
    let cause = cause_of(&state, &parts, correlation, actor);
    let mut response = match caller.clone() {
        Err(error) => error.into_response(),
        Ok(_) if is_traversal(&path) => {
            ApiError::invalid("The path must not hold . or .. segments").into_response()
        }
        Ok(caller) => {
            parts.extensions.insert(caller.clone());
            parts.extensions.insert(cause.clone());
            let response = next.run(Request::from_parts(parts, body)).await;
            judged(&state, &caller, &method, &path, response).await
        }
    };
    auth_failures::note(&state, origin, caller.as_ref().ok(), &mut response);
    if let Some(failed) = Failed::of(&response) {
        audit(
            &state,
            &cause,
            caller.ok().as_ref(),
            (&method, &path),
            failed,
        )
        .await;
    }
    response
}

/// The operations that tenants' keys open besides the admin key, and the permission that they need. Nothing else ever
/// becomes one by accident.
fn permission(method: &Method, path: &str) -> Option<&'static str> {
    match (method.as_str(), path) {
        ("POST", "/v1/admin/budgets" | "/v1/admin/budgets/fund") => Some("budgets:write"),
        ("GET", "/v1/admin/budgets" | "/v1/admin/budgets/lookup") => Some("budgets:read"),
        ("POST", "/v1/admin/policies") => Some("policies:write"),
        ("GET", "/v1/admin/policies") => Some("policies:read"),
        ("GET", "/v1/events") => Some("events:read"),
        ("PATCH", path) if is_one_below("/v1/admin/policies/", path) => Some("policies:write"),
        // Any good key.
        ("GET", "/v1/auth/introspect") => Some(""),
        (method, path) => webhook_permission(method, path),
    }
}

/// The same for a tenant's webhook subscriptions.
fn webhook_permission(method: &str, path: &str) -> Option<&'static str> {
    let rest = path.strip_prefix("/v1/webhooks")?;
    let parts: Vec<&str> = rest.split('/').skip(1).collect();
    match (method, rest, parts.as_slice()) {
        ("GET", "", _) => Some("webhooks:read"),
        ("POST", "", _) => Some("webhooks:write"),
        (_, _, [id, ..]) if !rest.starts_with('/') || id.is_empty() => None,
        ("GET", _, [_] | [_, "deliveries"]) => Some("webhooks:read"),
        ("PATCH" | "DELETE", _, [_]) | ("POST", _, [_, "test"]) => Some("webhooks:write"),
        _ => None,
    }
}

/// Whether a path names one thing below another: `/v1/admin/policies/pol_…`, and nothing deeper.
fn is_one_below(parent: &str, path: &str) -> bool {
    path.strip_prefix(parent)
        .is_some_and(|id| !id.is_empty() && !id.contains('/'))
}

/// The operations that a tenant's key alone opens, whatever other key is sent.
fn is_tenants_alone(method: &Method, path: &str) -> bool {
    matches!(
        (method.as_str(), path),
        ("POST", "/v1/webhooks") | ("GET", "/v1/events")
    )
}

async fn caller_of(state: &AppState, parts: &Parts, path: &str) -> Result<Caller, ApiError> {
    let sent = parts
        .headers
        .get(headers::ADMIN_KEY)
        .filter(|value| !is_blank(value))
        .filter(|_| !is_tenants_alone(&parts.method, path));
    match (sent, permission(&parts.method, path)) {
        (Some(key), _) => {
            let text = |key: &HeaderValue| key.to_str().unwrap_or_default().to_owned();
            let admin: Result<AdminCaller, AccessError> = state.access.admin_caller(&text(key));
            admin.map(Caller::Admin).map_err(identify::error_of)
        }
        (None, Some(_)) => identify::key_caller(state, &parts.headers).await,
        (None, None) => Err(ApiError::unauthorized(BadCredential::NoAdminKey)),
    }
}

/// Sees to it that nobody without a good key that has the permission learns more than that.
async fn judged(
    state: &AppState,
    caller: &Caller,
    method: &Method,
    path: &str,
    response: Response,
) -> Response {
    let Caller::Tenant(tenant_caller) = caller else {
        return response;
    };
    let permission = permission(method, path).unwrap_or_default();
    let mut response = response;
    if response.extensions().get::<Judged>().is_none()
        && let Err(error) = state.admin.check_access(caller, permission, None).await
    {
        response = refused(error).into_response();
    }
    if ![401, 503].contains(&response.status().as_u16()) {
        let tenant = tenant_caller.tenant.clone();
        response.extensions_mut().insert(EffectiveTenant(tenant));
    }
    response
}

fn refused(error: AdminError) -> ApiError {
    error_of(error, &crate::api::admin::refusals::Asked::default())
}

/// What the audit log keeps of a response that tells of a failure.
struct Failed {
    status: StatusCode,
    code: String,
    message: String,
    tenant: Option<TenantId>,
}

impl Failed {
    fn of(response: &Response) -> Option<Self> {
        let status = response.status();
        // What the store could not be asked it cannot be told either.
        if status.as_u16() < 400 || status == StatusCode::SERVICE_UNAVAILABLE {
            return None;
        }
        let extensions = response.extensions();
        if extensions.get::<Booked>().is_some() {
            return None;
        }
        let error = extensions.get::<ApiError>();
        let code = error.map_or(Code::InternalError, ApiError::code);
        Some(Self {
            status,
            code: serde_json::to_string(&code).unwrap_or_default(),
            message: error.map(ApiError::message).unwrap_or_default(),
            tenant: extensions
                .get::<About>()
                .map(|About(tenant)| tenant.clone()),
        })
    }
}

/// Books a failure.
async fn audit(
    state: &AppState,
    cause: &Cause,
    caller: Option<&Caller>,
    (method, path): (&Method, &str),
    failed: Failed,
) {
    let (own, partition): (Option<&TenantId>, Option<Partition>) = match caller {
        Some(Caller::Tenant(caller)) => (Some(&caller.tenant), Some(caller.partition)),
        _ => (None, None),
    };
    let failure = Failure {
        cause,
        method: method.as_str(),
        path,
        status: failed.status.as_u16(),
        code: failed.code.trim_matches('"'),
        message: &failed.message,
        tenant: failed.tenant.as_ref().or(own),
        partition,
    };
    state.admin.audit_failure(&failure).await;
}

fn cause_of(state: &AppState, parts: &Parts, correlation: Correlation, actor: Actor) -> Cause {
    Cause {
        source: state.access.dialect().words().admin_source,
        actor,
        source_ip: Some(identify::source_ip(state, parts).to_string()),
        request_id: Some(correlation.request_id),
        trace_id: correlation.trace_id,
        trace_flags: correlation.trace_flags,
    }
}

/// A proxy in between might have resolved these, and guarded another path than the one that is served.
fn is_traversal(path: &str) -> bool {
    path.contains("/../") || path.contains("/./") || path.ends_with("/..")
}

/// Whether a path belongs to the operators' part of the plane.
pub fn is_admin_path(path: &str) -> bool {
    ["/v1/admin", "/v1/auth"].iter().any(|prefix| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_operations_are_open_to_tenants_keys() {
        for (method, path, needed) in [
            (Method::POST, "/v1/admin/budgets", Some("budgets:write")),
            (Method::GET, "/v1/admin/budgets", Some("budgets:read")),
            (
                Method::POST,
                "/v1/admin/budgets/fund",
                Some("budgets:write"),
            ),
            (
                Method::GET,
                "/v1/admin/budgets/lookup",
                Some("budgets:read"),
            ),
            (Method::POST, "/v1/admin/policies", Some("policies:write")),
            (Method::GET, "/v1/admin/policies", Some("policies:read")),
            (
                Method::PATCH,
                "/v1/admin/policies/pol_05f_x",
                Some("policies:write"),
            ),
            (Method::PATCH, "/v1/admin/policies", None),
            (Method::PATCH, "/v1/admin/policies/", None),
            (Method::PATCH, "/v1/admin/policies/a/b", None),
            (Method::GET, "/v1/admin/policies/a", None),
            (Method::GET, "/v1/webhooks", Some("webhooks:read")),
            (Method::POST, "/v1/webhooks", Some("webhooks:write")),
            (Method::GET, "/v1/webhooks/w", Some("webhooks:read")),
            (Method::PATCH, "/v1/webhooks/w", Some("webhooks:write")),
            (Method::DELETE, "/v1/webhooks/w", Some("webhooks:write")),
            (Method::POST, "/v1/webhooks/w/test", Some("webhooks:write")),
            (
                Method::GET,
                "/v1/webhooks/w/deliveries",
                Some("webhooks:read"),
            ),
            (Method::GET, "/v1/events", Some("events:read")),
            (Method::POST, "/v1/events", None),
            (Method::GET, "/v1/admin/events", None),
            (Method::POST, "/v1/webhooks/w/replay", None),
            (Method::POST, "/v1/webhooks/w", None),
            (Method::GET, "/v1/webhooks/", None),
            (Method::GET, "/v1/webhooks//deliveries", None),
            (Method::GET, "/v1/webhooksx", None),
            (Method::GET, "/v1/admin/webhooks", None),
            (Method::POST, "/v1/admin/webhooks/w/test", None),
            (Method::PATCH, "/v1/admin/budgets", None),
            (Method::GET, "/v1/admin/budgets/", None),
            (Method::POST, "/v1/admin/budgets/", None),
            (Method::POST, "/v1/admin/tenants", None),
            (Method::GET, "/v1/admin/tenants/lookup", None),
            (Method::GET, "/v1/auth/introspect", Some("")),
            (Method::POST, "/v1/auth/introspect", None),
            (Method::GET, "/v1/auth/introspect/", None),
            (Method::POST, "/v1/auth/validate", None),
            (Method::GET, "/v1/admin/api-keys", None),
            (Method::DELETE, "/v1/admin/budgets/lookup", None),
        ] {
            assert_eq!(permission(&method, path), needed, "{method} {path}");
        }
    }

    #[test]
    fn the_plane_ends_where_another_word_begins() {
        assert!(is_admin_path("/v1/admin") && is_admin_path("/v1/admin/x"));
        assert!(is_admin_path("/v1/auth/x") && !is_admin_path("/v1/authors"));
        assert!(!is_admin_path("/v1/administrators") && !is_admin_path("/v1/balances"));
        assert!(is_traversal("/v1/admin/../x") && is_traversal("/v1/admin/.."));
        assert!(!is_traversal("/v1/admin/a..b"));
    }
}
