//! Walking audit entries in order of time: along the logs of one tenant, along an index of the view over all logs, or along
//! both where an id is looked for in one tenant: what the view has not reached is looked for in the logs.

use std::collections::VecDeque;

use super::{AdminError, AuditPlace, AuditQuery};
use crate::domain::audit::StoredEntry;
use crate::domain::audit_query::{AuditFilter, AuditSort, stands_for_no_tenant};
use crate::domain::ids::TenantId;
use crate::domain::log_entry::EntryId;
use crate::domain::moment::Window;
use crate::store::view_rows::{Span, ViewIndex};
use crate::store::views::{KEY_ID, REQUEST_ID, RESOURCE_ID, Row, TRACE_ID, View, id_digest};
use crate::store::{Day, ExtraTrip, Store};

/// Entries that one step reads.
const ROWS: usize = 200;
/// Logs of days that one call looks into.
const LOG_DAYS: usize = 96;
/// How much later than the time that an entry tells its place in the stream may be, in milliseconds.
const ENTRY_LATE_MS: i64 = 5_000;

/// An entry on the way.
#[derive(Debug)]
pub(super) struct Found {
    /// When it was appended, in milliseconds.
    pub at_ms: i64,
    /// Where it lies.
    pub row: Row,
    /// The entry, where it was read.
    pub stored: Option<StoredEntry>,
}

impl Found {
    pub fn place(&self) -> AuditPlace {
        AuditPlace {
            value: self.at_ms.to_string(),
            id: self.row.member(),
        }
    }
}

/// A walk that remembers where it is.
pub(super) struct Walk {
    parts: VecDeque<Part>,
    begun: bool,
    of_view: bool,
}

enum Part {
    Logs(Logs),
    View(Rows),
}

impl Walk {
    /// Whether the view over all logs is asked: always but for the logs of one tenant.
    pub fn asks_view(query: &AuditQuery) -> bool {
        tenant_of(&query.filter).is_none() || id_of(&query.filter).is_some()
    }

    /// `watermark_ms`: how far the view is, where it is asked.
    pub async fn new(
        store: &Store,
        retention_days: i64,
        query: &AuditQuery,
        watermark_ms: Option<i64>,
    ) -> Result<Self, AdminError> {
        let (filter, tenant) = (&query.filter, tenant_of(&query.filter));
        let oldest = store.today().plus(-retention_days - 1);
        let low_ms = filter.window.from_ms.unwrap_or(0).max(oldest.start_ms());
        // The estimate of the store's clock may lag: look a day further.
        let newest_ms = store.today().plus(2).start_ms() - 1;
        let high_ms = filter.window.to_ms.unwrap_or(newest_ms).min(newest_ms);
        let mut parts = VecDeque::new();
        if let Some(watermark_ms) = watermark_ms {
            let bounds = (low_ms, high_ms.min(watermark_ms - 1));
            parts.push_back(Part::View(Rows::new(store, query, bounds).await?));
        }
        if let Some(tenant) = tenant {
            // What was not in the view when its watermark was read.
            let low_ms = watermark_ms.map_or(low_ms, |watermark| low_ms.max(watermark));
            let logs = Part::Logs(Logs::new(tenant, query, (low_ms, high_ms)));
            match query.descending {
                true => parts.push_front(logs),
                false => parts.push_back(logs),
            }
        }
        Ok(Self {
            of_view: parts.iter().all(|part| matches!(part, Part::View(_))),
            parts,
            begun: false,
        })
    }

    /// Whether the list shows nothing but what is in the view.
    pub fn is_of_view(&self) -> bool {
        self.of_view
    }

    /// The next entries; `None` at the end.
    pub async fn step(&mut self, store: &Store) -> Result<Option<Vec<Found>>, AdminError> {
        while let Some(part) = self.parts.front_mut() {
            if std::mem::replace(&mut self.begun, true) {
                store.metrics().extra_trip(ExtraTrip::Paging);
            }
            let step = match part {
                Part::Logs(logs) => logs.step(store).await?,
                Part::View(rows) => rows.step(store).await?,
            };
            match step {
                Some(step) => return Ok(Some(step)),
                None => self.parts.pop_front(),
            };
        }
        Ok(None)
    }
}

/// The tenant whose logs are walked. What stands for none has a log in every partition.
fn tenant_of(filter: &AuditFilter) -> Option<TenantId> {
    let name = filter.tenant.as_deref()?;
    TenantId::parse(name).filter(|_| !stands_for_no_tenant(name))
}

/// The id that is looked for, and which kind of id it is; the rarest first.
fn id_of(filter: &AuditFilter) -> Option<String> {
    let ids = [
        (REQUEST_ID, &filter.request_id),
        (TRACE_ID, &filter.trace_id),
        (RESOURCE_ID, &filter.resource_id),
        (KEY_ID, &filter.key_id),
    ];
    let mut ids = ids.into_iter();
    ids.find_map(|(letter, id)| Some(id_digest(letter, id.as_deref()?)))
}

/// The narrowest index that holds all that is asked for.
fn index_of(filter: &AuditFilter) -> ViewIndex {
    let sentinel = filter.tenant.as_deref().filter(|n| stands_for_no_tenant(n));
    match (id_of(filter), sentinel) {
        (Some(id), _) => ViewIndex::Id(id),
        (None, Some(name)) => ViewIndex::Kind(name.to_owned()),
        (None, None) => ViewIndex::All,
    }
}

/// Entries of the first step: of a list that leaves nothing out no more than the page, and one to know whether another follows.
fn rows_at_first(query: &AuditQuery) -> usize {
    match query.sort == AuditSort::Timestamp && query.filter.is_plain() {
        true => ROWS.min(query.limit + 1),
        false => ROWS,
    }
}

/// The row where the last page ended, where pages are in order of time.
fn after(query: &AuditQuery) -> Option<(i64, String)> {
    let after = query.after.as_ref()?;
    let timely = query.sort == AuditSort::Timestamp;
    Some((after.value.parse().ok()?, after.id.clone())).filter(|_| timely)
}

/// The days between two times, both included, in walking order.
fn days(low_ms: i64, high_ms: i64, descending: bool) -> VecDeque<Day> {
    let (mut days, mut day) = (VecDeque::new(), Day::of_ms(low_ms));
    while low_ms <= high_ms && day <= Day::of_ms(high_ms) {
        match descending {
            true => days.push_front(day),
            false => days.push_back(day),
        }
        day = day.plus(1);
    }
    days
}

/// The logs of one tenant.
struct Logs {
    tenant: TenantId,
    days: VecDeque<Day>,
    low: String,
    high: String,
    descending: bool,
    /// The times between which it tells all. An entry's place may be later than its time, so bounds of places do not tell.
    window: Window,
    rows: usize,
}

impl Logs {
    fn new(tenant: TenantId, query: &AuditQuery, (low_ms, high_ms): (i64, i64)) -> Self {
        let window = Window {
            from_ms: Some(low_ms),
            to_ms: Some(high_ms),
        };
        let (mut low_ms, mut high_ms) = (low_ms.max(0), high_ms);
        let mut beyond = None;
        if let Some((at_ms, member)) = after(query) {
            // The last page may have ended before these logs begin, or behind their end.
            match query.descending {
                true => high_ms = high_ms.min(at_ms),
                false => low_ms = low_ms.max(at_ms),
            }
            let within = (low_ms..=high_ms).contains(&at_ms);
            let row = Row::parse(&member).filter(|_| within);
            beyond = row.map(|row| format!("({}", row.entry));
        }
        let late_ms = high_ms.saturating_add(ENTRY_LATE_MS).max(0);
        let (mut low, mut high) = (low_ms.to_string(), late_ms.to_string());
        match (beyond, query.descending) {
            (Some(beyond), true) => high = beyond,
            (Some(beyond), false) => low = beyond,
            (None, _) => {}
        }
        Self {
            tenant,
            days: days(low_ms, high_ms, query.descending),
            low,
            high,
            descending: query.descending,
            window,
            rows: rows_at_first(query),
        }
    }

    async fn step(&mut self, store: &Store) -> Result<Option<Vec<Found>>, AdminError> {
        if self.days.is_empty() {
            return Ok(None);
        }
        let some: Vec<Day> = self.days.iter().take(LOG_DAYS).copied().collect();
        let bounds = (self.low.as_str(), self.high.as_str());
        let walk = store.list_audit(&self.tenant, &some, self.descending, bounds, self.rows);
        let (complete, entries) = walk.await?;
        self.rows = ROWS;
        let last = entries.last();
        let last = last.and_then(|(log, stored)| Some((*log, EntryId::parse(&stored.id)?)));
        match last {
            Some((log, entry)) if !complete => {
                self.days.drain(..log);
                match self.descending {
                    true => self.high = format!("({entry}"),
                    false => self.low = format!("({entry}"),
                }
            }
            _ => drop(self.days.drain(..some.len())),
        }
        let found = |(_, stored): (usize, StoredEntry)| {
            let at_ms = stored.get("at_ms")?.parse().ok()?;
            self.window.contains(at_ms).then_some(())?;
            Some(Found {
                at_ms,
                row: Row {
                    partition: self.tenant.partition(),
                    entry: EntryId::parse(&stored.id)?,
                    tenant: self.tenant.to_string(),
                    kind: None,
                },
                stored: Some(stored),
            })
        };
        Ok(Some(entries.into_iter().filter_map(found).collect()))
    }
}

/// The rows of an index of the view.
struct Rows {
    index: ViewIndex,
    span: Span,
    /// The days that have rows, and how many, in walking order.
    days: VecDeque<(Day, usize)>,
    rows: usize,
}

impl Rows {
    async fn new(
        store: &Store,
        query: &AuditQuery,
        (mut low_ms, mut high_ms): (i64, i64),
    ) -> Result<Self, AdminError> {
        let span = Span {
            low_ms,
            high_ms,
            descending: query.descending,
            after: after(query),
        };
        if let Some((at_ms, _)) = &span.after {
            match query.descending {
                true => high_ms = high_ms.min(*at_ms),
                false => low_ms = low_ms.max(*at_ms),
            }
        }
        let index = index_of(&query.filter);
        let days: Vec<Day> = days(low_ms, high_ms, query.descending).into();
        let mut counts = Vec::new();
        if !days.is_empty() {
            store.metrics().extra_trip(ExtraTrip::Paging);
            counts = store.count_view(View::Audit, &index, &days, &span).await?;
        }
        let held = days.into_iter().zip(counts).filter(|(_, count)| *count > 0);
        Ok(Self {
            index,
            span,
            days: held.collect(),
            rows: rows_at_first(query),
        })
    }

    async fn step(&mut self, store: &Store) -> Result<Option<Vec<Found>>, AdminError> {
        // Days with few rows are read at once, as many as a step needs.
        let (mut some, mut expected) = (Vec::new(), 0);
        for (day, count) in &self.days {
            some.push(*day);
            expected += count;
            if expected > self.rows {
                break;
            }
        }
        if some.is_empty() {
            return Ok(None);
        }
        let pages = store.read_view(View::Audit, &self.index, &some, &self.span, self.rows);
        let mut found = Vec::new();
        for page in pages.await? {
            if let Some(last) = page.rows.last() {
                self.span.after = Some((last.at_ms, last.member.clone()));
            }
            found.extend(page.rows.into_iter().map(|row| Found {
                at_ms: row.at_ms,
                row: row.row,
                stored: None,
            }));
            if !page.complete {
                // The next step begins with the rest of that day.
                break;
            }
            self.days.pop_front();
        }
        self.rows = ROWS;
        Ok(Some(found))
    }
}
