//! The audit log: listed, of one tenant or of all.
//!
//! What one tenant's logs hold is always current. What belongs to no tenant lies in every partition: a list of it, and one
//! over all tenants, shows what the view over all audit logs holds, up to the time that the view has reached, and says which
//! that is.

use crate::admin::log_walk::{LogEntry, LogFilter, Logs, Route, index_of_ids, page};
use crate::domain::audit::AuditLogEntry;
use crate::domain::audit::query::{AuditFilter, stands_for_no_tenant};
use crate::domain::scope::ScopeFilter;
use crate::listing::{ListQuery, Page, orders, readable};
use crate::store::StoreError;
use crate::store::dispatcher::view_rows::LogIndex;
use crate::store::dispatcher::views::{KEY_ID, REQUEST_ID, RESOURCE_ID, TRACE_ID, View};

/// The operation on the audit log.
pub type AuditLogs = Logs<AuditFilter>;

orders! {
    /// Sorts of the list of audit entries.
    AuditSort of entry: AuditLogEntry {
        rows: "audit entries", advice: "narrow the list with from and to, or sort by timestamp",
        id: entry.log_id, default: Timestamp, indexed: [Timestamp]
    }
    /// When it was appended; the indexed order.
    Timestamp = "timestamp": entry.timestamp.as_ms(),
    /// The operation, by code point.
    Operation = "operation": entry.operation.as_str(),
    /// The kind of what was acted upon, by code point; absent is last.
    ResourceType = "resource_type": entry.resource_type.as_deref(),
    /// The tenant, by code point.
    TenantId = "tenant_id": entry.tenant_id.as_str(),
    /// The key that acted, by code point; absent is last.
    KeyId = "key_id": entry.key_id.as_deref(),
    /// The HTTP status.
    Status = "status": entry.status,
}

/// A request for a page of the audit log.
pub type AuditQuery = ListQuery<AuditFilter, AuditSort>;
/// A page of entries.
pub type AuditPage = Page<AuditLogEntry, AuditSort>;

impl AuditLogs {
    /// A page of entries.
    ///
    /// # Errors
    /// [`crate::domain::refusal::TooManyToSort`] for an order without an index.
    pub async fn list(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        match query.filter.is_void() {
            true => Ok(query.empty_page()),
            false => page(self, &ScopeFilter::default(), query).await,
        }
    }
}

impl LogFilter for AuditFilter {
    type Sort = AuditSort;
    type Row = AuditLogEntry;

    fn route(&self) -> Route {
        // Of ids the rarest first.
        let ids = [
            (REQUEST_ID, &self.request_id),
            (TRACE_ID, &self.trace_id),
            (RESOURCE_ID, &self.resource_id),
            (KEY_ID, &self.key_id),
        ];
        // A sentinel has a log in every partition.
        let tenant = self.tenant.as_deref();
        let sentinel = tenant.filter(|name| stands_for_no_tenant(name));
        let kind = LogIndex::Kind(sentinel.map(str::to_owned));
        let index = index_of_ids(ids).unwrap_or(kind);
        Route::new(View::Audit, tenant, self.window, index)
    }

    fn leaves_out(&self) -> bool {
        !self.is_plain()
    }

    fn may_pass(&self, entry: &LogEntry) -> bool {
        self.may_pass(entry.at_ms, &entry.row.tenant)
    }

    fn row(&self, LogEntry { row, facts, .. }: LogEntry, _: &ScopeFilter) -> Option<AuditLogEntry> {
        // Retention has been faster than the view.
        let facts = facts.filter(|facts| !facts.is_empty())?;
        let read = AuditLogEntry::read(row.partition, &row.tenant, row.entry, facts);
        let id = format!("{} of {}", row.entry, row.tenant);
        readable("audit entry", &id, read).filter(|entry| self.passes(entry))
    }
}
