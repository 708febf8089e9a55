//! Gives the events of the outboxes to the subscriptions that they are for: queues a delivery for each, exactly once.
//!
//! The worker keeps no place between passes. A script moves the cursor of an outbox together with the deliveries that it
//! queues, and only from where it was read. A tenant's own subscriptions lie in the partition of its outbox; those of the
//! operator lie in partition `000`, which has a cursor for each partition.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::events::OutboxEntry;
use super::fan_out_plan::{Audience, AudienceCursor, CALL_COST, Plan, Step};
use super::partition_failures::PartitionFailures;
use super::poll_schedule::PollSchedule;
use super::state::{DeliverySignal, log_damage};
use super::subscriptions::{OutboxLocation, Subscribers, SubscriptionCache};
use crate::dispatcher::due::partitions;
use crate::dispatcher::outboxes::{OutboxCursor, Outboxes};
use crate::dispatcher::workers::{Next, lease_worker};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::tenant::SYSTEM;
use crate::metrics::metrics;
use crate::store::dispatcher::fan_out::{FanOutPart, FanOutReply};
use crate::store::signature::Counted;
use crate::store::{Lease, Store, StoreError};

/// The pause after a pass that failed.
const FAILURE_PAUSE: Duration = Duration::from_millis(50);

/// How long a pass may take; the next one starts where it ended.
const PASS_LIMIT: Duration = Duration::from_millis(250);

/// The most outboxes in one call.
const OUTBOXES_PER_CALL: usize = 100;

metrics! {
    /// Metrics of the fan-out.
    struct FanOutMetrics {
        /// Age of the oldest event that the last pass found in the outboxes of the leased partitions; 0 where it found none.
        lag: Gauge = "budget_webhook_lag_seconds",
        /// The same of each leased partition that is more than a second behind, the 64 that are furthest at most.
        partition_lag: GaugeVec["partition"] = "budget_webhook_partition_lag_seconds",
        /// Deliveries of events to webhooks that were queued.
        queued: IntCounter = "budget_webhook_deliveries_queued_total",
        /// Events that no webhook gets, because they or the list of their tenant's webhooks are damaged or gone.
        skipped: IntCounter = "budget_webhook_events_skipped_total",
        /// Times that the record of a webhook could not be read; its events wait meanwhile.
        unreadable: IntCounter = "budget_webhook_unreadable_records_total",
    }
}

/// Result of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FanOutPass {
    /// Deliveries queued.
    pub queued: i64,
    /// Outbox entries read.
    pub followed: usize,
    /// Cursors moved.
    pub moved: usize,
    /// Whether there may be more.
    pub more: bool,
}

/// Queues deliveries.
pub struct FanOut {
    store: Store,
    outboxes: Arc<Outboxes>,
    subscriptions: SubscriptionCache,
    lane_concurrency: u32,
    queued: Arc<DeliverySignal>,
    failures: Mutex<PartitionFailures>,
    schedule: parking_lot::Mutex<PollSchedule>,
    metrics: FanOutMetrics,
    /// Partitions with a lag of their own in the metrics.
    lagging: parking_lot::Mutex<BTreeSet<Partition>>,
}

/// The steps of an outbox that are still to be made, with its cursor.
type PlannedOutbox = (AudienceCursor, VecDeque<Step>);

impl FanOut {
    /// A worker over `store`. It signals new deliveries by `queued`. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(
        store: Store,
        outboxes: Arc<Outboxes>,
        lane_concurrency: u32,
        queued: Arc<DeliverySignal>,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let metrics = FanOutMetrics::register(registry)?;
        Ok(Self {
            subscriptions: SubscriptionCache::new(store.clone(), Some(metrics.unreadable.clone())),
            outboxes,
            failures: Mutex::new(PartitionFailures::new(store.clone(), "events")),
            store,
            lane_concurrency,
            queued,
            schedule: parking_lot::Mutex::default(),
            metrics,
            lagging: parking_lot::Mutex::default(),
        })
    }

    /// Does one pass over those partitions of `leases` that are due.
    async fn run_due(&self, leases: &[Lease]) -> Result<Next, StoreError> {
        let due = self.schedule.lock().due(leases);
        let pass = self.pass(&due).await?;
        Ok(match pass.more && pass.moved > 0 {
            true => Next::Now,
            false => Next::After(self.schedule.lock().pause()),
        })
    }

    /// Does one pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable or after the other partitions were served, when one takes no deliveries. Unreadable
    /// events are logged, counted and skipped.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<FanOutPass, StoreError> {
        self.schedule.lock().forget_all();
        self.pass(leases).await
    }

    async fn pass(&self, leases: &[Lease]) -> Result<FanOutPass, StoreError> {
        let mut pass = FanOutPass::default();
        let mut partitions = partitions(leases);
        if partitions.is_empty() {
            return Ok(pass);
        }
        self.schedule.lock().rotate(&mut partitions);
        let cursors = self.cursors(&partitions).await?;
        let places: BTreeSet<OutboxCursor> = cursors.iter().map(AudienceCursor::place).collect();
        let read = self
            .outboxes
            .read_events(&places, &self.metrics.skipped)
            .await?;
        (pass.followed, pass.more) = (read.pointers, read.more);
        self.schedule.lock().found(&partitions, &read);
        self.set_lags();
        let until = Instant::now() + PASS_LIMIT;
        let mut failures = self.failures.lock().await;
        failures.begin();
        let (mut of_system, mut system_fails) = (VecDeque::new(), false);
        for cursor in cursors {
            let is_system = cursor.audience == Audience::System;
            if Instant::now() > until && !is_system {
                self.schedule.lock().resume_at(cursor.partition);
                pass.more = true;
                break;
            }
            // Nothing was read from a node that is out of reach.
            let Some(entries) = read.outboxes.get(&cursor.place()) else {
                continue;
            };
            let home = cursor.home();
            if is_system && system_fails || failures.leave_out(home).await {
                continue;
            }
            let queued = match self.plan(&cursor, entries).await {
                Ok(plan) => {
                    pass.more |= plan.is_cut;
                    let planned = (cursor, VecDeque::from(plan.steps));
                    match is_system {
                        true => {
                            of_system.push_back(planned);
                            Ok(())
                        }
                        false => {
                            self.queue_all(home, VecDeque::from([planned]), &mut pass)
                                .await
                        }
                    }
                }
                Err(failure) => Err(failure),
            };
            if let Err(failure) = queued {
                self.schedule.lock().forget_all();
                failures.note(home, failure);
                system_fails |= is_system;
            }
        }
        if !failures.leave_out(Partition::FIRST).await
            && let Err(failure) = self.queue_all(Partition::FIRST, of_system, &mut pass).await
        {
            self.schedule.lock().forget_all();
            failures.note(Partition::FIRST, failure);
        }
        self.metrics.queued.inc_by(pass.queued.unsigned_abs());
        failures.end()?;
        Ok(pass)
    }

    /// The cursors of both audiences in these outboxes, without those whose node is out of reach.
    async fn cursors(&self, partitions: &[Partition]) -> Result<Vec<AudienceCursor>, StoreError> {
        let unknown = self.schedule.lock().unknown(partitions);
        if !unknown.is_empty() {
            let read = self.store.fan_out_cursors(&unknown).await?;
            self.schedule.lock().know(unknown.into_iter().zip(read));
        }
        let schedule = self.schedule.lock();
        let cursors = partitions.iter().map(|it| schedule.cursors(*it));
        Ok(cursors.flatten().collect())
    }

    /// Sets the metrics of how far behind the outboxes are.
    fn set_lags(&self) {
        let now_ms = u64::try_from(self.store.clock().now_ms()).unwrap_or(0);
        let (worst_ms, lags_ms) = self.schedule.lock().lags_ms(now_ms);
        self.metrics.lag.set(worst_ms as f64 / 1e3);
        let metric = &self.metrics.partition_lag;
        for (partition, lag_ms) in &lags_ms {
            let lag = metric.with_label_values(&[&partition.to_string()]);
            lag.set(*lag_ms as f64 / 1e3);
        }
        let mut lagging = self.lagging.lock();
        for gone in lagging.iter().filter(|known| !lags_ms.contains_key(known)) {
            let _ = metric.remove_label_values(&[&gone.to_string()]);
        }
        *lagging = lags_ms.into_keys().collect();
    }

    /// Plans what is queued of an outbox.
    async fn plan(
        &self,
        cursor: &AudienceCursor,
        entries: &[OutboxEntry],
    ) -> Result<Plan, StoreError> {
        let events = entries
            .iter()
            .flat_map(|(_, events)| events.iter().flatten());
        let owners: BTreeSet<&str> = events.filter_map(|e| cursor.owner_of(e)).collect();
        let owners: Vec<String> = owners.into_iter().map(str::to_owned).collect();
        let subscribers = self.subscriptions.of(&owners).await?;
        if cursor.audience == Audience::System && subscribers.iter().any(|of| of.is_unknown) {
            return Err(StoreError::ErrorReply {
                code: "WRONGTYPE".to_owned(),
                detail: self.store.webhooks_key(SYSTEM),
            });
        }
        let subscribers: HashMap<&str, &Subscribers> = owners
            .iter()
            .map(String::as_str)
            .zip(&subscribers)
            .collect();
        let outbox = OutboxLocation::of(&self.store, cursor.home(), cursor.partition).await?;
        let takes_too_much = |owner: &&str| {
            let subscribes = !subscribers[owner].active.is_empty();
            let tenant = TenantId::parse(owner).filter(|_| subscribes);
            tenant.is_some_and(|tenant| self.store.stock_too_large(&tenant).is_some())
        };
        let owners = owners.iter().map(String::as_str);
        let full = owners.filter(takes_too_much).collect();
        let plan = cursor.plan(entries, &subscribers, &full, outbox);
        self.metrics.skipped.inc_by(plan.skipped);
        Ok(plan)
    }

    /// Queues what was planned for the subscriptions of a partition, of several outboxes in one call.
    async fn queue_all(
        &self,
        home: Partition,
        mut outboxes: VecDeque<PlannedOutbox>,
        pass: &mut FanOutPass,
    ) -> Result<(), StoreError> {
        while !outboxes.is_empty() {
            let (mut parts, mut cost) = (Vec::new(), 0);
            // One step of each outbox, because the next one starts where it ends.
            for (cursor, steps) in &mut outboxes {
                let fits = |step: &Step| cost == 0 || cost + step.cost <= CALL_COST;
                if parts.len() < OUTBOXES_PER_CALL && steps.front().is_some_and(fits) {
                    let step = steps.pop_front().expect("it is there");
                    cost += step.cost;
                    parts.push((&*cursor, step));
                }
            }
            let all_moved = self.queue(home, parts, pass).await?;
            outboxes.retain(|(_, steps)| !steps.is_empty());
            if !all_moved {
                break;
            }
        }
        Ok(())
    }

    /// Makes one step of some outboxes. Returns whether all their cursors moved.
    async fn queue(
        &self,
        home: Partition,
        steps: Vec<(&AudienceCursor, Step)>,
        pass: &mut FanOutPass,
    ) -> Result<bool, StoreError> {
        let mut owners: Vec<(String, String)> = Vec::new();
        let (mut expected, mut parts) = (Vec::new(), Vec::<FanOutPart>::new());
        for (cursor, step) in steps {
            let Some(next) = step.next else { continue };
            for owner in step.owners {
                if !owners.contains(&owner) {
                    owners.push(owner);
                }
            }
            let number = |owner: &str| owners.iter().position(|(name, _)| name == owner);
            let deliveries = step.deliveries.into_iter().map(|(owner, mut delivery)| {
                delivery.0.0 = number(&owner).map_or(0, |at| at + 1);
                delivery
            });
            let deliveries = Counted(deliveries.collect());
            let read = step.read.map(|read| read.to_string()).unwrap_or_default();
            parts.push(((cursor.field(), read, next.to_string()), deliveries));
            expected.push((cursor, next));
        }
        if parts.is_empty() {
            return Ok(true);
        }
        let (queued, damaged, cursors) = loop {
            let reply = self
                .store
                .fan_out(home, self.lane_concurrency, &owners, &parts)
                .await?;
            match reply {
                FanOutReply::Stale { owners } => {
                    self.subscriptions.forget(&owners);
                    pass.more = true;
                    return Ok(false);
                }
                // One subscription after the other forgets what it missed.
                FanOutReply::Forgot => {}
                FanOutReply::Fanned {
                    queued,
                    damaged,
                    cursors,
                } => break (queued, damaged, cursors),
            }
        };
        for line in damaged.lines().filter(|line| !line.is_empty()) {
            log_damage(home, line);
        }
        pass.queued += queued;
        if queued > 0 {
            self.queued.partition(home);
        }
        let (mut schedule, mut all_moved) = (self.schedule.lock(), true);
        for ((cursor, next), found) in expected.into_iter().zip(cursors) {
            if next.to_string() == found {
                pass.moved += 1;
                schedule.moved(cursor.partition, cursor.audience, next);
            } else {
                all_moved = false;
                schedule.forget(cursor.partition);
            }
        }
        Ok(all_moved)
    }
}

lease_worker!(
    FanOut: "fan_out", FAILURE_PAUSE,
    |worker, leases, _| worker.run_due(leases).await?
);
