//! The audit log.

pub mod list;
pub mod queries;

use crate::api::list::list_response;
use crate::domain::audit::AuditLogEntry;

list_response! {
    /// A page of audit entries.
    AuditLogListResponse: Open {
        /// The entries, in order.
        logs: AuditLogEntry,
        has_more {}
    }
}
