//! Audit entries as responses show them.

pub mod list;
pub mod queries;

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::list::list_response;
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

list_response! {
    /// A page of audit entries.
    AuditLogListResponse {
        /// In order.
        logs: AuditLogEntry,
        has_more,
    }
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
