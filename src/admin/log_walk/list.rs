//! Lists of a log, of one tenant or of all: what lists of events and of audit entries have in common.

use std::marker::PhantomData;

use super::{LogEntry, LogWalk, ROWS, Route, read_facts};
use crate::domain::caller::RuntimeCaller;
use crate::domain::scope::ScopeFilter;
use crate::listing::{
    Bounds, Entry, ListQuery, Page, RowOrder, SortKey, Step, Walk, gather, page_along,
};
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
    /// Entries that one step of a sort reads.
    const SORT_ROWS: usize = ROWS;

    /// Where the entries are.
    fn route(&self) -> Route<'_>;

    /// Whether entries along the route may be left out.
    fn leaves_out(&self) -> bool;

    /// Whether each step reads the facts of the entries that may pass.
    fn reads_facts(&self, by: Self::Sort) -> bool;

    /// Whether an entry may pass, judged without its facts.
    fn may_pass(&self, entry: &LogEntry) -> bool;

    /// The row of an entry that passes, and that a key may see.
    fn row(&self, entry: LogEntry, keys: &ScopeFilter) -> Option<Self::Row>;
}

/// A page of a log. `caller`: whose key the store checks; `None` for the admin key, which has been checked.
pub(in crate::admin) async fn page<F: LogFilter>(
    logs: &Logs<F>,
    caller: Option<&RuntimeCaller>,
    query: &ListQuery<F, F::Sort>,
) -> Result<Page<F::Row, F::Sort>, StoreError> {
    let (store, filter, by) = (&logs.store, &query.filter, query.sort.by);
    let in_time = by == F::Sort::DEFAULT;
    let rows = if in_time { ROWS } else { F::SORT_ROWS };
    let route = Route {
        descending: query.sort.descending,
        after: query.after.as_ref().filter(|_| in_time),
        rows_first: query.first_step(filter.leaves_out() || !in_time, rows),
        rows,
        ..filter.route()
    };
    let log = LogWalk::new(store, caller, logs.retention_days, route).await?;
    let with_facts = filter.reads_facts(by);
    let mut walk = FilteredWalk {
        store,
        filter,
        log,
        with_facts,
    };
    let page = match in_time {
        true => page_along(&mut walk, query, by, logs.bounds).await?,
        false => {
            let gathered = gather(&mut walk, query, logs.bounds);
            store.serve_gathering(gathered).await?
        }
    };
    let as_of_ms = walk.log.as_of_ms;
    Ok(Page { as_of_ms, ..page })
}

/// A walk along the entries that a filter lets pass.
struct FilteredWalk<'a, F> {
    store: &'a Store,
    filter: &'a F,
    log: LogWalk<'a>,
    with_facts: bool,
}

impl<F: LogFilter> Walk for FilteredWalk<'_, F> {
    type Row = F::Row;
    type Error = StoreError;

    async fn step(&mut self) -> Result<Step<F::Row>, StoreError> {
        let mut step = self.log.step().await?;
        if self.with_facts {
            let entries = step.entries.iter_mut();
            let entries = entries.filter(|entry| self.filter.may_pass(entry));
            read_facts(self.store, self.log.view, entries).await?;
        }
        let entries = step.entries.into_iter().map(|entry| Entry {
            position: entry.position(),
            row: self.filter.row(entry, &self.log.scope_filter),
        });
        Ok(Step::new(entries.collect(), step.complete))
    }
}
