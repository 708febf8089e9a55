//! `balances.lua`: the ledgers of a tenant, for its agents.

use super::{Target, fields_of};
use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::Partition;
use crate::domain::record::{Record, RecordError};
use crate::domain::scope::{ScopeFilter, ScopePath};
use crate::driver::node::Lane;
use crate::store::signature::{Fields, signature};
use crate::store::{OperationError, Store};

signature! {
    /// Reads up to a number of a tenant's ledgers in canonical order, from a position on.
    ///
    /// The fields of a ledger: status remaining allocated spent reserved debt overdraft_limit is_over_limit; an empty array
    /// where the key holds no hash.
    BALANCES: Balances -> BalancesReply = "runtime/balances", flags "no-writes,allow-oom";
    names { partition: Partition, key_id: &'a str }
    keys of partition { read api_key(key_id), budgets(tenant); }
    builds { read budget }
    args {
        key_hash: &'a str,
        tenant: &'a str,
        budget_prefix = budget_prefix(tenant),
        /// The last entry that was seen.
        after: Option<&'a str>,
        /// At most.
        rows: usize,
    }
    replies {
        unauthorized, forbidden,
        listed: Listed { now_ms: i64, scope_filter: ScopeFilter, complete: bool, entry_fields: Vec<(String, Fields)> },
    }
    writes "Nothing."
}

/// Some of a tenant's ledgers, in canonical order.
#[derive(Debug)]
pub struct Ledgers {
    /// The restriction of the caller's key.
    pub scope_filter: ScopeFilter,
    /// Whether no ledger is left.
    pub complete: bool,
    /// The index entry of each ledger, and its figures: `None` where the index names a ledger that is not there.
    pub ledgers: Vec<(String, Result<Option<Balance>, RecordError>)>,
}

impl Store {
    /// Up to `rows` of the caller's ledgers in canonical order, after the entry `after`.
    ///
    /// # Errors
    /// [`OperationError`].
    pub async fn list_balances(
        &self,
        caller: &RuntimeCaller,
        after: Option<&str>,
        rows: usize,
    ) -> Result<Ledgers, OperationError> {
        let call = Balances {
            partition: caller.partition,
            key_id: caller.key_id.as_str(),
            key_hash: caller.key_hash.as_str(),
            tenant: caller.tenant.as_str(),
            after,
            rows,
        };
        let found = self.run_about(Lane::Background, Target::Caller, &call);
        let BalancesReply::Listed {
            scope_filter,
            complete,
            entry_fields: rows,
            ..
        } = found.await?;
        let ledger = |(entry, fields): (String, Fields)| {
            let balance = balance_of(&entry, fields_of(&LEDGER_FIELDS, fields.0));
            (entry, balance)
        };
        Ok(Ledgers {
            scope_filter,
            complete,
            ledgers: rows.into_iter().map(ledger).collect(),
        })
    }
}

/// In the order of `balances.lua`.
const LEDGER_FIELDS: [&str; 8] = [
    "status",
    "remaining",
    "allocated",
    "spent",
    "reserved",
    "debt",
    "overdraft_limit",
    "is_over_limit",
];

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
