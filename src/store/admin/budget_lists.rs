//! `list_budgets.lua`, and the ledgers of many tenants.

use std::sync::LazyLock;

use redis::Value;
use tracing::error;

use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::caller::ScriptCaller;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::store::records::command;
use crate::store::signature::{Fields, signature};
use crate::store::{OnFailure, Store, StoreError};

signature! {
    /// Reads a number of a tenant's ledgers in the order of scopes and units, or against it, from a position on.
    ///
    /// The fields of a ledger are an empty array where the key holds no hash.
    LIST_BUDGETS: ListBudgets -> ListBudgetsReply = "admin/budgets/list_budgets", flags "no-writes,allow-oom";
    names { caller: ScriptCaller<'a>, key_id of caller }
    keys of partition of tenant { read api_key(key_id), tenant_key: tenant(tenant), budgets(tenant); }
    builds { read budget }
    args {
        key_hash of caller,
        tenant: &'a TenantId,
        budget_prefix = budget_prefix(tenant),
        /// Prefix of the scopes.
        scope_prefix: &'a str,
        /// An entry of budgets.
        after: Option<&'a str>,
        direction: &'a str,
        rows: usize,
        /// The most ledgers that may be gathered.
        bound: Option<usize>,
        names: &'a [&'a str],
    }
    replies {
        unauthorized, forbidden, scope_forbidden, too_many: TooMany,
        listed: Listed { scope_filter: ScopeFilter, complete: bool, entry_fields: Vec<(String, Fields)> },
    }
    writes "Nothing."
}

/// The fields of a ledger that a response has.
pub(crate) static FIELDS: LazyLock<Vec<&str>> = LazyLock::new(BudgetLedger::field_names);

/// A part of the lists of ledgers.
#[derive(Debug, Clone, Copy)]
pub struct LedgerRange<'a> {
    /// Prefix of the scopes; may be empty.
    pub scope_prefix: &'a str,
    /// The entry beyond which the part begins, `scope unit_index UNIT`.
    pub after: Option<&'a str>,
    /// Last entries first.
    pub descending: bool,
}

impl Store {
    /// How many ledgers these tenants have in all whose scope starts so. For the admin key.
    pub async fn count_ledgers(
        &self,
        tenants: &[TenantId],
        scope_prefix: &str,
    ) -> Result<usize, StoreError> {
        let (low, high) = bounds(scope_prefix);
        let count =
            |tenant: &TenantId| command("ZLEXCOUNT", self.ledgers_of(tenant), (&low, &high));
        let commands: Vec<_> = tenants.iter().map(count).collect();
        let replies = self.send_each(&commands, OnFailure::Fail).await?;
        let counts = replies.into_iter().map(|reply| match reply {
            Ok(Value::Int(count)) => usize::try_from(count).unwrap_or(0),
            _ => 0,
        });
        Ok(counts.sum())
    }

    /// Up to `rows` entries of each of these tenants' lists; the range starts beyond its entry in the first one alone. A list
    /// that cannot be read is empty. For the admin key.
    pub async fn ledger_entries(
        &self,
        tenants: &[TenantId],
        range: LedgerRange<'_>,
        rows: usize,
    ) -> Result<Vec<Vec<String>>, StoreError> {
        let walk = |(index, tenant): (usize, &TenantId)| {
            let (low, high) = bounds(range.scope_prefix);
            let after = range.after.filter(|_| index == 0);
            let after = after.map(|entry| format!("({entry}").into_bytes());
            let (name, bounds) = match range.descending {
                true => ("ZREVRANGEBYLEX", (after.unwrap_or(high), low)),
                false => ("ZRANGEBYLEX", (after.unwrap_or(low), high)),
            };
            command(name, self.ledgers_of(tenant), (bounds, "LIMIT", 0, rows))
        };
        let commands: Vec<_> = tenants.iter().enumerate().map(walk).collect();
        let replies = self.send_each(&commands, OnFailure::Fail).await?;
        let entries = |(tenant, reply): (&TenantId, Result<Value, StoreError>)| {
            let found = reply.map(redis::from_redis_value::<Vec<String>>);
            let Ok(Ok(found)) = found else {
                error!(tenant.id = %tenant, "the ledgers of `{tenant}` are left out of a list: their index has the wrong type");
                return Vec::new();
            };
            found
        };
        Ok(tenants.iter().zip(replies).map(entries).collect())
    }

    /// The records of ledgers by tenant and entry, in their order: an empty one where the entry is ahead of its record, `None`
    /// where it is no record. For the admin key.
    pub async fn ledger_records(
        &self,
        ledgers: &[(TenantId, String)],
    ) -> Result<Vec<Option<Record>>, StoreError> {
        let key = |(tenant, entry): &(TenantId, String)| {
            let mut words = entry.split(' ');
            let (scope, unit) = (words.next().unwrap_or_default(), words.nth(1));
            let (partition, unit) = (tenant.partition(), unit.unwrap_or_default());
            self.keys().budget(partition, tenant.as_str(), unit, scope)
        };
        let records = self.records(ledgers.iter().map(key), &FIELDS).await?;
        Ok(records.into_iter().map(Result::ok).collect())
    }

    fn ledgers_of(&self, tenant: &TenantId) -> String {
        self.keys().budgets(tenant.partition(), tenant.as_str())
    }
}

/// The lexical bounds of the entries whose scope starts so.
fn bounds(scope_prefix: &str) -> (Vec<u8>, Vec<u8>) {
    if scope_prefix.is_empty() {
        return (b"-".to_vec(), b"+".to_vec());
    }
    let high = [b"(", scope_prefix.as_bytes(), b"\xff"].concat();
    (format!("[{scope_prefix}").into_bytes(), high)
}
