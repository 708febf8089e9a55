//! What a walk is made of: the logs of one tenant, and the rows of an index of the view over all tenants.

use std::collections::VecDeque;

use super::{Found, ROWS, Route};
use crate::admin::AdminError;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::TenantId;
use crate::domain::log_entry::EntryId;
use crate::domain::moment::Window;
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::store::admin::logs::LogWalk;
use crate::store::dispatcher::view_rows::{Span, ViewIndex};
use crate::store::dispatcher::views::{Row, View};
use crate::store::{Day, ExtraTrip, Store};

/// Logs of days that one call looks into.
const LOG_DAYS: usize = 96;
/// How much later than the time that an entry tells its place in the stream may be, in milliseconds: no script runs as long.
const ENTRY_LATE_MS: i64 = 5_000;

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
pub(super) struct Logs {
    view: View,
    tenant: TenantId,
    scope: String,
    days: VecDeque<Day>,
    low: String,
    high: String,
    descending: bool,
    /// The times between which it tells all. An entry's place may be later than its time, so bounds of places do not tell.
    window: Window,
    rows_first: usize,
    /// Whether a call has been made: the first judges the caller, so there is always one.
    asked: bool,
}

impl Logs {
    pub fn new(tenant: TenantId, route: &Route<'_>, (low_ms, high_ms): (i64, i64)) -> Self {
        let window = Window {
            from_ms: Some(low_ms),
            to_ms: Some(high_ms),
        };
        let (mut low_ms, mut high_ms) = (low_ms.max(0), high_ms);
        let mut beyond = None;
        if let Some((at_ms, member)) = route.after() {
            // The last page may have ended before these logs begin, or behind their end.
            match route.descending {
                true => high_ms = high_ms.min(at_ms),
                false => low_ms = low_ms.max(at_ms),
            }
            let within = (low_ms..=high_ms).contains(&at_ms);
            let row = Row::parse(&member).filter(|_| within);
            beyond = row.map(|row| format!("({}", row.entry));
        }
        let late_ms = high_ms.saturating_add(ENTRY_LATE_MS).max(0);
        let (mut low, mut high) = (low_ms.to_string(), late_ms.to_string());
        match (beyond, route.descending) {
            (Some(beyond), true) => high = beyond,
            (Some(beyond), false) => low = beyond,
            (None, _) => {}
        }
        Self {
            view: route.view,
            tenant,
            scope: route.scope.unwrap_or_default().to_owned(),
            days: days(low_ms, high_ms, route.descending),
            low,
            high,
            descending: route.descending,
            window,
            rows_first: route.rows_first.min(ROWS),
            asked: false,
        }
    }

    pub async fn step(
        &mut self,
        store: &Store,
        caller: Option<&RuntimeCaller>,
        scope_filter: &mut ScopeFilter,
    ) -> Result<Option<Vec<Found>>, AdminError> {
        let asked = std::mem::replace(&mut self.asked, true);
        if self.days.is_empty() && asked {
            return Ok(None);
        }
        let some: Vec<Day> = self.days.iter().take(LOG_DAYS).copied().collect();
        let walk = LogWalk {
            tenant: &self.tenant,
            scope: &self.scope,
            days: &some,
            descending: self.descending,
            bounds: (&self.low, &self.high),
            rows: if asked { ROWS } else { self.rows_first },
        };
        let found = store.walk_logs(self.view, caller, &walk).await?;
        *scope_filter = found.scope_filter;
        match found.rows.last() {
            Some((log, entry, _)) if !found.complete => {
                self.days.drain(..*log);
                match self.descending {
                    true => self.high = format!("({entry}"),
                    false => self.low = format!("({entry}"),
                }
            }
            _ => drop(self.days.drain(..some.len())),
        }
        let rows = found.rows.into_iter();
        let rows = rows.filter_map(|(_, entry, facts)| self.found(entry, facts));
        Ok(Some(rows.collect()))
    }

    /// An entry whose time, and an event's type, can be read; what else is wrong with it is told where it is shown.
    fn found(&self, entry: EntryId, facts: Record) -> Option<Found> {
        let is_event = self.view == View::Events;
        let kind = facts.get("type").filter(|_| is_event).map(str::to_owned);
        let at_ms = facts.integer("at_ms").ok();
        if at_ms.is_none() || kind.is_some() != is_event {
            tracing::error!(
                tenant.id = %self.tenant, entry = %entry, log = self.view.as_str(),
                "the entry {entry} of a log of `{}` is left out of lists: it has no readable type and time", self.tenant
            );
            return None;
        }
        Some(Found {
            at_ms: at_ms.filter(|at_ms| self.window.contains(*at_ms))?,
            row: Row {
                partition: self.tenant.partition(),
                entry,
                tenant: self.tenant.to_string(),
                kind,
            },
            facts: Some(facts),
        })
    }
}

/// The rows of an index of the view.
pub(super) struct Rows {
    view: View,
    index: ViewIndex,
    span: Span,
    /// The days that have rows, and how many, in walking order.
    days: VecDeque<(Day, usize)>,
    /// Rows of the next step, and of those behind it.
    rows: (usize, usize),
}

impl Rows {
    pub async fn new(
        store: &Store,
        route: &Route<'_>,
        (mut low_ms, mut high_ms): (i64, i64),
    ) -> Result<Self, AdminError> {
        let span = Span {
            low_ms,
            high_ms,
            descending: route.descending,
            after: route.after(),
        };
        if let Some((at_ms, _)) = &span.after {
            match route.descending {
                true => high_ms = high_ms.min(*at_ms),
                false => low_ms = low_ms.max(*at_ms),
            }
        }
        let days: Vec<Day> = days(low_ms, high_ms, route.descending).into();
        let mut counts = Vec::new();
        if !days.is_empty() {
            store.metrics().extra_trip(ExtraTrip::Paging);
            let counted = store.count_view(route.view, &route.index, &days, &span);
            counts = counted.await?;
        }
        let held = days.into_iter().zip(counts).filter(|(_, count)| *count > 0);
        Ok(Self {
            view: route.view,
            index: route.index.clone(),
            span,
            days: held.collect(),
            rows: (route.rows_first, route.rows),
        })
    }

    pub async fn step(&mut self, store: &Store) -> Result<Option<Vec<Found>>, AdminError> {
        let (rows, further) = self.rows;
        self.rows = (further, further);
        // Days with few rows are read at once, as many as a step needs.
        let (mut some, mut expected) = (Vec::new(), 0);
        for (day, count) in &self.days {
            some.push(*day);
            expected += count;
            if expected > rows {
                break;
            }
        }
        if some.is_empty() {
            return Ok(None);
        }
        let pages = store.read_view(self.view, &self.index, &some, &self.span, rows);
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
