//! The audit log: listed, of one tenant or of all.
//!
//! What one tenant's logs tell is always current. What belongs to no tenant lies in every partition: a list of it, and one
//! over all tenants, shows what the view over all audit logs holds, up to the time that the view has reached, and says which
//! that is.

use tracing::error;

use crate::admin::AdminError;
use crate::admin::log_walk::{Bounds, Found, Place, ROWS, Route, Walk, keep_first, read_facts};
use crate::domain::audit::AuditEntry;
use crate::domain::audit::query::{AuditFilter, AuditSort, stands_for_no_tenant};
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::domain::refusal::TooManyToSort;
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

/// Entries that are asked for.
#[derive(Debug, Clone)]
pub struct AuditQuery {
    /// What they must have.
    pub filter: AuditFilter,
    /// The order.
    pub sort: AuditSort,
    /// The order as a whole turned round.
    pub descending: bool,
    /// Where the last page ended.
    pub after: Option<Place>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

/// A page of entries.
#[derive(Debug, Default)]
pub struct AuditPage {
    /// In order.
    pub entries: Vec<AuditEntry>,
    /// Behind which place the next page starts, when there may be one.
    pub next: Option<Place>,
    /// For a list that is taken from the view: all that was appended before this time, in milliseconds, could be shown.
    pub as_of_ms: Option<i64>,
}

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
    /// [`crate::domain::refusal::admin::AdminRefusal::TooManyToSort`] for a sort without an index.
    pub async fn list(&self, query: &AuditQuery) -> Result<AuditPage, AdminError> {
        if query.filter.is_void() {
            return Ok(AuditPage::default());
        }
        let route = route(query);
        let watermark_ms = match route.asks_view() {
            true => Some(self.store.watermark(View::Audit).await?),
            false => None,
        };
        let mut walk = Walk::new(&self.store, self.retention_days, route, watermark_ms).await?;
        let mut page = match query.sort {
            AuditSort::Timestamp => self.by_time(query, &mut walk).await?,
            _ => self.gathered(query, &mut walk).await?,
        };
        page.as_of_ms = watermark_ms.filter(|_| walk.is_of_view());
        Ok(page)
    }

    /// In order of time: along an index.
    async fn by_time(&self, query: &AuditQuery, walk: &mut Walk) -> Result<AuditPage, AdminError> {
        let (mut page, mut last, mut examined) = (AuditPage::default(), None, 0);
        while let Some(step) = walk.step(&self.store, None).await? {
            for (found, entry) in self.told(step, &query.filter).await? {
                examined += 1;
                if let Some(entry) = entry.filter(|entry| query.filter.passes(entry)) {
                    if page.entries.len() == query.limit {
                        page.next = last;
                        return Ok(page);
                    }
                    page.entries.push(entry);
                }
                last = Some(found.place());
            }
            if examined >= self.bounds.page_rows {
                page.next = last;
                return Ok(page);
            }
        }
        Ok(page)
    }

    /// In any other order: all that matches is looked at, and what comes first kept.
    async fn gathered(&self, query: &AuditQuery, walk: &mut Walk) -> Result<AuditPage, AdminError> {
        let (mut first, mut matched, mut examined) = (Vec::new(), 0, 0);
        while let Some(step) = walk.step(&self.store, None).await? {
            examined += step.len();
            for (_, entry) in self.told(step, &query.filter).await? {
                if let Some(entry) = entry.filter(|entry| query.filter.passes(entry)) {
                    matched += 1;
                    let place = Place {
                        value: query.sort.value(&entry),
                        id: entry.log_id.clone(),
                    };
                    first.push((place, entry));
                }
            }
            keep_first(
                &mut first,
                query.after.as_ref(),
                query.descending,
                query.limit,
            );
            for (bound, count) in [(self.bounds.matches, matched), (self.bounds.rows, examined)] {
                if count > bound {
                    return Err(too_many(bound).into());
                }
            }
        }
        let more = first.len() > query.limit;
        first.truncate(query.limit);
        let next = first.last().filter(|_| more);
        Ok(AuditPage {
            next: next.map(|(place, _)| place.clone()),
            entries: first.into_iter().map(|(_, entry)| entry).collect(),
            as_of_ms: None,
        })
    }

    /// The rows with their entries, where these are there, can be read, and may pass.
    async fn told(
        &self,
        mut step: Vec<Found>,
        filter: &AuditFilter,
    ) -> Result<Vec<(Found, Option<AuditEntry>)>, AdminError> {
        let may_pass = |found: &Found| filter.may_pass(found.at_ms, &found.row.tenant);
        let rows = step.iter_mut().filter(|found| may_pass(found));
        read_facts(&self.store, View::Audit, rows).await?;
        let told = step.into_iter().map(|found| {
            // Retention has been faster than the view.
            let facts = found.facts.as_ref().filter(|facts| !facts.is_empty());
            let entry = facts.and_then(|facts| shown(&found.row, facts));
            (found, entry)
        });
        Ok(told.collect())
    }
}

fn too_many(bound: usize) -> TooManyToSort {
    TooManyToSort {
        rows: "audit entries",
        bound,
        advice: "narrow the list with from and to, or sort by timestamp",
    }
}

/// How to come to what is asked for.
fn route(query: &AuditQuery) -> Route<'_> {
    let filter = &query.filter;
    let timely = query.sort == AuditSort::Timestamp;
    Route {
        view: View::Audit,
        // What stands for none has a log in every partition.
        tenant: filter.tenant.as_deref().and_then(TenantId::parse),
        scope: None,
        index: index_of(filter),
        window: filter.window,
        descending: query.descending,
        after: query.after.as_ref().filter(|_| timely),
        rows_first: match timely && filter.is_plain() {
            true => query.limit + 1,
            false => ROWS,
        },
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

/// The entry as it is shown; one that is damaged is left out, so that it hides no other.
fn shown(row: &Row, facts: &Record) -> Option<AuditEntry> {
    let read = AuditEntry::read(row.partition, &row.tenant, row.entry, facts);
    let left_out = |damage: &dyn std::fmt::Display| {
        let (tenant, entry) = (&row.tenant, row.entry);
        error!(
            tenant.id = tenant, entry = %entry, error = %damage,
            "the audit entry {entry} of `{tenant}` is left out of lists: {damage}"
        );
    };
    read.map_err(|damage| left_out(&damage)).ok()
}
