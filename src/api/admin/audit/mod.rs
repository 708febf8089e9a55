//! The audit log: `GET /v1/admin/audit/logs`.

pub mod queries;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::extract::Declined;
use super::refusals::{Asked, error_of};
use crate::api::admin::audit::queries::AuditListQuery;
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, RawQuery};
use crate::api::refusals::store_error;
use crate::api::state::AppState;
use crate::domain::audit::{AuditEntry, Metadata};
use crate::domain::json::FreeObject;
use crate::domain::moment::Moment;

/// What somebody did, or tried to do. Other members may be added.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditLogEntry {
    /// Names it.
    pub log_id: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Moment,
    /// The tenant that was acted upon; `__admin__` for none, `__unauth__` where the caller is unknown.
    pub tenant_id: String,
    /// The API key that acted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub key_id: Option<String>,
    /// The program that called; not recorded so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub user_agent: Option<String>,
    /// Where the request came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source_ip: Option<String>,
    /// The operation; of a refused request its method and path.
    pub operation: String,
    /// The kind of what was acted upon.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resource_type: Option<String>,
    /// Which.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub resource_id: Option<String>,
    /// The request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub request_id: Option<String>,
    /// The operation that the request belonged to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^[0-9a-f]{32}$")]
    pub trace_id: Option<String>,
    /// The HTTP status of the answer.
    #[schema(value_type = i64, format = "")]
    pub status: i64,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error_code: Option<String>,
    /// Whom a request of the runtime plane was for; not recorded so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub subject: Option<FreeObject>,
    /// What it was for; not recorded so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub action: Option<FreeObject>,
    /// How much it asked for; not recorded so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub amount: Option<FreeObject>,
    /// What the operation adds.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = Object, required = false)]
    pub metadata: Metadata,
}

/// A page of audit entries.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditLogListResponse {
    /// In order.
    pub logs: Vec<AuditLogEntry>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// Whether there is a next page; it may be empty.
    pub has_more: bool,
}

impl From<AuditEntry> for AuditLogEntry {
    fn from(entry: AuditEntry) -> Self {
        Self {
            log_id: entry.log_id,
            timestamp: entry.timestamp,
            tenant_id: entry.tenant_id,
            key_id: entry.key_id,
            user_agent: None,
            source_ip: entry.source_ip,
            operation: entry.operation,
            resource_type: entry.resource_type,
            resource_id: entry.resource_id,
            request_id: entry.request_id,
            trace_id: entry.trace_id,
            status: entry.status,
            error_code: entry.error_code,
            subject: None,
            action: None,
            amount: None,
            metadata: entry.metadata,
        }
    }
}

/// `GET /v1/admin/audit/logs`
pub async fn list_audit_logs(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Result<Response, Declined>, ApiError> {
    let query = AuditListQuery::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let (asked, sort) = query.asked(secret)?;
    let page = match state.audit_logs.list(&asked).await {
        Ok(page) => page,
        Err(error) => {
            return Ok(Err(Declined {
                error: error_of(error, &Asked::default()),
                tenant: query.tenant(),
            }));
        }
    };
    let next_cursor = page.next;
    let next_cursor = next_cursor.map(|place| query.next_cursor(sort, place, secret));
    let answer = Answer(
        StatusCode::OK,
        AuditLogListResponse {
            logs: page.entries.into_iter().map(AuditLogEntry::from).collect(),
            has_more: next_cursor.is_some(),
            next_cursor,
        },
    );
    let as_of = page.as_of_ms.and_then(Moment::from_ms);
    let as_of = as_of.and_then(|as_of| HeaderValue::from_str(&as_of.to_string()).ok());
    let name = state.access.dialect().header_names().as_of.clone();
    Ok(Ok(match as_of {
        Some(as_of) => ([(name, as_of)], answer).into_response(),
        None => answer.into_response(),
    }))
}
