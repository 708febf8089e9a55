//! Walks along events or audit entries in order of time: along the logs of one tenant, or along an index of the view over all
//! tenants. A search for an id within one tenant uses both: the view up to its watermark, and the logs beyond it.

mod list;
mod logs;
mod view;

use std::collections::VecDeque;

use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::TenantId;
use crate::domain::moment::Window;
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::listing::Position;
use crate::store::dispatcher::view_rows::ViewIndex;
use crate::store::dispatcher::views::{Row, View, id_digest};
use crate::store::{Day, ExtraRoundTrip, Store, StoreError};
pub use list::Logs;
pub(super) use list::{LogFilter, page};
use logs::TenantLogs;
pub(super) use view::ViewDays;

/// Entries that one step reads, with their facts.
pub(super) const ROWS: usize = 200;

/// An event or audit entry on the way.
#[derive(Debug)]
pub(super) struct LogEntry {
    /// When it happened, in milliseconds.
    pub at_ms: i64,
    /// Where it lies.
    pub row: Row,
    /// The fields of the entry, where it was read; empty where it is gone.
    pub facts: Option<Record>,
}

impl LogEntry {
    /// Its position in order of time: the time in milliseconds, and the text of its row.
    pub fn position(&self) -> Position {
        Position::new(self.at_ms, self.row.member())
    }
}

/// Reads what entries hold, of those that were not read yet.
pub(super) async fn read_facts(
    store: &Store,
    view: View,
    entries: impl Iterator<Item = &mut LogEntry>,
) -> Result<(), StoreError> {
    let mut unread: Vec<_> = entries.filter(|entry| entry.facts.is_none()).collect();
    if unread.is_empty() {
        return Ok(());
    }
    let rows: Vec<(&Row, Day)> = unread
        .iter()
        .map(|entry| (&entry.row, Day::of_ms(entry.at_ms)))
        .collect();
    let facts = store.facts_of(view, &rows).await?;
    for (entry, facts) in unread.iter_mut().zip(facts) {
        entry.facts = Some(facts.unwrap_or_default());
    }
    Ok(())
}

/// The request of a walk.
#[derive(Debug)]
pub(super) struct Route<'a> {
    /// Events or audit entries.
    pub view: View,
    /// The one tenant whose logs hold all that is asked for.
    pub tenant: Option<TenantId>,
    /// A scope or the beginning of one that the caller's key must be allowed to see.
    pub scope: Option<&'a str>,
    /// The narrowest index that holds all that is asked for.
    pub index: ViewIndex,
    /// When it happened.
    pub window: Window,
    /// Latest first.
    pub descending: bool,
    /// Where the last page ended, if pages are in order of time.
    pub after: Option<&'a Position>,
    /// Entries of the first step.
    pub rows_first: usize,
    /// Entries of the steps behind it.
    pub rows: usize,
}

impl<'a> Route<'a> {
    /// Along what a filter selects: the logs of its tenant, or the view.
    pub fn new(view: View, tenant: Option<&str>, window: Window, index: ViewIndex) -> Self {
        Self {
            view,
            tenant: tenant.and_then(TenantId::parse),
            scope: None,
            index,
            window,
            descending: false,
            after: None,
            rows_first: ROWS,
            rows: ROWS,
        }
    }

    fn after(&self) -> Option<(i64, String)> {
        let after = self.after?;
        Some((after.number()?, after.id.clone()))
    }

    /// The part of a span of time that the last page has left over.
    fn left_of(&self, (low_ms, high_ms): (i64, i64)) -> (i64, i64) {
        match (self.after(), self.descending) {
            (Some((at_ms, _)), true) => (low_ms, high_ms.min(at_ms)),
            (Some((at_ms, _)), false) => (low_ms.max(at_ms), high_ms),
            (None, _) => (low_ms, high_ms),
        }
    }
}

/// The index of the first of these ids that is asked for.
pub(super) fn index_of_ids<const N: usize>(ids: [(char, &Option<String>); N]) -> Option<ViewIndex> {
    let mut ids = ids.into_iter();
    let id = ids.find_map(|(letter, id)| Some(id_digest(letter, id.as_deref()?)));
    id.map(ViewIndex::Id)
}

/// A walk in order of time, which remembers where it is.
pub(super) struct LogWalk<'a> {
    store: &'a Store,
    /// Events or audit entries.
    view: View,
    /// The holder of a tenant's key, who is checked with the first step along logs; `None`: the admin key.
    caller: Option<&'a RuntimeCaller>,
    sources: VecDeque<Source>,
    has_begun: bool,
    /// Where nothing but the view is read: all that happened before this time, in milliseconds, is in it.
    pub as_of_ms: Option<i64>,
    /// The restriction of the caller's key, as the logs said it.
    pub scope_filter: ScopeFilter,
}

/// The result of a step of a walk in order of time.
pub(super) struct LogStep {
    /// In order.
    pub entries: Vec<LogEntry>,
    /// Whether nothing is left.
    pub complete: bool,
}

enum Source {
    Logs(TenantLogs),
    View(ViewDays),
}

impl Source {
    fn is_complete(&self) -> bool {
        match self {
            Self::Logs(logs) => logs.is_complete(),
            Self::View(days) => days.is_complete(),
        }
    }
}

impl<'a> LogWalk<'a> {
    /// `retention_days`: how long logs are kept.
    pub async fn new(
        store: &'a Store,
        caller: Option<&'a RuntimeCaller>,
        retention_days: i64,
        route: Route<'_>,
    ) -> Result<Self, StoreError> {
        // The view is read, but for the logs of one tenant.
        let watermark_ms = match (&route.tenant, &route.index) {
            (None, _) | (_, ViewIndex::Id(_)) => Some(store.watermark(route.view).await?),
            (Some(_), _) => None,
        };
        let oldest = store.today().plus(-retention_days - 1);
        let low_ms = route.window.from_ms.unwrap_or(0).max(oldest.start_ms());
        // The estimate of the store's clock may lag: look a day further.
        let newest_ms = store.today().plus(2).start_ms() - 1;
        let high_ms = route.window.to_ms.unwrap_or(newest_ms).min(newest_ms);
        let mut sources = VecDeque::new();
        if let Some(watermark_ms) = watermark_ms {
            let bounds = (low_ms, high_ms.min(watermark_ms - 1));
            sources.push_back(Source::View(ViewDays::new(store, &route, bounds).await?));
        }
        if let Some(tenant) = &route.tenant {
            // Entries that were not in the view when its watermark was read.
            let low_ms = watermark_ms.map_or(low_ms, |watermark| low_ms.max(watermark));
            let logs = Source::Logs(TenantLogs::new(tenant.clone(), &route, (low_ms, high_ms)));
            match route.descending {
                true => sources.push_front(logs),
                false => sources.push_back(logs),
            }
        }
        Ok(Self {
            store,
            view: route.view,
            caller,
            sources,
            has_begun: false,
            as_of_ms: watermark_ms.filter(|_| route.tenant.is_none()),
            scope_filter: ScopeFilter::default(),
        })
    }

    /// The next entries.
    pub async fn step(&mut self) -> Result<LogStep, StoreError> {
        let mut step = LogStep {
            entries: Vec::new(),
            complete: false,
        };
        self.sources.retain(|source| !source.is_complete());
        if let Some(source) = self.sources.front_mut() {
            if std::mem::replace(&mut self.has_begun, true) {
                self.store.extra_round_trip(ExtraRoundTrip::Paging);
            }
            step = match source {
                Source::Logs(logs) => {
                    let filter = &mut self.scope_filter;
                    logs.step(self.store, self.caller, filter).await?
                }
                Source::View(days) => days.step(self.store).await?,
            };
        }
        step.complete = self.sources.iter().all(Source::is_complete);
        Ok(step)
    }
}

/// The days between two times, both included, in walking order.
fn days<C: FromIterator<Day>>(low_ms: i64, high_ms: i64, descending: bool) -> C {
    let days = Day::between(low_ms, high_ms);
    match descending {
        true => days.rev().collect(),
        false => days.collect(),
    }
}
