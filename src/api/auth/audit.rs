//! The audit entry of every request that the admin plane refuses.

use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;

use crate::admin::Failure;
use crate::api::errors::{ApiError, Code};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;

/// Marks a failure that the audit log has already.
#[derive(Debug, Clone, Copy)]
pub struct AlreadyAudited;

/// A response that needs an audit entry.
pub(super) struct Failed {
    status: StatusCode,
    error: Option<ApiError>,
}

impl Failed {
    pub(super) fn of(response: &Response) -> Option<Self> {
        let status = response.status();
        // When the store is unavailable, the audit log is too.
        let is_failure = status.as_u16() >= 400 && status != StatusCode::SERVICE_UNAVAILABLE;
        let extensions = response.extensions();
        let is_new = extensions.get::<AlreadyAudited>().is_none();
        (is_failure && is_new).then(|| Self {
            status,
            error: extensions.get::<ApiError>().cloned(),
        })
    }
}

/// Writes the audit entry of a request that failed.
pub(super) async fn record(
    state: &AppState,
    (method, uri): &(Method, Uri),
    cause: &Cause,
    caller: Option<&Caller>,
    Failed { status, error }: Failed,
) {
    let is_unknown = caller.is_none() || status == StatusCode::UNAUTHORIZED;
    let caller = match caller {
        Some(Caller::Tenant(caller)) => Some(caller),
        Some(Caller::Admin(_)) | None => None,
    };
    let error = error.as_ref();
    let code = error.map_or(Code::InternalError, ApiError::code);
    let named = error.and_then(ApiError::tenant);
    let failure = Failure {
        cause,
        method: method.as_str(),
        path: uri.path(),
        status: status.as_u16(),
        code: code.as_str(),
        message: &error.map(ApiError::message).unwrap_or_default(),
        tenant: named.or(caller.map(|caller| &caller.tenant)),
        is_unknown,
        partition: caller.map(|caller| caller.partition),
    };
    state.admin.audit_failure(&failure).await;
}
