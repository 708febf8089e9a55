//! Walking events in order of time: along the logs of one tenant, along an index of the view over all tenants, or along
//! both where an id is looked for in one tenant: what the view has not reached is looked for in the logs.

use std::collections::VecDeque;

use super::{AdminError, EventQuery, Events};
use crate::domain::caller::Caller;
use crate::domain::event_query::{EventFilter, EventSort};
use crate::domain::ids::TenantId;
use crate::domain::log_entry::EntryId;
use crate::domain::moment::Window;
use crate::domain::reservation::Record;
use crate::domain::scope::ScopeFilter;
use crate::domain::tenant::SYSTEM;
use crate::store::events::LogWalk;
use crate::store::view_rows::{Span, ViewIndex};
use crate::store::views::{CORRELATION_ID, REQUEST_ID, Row, TRACE_ID, View, id_digest};
use crate::store::{Day, Store};

/// Events of a log that one call looks at, with all their facts.
const LOG_ROWS: usize = 201;
/// Logs of days that one call looks into.
const LOG_DAYS: usize = 96;
/// Rows of a view that one step reads, with their facts.
const VIEW_ROWS: usize = 200;
/// The same where the facts may not matter.
const GATHER_ROWS: usize = 1_000;
/// How much later than the time that an event tells its entry may be, in milliseconds: no script runs as long.
const ENTRY_LATE_MS: i64 = 5_000;

/// An event on the way.
#[derive(Debug)]
pub(super) struct Found {
    /// When it happened, in milliseconds.
    pub at_ms: i64,
    /// Where it lies.
    pub row: Row,
    /// Its facts, where they were read; empty where they are gone.
    pub facts: Option<Record>,
}

/// A walk that remembers where it is.
pub(super) struct Walk {
    parts: VecDeque<Part>,
    begun: bool,
    of_all: bool,
    /// The restriction of the caller's key, as the logs told it.
    pub scope_filter: ScopeFilter,
}

enum Part {
    Logs(Logs),
    View(Rows),
}

impl Walk {
    /// Whether the view over all tenants is asked: always but for the logs of one tenant.
    pub fn asks_view(query: &EventQuery) -> bool {
        tenant_of(&query.filter).is_none() || id_of(&query.filter).is_some()
    }

    /// `watermark_ms`: how far the view is, where it is asked.
    pub async fn new(
        events: &Events,
        query: &EventQuery,
        watermark_ms: Option<i64>,
    ) -> Result<Self, AdminError> {
        let (filter, tenant) = (&query.filter, tenant_of(&query.filter));
        let oldest = events.store.today().plus(-events.retention_days - 1);
        let low_ms = filter.window.from_ms.unwrap_or(0).max(oldest.start_ms());
        // The estimate of the store's clock may lag: look a day further.
        let newest_ms = events.store.today().plus(2).start_ms() - 1;
        let high_ms = filter.window.to_ms.unwrap_or(newest_ms).min(newest_ms);
        let mut parts = VecDeque::new();
        if let Some(watermark_ms) = watermark_ms {
            let index = index_of(filter);
            let high_ms = high_ms.min(watermark_ms - 1);
            let rows = Rows::new(events, query, index, (low_ms, high_ms)).await?;
            parts.push_back(Part::View(rows));
        }
        if let Some(tenant) = tenant {
            // What was not in the view when its watermark was read.
            let low_ms = watermark_ms.map_or(low_ms, |watermark| low_ms.max(watermark));
            let logs = Part::Logs(Logs::new(tenant.clone(), query, (low_ms, high_ms)));
            match query.descending {
                true => parts.push_front(logs),
                false => parts.push_back(logs),
            }
        }
        Ok(Self {
            of_all: parts.iter().all(|part| matches!(part, Part::View(_))),
            parts,
            begun: false,
            scope_filter: ScopeFilter::default(),
        })
    }

    /// Whether the list is over all tenants.
    pub fn is_of_all(&self) -> bool {
        self.of_all
    }

    /// The next events; `None` at the end.
    pub async fn step(
        &mut self,
        store: &Store,
        caller: &Caller,
    ) -> Result<Option<Vec<Found>>, AdminError> {
        while let Some(part) = self.parts.front_mut() {
            if std::mem::replace(&mut self.begun, true) {
                store.metrics().extra_trip(crate::store::ExtraTrip::Paging);
            }
            let step = match part {
                Part::Logs(logs) => logs.step(store, caller, &mut self.scope_filter).await?,
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

/// The one tenant whose logs tell all that is asked for.
fn tenant_of(filter: &EventFilter) -> Option<TenantId> {
    filter.tenant.as_deref().and_then(TenantId::parse)
}

/// The id that is looked for, and which kind of id it is; the rarest first.
fn id_of(filter: &EventFilter) -> Option<String> {
    let ids = [
        (REQUEST_ID, &filter.request_id),
        (CORRELATION_ID, &filter.correlation_id),
        (TRACE_ID, &filter.trace_id),
    ];
    let mut ids = ids.into_iter();
    ids.find_map(|(letter, id)| Some(id_digest(letter, id.as_deref()?)))
}

/// The narrowest index that holds all that is asked for.
fn index_of(filter: &EventFilter) -> ViewIndex {
    let kind = |kind: &str| ViewIndex::Kind(kind.to_owned());
    match (id_of(filter), &filter.event_type, filter.category) {
        (Some(id), ..) => ViewIndex::Id(id),
        _ if filter.tenant.as_deref() == Some(SYSTEM) => kind(SYSTEM),
        (None, Some(event_type), _) => kind(event_type),
        (None, None, Some(category)) => kind(category.as_str()),
        (None, None, None) => ViewIndex::All,
    }
}

/// Whether every row of an index comes onto the page.
fn is_plain(query: &EventQuery) -> bool {
    let filter = &query.filter;
    let narrow = filter.event_type.is_some() || filter.category.is_some();
    !(filter.asks_facts() || narrow && filter.tenant.is_some())
}

/// The row where the last page ended, where pages are in order of time.
fn after(query: &EventQuery) -> Option<(i64, String)> {
    let after = query.after.as_ref()?;
    let timely = query.sort == EventSort::Timestamp;
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
    scope: String,
    days: VecDeque<Day>,
    low: String,
    high: String,
    descending: bool,
    /// The times between which it tells all. An entry is later than its event, so bounds of entries alone do not tell.
    window: Window,
    rows: usize,
    /// Whether a call has been made: the first judges the caller, so there is always one.
    asked: bool,
}

impl Logs {
    fn new(tenant: TenantId, query: &EventQuery, (low_ms, high_ms): (i64, i64)) -> Self {
        let window = Window {
            from_ms: Some(low_ms),
            to_ms: Some(high_ms),
        };
        let (mut low_ms, mut high_ms) = (low_ms.max(0), high_ms);
        let mut bounds = None;
        if let Some((at_ms, member)) = after(query)
            && let Some(row) = Row::parse(&member)
            && (low_ms..=high_ms).contains(&at_ms)
        {
            bounds = Some(format!("({}", row.entry));
            match query.descending {
                true => high_ms = at_ms,
                false => low_ms = at_ms,
            }
        } else if let Some((at_ms, _)) = after(query) {
            // The last page ended before these logs begin, or behind their end.
            match query.descending {
                true if at_ms < low_ms => high_ms = low_ms - 1,
                false if at_ms > high_ms => low_ms = high_ms + 1,
                _ => {}
            }
        }
        let late_ms = high_ms.saturating_add(ENTRY_LATE_MS).max(0);
        let (mut low, mut high) = (low_ms.to_string(), late_ms.to_string());
        if let Some(beyond) = bounds {
            match query.descending {
                true => high = beyond,
                false => low = beyond,
            }
        }
        Self {
            tenant,
            scope: query.filter.scope.clone().unwrap_or_default(),
            days: days(low_ms, high_ms, query.descending),
            low,
            high,
            descending: query.descending,
            window,
            rows: match (query.sort, is_plain(query)) {
                (EventSort::Timestamp, true) => LOG_ROWS.min(query.limit + 1),
                _ => LOG_ROWS,
            },
            asked: false,
        }
    }

    async fn step(
        &mut self,
        store: &Store,
        caller: &Caller,
        scope_filter: &mut ScopeFilter,
    ) -> Result<Option<Vec<Found>>, AdminError> {
        if self.days.is_empty() && std::mem::replace(&mut self.asked, true) {
            return Ok(None);
        }
        self.asked = true;
        let some: Vec<Day> = self.days.iter().take(LOG_DAYS).copied().collect();
        let walk = LogWalk {
            tenant: &self.tenant,
            scope: &self.scope,
            days: &some,
            descending: self.descending,
            bounds: (&self.low, &self.high),
            rows: self.rows,
        };
        let found = store.list_events(caller, &walk).await?;
        self.rows = LOG_ROWS;
        *scope_filter = found.scope_filter;
        match found.rows.last() {
            Some((log, entry, _)) if !found.complete => {
                self.days.drain(..*log);
                self.go_on_behind(*entry);
            }
            _ => drop(self.days.drain(..some.len())),
        }
        let rows = found.rows.into_iter();
        let rows = rows.filter_map(|(_, entry, facts)| self.found(entry, facts));
        Ok(Some(rows.collect()))
    }

    fn go_on_behind(&mut self, entry: EntryId) {
        match self.descending {
            true => self.high = format!("({entry}"),
            false => self.low = format!("({entry}"),
        }
    }

    /// An entry whose type and time can be read; what else is wrong with it is told where it is shown.
    fn found(&self, entry: EntryId, facts: Record) -> Option<Found> {
        let row = Row {
            partition: self.tenant.partition(),
            entry,
            tenant: self.tenant.to_string(),
            kind: facts.get("type").map(str::to_owned),
        };
        let at_ms = facts.integer("at_ms").ok();
        if at_ms.is_none() || row.kind.is_none() {
            tracing::error!(
                tenant.id = %self.tenant, entry = %entry,
                "the event {entry} of `{}` is left out of lists: it has no readable type and time", self.tenant
            );
        }
        Some(Found {
            at_ms: at_ms.filter(|at_ms| self.window.contains(*at_ms))?,
            row: row.kind.is_some().then_some(row)?,
            facts: Some(facts),
        })
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
        events: &Events,
        query: &EventQuery,
        index: ViewIndex,
        (low_ms, high_ms): (i64, i64),
    ) -> Result<Self, AdminError> {
        let span = Span {
            low_ms,
            high_ms,
            descending: query.descending,
            after: after(query),
        };
        let (mut low_ms, mut high_ms) = (low_ms, high_ms);
        if let Some((at_ms, _)) = &span.after {
            match query.descending {
                true => high_ms = high_ms.min(*at_ms),
                false => low_ms = low_ms.max(*at_ms),
            }
        }
        let days: Vec<Day> = days(low_ms, high_ms, query.descending).into();
        let counts = match days.is_empty() {
            true => Vec::new(),
            false => {
                events.extra_trip();
                let counts = events.store.count_view(View::Events, &index, &days, &span);
                counts.await?
            }
        };
        let held = days.into_iter().zip(counts).filter(|(_, count)| *count > 0);
        Ok(Self {
            index,
            span,
            days: held.collect(),
            rows: match (query.sort, is_plain(query)) {
                (EventSort::Timestamp, true) => query.limit + 1,
                (EventSort::Timestamp, false) => VIEW_ROWS,
                _ => GATHER_ROWS,
            },
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
        let pages = store.read_view(View::Events, &self.index, &some, &self.span, self.rows);
        let mut found = Vec::new();
        for page in pages.await? {
            if let Some(last) = page.rows.last() {
                self.span.after = Some((last.at_ms, last.member.clone()));
            }
            found.extend(page.rows.into_iter().map(|row| Found {
                at_ms: row.at_ms,
                row: row.row,
                facts: None,
            }));
            if !page.complete {
                // The next step begins with the rest of that day.
                break;
            }
            self.days.pop_front();
        }
        Ok(Some(found))
    }
}
