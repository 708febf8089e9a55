//! The audit log: listed, of one tenant or of all.
//!
//! What one tenant's logs tell is always current. What belongs to no tenant lies in every partition: a list of it, and one
//! over all tenants, shows what the view over all audit logs holds, up to the time that the view has reached, and says which
//! that is.

use crate::admin::AdminError;
use crate::admin::log_walk::{LogEntry, LogWalk, ROWS, Route, read_facts};
use crate::domain::audit::AuditLogEntry;
use crate::domain::audit::query::{AuditFilter, AuditSort, stands_for_no_tenant};
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::listing::{
    Bounds, Entry, ListQuery, Page, Position, RowOrder, SortKey, Step, Walk, gather, page_along,
    readable,
};
use crate::store::Store;
use crate::store::dispatcher::view_rows::ViewIndex;
use crate::store::dispatcher::views::{
    KEY_ID, REQUEST_ID, RESOURCE_ID, Row, TRACE_ID, View, id_digest,
};

/// The operation on the audit log. Cheap to clone.
#[derive(Clone)]
pub struct AuditLogs {
    store: Store,
    retention_days: i64,
    bounds: Bounds,
}

impl SortKey for AuditSort {
    const DEFAULT: Self = Self::Timestamp;
}

impl RowOrder<AuditLogEntry> for AuditSort {
    const ROWS: &'static str = "audit entries";
    const ADVICE: &'static str = "narrow the list with from and to, or sort by timestamp";

    fn position(self, entry: &AuditLogEntry) -> Position {
        let id = &entry.log_id;
        match self {
            Self::Timestamp => Position::new(entry.timestamp.as_ms(), id),
            Self::Operation => Position::new(entry.operation.as_str(), id),
            Self::ResourceType => Position::new(entry.resource_type.as_deref(), id),
            Self::TenantId => Position::new(entry.tenant_id.as_str(), id),
            Self::KeyId => Position::new(entry.key_id.as_deref(), id),
            Self::Status => Position::new(entry.status, id),
        }
    }
}

/// What is asked of the audit log.
pub type AuditQuery = ListQuery<AuditFilter, AuditSort>;
/// A page of entries.
pub type AuditPage = Page<AuditLogEntry, AuditSort>;

impl AuditLogs {
    /// Over a store. `retention_days`: how long entries are kept.
    pub fn new(store: Store, retention_days: i64) -> Self {
        Self {
            store,
            retention_days,
            bounds: Bounds::default(),
        }
    }

    /// The same with other bounds, for tests.
    pub fn bounded(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    /// A page of entries.
    ///
    /// # Errors
    /// [`crate::domain::refusal::admin::AdminRefusal::TooManyToSort`] for an order without an index.
    pub async fn list(&self, query: &AuditQuery) -> Result<AuditPage, AdminError> {
        let (store, filter, by) = (&self.store, &query.filter, query.sort.by);
        if filter.is_void() {
            return Ok(query.empty_page());
        }
        let route = route(query);
        let log = LogWalk::new(store, None, self.retention_days, route).await?;
        let mut walk = AuditWalk { store, filter, log };
        let page = match by {
            AuditSort::Timestamp => page_along(&mut walk, query, by, self.bounds).await?,
            _ => gather(&mut walk, query, self.bounds).await?,
        };
        let as_of_ms = walk.log.as_of_ms;
        Ok(AuditPage { as_of_ms, ..page })
    }
}

/// A walk along audit entries in order of time.
struct AuditWalk<'a> {
    store: &'a Store,
    filter: &'a AuditFilter,
    log: LogWalk<'a>,
}

impl Walk for AuditWalk<'_> {
    type Row = AuditLogEntry;
    type Error = AdminError;

    async fn step(&mut self) -> Result<Step<AuditLogEntry>, AdminError> {
        let mut step = self.log.step().await?;
        let may_pass = |entry: &LogEntry| self.filter.may_pass(entry.at_ms, &entry.row.tenant);
        let entries = step.entries.iter_mut().filter(|entry| may_pass(entry));
        read_facts(self.store, View::Audit, entries).await?;
        let entries = step.entries.into_iter().map(|entry| {
            let position = entry.position();
            // Retention has been faster than the view.
            let facts = entry.facts.filter(|facts| !facts.is_empty());
            let row = facts.and_then(|facts| read(&entry.row, facts));
            Entry {
                position,
                row: row.filter(|row| self.filter.passes(row)),
            }
        });
        Ok(Step::new(entries.collect(), step.complete))
    }
}

/// How to come to what is asked for.
fn route(query: &AuditQuery) -> Route<'_> {
    let filter = &query.filter;
    let in_time = query.sort.by == AuditSort::Timestamp;
    Route {
        view: View::Audit,
        // What stands for none has a log in every partition.
        tenant: filter.tenant.as_deref().and_then(TenantId::parse),
        scope: None,
        index: index_of(filter),
        window: filter.window,
        descending: query.sort.descending,
        after: query.after.as_ref().filter(|_| in_time),
        rows_first: query.first_step(!(in_time && filter.is_plain()), ROWS),
        rows: ROWS,
    }
}

/// The narrowest index that holds all that is asked for; of ids the rarest.
fn index_of(filter: &AuditFilter) -> ViewIndex {
    let ids = [
        (REQUEST_ID, &filter.request_id),
        (TRACE_ID, &filter.trace_id),
        (RESOURCE_ID, &filter.resource_id),
        (KEY_ID, &filter.key_id),
    ];
    let mut ids = ids.into_iter();
    let id = ids.find_map(|(letter, id)| Some(id_digest(letter, id.as_deref()?)));
    let sentinel = filter.tenant.as_deref().filter(|n| stands_for_no_tenant(n));
    match (id, sentinel) {
        (Some(id), _) => ViewIndex::Id(id),
        (None, Some(name)) => ViewIndex::Kind(name.to_owned()),
        (None, None) => ViewIndex::All,
    }
}

/// The entry, if it can be read.
fn read(row: &Row, facts: Record) -> Option<AuditLogEntry> {
    let read = AuditLogEntry::read(row.partition, &row.tenant, row.entry, facts);
    let id = format!("{} of {}", row.entry, row.tenant);
    readable("audit entry", &id, read)
}
