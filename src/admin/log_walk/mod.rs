//! Walks along events or audit entries in order of time: along the logs of one tenant, or along an index of the view over all
//! tenants. A search for an id within one tenant uses both: the view up to its watermark, and the logs beyond it.

mod days;
mod list;

use std::collections::VecDeque;

use crate::domain::ids::TenantId;
use crate::domain::moment::Window;
use crate::listing::{Position, StepRange};
pub(super) use crate::store::dispatcher::view_rows::LogEntry;
use crate::store::dispatcher::view_rows::LogIndex;
use crate::store::dispatcher::views::{Row, View, id_digest};
use crate::store::{Day, ExtraRoundTrip, Store, StoreError};
pub(super) use days::LogDays;
pub use list::Logs;
pub(super) use list::{LogFilter, page};

/// Entries that one step reads, with their facts.
pub(super) const ROWS: usize = 200;

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

/// What a walk reads.
#[derive(Debug)]
pub(super) struct Route {
    /// Events or audit entries.
    pub view: View,
    /// The one tenant whose logs hold all that is asked for.
    pub tenant: Option<TenantId>,
    /// The narrowest index that holds all that is asked for.
    pub index: LogIndex,
    /// When it happened.
    pub window: Window,
}

impl Route {
    /// Along what a filter selects: the logs of its tenant, or the view.
    pub fn new(view: View, tenant: Option<&str>, window: Window, index: LogIndex) -> Self {
        Self {
            view,
            tenant: tenant.and_then(TenantId::parse),
            index,
            window,
        }
    }
}

/// The earliest and the latest time of a window of which there may be entries, in milliseconds.
pub(super) fn kept_times(store: &Store, window: Window, retention_days: i64) -> (i64, i64) {
    let oldest = store.today().plus(-retention_days - 1);
    // The estimate of the store's clock may lag: look a day further.
    let newest_ms = store.today().plus(2).start_ms() - 1;
    let low_ms = window.from_ms.unwrap_or(0).max(oldest.start_ms());
    (low_ms, window.to_ms.unwrap_or(newest_ms).min(newest_ms))
}

/// The index of the first of these ids that is asked for.
pub(super) fn index_of_ids<const N: usize>(ids: [(char, &Option<String>); N]) -> Option<LogIndex> {
    let mut ids = ids.into_iter();
    let id = ids.find_map(|(letter, id)| Some(id_digest(letter, id.as_deref()?)));
    id.map(LogIndex::Id)
}

/// A walk in order of time, which remembers where it is: its first step says where it starts, and in which direction.
pub(super) struct LogWalk<'a> {
    store: &'a Store,
    /// How long logs are kept.
    retention_days: i64,
    route: Route,
    /// What is left, in walking order.
    left: VecDeque<LogDays>,
    /// Where nothing but the view is read: all that happened before this time, in milliseconds, is in it.
    pub as_of_ms: Option<i64>,
}

impl<'a> LogWalk<'a> {
    pub fn new(store: &'a Store, retention_days: i64, route: Route) -> Self {
        Self {
            store,
            retention_days,
            route,
            left: VecDeque::new(),
            as_of_ms: None,
        }
    }

    /// Events or audit entries.
    pub fn view(&self) -> View {
        self.route.view
    }

    async fn begin(&mut self, range: StepRange<'_>) -> Result<(), StoreError> {
        let (route, retention_days) = (&self.route, self.retention_days);
        let (mut low_ms, high_ms) = kept_times(self.store, route.window, retention_days);
        // The view is read, but for the logs of one tenant.
        if route.tenant.is_none() || matches!(route.index, LogIndex::Id(_)) {
            let watermark_ms = self.store.watermark(route.view).await?;
            let times = (low_ms, high_ms.min(watermark_ms - 1));
            let days = LogDays::new(route.view, route.index.clone(), times, range);
            self.left.push_back(days);
            self.as_of_ms = Some(watermark_ms).filter(|_| route.tenant.is_none());
            // The logs have what was not in the view when its watermark was read.
            low_ms = low_ms.max(watermark_ms);
        }
        if let Some(tenant) = &route.tenant {
            let index = LogIndex::Tenant(tenant.clone());
            let days = LogDays::new(route.view, index, (low_ms, high_ms), range);
            match range.descending {
                true => self.left.push_front(days),
                false => self.left.push_back(days),
            }
        }
        Ok(())
    }

    /// The next entries, and whether nothing is left.
    pub async fn read(
        &mut self,
        range: StepRange<'_>,
    ) -> Result<(Vec<LogEntry>, bool), StoreError> {
        match range.is_first {
            true => self.begin(range).await?,
            false => self.store.extra_round_trip(ExtraRoundTrip::Paging),
        }
        let mut entries = Vec::new();
        while let Some(days) = self.left.front_mut().filter(|_| entries.is_empty()) {
            entries = days.step(self.store, range.rows).await?;
            if days.is_complete() {
                self.left.pop_front();
            }
        }
        Ok((entries, self.left.is_empty()))
    }
}
