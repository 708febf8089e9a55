//! `ledgers.lua`, `records.lua` and `registered.lua`, and the scan for keys: what a verification of the ledgers reads.

use tokio::time::Instant;

use crate::domain::amount::Unit;
use crate::domain::ids::{Partition, TenantId};
use crate::driver::slot;
use crate::store::scripts::{LEDGERS, RECORDS, REGISTERED};
use crate::store::{Arg, Day, Lane, Reply, Store, StoreError};

/// Ledgers or records that one call reads at most.
pub const READ_ROWS: usize = 100;

/// Deepest budgeted scope of a record.
pub const DEPTHS: usize = 6;

/// A ledger as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Its status.
    pub status: String,
    /// What was allocated.
    pub allocated: i64,
    /// What was spent.
    pub spent: i64,
    /// What is held.
    pub reserved: i64,
    /// What is owed.
    pub debt: i64,
    /// What remains.
    pub remaining: i64,
    /// What of `spent` no record tells any more; modulo 2^64.
    pub base_spent: i64,
    /// What of `debt` no record tells any more; modulo 2^64.
    pub base_debt: i64,
    /// Whether it is over its limit.
    pub is_over_limit: bool,
    /// What the index of strained ledgers has of it.
    pub strained: Strained,
}

/// Scores of a ledger among the strained; see `lua/lib/strained.lua`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Strained {
    /// For its debt.
    pub debt: Option<f64>,
    /// For being over its limit.
    pub over: Option<f64>,
}

impl Figures {
    /// The scores that the index must have.
    pub fn strain(&self) -> Strained {
        let debt = self.debt as f64;
        Strained {
            debt: (self.debt > 0).then_some(debt),
            over: self.is_over_limit.then_some(-debt - 1.0),
        }
    }
}

/// Ledgers at one moment of the store's clock: `None` where there is none, an error's text where one is corrupt.
#[derive(Debug)]
pub struct Ledgers {
    /// When they stood so, in milliseconds.
    pub now_ms: i64,
    /// In the order of the keys.
    pub rows: Vec<Result<Option<Figures>, String>>,
}

/// A record and its place in the indexes, at one moment.
#[derive(Debug)]
pub struct Row {
    /// Which record.
    pub id: String,
    /// When the index of due reservations has it, in milliseconds.
    pub due_ms: Option<i64>,
    /// Since when it is in quarantine, in milliseconds.
    pub quarantined_ms: Option<i64>,
    /// The fields, `None` where one is missing; `None` where the key holds no hash.
    pub fields: Option<Vec<Option<String>>>,
}

/// Records of a tenant at one moment.
#[derive(Debug)]
pub struct Rows {
    /// The tenant's first due time, in milliseconds.
    pub first_due_ms: Option<i64>,
    /// The tenant's due time in the partition's index, in milliseconds.
    pub tenant_due_ms: Option<i64>,
    /// In the order of the ids.
    pub rows: Vec<Row>,
}

impl Row {
    /// A field, in the order of `records.lua`.
    pub fn field(&self, index: usize) -> Option<&str> {
        self.fields.as_ref()?.get(index)?.as_deref()
    }
}

impl Store {
    /// Reads at most [`READ_ROWS`] ledgers of one tenant, by scope and unit, at one moment.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read_ledgers(
        &self,
        tenant: &TenantId,
        ledgers: &[(String, Unit)],
    ) -> Result<Ledgers, StoreError> {
        let (keys, partition, tenant) = (self.keys(), tenant.partition(), tenant.as_str());
        let mut key_names = vec![keys.over_limit_or_in_debt(partition)];
        let mut names = Vec::with_capacity(ledgers.len());
        for (scope, unit) in ledgers {
            key_names.push(keys.budget(partition, tenant, unit.as_str(), scope));
            names.push(format!("{tenant} {unit} {scope}"));
        }
        let args: Vec<_> = names.iter().map(Arg::from).collect();
        let value = self
            .call_on(Lane::Background, &LEDGERS, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&LEDGERS, value)?;
        reply.next_str()?;
        let now_ms = reply.next_i64()?;
        let mut rows = Vec::with_capacity(ledgers.len());
        while !reply.is_empty() {
            rows.push(figures(reply.next_array()?)?);
        }
        Ok(Ledgers { now_ms, rows })
    }

    /// Reads at most [`READ_ROWS`] records of a tenant whose keys start with `prefix`, at one moment.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn read_records(
        &self,
        tenant: &TenantId,
        prefix: &str,
        ids: &[String],
    ) -> Result<Rows, StoreError> {
        let (keys, partition) = (self.keys(), tenant.partition());
        let key_names = [
            keys.due(partition, tenant.as_str()),
            keys.due_tenants(partition),
            keys.quarantine(partition),
        ];
        let mut args = vec![Arg::from(tenant.as_str()), Arg::from(prefix)];
        args.extend(ids.iter().map(Arg::from));
        let value = self
            .call_on(Lane::Background, &RECORDS, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&RECORDS, value)?;
        reply.next_str()?;
        reply.next_i64()?;
        let (first_due_ms, tenant_due_ms) = (time(&mut reply)?, time(&mut reply)?);
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            let mut row = reply.next_array()?;
            let (due_ms, quarantined_ms) = (time(&mut row)?, time(&mut row)?);
            let mut fields = Vec::with_capacity(row.len());
            while !row.is_empty() {
                fields.push(row.opt_str()?);
            }
            rows.push(Row {
                id: id.clone(),
                due_ms,
                quarantined_ms,
                fields: (!fields.is_empty()).then_some(fields),
            });
        }
        Ok(Rows {
            first_due_ms,
            tenant_due_ms,
            rows,
        })
    }

    /// Those of a tenant's days that have records, but that the partition's registry does not have.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn unregistered_days(
        &self,
        tenant: &TenantId,
        days: &[Day],
    ) -> Result<Vec<String>, StoreError> {
        let (keys, partition, name) = (self.keys(), tenant.partition(), tenant.as_str());
        let mut found = Vec::new();
        for days in days.chunks(READ_ROWS) {
            let mut key_names = vec![keys.days(partition)];
            for day in days {
                key_names.push(keys.reservations(partition, name, *day));
                key_names.push(keys.usage_events(partition, name, *day));
            }
            let members: Vec<_> = days.iter().map(|day| format!("{name}:{day}")).collect();
            let args: Vec<_> = members.iter().map(Arg::from).collect();
            let value = self
                .call_on(Lane::Background, &REGISTERED, &key_names, &args)
                .await?;
            let mut reply = Reply::new(&REGISTERED, value)?;
            reply.next_str()?;
            found.extend(reply.rest()?);
        }
        Ok(found)
    }

    /// Members of a sorted set between two scores, both included, in order and with their scores.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn scores_between(
        &self,
        key: &str,
        from: i64,
        to: i64,
        rows: usize,
    ) -> Result<Vec<(String, i64)>, StoreError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(key).arg(from).arg(to).arg("BYSCORE");
        command.arg("LIMIT").arg(0).arg(rows).arg("WITHSCORES");
        let reply = self.query(key, &command).await?;
        let pairs: Vec<(String, f64)> = redis::from_redis_value(reply).unwrap_or_default();
        Ok(pairs
            .into_iter()
            .map(|(id, score)| (id, score as i64))
            .collect())
    }

    /// The highest score of a sorted set, if it has any member.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn last_score(&self, key: &str) -> Result<Option<i64>, StoreError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(key).arg(-1).arg(-1).arg("WITHSCORES");
        let reply = self.query(key, &command).await?;
        let pairs: Vec<(String, f64)> = redis::from_redis_value(reply).unwrap_or_default();
        Ok(pairs.first().map(|(_, score)| *score as i64))
    }

    /// Members of a lexical sorted set, in order.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn members_of(&self, key: &str) -> Result<Vec<String>, StoreError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(key).arg(0).arg(-1);
        let reply = self.query(key, &command).await?;
        Ok(redis::from_redis_value(reply).unwrap_or_default())
    }

    /// Visits every key that matches a glob pattern, on all nodes, or for a partition on its own. A key that is there all
    /// the time is visited at least once, unless its slot moves meanwhile.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn scan(
        &self,
        pattern: &str,
        within: Option<Partition>,
        mut visit: impl FnMut(&str),
    ) -> Result<(), StoreError> {
        self.deployment().await?;
        let connection = &self.inner.connection;
        let nodes = match within {
            Some(partition) => {
                let slot = slot::of(self.keys().lease(partition).as_bytes());
                vec![connection.route(slot, self.deadline()).await?]
            }
            None => connection.nodes(self.deadline()).await?,
        };
        for node in nodes {
            let mut cursor = 0_u64;
            loop {
                let mut command = redis::cmd("SCAN");
                command
                    .arg(cursor)
                    .arg("MATCH")
                    .arg(pattern)
                    .arg("COUNT")
                    .arg(1_000);
                let deadline = Instant::now() + self.timeout();
                let reply = self
                    .ask(&node, &command, Lane::Background, deadline)
                    .await?;
                let (next, found): (u64, Vec<String>) =
                    redis::from_redis_value(reply).unwrap_or_default();
                found.iter().for_each(|key| visit(key));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn figures(mut reply: Reply) -> Result<Result<Option<Figures>, String>, StoreError> {
    if reply.is_empty() {
        return Ok(Err("the key holds no hash".to_owned()));
    }
    let mut fields = Vec::with_capacity(11);
    while !reply.is_empty() {
        fields.push(reply.opt_str()?);
    }
    if fields.iter().take(9).all(Option::is_none) {
        return Ok(Ok(None));
    }
    let names = [
        "allocated",
        "spent",
        "reserved",
        "debt",
        "remaining",
        "base_spent",
        "base_debt",
    ];
    let mut numbers = [0; 7];
    for (index, name) in names.iter().enumerate() {
        let text = fields.get(index + 1).and_then(Option::as_deref);
        // The bases came to be later than the ledger: absent is 0.
        let text = if name.starts_with("base") {
            text.or(Some("0"))
        } else {
            text
        };
        match text.and_then(|text| text.parse().ok()) {
            Some(number) => numbers[index] = number,
            None => return Ok(Err(format!("field `{name}` is missing or no integer"))),
        }
    }
    let [
        allocated,
        spent,
        reserved,
        debt,
        remaining,
        base_spent,
        base_debt,
    ] = numbers;
    let score = |index: usize| {
        fields
            .get(index)
            .and_then(|text| text.as_ref()?.parse().ok())
    };
    let strained = Strained {
        debt: score(9),
        over: score(10),
    };
    let is_over_limit = fields.get(8).and_then(Option::as_deref) == Some("1");
    Ok(Ok(Some(Figures {
        is_over_limit,
        strained,
        status: fields.swap_remove(0).unwrap_or_default(),
        allocated,
        spent,
        reserved,
        debt,
        remaining,
        base_spent,
        base_debt,
    })))
}

/// A score, or nothing.
fn time(reply: &mut Reply) -> Result<Option<i64>, StoreError> {
    let text = reply.opt_str()?;
    Ok(text
        .and_then(|text| text.parse::<f64>().ok())
        .map(|score| score as i64))
}
