//! `balances.lua`: the ledgers of a tenant, for its agents.

use super::{Answer, fields_of};
use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::Partition;
use crate::domain::record::Record;
use crate::domain::scope::{ScopeFilter, ScopePath};
use crate::driver::node::Lane;
use crate::store::signature::{Fields, signature};
use crate::store::{Store, StoreError};

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

/// A page of a tenant's ledgers.
#[derive(Debug)]
pub struct Ledgers {
    /// The restriction of the caller's key.
    pub scope_filter: ScopeFilter,
    /// Whether no ledger is left.
    pub complete: bool,
    /// The index entry of each ledger, and its figures; `None` where they cannot be read.
    pub ledgers: Vec<(String, Option<Balance>)>,
}

impl Store {
    /// Up to `rows` of the caller's ledgers in canonical order, after the entry `after`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn list_balances(
        &self,
        caller: &RuntimeCaller,
        after: Option<&str>,
        rows: usize,
    ) -> Result<Answer<Ledgers>, StoreError> {
        let call = Balances {
            partition: caller.partition,
            key_id: caller.key_id.as_str(),
            key_hash: caller.key_hash.as_str(),
            tenant: caller.tenant.as_str(),
            after,
            rows,
        };
        let read = |BalancesReply::Listed {
                        scope_filter,
                        complete,
                        entry_fields: rows,
                        ..
                    }| {
            let ledger = |(entry, fields): (String, Fields)| {
                let ledger = fields_of(&LEDGER_FIELDS, fields.0);
                // One that the index names before it is there, or after it is gone.
                let gone = ledger.as_ref().is_some_and(Record::is_empty);
                let balance = ledger.and_then(|ledger| balance_of(&entry, &ledger));
                (!gone).then_some((entry, balance))
            };
            Ok(Ledgers {
                scope_filter,
                complete,
                ledgers: rows.into_iter().filter_map(ledger).collect(),
            })
        };
        self.answer_on(Lane::Background, &call, None, read).await
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
fn balance_of(entry: &str, ledger: &Record) -> Option<Balance> {
    let (scope, rest) = entry.split_once(' ')?;
    let (_, unit) = rest.split_once(' ')?;
    ledger.text("status").ok()?;
    ledger.integer("remaining").ok()?;
    let figures = ["allocated", "spent", "reserved", "debt", "overdraft_limit"];
    let figures: Option<Vec<_>> = figures.iter().map(|name| ledger.get(name)).collect();
    let over = if ledger.get("is_over_limit") == Some("1") {
        "1"
    } else {
        "0"
    };
    let snapshot = format!("{} {over}", figures?.join(" "));
    Balance::from_snapshot(ScopePath::parse(scope)?, Unit::parse(unit)?, &snapshot)
}
