//! The stock of a tenant: how much memory of Redis its data takes, and the refusal of more while memory is short.
//!
//! The stock is measured, not counted. What a record takes depends on the version and the settings of Redis by a factor of three, and a
//! count that each script keeps would slow every request down. A measurement costs about a millisecond of Redis's time, is right for data
//! of every age, and is made only while somebody needs it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::records::{Command, NO_ARGS, command};
use super::{Day, MemoryStep, OnFailure, Store, StoreError};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::refusal::StockTooLarge;

/// Nodes of a log that are measured: its entries are of several kinds, which come one after the other.
const STREAM_SAMPLES: &[&str] = &["SAMPLES", "100"];

/// Records of a kind whose memory is asked for; the others are assumed to take as much on average.
const SAMPLE: i64 = 200;
/// The last days from which deliveries are kept, today included.
const DELIVERY_DAYS: i64 = 15;
/// Subscriptions whose deliveries are looked at, and what a delivery takes where there is none.
const SUBSCRIPTIONS: i64 = 16;
const DELIVERY_BYTES: i64 = 600;
/// What the rows of an event and of an audit entry take in the views over all tenants, in bytes, where these are on the tenant's node.
const EVENT_ROWS: i64 = 1_000;
const AUDIT_ROWS: i64 = 600;
/// The last hours from which data with a TTL of a day is kept, besides the present one.
const SHORT_LIVED_HOURS: i64 = 24;
const HOUR_MS: i64 = 3_600_000;

/// A tenant that stores something is measured again when it could have reached its share if it stored this much in a millisecond.
const BYTES_PER_MS: u64 = 16 * 1024;
const AGAIN_MIN_MS: u64 = 200;
const AGAIN_MAX_MS: u64 = 60_000;

/// After so long without a request, a tenant is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// How long one pass measures tenants, since Redis has other things to do; and how long one may take.
const PASS: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_secs(2);

/// The bytes that a tenant's data takes in Redis, by kind.
///
/// Not part of it is what is small or gone within minutes, such as rates and counts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Stock(pub BTreeMap<&'static str, i64>);

impl Stock {
    /// All kinds together.
    pub fn bytes(&self) -> i64 {
        self.0.values().sum()
    }
}

/// Records that indexes list, and what they take with these.
struct Listed {
    count: i64,
    bytes: i64,
}

/// What a process knows of the stocks of tenants that store something while memory is short.
#[derive(Default)]
pub(super) struct SeenStocks(Mutex<HashMap<TenantId, SeenStock>>);

struct SeenStock {
    /// 0 before the first measurement.
    bytes: i64,
    /// Requests since the last measurement.
    requests: u32,
    again_at: Instant,
}

impl Store {
    /// Why nothing new of a tenant of this partition is stored now; `None` where it is.
    pub fn refuses_new(&self, tenant: &TenantId, partition: Partition) -> Option<StoreError> {
        let step = self.memory_step(partition);
        if step == MemoryStep::Enough {
            return None;
        }
        let too_large = self.stock_too_large(tenant).map(StoreError::from);
        too_large.or_else(|| (step == MemoryStep::Refuse).then_some(StoreError::Full))
    }

    /// The refusal of more for a tenant that takes more than its share while memory is short. Asking makes this process measure the
    /// tenant soon.
    pub fn stock_too_large(&self, tenant: &TenantId) -> Option<StockTooLarge> {
        let limit = self.stock_limit(tenant)?;
        let mut stocks = self.inner.stocks.0.lock();
        let seen = match stocks.get_mut(tenant) {
            Some(seen) => seen,
            None => stocks.entry(tenant.clone()).or_insert(SeenStock {
                bytes: 0,
                requests: 0,
                again_at: Instant::now(),
            }),
        };
        seen.requests = seen.requests.saturating_add(1);
        let present = seen.bytes;
        (present > limit).then_some(StockTooLarge { limit, present })
    }

    /// The share of a tenant in bytes; `None` while memory is not short.
    fn stock_limit(&self, tenant: &TenantId) -> Option<i64> {
        let share = self.memory_share(tenant.partition());
        let limit = share.bytes_of(self.inner.options.tenant_share_percent);
        let is_short = MemoryStep::at(share) > MemoryStep::Enough && limit > 0;
        is_short.then(|| i64::try_from(limit).unwrap_or(i64::MAX))
    }

    /// Measures tenants that store something while memory is short, those with the most requests first.
    pub(super) async fn look_at_stocks(&self) {
        let begin = Instant::now();
        let mut due: Vec<(u32, TenantId)> = {
            let mut stocks = self.inner.stocks.0.lock();
            let is_short = MemoryStep::at(self.fullest_share()) > MemoryStep::Enough;
            // One that stores nothing any more is forgotten: what was measured gets old.
            stocks.retain(|_, seen| {
                is_short && (seen.requests > 0 || begin < seen.again_at + FORGOTTEN)
            });
            let due = stocks
                .iter()
                .filter(|(_, seen)| seen.requests > 0 && seen.again_at <= begin);
            due.map(|(tenant, seen)| (seen.requests, tenant.clone()))
                .collect()
        };
        due.sort_by_key(|(requests, _)| Reverse(*requests));
        for (_, tenant) in due {
            if begin.elapsed() > PASS {
                break;
            }
            match timeout(LOOK, self.stock_of(&tenant)).await {
                Ok(Ok(stock)) => self.note_stock(&tenant, stock.bytes()),
                Ok(Err(error)) => debug!(%error, "cannot measure {tenant}: {error}"),
                Err(_) => debug!("measuring {tenant} takes too long"),
            }
        }
        let largest = self.inner.stocks.0.lock();
        let largest = largest.values().map(|seen| seen.bytes).max();
        self.metrics().largest_stock.set(largest.unwrap_or(0));
    }

    fn note_stock(&self, tenant: &TenantId, bytes: i64) {
        let Some(limit) = self.stock_limit(tenant) else {
            // Another node may still be short of memory.
            self.inner.stocks.0.lock().remove(tenant);
            return;
        };
        let room = u64::try_from(limit - bytes).unwrap_or(0);
        let again_ms = (room / BYTES_PER_MS).clamp(AGAIN_MIN_MS, AGAIN_MAX_MS);
        let seen = SeenStock {
            bytes,
            requests: 0,
            again_at: Instant::now() + Duration::from_millis(again_ms),
        };
        let before = self.inner.stocks.0.lock().insert(tenant.clone(), seen);
        if bytes > limit && before.is_none_or(|before| before.bytes <= limit) {
            warn!(
                tenant_id = %tenant, bytes, limit,
                "{tenant} takes {bytes} bytes of Redis, more than its share of {limit} (BUDGET_TENANT_MEMORY_SHARE): nothing new is \
                 stored for it while memory is short"
            );
        }
    }
}

impl Store {
    /// Measures what a tenant's data takes in Redis. Of many records of a kind it asks for a sample.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn stock_of(&self, tenant: &TenantId) -> Result<Stock, StoreError> {
        let (name, keys) = (tenant.as_str(), self.keys().of(tenant.partition()));
        let days = self.days_of(tenant).await?;
        let reservations = keys_of(&days, |day| keys.reservations(name, day));
        let reservations = self.memory_of_listed(reservations, |id| keys.reservation(id));
        let due = self.memory_of(vec![keys.due(name), keys.other_graces(name)], &[]);
        let usage_events = keys_of(&days, |day| keys.usage_events(name, day));
        let usage_events = self.memory_of_listed(usage_events, |id| keys.usage_event(id));
        let events = keys_of(&days, |day| keys.events(name, day));
        let mut audit = keys_of(&days, |day| keys.audit(name, day));
        let (emitted, audited) = tokio::try_join!(self.entries(&events), self.entries(&audit))?;
        let (own, views) = (keys.days(), self.keys().view_cursors());
        let has_views = self.share_a_node(&own, &views).await?;
        let views = i64::from(has_views) * (emitted * EVENT_ROWS + audited * AUDIT_ROWS);
        audit.extend(keys_of(&days, |day| keys.seals(name, day)));
        let events = self.memory_of(events, STREAM_SAMPLES);
        let audit = self.memory_of(audit, STREAM_SAMPLES);
        let ledger = |entry: &str| self.ledger_key(tenant, entry);
        let budgets = self.memory_of_listed(vec![keys.budgets(name)], ledger);
        let policies = vec![keys.policies(name)];
        let policies = self.memory_of_listed(policies, |id| keys.policy(id));
        let api_keys = vec![keys.api_keys(name)];
        let api_keys = self.memory_of_listed(api_keys, |id| keys.api_key(id));
        let webhooks = vec![keys.webhooks(name)];
        let webhooks = self.memory_of_listed(webhooks, |id| keys.webhook(id));
        let listed = tokio::try_join!(
            reservations,
            usage_events,
            budgets,
            policies,
            api_keys,
            webhooks
        );
        let (reservations, usage_events, budgets, policies, api_keys, webhooks) = listed?;
        let (deliveries, short_lived) = (self.deliveries(tenant), self.short_lived(tenant));
        let usage = self.usage_bytes(tenant, &days);
        let evidence = self.envelopes_of(tenant);
        let others = tokio::try_join!(due, events, audit, deliveries, short_lived, evidence, usage);
        let (due, events, audit, deliveries, short_lived, evidence, usage) = others?;
        Ok(Stock(BTreeMap::from([
            ("api_keys", api_keys.bytes),
            ("audit", audit),
            ("budgets", budgets.bytes),
            ("deliveries", deliveries),
            ("events", events),
            ("evidence", evidence),
            ("policies", policies.bytes),
            ("reservations", reservations.bytes + due),
            ("short_lived", short_lived),
            ("usage", usage),
            ("usage_events", usage_events.bytes),
            ("views", views),
            ("webhooks", webhooks.bytes),
        ])))
    }

    /// The days of which a tenant has anything.
    async fn days_of(&self, tenant: &TenantId) -> Result<BTreeSet<Day>, StoreError> {
        let (key, begin) = (self.keys().days(tenant.partition()), format!("{tenant}:"));
        let pattern = format!("{begin}*");
        let (mut days, mut cursor) = (BTreeSet::from([self.today()]), 0_u64);
        loop {
            let page = (cursor, "MATCH", &pattern, "COUNT", 1_000);
            let page = command("ZSCAN", key.clone(), page);
            let (next, found): (u64, Vec<String>) = self.read(page).await?;
            let day = |member: &String| Day::parse(member.strip_prefix(&begin)?);
            days.extend(found.iter().filter_map(day));
            cursor = next;
            if cursor == 0 {
                return Ok(days);
            }
        }
    }

    /// What sorted sets take, and the records that they list, as far as a sample of these shows.
    async fn memory_of_listed(
        &self,
        indexes: Vec<String>,
        record: impl Fn(&str) -> String,
    ) -> Result<Listed, StoreError> {
        let count = |index: &String| command("ZCARD", index.clone(), NO_ARGS);
        let counts: Vec<i64> = self.ask(indexes.iter().map(count)).await?;
        let all: i64 = counts.iter().sum();
        let filled = indexes
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0);
        let filled: Vec<_> = filled.collect();
        let choose = |(index, count): &(String, i64)| {
            let part = (SAMPLE * count + all - 1) / all;
            command("ZRANDMEMBER", index.clone(), part)
        };
        let chosen: Vec<Vec<String>> = self.ask(filled.iter().map(choose)).await?;
        let keys = chosen.iter().flatten().map(|it| record(it)).collect();
        // Every field counts: one may be as large as all others together.
        let sizes = self.memory_of_each(keys, &["SAMPLES", "0"]).await?;
        let mut sizes = sizes.into_iter();
        // Each index by its own sample: the records of another day may be of another size.
        let mut records = 0;
        for ((_, count), chosen) in filled.iter().zip(&chosen) {
            let sum: i64 = sizes.by_ref().take(chosen.len()).sum();
            records += sum * count / i64::try_from(chosen.len()).unwrap_or(1).max(1);
        }
        let indexes = filled.into_iter().map(|(index, _)| index).collect();
        let indexes = self.memory_of(indexes, &[]).await?;
        Ok(Listed {
            count: all,
            bytes: records + indexes,
        })
    }

    /// What keys take.
    pub(super) async fn memory_of(
        &self,
        keys: Vec<String>,
        samples: &[&str],
    ) -> Result<i64, StoreError> {
        let bytes = self.memory_of_each(keys, samples).await?;
        Ok(bytes.iter().sum())
    }

    async fn memory_of_each(
        &self,
        keys: Vec<String>,
        samples: &[&str],
    ) -> Result<Vec<i64>, StoreError> {
        let usage = |key: String| {
            let mut command = redis::cmd("MEMORY");
            command.arg("USAGE").arg(&key).arg(samples);
            (key, command)
        };
        self.ask(keys.into_iter().map(usage)).await
    }

    /// What the deliveries of a tenant take. Those of deleted subscriptions are in no index, but counted.
    async fn deliveries(&self, tenant: &TenantId) -> Result<i64, StoreError> {
        let keys = self.keys().of(tenant.partition());
        let some = command("ZRANDMEMBER", keys.webhooks(tenant.as_str()), SUBSCRIPTIONS);
        let some: Vec<Vec<String>> = self.ask([some]).await?;
        let days: BTreeSet<Day> = (0..DELIVERY_DAYS)
            .map(|ago| self.today().plus(-ago))
            .collect();
        let queued = |id: &String| keys_of(&days, |day| keys.deliveries(id, day));
        let queued = some.iter().flatten().flat_map(queued).collect();
        // A member is a number, and the id.
        let delivery = |member: &str| keys.delivery(member.rsplit(' ').next().unwrap_or(member));
        let listed = self.memory_of_listed(queued, delivery).await?;
        let field = |day: &Day| format!("{tenant} {day}");
        let fields: Vec<_> = days.iter().map(field).collect();
        let counts = command("HMGET", keys.queued_deliveries(), fields);
        let counts: Vec<Vec<Option<i64>>> = self.ask([counts]).await?;
        let count: i64 = counts.iter().flatten().flatten().sum();
        let each = listed.bytes.checked_div(listed.count);
        Ok(listed.bytes.max(count * each.unwrap_or(DELIVERY_BYTES)))
    }

    /// What no index lists, as the scripts that write it have counted it.
    async fn short_lived(&self, tenant: &TenantId) -> Result<i64, StoreError> {
        let key = self.keys().short_lived(tenant.partition(), tenant.as_str());
        let read = command("HGETALL", key, NO_ARGS);
        let fields: Vec<HashMap<String, i64>> = self.ask([read]).await?;
        let oldest = self.clock().now_ms() / HOUR_MS - SHORT_LIVED_HOURS;
        let is_kept = |field: &str| field.parse::<i64>().is_ok_and(|hour| hour >= oldest);
        let kept = fields.iter().flatten().filter(|(hour, _)| is_kept(hour));
        Ok(kept.map(|(_, bytes)| bytes).sum())
    }

    async fn entries(&self, logs: &[String]) -> Result<i64, StoreError> {
        let count = |log: &String| command("XLEN", log.clone(), NO_ARGS);
        let counts: Vec<i64> = self.ask(logs.iter().map(count)).await?;
        Ok(counts.iter().sum())
    }

    /// What the envelopes of a tenant's evidence take, as signers have counted them; on a cluster, on a node.
    async fn envelopes_of(&self, tenant: &TenantId) -> Result<i64, StoreError> {
        let key = self.keys().envelopes(tenant.partition(), tenant.as_str());
        let fields: Vec<HashMap<String, i64>> =
            self.ask([command("HGETALL", key, NO_ARGS)]).await?;
        let today = self.today().to_string();
        let kept = fields.iter().flatten().filter(|(day, _)| **day >= today);
        let bytes: i64 = kept.map(|(_, bytes)| bytes).sum();
        let nodes = self.inner.connection.nodes(self.begin_call()?.deadline);
        Ok(bytes / i64::try_from(nodes.await?.len()).unwrap_or(1).max(1))
    }

    /// The replies of commands; nothing in place of that of a key of another type. Where some have no reply, none is returned: the rest
    /// would be too little.
    async fn ask<T: redis::FromRedisValue + Default>(
        &self,
        commands: impl IntoIterator<Item = Command>,
    ) -> Result<Vec<T>, StoreError> {
        let replies = self.read_each(OnFailure::Skip, commands).await?;
        replies.into_iter().collect()
    }
}

/// A key for each day.
fn keys_of(days: &BTreeSet<Day>, key: impl Fn(Day) -> String) -> Vec<String> {
    days.iter().map(|day| key(*day)).collect()
}
