//! The audit log: listed, of one tenant or of all.
//!
//! What one tenant's logs tell is always current. What belongs to no tenant lies in every partition: a list of it, and one
//! over all tenants, shows what the view over all audit logs holds, up to the time that the view has reached, and says which
//! that is.

mod walk;

use std::cmp::Ordering;

use tracing::error;

use super::events::Bounds;
use super::{AdminError, refuse};
use crate::domain::admin_refusal::AdminRefusal;
use crate::domain::audit::{AuditEntry, StoredEntry};
use crate::domain::audit_query::{AuditFilter, AuditSort};
use crate::store::views::{Row, View};
use crate::store::{Day, Store};
use walk::{Found, Walk};

/// The operation on the audit log. Cheap to clone.
#[derive(Clone)]
pub struct AuditLogs {
    store: Store,
    retention_days: i64,
    bounds: Bounds,
}

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPlace {
    /// The last row's value of what the list is sorted by; a time in milliseconds.
    pub value: String,
    /// In order of time the text of the row, else the id of the entry: it decides between equal values.
    pub id: String,
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
    pub after: Option<AuditPlace>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

/// A page of entries.
#[derive(Debug, Default)]
pub struct AuditPage {
    /// In order.
    pub entries: Vec<AuditEntry>,
    /// Behind which place the next page starts, when there may be one.
    pub next: Option<AuditPlace>,
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
    /// [`AdminRefusal::TooManyAuditEntries`] for a sort without an index.
    pub async fn list(&self, query: &AuditQuery) -> Result<AuditPage, AdminError> {
        if query.filter.is_void() {
            return Ok(AuditPage::default());
        }
        let watermark_ms = match Walk::asks_view(query) {
            true => Some(self.store.watermark(View::Audit).await?),
            false => None,
        };
        let mut walk = Walk::new(&self.store, self.retention_days, query, watermark_ms).await?;
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
        while let Some(step) = walk.step(&self.store).await? {
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
        while let Some(step) = walk.step(&self.store).await? {
            examined += step.len();
            for (_, entry) in self.told(step, &query.filter).await? {
                if let Some(entry) = entry.filter(|entry| query.filter.passes(entry)) {
                    matched += 1;
                    let place = AuditPlace {
                        value: query.sort.value(&entry),
                        id: entry.log_id.clone(),
                    };
                    first.push((place, entry));
                }
            }
            keep_first(&mut first, query);
            for (bound, count) in [(self.bounds.matches, matched), (self.bounds.rows, examined)] {
                if count > bound {
                    return refuse(AdminRefusal::TooManyAuditEntries { bound });
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
        let mut untold: Vec<&mut Found> = step
            .iter_mut()
            .filter(|found| found.stored.is_none() && may_pass(found))
            .collect();
        let places: Vec<_> = untold
            .iter()
            .map(|found| {
                let row = &found.row;
                let day = Day::of_ms(found.at_ms);
                (row.partition, row.tenant.clone(), day, row.entry)
            })
            .collect();
        if !places.is_empty() {
            let entries = self.store.audit_entries_at(&places).await?;
            for (found, stored) in untold.iter_mut().zip(entries) {
                found.stored = stored;
            }
        }
        let told = step.into_iter().map(|mut found| {
            let stored = found.stored.take().filter(|_| may_pass(&found));
            let entry = stored.and_then(|stored| shown(&found.row, &stored));
            (found, entry)
        });
        Ok(told.collect())
    }
}

/// The entry as it is shown; one that is damaged is left out, so that it hides no other.
fn shown(row: &Row, stored: &StoredEntry) -> Option<AuditEntry> {
    let read = AuditEntry::read(row.partition, &row.tenant, stored);
    let left_out = |damage: &dyn std::fmt::Display| {
        let (tenant, entry) = (&row.tenant, row.entry);
        error!(
            tenant.id = tenant, entry = %entry, error = %damage,
            "the audit entry {entry} of `{tenant}` is left out of lists: {damage}"
        );
    };
    read.map_err(|damage| left_out(&damage)).ok()
}

/// By value, one that is absent last; ties by id. Descending, all of it turned round.
fn order(a: &AuditPlace, b: &AuditPlace, descending: bool) -> Ordering {
    fn key(place: &AuditPlace) -> (bool, &str, &str) {
        (place.value.is_empty(), &place.value, &place.id)
    }
    match descending {
        true => key(b).cmp(&key(a)),
        false => key(a).cmp(&key(b)),
    }
}

/// Keeps what stands first behind the last page, in order: a page, and one more to know whether another follows.
fn keep_first(rows: &mut Vec<(AuditPlace, AuditEntry)>, query: &AuditQuery) {
    if let Some(after) = &query.after {
        rows.retain(|(place, _)| order(place, after, query.descending) == Ordering::Greater);
    }
    rows.sort_by(|(a, _), (b, _)| order(a, b, query.descending));
    rows.truncate(query.limit + 1);
}
