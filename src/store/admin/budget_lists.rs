//! The indexes of ledgers, and their records. For callers that were checked.

use std::sync::LazyLock;

use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::budget::projection::{IDENTITY, SOURCES};
use crate::domain::ids::TenantId;
use crate::store::records::command;
use crate::store::{OnFailure, Store, StoreError};

/// The fields of a ledger that a response has, and those that its turn depends on.
pub(crate) static FIELDS: LazyLock<Vec<&str>> =
    LazyLock::new(|| with_sources(BudgetLedger::field_names()));

/// These fields of ledgers, and those that a turn depends on.
pub(crate) fn with_sources(mut fields: Vec<&'static str>) -> Vec<&'static str> {
    fields.extend(SOURCES);
    fields.extend(IDENTITY);
    fields.sort_unstable();
    fields.dedup();
    fields
}

impl Store {
    /// How many ledgers a tenant has whose scope starts so.
    pub async fn count_ledgers(
        &self,
        tenant: &TenantId,
        scope_prefix: &str,
    ) -> Result<usize, StoreError> {
        let count = command("ZLEXCOUNT", self.ledgers_of(tenant), bounds(scope_prefix));
        self.read(count).await
    }

    /// Up to `rows` entries, `scope unit_index UNIT`, of each of these tenants' ledgers whose scope starts so. Those of the first
    /// tenant start beyond `after`. An index of the wrong type is an error of its tenant alone.
    pub async fn ledger_entries(
        &self,
        tenants: &[TenantId],
        scope_prefix: &str,
        after: Option<&str>,
        descending: bool,
        rows: usize,
    ) -> Result<Vec<Result<Vec<String>, StoreError>>, StoreError> {
        let walk = |(index, tenant): (usize, &TenantId)| {
            let (low, high) = bounds(scope_prefix);
            let after = after.filter(|_| index == 0);
            let after = after.map(|entry| format!("({entry}").into_bytes());
            let (name, bounds) = match descending {
                true => ("ZREVRANGEBYLEX", (after.unwrap_or(high), low)),
                false => ("ZRANGEBYLEX", (after.unwrap_or(low), high)),
            };
            command(name, self.ledgers_of(tenant), (bounds, "LIMIT", 0, rows))
        };
        let walks = tenants.iter().enumerate().map(walk);
        self.read_each(OnFailure::Fail, walks).await
    }

    /// The key of the ledger that an entry names.
    pub fn ledger_key(&self, tenant: &TenantId, entry: &str) -> String {
        let mut words = entry.split(' ');
        let (scope, unit) = (words.next().unwrap_or_default(), words.nth(1));
        let (partition, unit) = (tenant.partition(), unit.unwrap_or_default());
        self.keys().budget(partition, tenant.as_str(), unit, scope)
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
