//! Counts 401 responses, names the header of the key in them, and writes the audit entry of each request that the admin plane refuses.

use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;

use crate::admin::Failure;
use crate::api::dialect::HeaderNames;
use crate::api::errors::{ApiError, Code};
use crate::api::operation::{Callers, Plane};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::refusal::BadCredential;
use crate::store::dispatcher::auth_failed::Subject;
use crate::telemetry::RefusedCredential;

/// Counts a response if its status is 401, and makes it name the header that is missing or wrong. A request without any key
/// is counted in metrics alone. `api_key_header`: the header in which the API key was sent, or should have been.
/// `has_authorization`: whether there is a header that others read and this service does not.
pub(super) fn count_unauthorized(
    state: &AppState,
    (plane, callers, api_key_header, has_authorization): (Plane, Callers, &str, bool),
    (caller, cause): (Option<&Caller>, &Cause),
    response: &mut Response,
) {
    if response.status() != StatusCode::UNAUTHORIZED {
        return;
    }
    let error = response.extensions_mut().get_mut::<ApiError>();
    let Some((error, credential)) = error.and_then(|error| {
        let credential = error.bad_credential()?;
        Some((error, credential))
    }) else {
        return;
    };
    let mut header = header_of(credential, callers, api_key_header);
    let is_missing = matches!(credential, BadCredential::NoKey | BadCredential::NoAdminKey);
    if is_missing && has_authorization {
        header += "; Authorization is not read";
    }
    error.name_header(&header);
    let plane = plane.as_str();
    let reason = credential.as_str();
    response
        .extensions_mut()
        .insert(RefusedCredential { plane, reason });
    let Some(reason) = credential.failure_reason() else {
        return;
    };
    let caller = caller.and_then(Caller::as_tenant);
    let tenant = caller.map(|caller| &caller.tenant);
    state.ledger.traffic().tried(tenant, true);
    match credential {
        BadCredential::AdminKey => {
            let cause = || cause.clone();
            state.auth_failures.count(Subject::Unknown, reason, cause);
        }
        _ => {
            let key = caller.map(|caller| (&caller.tenant, &caller.key_id));
            state.auth_failures.count_key(key, reason, cause);
        }
    }
}

/// The header to look at.
fn header_of(credential: BadCredential, callers: Callers, api_key_header: &str) -> String {
    let admin = HeaderNames::ADMIN_KEY;
    match (credential, callers) {
        (BadCredential::NoKey, Callers::Both(_)) => format!("{api_key_header} or {admin}"),
        (BadCredential::NoKey | BadCredential::Key(_), _) => api_key_header.to_owned(),
        (BadCredential::NoAdminKey | BadCredential::AdminKey, _) => admin.to_owned(),
    }
}

/// Whether a response refuses an API key that was sent.
pub(super) fn is_wrong_api_key(response: &Response) -> bool {
    let error = response.extensions().get::<ApiError>();
    let credential = error.and_then(ApiError::bad_credential);
    matches!(credential, Some(BadCredential::Key(_)))
}

/// Marks a failure that the audit log has already.
#[derive(Debug, Clone, Copy)]
pub struct AlreadyAudited;

/// Status and error of a response that needs an audit entry.
pub(super) fn failure(response: &Response) -> Option<(StatusCode, Option<ApiError>)> {
    let (status, extensions) = (response.status(), response.extensions());
    // When the store is unavailable, the audit log is too.
    let is_failure = status.as_u16() >= 400 && status != StatusCode::SERVICE_UNAVAILABLE;
    let is_new = extensions.get::<AlreadyAudited>().is_none();
    (is_failure && is_new).then(|| (status, extensions.get::<ApiError>().cloned()))
}

/// Writes the audit entry of a request that failed.
pub(super) async fn audit(
    state: &AppState,
    (method, uri): &(Method, Uri),
    cause: &Cause,
    caller: Option<&Caller>,
    (status, error): (StatusCode, Option<ApiError>),
) {
    let error = error.as_ref();
    let code = error.map_or(Code::InternalError, ApiError::code);
    let failure = Failure {
        cause,
        method: method.as_str(),
        path: uri.path(),
        status: status.as_u16(),
        code: code.as_str(),
        message: &error.map(ApiError::message).unwrap_or_default(),
        tenant: error.and_then(ApiError::tenant),
        caller,
    };
    state.admin.audit_failure(&failure).await;
}
