//! The audit entry of every request that the admin plane refuses.

use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;

use crate::admin::{FailedCaller, Failure};
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
    let is_unknown = status == StatusCode::UNAUTHORIZED;
    let (who, caller) = match caller {
        Some(Caller::Tenant(caller)) if is_unknown => (FailedCaller::Unknown, Some(caller)),
        Some(Caller::Tenant(caller)) => (FailedCaller::Tenant, Some(caller)),
        Some(Caller::Admin(_)) if !is_unknown => (FailedCaller::Operator, None),
        Some(Caller::Admin(_)) | None => (FailedCaller::Unknown, None),
    };
    let error = error.as_ref();
    let code = error.map_or(Code::InternalError, ApiError::code);
    // A key acts on its own tenant alone, whatever it names.
    let tenant = caller.map(|caller| &caller.tenant);
    let failure = Failure {
        cause,
        method: method.as_str(),
        path: uri.path(),
        status: status.as_u16(),
        code: code.as_str(),
        message: &error.map(ApiError::message).unwrap_or_default(),
        tenant: tenant.or_else(|| error.and_then(ApiError::tenant)),
        caller: who,
        partition: caller.map(|caller| caller.partition),
    };
    state.admin.audit_failure(&failure).await;
}
