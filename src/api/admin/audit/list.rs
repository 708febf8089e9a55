//! Lists audit entries.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::on;

use super::queries::{AuditListQuery, LIST_VALUES_MAX, STATUSES};
use super::{AuditLogEntry, AuditLogListResponse};
use crate::api::admin::as_of;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::operation::parameters::{self, Parameter, moment, text};
use crate::api::operation::{Declaration, json};
use crate::api::query::PAGE_LIMIT_DEFAULT;
use crate::api::refusals::store_error;
use crate::api::response::CheckedJson;
use crate::api::sort::SortKey;
use crate::api::state::AppState;
use crate::domain::audit::query::AuditSort;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Lists what was done and refused, of one tenant or of all",
    parameters,
    request: None,
    responses: &[json::<AuditLogListResponse>(
        200,
        "A page of audit entries.",
    )],
    errors: &[],
    handler: |method| on(method, list_audit_logs),
};

fn parameters() -> Vec<Parameter> {
    let bound = || {
        let (least, most) = (STATUSES.start(), STATUSES.end());
        serde_json::json!({"type": "integer", "minimum": least, "maximum": most})
    };
    let status = serde_json::json!({"type": "integer"});
    let trace = serde_json::json!({"type": "string", "pattern": "^[0-9a-f]{32}$"});
    let limit = serde_json::json!({"type": "integer", "default": PAGE_LIMIT_DEFAULT});
    let query = parameters::query;
    let mut parameters = vec![
        query(
            "tenant_id",
            "Whose they are; `__admin__`, `__unauth__` or `__system__` for those of no tenant. Absent: all.",
            text(),
        ),
        query("key_id", "The key that acted.", text()),
        list("operation", "One of these operations."),
        query("status", "Exactly this; not together with bounds.", status),
        list("resource_type", "One of these kinds."),
        query("resource_id", "Exactly this.", text()),
        list("error_code", "One of these; what succeeded has none."),
        list(
            "error_code_exclude",
            "None of these; what succeeded passes.",
        ),
        query("status_min", "Not below.", bound()),
        query("status_max", "Not above.", bound()),
        query("from", "Not before.", moment()),
        query("to", "Not after.", moment()),
        parameters::search(
            "What resource id, log id, error code or operation must contain, whatever the case.",
        ),
        query("trace_id", "Exactly this.", trace),
        query("request_id", "Exactly this.", text()),
    ];
    parameters.extend(parameters::sort(
        "What they are sorted by.",
        AuditSort::WORDS,
        AuditSort::DEFAULT.word(),
    ));
    parameters.extend([
        parameters::cursor(),
        query(
            "limit",
            "Most entries on the page; what is above 100 counts as 100.",
            limit,
        ),
    ]);
    parameters
}

/// Several values, with commas between or given several times.
fn list(name: &str, description: &str) -> Parameter {
    let schema = serde_json::json!(
        {"type": "array", "items": {"type": "string"}, "maxItems": LIST_VALUES_MAX}
    );
    let mut parameter = parameters::query(name, description, schema);
    parameter["explode"] = false.into();
    parameter
}

async fn list_audit_logs(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let query = AuditListQuery::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let (wanted, sort) = query.asked(secret)?;
    let page = state.audit_logs.list(&wanted).await;
    let page =
        page.map_err(|error| error_of(error, &ErrorContext::default()).about(query.tenant()))?;
    let next_cursor = page.next;
    let next_cursor = next_cursor.map(|place| query.next_cursor(sort, place, secret));
    let response = AuditLogListResponse {
        logs: page.entries.into_iter().map(AuditLogEntry::from).collect(),
        has_more: next_cursor.is_some(),
        next_cursor,
    };
    let response = CheckedJson(StatusCode::OK, response);
    Ok((as_of(&state, page.as_of_ms), response).into_response())
}
