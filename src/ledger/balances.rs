//! Lists a tenant's ledgers.

use super::Ledger;
use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::budget::projection::projected;
use crate::domain::caller::RuntimeCaller;
use crate::domain::record::{Record, RecordError};
use crate::domain::scope::{ScopePath, SegmentFilter};
use crate::listing::{
    Bounds, Entry, ListQuery, OneOrder, Page, Position, Step, StepRange, Walk, page_along, readable,
};
use crate::store::runtime::fields_of;
use crate::store::runtime::read::{Balances, BalancesReply, LEDGER_FIELDS};
use crate::store::runtime::target::RuntimeTarget;
use crate::store::target::Target as _;
use crate::store::{ExtraRoundTrip, Lane, StoreError};

/// Filter of the list of ledgers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceFilter {
    /// The tenant as the client named it; the ledgers are the caller's own.
    pub tenant: Option<String>,
    /// Segments that the scope must have.
    pub segments: SegmentFilter,
}

/// A query of the list of ledgers. Its order is fixed, by scope and then by unit; a position is an entry of the index.
pub type BalanceQuery = ListQuery<BalanceFilter, OneOrder>;

impl Ledger {
    /// A page of the caller's ledgers.
    ///
    /// # Errors
    /// [`StoreError`]; refused when the key is not valid or lacks the permission.
    pub async fn balances(
        &self,
        caller: &RuntimeCaller,
        query: &BalanceQuery,
    ) -> Result<Page<Balance, OneOrder>, StoreError> {
        let mut walk = BalanceWalk {
            ledger: self,
            caller,
            segments: &query.filter.segments,
        };
        page_along(&mut walk, query, OneOrder::Only, Bounds::default()).await
    }
}

/// A walk along the ledgers of one tenant.
struct BalanceWalk<'a> {
    ledger: &'a Ledger,
    caller: &'a RuntimeCaller,
    segments: &'a SegmentFilter,
}

impl Walk for BalanceWalk<'_> {
    type Row = Balance;
    type Error = StoreError;
    /// The longest page, and one more to know whether another follows.
    const ROWS: usize = 201;

    fn is_filtered(&self) -> bool {
        self.segments.is_within_tenant()
    }

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<Balance>, StoreError> {
        let store = &self.ledger.store;
        if !range.is_first {
            store.extra_round_trip(ExtraRoundTrip::Paging);
        }
        let call = Balances {
            caller: self.caller,
            after: range.after_id(),
            rows: range.rows,
        };
        let found = store.run(Lane::Background, &call).await;
        let BalancesReply::Listed {
            scope_filter,
            complete,
            entry_fields_record: found,
            now_ms,
        } = RuntimeTarget::default().named(found)?;
        let is_listed = |balance: &Balance| {
            let scope = &balance.scope_path;
            self.segments.matches(scope) && scope_filter.admits(scope.as_str())
        };
        let now_ms = store.clock().trusted_ms(now_ms);
        let entries = found.into_iter().map(|(entry, fields, turning)| {
            let record = match turning.is_empty() {
                true => Ok(fields_of(&LEDGER_FIELDS, fields.0)),
                false => projected(&turning, now_ms).map(|record| Some(record.into_owned())),
            };
            let balance = record.and_then(|record| balance_of(&entry, record));
            let balance = readable("ledger", &entry, balance).flatten();
            Entry {
                position: Position::of_id(entry),
                row: balance.filter(is_listed),
            }
        });
        Ok(Step::new(entries.collect(), complete))
    }
}

/// Reads an index entry `scope unit_index UNIT` and the record of its ledger.
fn balance_of(entry: &str, record: Option<Record>) -> Result<Option<Balance>, RecordError> {
    // A key that holds no hash has no field at all.
    let record = record.ok_or_else(|| RecordError::of("status"))?;
    if record.is_empty() {
        return Ok(None);
    }
    record.text("status")?;
    record.integer("remaining")?;
    let mut words = entry.split(' ');
    let scope = words.next().and_then(ScopePath::parse);
    let unit = words.nth(1).and_then(Unit::parse);
    let scope = scope.ok_or_else(|| RecordError::of("scope"))?;
    let unit = unit.ok_or_else(|| RecordError::of("unit"))?;
    Balance::from_record(scope, unit, &record).map(Some)
}
