//! A tenant's ledgers along their index, as far as filters need them.

use redis::Value;

use super::{Store, StoreError};
use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::domain::reservation::Record;
use crate::domain::scope::ScopePath;

/// Fields that filters look at.
const FILTERED: [&str; 6] = [
    "ledger_id",
    "status",
    "is_over_limit",
    "debt",
    "spent",
    "allocated",
];

/// An entry of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The whole entry, by which the walk goes on.
    pub member: String,
    /// Where the ledger hangs.
    pub scope: ScopePath,
    /// What it counts.
    pub unit: Unit,
}

impl Store {
    /// Up to `rows` entries of a tenant's index in canonical order, beyond `after`, whose scope starts with `prefix`; and
    /// whether the index goes on. What is no entry is left out.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn ledger_entries(
        &self,
        tenant: &TenantId,
        prefix: &str,
        after: Option<&str>,
        rows: usize,
    ) -> Result<(Vec<LedgerEntry>, Option<String>), StoreError> {
        let key = self.keys().budgets(tenant.partition(), tenant.as_str());
        let mut walk = redis::cmd("ZRANGEBYLEX");
        walk.arg(&key);
        match after {
            Some(after) => walk.arg(format!("({after}")),
            None => walk.arg(format!("[{prefix}")),
        };
        // No scope holds a byte above those of ASCII.
        walk.arg([b"(", prefix.as_bytes(), b"\xff"].concat());
        walk.arg("LIMIT").arg(0).arg(rows);
        let reply = self.query(&key, &walk).await?;
        let members: Vec<String> = redis::from_redis_value(reply).unwrap_or_default();
        let last = members.last().filter(|_| members.len() == rows).cloned();
        let entries = members.into_iter().filter_map(entry).collect();
        Ok((entries, last))
    }

    /// What filters look at, of each of these ledgers; an empty record where there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn filtered_ledgers(
        &self,
        tenant: &TenantId,
        entries: &[LedgerEntry],
    ) -> Result<Vec<Record>, StoreError> {
        let command = |entry: &LedgerEntry| {
            let (partition, unit) = (tenant.partition(), entry.unit.as_str());
            let scope = entry.scope.as_str();
            let key = self.keys().budget(partition, tenant.as_str(), unit, scope);
            let mut read = redis::cmd("HMGET");
            read.arg(&key).arg(&FILTERED[..]);
            (key, read)
        };
        let commands: Vec<_> = entries.iter().map(command).collect();
        let replies = self.query_each(&commands).await?;
        Ok(replies
            .into_iter()
            .map(|reply| reply.map_or_else(|_| Record::default(), record))
            .collect())
    }
}

fn entry(member: String) -> Option<LedgerEntry> {
    let mut words = member.split(' ');
    let (scope, _, unit) = (words.next()?, words.next()?, words.next()?);
    Some(LedgerEntry {
        scope: ScopePath::parse(scope)?,
        unit: Unit::parse(unit)?,
        member,
    })
}

fn record(reply: Value) -> Record {
    let values: Vec<Option<String>> = redis::from_redis_value(reply).unwrap_or_default();
    Record::from_fields(&FILTERED, values)
}
