//! `balances.lua`: the ledgers of a tenant, for its agents.

use crate::domain::caller::RuntimeCaller;
use crate::domain::scope::ScopeFilter;
use crate::store::signature::{Fields, signature};

signature! {
    /// Reads up to a number of a tenant's ledgers in canonical order, from a position on.
    ///
    /// The fields of a ledger: status remaining allocated spent reserved debt overdraft_limit is_over_limit; an empty array
    /// where the key holds no hash.
    BALANCES: Balances -> BalancesReply = "runtime/balances", flags "no-writes,allow-oom";
    names { caller: &'a RuntimeCaller, key_id of caller }
    keys of partition of caller { read api_key(key_id), budgets(tenant); }
    builds { read budget }
    args {
        key_hash of caller,
        tenant of caller,
        budget_prefix = budget_prefix(tenant),
        /// The last entry that was seen.
        after: Option<&'a str>,
        rows: usize,
    }
    replies {
        unauthorized, forbidden,
        listed: Listed { now_ms: i64, scope_filter: ScopeFilter, complete: bool, entry_fields: Vec<(String, Fields)> },
    }
    writes "Nothing."
}

/// Names of the fields, in the order of the script.
pub(crate) const LEDGER_FIELDS: [&str; 8] = [
    "status",
    "remaining",
    "allocated",
    "spent",
    "reserved",
    "debt",
    "overdraft_limit",
    "is_over_limit",
];
