//! Lists audit entries.

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::AuditLogListResponse;
use super::queries::AuditEntries;
use crate::admin::audit::logs::AuditPage;
use crate::api::admin::as_of;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::list::{ListRequest, parameters};
use crate::api::operation::{Declaration, declare};
use crate::api::response::CheckedJson;
use crate::api::state::AppState;
use crate::domain::ids::TenantId;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    list_audit_logs,
    "Lists what was done and refused, of one tenant or of all"
)
.query(parameters::<AuditEntries>)
.returns::<AuditLogListResponse>(200, "A page of audit entries.");

async fn list_audit_logs(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let list = ListRequest::<AuditEntries>::parse(&query)?;
    let secret = state.store.secret().await?;
    let listed = state.audit_logs.list(&list.query(secret)?).await;
    let AuditPage { page, as_of_ms } = listed.map_err(|error| {
        let tenant = list.filter.tenant.as_deref().and_then(TenantId::parse);
        error_of(error, &ErrorContext::default()).about(tenant)
    })?;
    let next = list.next_cursor(&page, secret);
    let response = CheckedJson::ok(AuditLogListResponse::new(page.rows, next));
    Ok((as_of(&state, as_of_ms), response).into_response())
}
