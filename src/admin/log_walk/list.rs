//! Lists of a log, of one tenant or of all: what lists of events and of audit entries have in common.

use std::marker::PhantomData;

use super::{LogEntry, LogWalk, ROWS, Route, read_facts};
use crate::admin::records;
use crate::domain::scope::ScopeFilter;
use crate::listing::{Bounds, Entry, ListQuery, Page, RowOrder, Step, StepRange, Walk};
use crate::store::{Store, StoreError};

/// The operations on the log whose entries `F` filters. Cheap to clone.
#[derive(Clone)]
pub struct Logs<F> {
    pub(in crate::admin) store: Store,
    retention_days: i64,
    bounds: Bounds,
    of: PhantomData<fn(F)>,
}

impl<F> Logs<F> {
    /// Over a store. `retention_days`: how long entries are kept.
    pub fn new(store: Store, retention_days: i64) -> Self {
        Self {
            store,
            retention_days,
            bounds: Bounds::default(),
            of: PhantomData,
        }
    }

    /// The same with other bounds, for tests.
    pub fn bounded(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }
}

/// A filter of log entries.
pub(in crate::admin) trait LogFilter: Sync + Sized {
    /// Sorts of the entries. The default is the order of time, which has an index.
    type Sort: RowOrder<Self::Row>;
    /// The items of the list.
    type Row: Send;
    /// Where the entries are.
    fn route(&self) -> Route;

    /// Whether entries along the route may be left out.
    fn leaves_out(&self) -> bool;

    /// Whether an entry may pass, judged without its facts.
    fn may_pass(&self, entry: &LogEntry) -> bool;

    /// The row of an entry that passes, and that a key may see.
    fn row(&self, entry: LogEntry, keys: &ScopeFilter) -> Option<Self::Row>;
}

/// A page of a log, of what lies within `scopes`.
pub(in crate::admin) async fn page<F: LogFilter>(
    logs: &Logs<F>,
    scopes: &ScopeFilter,
    query: &ListQuery<F, F::Sort>,
) -> Result<Page<F::Row, F::Sort>, StoreError> {
    let (store, filter) = (&logs.store, &query.filter);
    let mut walk = FilteredWalk {
        store,
        filter,
        scopes,
        log: LogWalk::new(store, logs.retention_days, filter.route()),
    };
    let page = records::page(store, &mut walk, query, logs.bounds).await?;
    let as_of_ms = walk.log.as_of_ms;
    Ok(Page { as_of_ms, ..page })
}

/// A walk along the entries that a filter lets pass.
struct FilteredWalk<'a, F> {
    store: &'a Store,
    filter: &'a F,
    /// Those that the caller's key may see.
    scopes: &'a ScopeFilter,
    log: LogWalk<'a>,
}

impl<F: LogFilter> Walk for FilteredWalk<'_, F> {
    type Row = F::Row;
    type Error = StoreError;
    const ROWS: usize = ROWS;

    fn is_filtered(&self) -> bool {
        self.filter.leaves_out()
    }

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<F::Row>, StoreError> {
        let (mut entries, complete) = self.log.read(range).await?;
        let passing = entries
            .iter_mut()
            .filter(|entry| self.filter.may_pass(entry));
        read_facts(self.store, self.log.view(), passing).await?;
        let entries = entries.into_iter().map(|entry| Entry {
            position: entry.position(),
            row: self.filter.row(entry, self.scopes),
        });
        Ok(Step::new(entries.collect(), complete))
    }
}
