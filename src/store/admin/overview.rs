//! Reads what the overview consists of: counts and indexes that scripts keep in each partition. It takes the same few
//! commands per partition, however much is stored.

use std::collections::BTreeMap;

use redis::Value;
use tracing::error;

use crate::domain::ids::{Partition, TenantId};
use crate::domain::record::Record;
use crate::domain::tenant::SYSTEM;
use crate::store::records::{NO_ARGS, command, read_or_default};
use crate::store::{OnFailure, Store, StoreError};

/// Why a ledger is in the index `over_limit_or_in_debt`; see `lua/lib/ledger/over_limit_or_in_debt.lua`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexReason {
    /// It owes something.
    Debt,
    /// It is over its limit.
    OverLimit,
}

impl IndexReason {
    /// The prefix of entries of the index.
    fn word(self) -> &'static str {
        match self {
            Self::Debt => "debt",
            Self::OverLimit => "over",
        }
    }

    /// The scores of these entries, those of the highest debt first.
    fn scores(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Debt => ("ZREVRANGEBYSCORE", ["+inf", "(0"]),
            Self::OverLimit => ("ZRANGEBYSCORE", ["-inf", "(0"]),
        }
    }
}

/// Counts by `tenant <STATUS>`, `budget <UNIT> <STATUS>`, `webhook <STATUS>`.
pub type Counts = BTreeMap<String, i64>;

/// Records whose status is read at once.
const READ_ROWS: usize = 500;

/// Counts over all partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    by_status: Counts,
    /// Partitions that have ledgers over their limit or in debt.
    pub over_limit_or_in_debt: Vec<Partition>,
    /// Subscriptions whose deliveries fail.
    pub failing: i64,
    /// Partitions that have such.
    pub failing_in: Vec<Partition>,
}

impl Totals {
    /// How many have a status: by the field's name.
    pub fn count(&self, field: &str) -> i64 {
        self.by_status.get(field).copied().unwrap_or(0).max(0)
    }
}

/// Ledgers in the index for one reason.
#[derive(Debug, Default)]
pub struct IndexedLedgers {
    /// How many there are.
    pub count: i64,
    /// The records of those with the highest debt, with the fields that the overview shows; highest first.
    pub worst: Vec<Record>,
}

impl Store {
    /// The counts of all partitions, summed up.
    ///
    /// # Errors
    /// [`StoreError`]; a sum over some of the partitions would be none.
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        let keys = self.keys();
        let partitions: Vec<Partition> = Partition::all().collect();
        let commands = partitions.iter().flat_map(|partition| {
            [
                command("HGETALL", keys.counts(*partition), NO_ARGS),
                command("ZCARD", keys.over_limit_or_in_debt(*partition), NO_ARGS),
                command("ZCARD", keys.failing(*partition), NO_ARGS),
            ]
        });
        let commands: Vec<_> = commands.collect();
        let mut replies = self.send_all(&commands).await?.into_iter();
        let mut totals = Totals::default();
        for partition in partitions {
            let mut next = || replies.next().unwrap_or(Value::Nil);
            let counts: BTreeMap<String, String> = read_or_default(next());
            for (field, count) in counts {
                let Ok(number) = count.parse::<i64>() else {
                    error!(partition = %partition, field, "the count `{field}` of {partition} is not a number");
                    continue;
                };
                *totals.by_status.entry(field).or_default() += number;
            }
            let indexed: i64 = read_or_default(next());
            let failing: i64 = read_or_default(next());
            if indexed > 0 {
                totals.over_limit_or_in_debt.push(partition);
            }
            if failing > 0 {
                totals.failing += failing;
                totals.failing_in.push(partition);
            }
        }
        Ok(totals)
    }

    /// The counts of one partition that are not zero.
    pub async fn counts_of(&self, partition: Partition) -> Result<Counts, StoreError> {
        let key = self.keys().counts(partition);
        let mut counts: Counts = self.read(command("HGETALL", key, NO_ARGS)).await?;
        counts.retain(|_, count| *count != 0);
        Ok(counts)
    }

    /// The same from the records themselves.
    pub async fn recount(&self, partition: Partition) -> Result<Counts, StoreError> {
        let keys = self.keys();
        let mut records = Vec::new();
        let tenants = self.members_of(&keys.tenants(partition)).await?;
        let operator = (partition == Partition::FIRST).then(|| SYSTEM.to_owned());
        for owner in tenants.iter().chain(&operator) {
            for id in self.members_of(&keys.webhooks(partition, owner)).await? {
                records.push(("webhook".to_owned(), keys.webhook(partition, &id)));
            }
        }
        for tenant in &tenants {
            records.push(("tenant".to_owned(), keys.tenant(partition, tenant)));
            for entry in self.members_of(&keys.budgets(partition, tenant)).await? {
                let (scope, unit) = entry.split_once(' ').unwrap_or_default();
                let unit = unit.rsplit(' ').next().unwrap_or_default();
                let key = keys.budget(partition, tenant, unit, scope);
                records.push((format!("budget {unit}"), key));
            }
        }
        let mut counts = Counts::new();
        for part in records.chunks(READ_ROWS) {
            let status = |(_, key): &(String, String)| command("HGET", key.clone(), "status");
            let found = self.read_each(OnFailure::Fail, part.iter().map(status));
            for ((kind, _), status) in part.iter().zip(found.await?) {
                let status: Result<Option<String>, _> = status;
                if let Ok(Some(status)) = status {
                    *counts.entry(format!("{kind} {status}")).or_default() += 1;
                }
            }
        }
        Ok(counts)
    }

    /// How many ledgers of these partitions are in the index for this reason, and the `rows` with the highest debt.
    pub async fn indexed_ledgers(
        &self,
        partitions: &[Partition],
        reason: IndexReason,
        rows: usize,
        fields: &[&str],
    ) -> Result<IndexedLedgers, StoreError> {
        let (walk, [high, low]) = reason.scores();
        let commands = partitions.iter().flat_map(|partition| {
            let key = self.keys().over_limit_or_in_debt(*partition);
            let count = match reason {
                IndexReason::Debt => (low, high),
                IndexReason::OverLimit => (high, low),
            };
            let worst = (high, low, "WITHSCORES", "LIMIT", 0, rows);
            [
                command("ZCOUNT", key.clone(), count),
                command(walk, key, worst),
            ]
        });
        let commands: Vec<_> = commands.collect();
        let mut replies = self.send_all(&commands).await?.into_iter();
        let (mut count, mut worst) = (0, Vec::<(f64, String)>::new());
        for _ in partitions {
            let mut next = || replies.next().unwrap_or(Value::Nil);
            count += read_or_default::<i64>(next());
            let found: Vec<(String, f64)> = read_or_default(next());
            worst.extend(found.into_iter().map(|(entry, score)| (score.abs(), entry)));
        }
        let names = highest(worst, rows);
        let ledger = |entry: &String| {
            let mut words = entry
                .strip_prefix(reason.word())?
                .trim_start()
                .splitn(3, ' ');
            let tenant = TenantId::parse(words.next()?)?;
            let (unit, scope) = (words.next()?, words.next()?);
            let key = self
                .keys()
                .budget(tenant.partition(), tenant.as_str(), unit, scope);
            Some(key)
        };
        let keys = names.iter().filter_map(ledger);
        let worst = self.sound_records(keys, fields).await?;
        Ok(IndexedLedgers { count, worst })
    }

    /// The records of the `rows` subscriptions of these partitions with the most failures in a row, most first.
    pub async fn failing_webhooks(
        &self,
        partitions: &[Partition],
        rows: usize,
        fields: &[&str],
    ) -> Result<Vec<Record>, StoreError> {
        let worst = |partition: &Partition| {
            let first = (0, rows as i64 - 1, "WITHSCORES");
            command("ZREVRANGE", self.keys().failing(*partition), first)
        };
        let worst: Vec<Vec<(String, f64)>> = self.read_all(partitions.iter().map(worst)).await?;
        let mut found = Vec::new();
        for (partition, rows) in partitions.iter().zip(worst) {
            let key = |id: &str| self.keys().webhook(*partition, id);
            found.extend(rows.into_iter().map(|(id, score)| (score, key(&id))));
        }
        let keys = highest(found, rows).into_iter();
        self.sound_records(keys, fields).await
    }

    /// The records that are there at these keys.
    async fn sound_records(
        &self,
        keys: impl Iterator<Item = String>,
        fields: &[&str],
    ) -> Result<Vec<Record>, StoreError> {
        let records = self.records(keys, fields).await?.into_iter();
        let is_there =
            |record: &Result<Record, _>| !matches!(record, Ok(record) if record.is_empty());
        records.filter(is_there).collect()
    }
}

/// The names with the highest scores, highest first; equal ones by name.
fn highest(mut scored: Vec<(f64, String)>, rows: usize) -> Vec<String> {
    scored.sort_by(|(a_score, a), (b_score, b)| b_score.total_cmp(a_score).then_with(|| a.cmp(b)));
    scored.truncate(rows);
    scored.into_iter().map(|(_, name)| name).collect()
}
