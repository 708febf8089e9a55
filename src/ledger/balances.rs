//! Lists a tenant's ledgers.

use super::Ledger;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::scope::SegmentFilter;
use crate::listing::{
    Bounds, Entry, ListQuery, OneOrder, Page, Position, Step, Walk, page_along, readable,
};
use crate::store::{ExtraTrip, OperationError};

/// Ledgers that one script call reads: the longest page, and one more to know whether another follows.
const STEP_LEDGERS: usize = 201;

/// Which ledgers are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceFilter {
    /// The tenant as the client named it; the ledgers are the caller's own.
    pub tenant: Option<String>,
    /// Segments that the scope must have.
    pub segments: SegmentFilter,
}

/// What is asked of the list of ledgers. Its order is canonical, by scope and then by unit; a position is an entry of the index.
pub type BalanceQuery = ListQuery<BalanceFilter, OneOrder>;

impl Ledger {
    /// A page of the caller's ledgers.
    ///
    /// # Errors
    /// [`OperationError`]; refused when the key is not valid or lacks the permission.
    pub async fn balances(
        &self,
        caller: &RuntimeCaller,
        query: &BalanceQuery,
    ) -> Result<Page<Balance, OneOrder>, OperationError> {
        let segments = &query.filter.segments;
        let mut walk = BalanceWalk {
            ledger: self,
            caller,
            segments,
            after: query.after.as_ref().map(|after| after.id.clone()),
            rows: query.first_step(segments.is_within_tenant(), STEP_LEDGERS),
            has_begun: false,
        };
        page_along(&mut walk, query, OneOrder, Bounds::default()).await
    }
}

/// A walk along the ledgers of one tenant.
struct BalanceWalk<'a> {
    ledger: &'a Ledger,
    caller: &'a RuntimeCaller,
    segments: &'a SegmentFilter,
    /// The last entry that was looked at.
    after: Option<String>,
    /// Ledgers of the next step.
    rows: usize,
    has_begun: bool,
}

impl Walk for BalanceWalk<'_> {
    type Row = Balance;
    type Error = OperationError;

    async fn step(&mut self) -> Result<Step<Balance>, OperationError> {
        let store = &self.ledger.store;
        if std::mem::replace(&mut self.has_begun, true) {
            store.metrics().extra_trip(ExtraTrip::Paging);
        }
        let rows = std::mem::replace(&mut self.rows, STEP_LEDGERS);
        let found = store
            .list_balances(self.caller, self.after.as_deref(), rows)
            .await?;
        self.after = found.ledgers.last().map(|(entry, _)| entry.clone());
        let is_listed = |balance: &Balance| {
            let scope = &balance.scope_path;
            self.segments.matches(scope) && found.scope_filter.admits(scope)
        };
        let entries = found.ledgers.into_iter().map(|(entry, balance)| {
            let balance = readable("ledger", &entry, balance).flatten();
            Entry {
                position: Position::of_id(entry),
                row: balance.filter(is_listed),
            }
        });
        Ok(Step::new(entries.collect(), found.complete))
    }
}
