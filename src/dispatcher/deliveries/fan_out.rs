//! Gives the events of the outboxes to the subscriptions that they are for: queues a delivery for each, exactly once.
//!
//! The worker keeps no place between passes. A script moves the cursor of an outbox together with the deliveries that it
//! queues, and only from where it was read. A tenant's own subscriptions lie in the partition of its outbox; those of the
//! operator lie in partition `000`, which has a cursor for each partition.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use prometheus::Registry;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::events::{EventReader, PointerOf};
use super::failures::Failures;
use super::following::{Audience, Chunk, DELIVERIES, Following};
use super::inner::log_damage;
use super::rounds::Rounds;
use super::subscriptions::{Hooks, Outbox, Remembered};
use super::wake::Wake;
use crate::dispatcher::due::partitions;
use crate::dispatcher::outboxes::Outboxes;
use crate::dispatcher::workers::{Next, lease_worker};
use crate::domain::ids::Partition;
use crate::domain::tenant::SYSTEM;
use crate::metrics::metrics;
use crate::store::dispatcher::fan_out::{Cursors, FanOutPart, Fanned};
use crate::store::signature::Counted;
use crate::store::{Lease, Store, StoreError};

/// The pause after a pass that failed.
const AGAIN: Duration = Duration::from_millis(50);

/// How long a pass may take before the next one looks what is new; that one goes on where this one ended.
const PASS: Duration = Duration::from_millis(250);

/// Outboxes of one call at most.
const PARTS: usize = 100;

metrics! {
    /// Metrics of the fan-out.
    struct FanOutMetrics {
        /// Age of the oldest event that the last pass found in the outboxes of the leased partitions; 0 where it found none.
        lag: Gauge = "budget_webhook_lag_seconds",
        /// The same of each leased partition that is more than a second behind, the 64 that are furthest at most.
        partition_lag: GaugeVec["partition"] = "budget_webhook_partition_lag_seconds",
        /// Deliveries of events to webhooks that were queued.
        queued: IntCounter = "budget_webhook_deliveries_queued_total",
        /// Events that no webhook gets, because they are damaged or gone.
        skipped: IntCounter = "budget_webhook_events_skipped_total",
        /// Times that the record of a webhook could not be read; its events wait meanwhile.
        unreadable: IntCounter = "budget_webhook_unreadable_records_total",
    }
}

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FanOutPass {
    /// Deliveries queued.
    pub queued: i64,
    /// Pointers followed.
    pub followed: usize,
    /// Cursors moved.
    pub moved: usize,
    /// Whether there may be more.
    pub more: bool,
}

/// Queues deliveries.
pub struct FanOut {
    store: Store,
    reader: EventReader,
    remembered: Remembered,
    lane_concurrency: u32,
    queued: Arc<Wake>,
    failures: Mutex<Failures>,
    rounds: std::sync::Mutex<Rounds>,
    metrics: FanOutMetrics,
    /// Of which partitions the lag is told.
    lagging: std::sync::Mutex<BTreeSet<Partition>>,
}

impl FanOut {
    /// A worker over `store`. It wakes `queued` for new deliveries. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(
        store: Store,
        outboxes: Arc<Outboxes>,
        lane_concurrency: u32,
        queued: Arc<Wake>,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let metrics = FanOutMetrics::register(registry)?;
        Ok(Self {
            remembered: Remembered::new(store.clone(), Some(metrics.unreadable.clone())),
            reader: EventReader { outboxes },
            failures: Mutex::new(Failures::new(store.clone(), "events")),
            store,
            lane_concurrency,
            queued,
            rounds: std::sync::Mutex::default(),
            metrics,
            lagging: std::sync::Mutex::default(),
        })
    }

    /// Does one pass over those partitions of `leases` that are to be looked at now.
    async fn look(&self, leases: &[Lease]) -> Result<Next, StoreError> {
        let due = self.rounds().due(leases);
        let pass = self.follow(&due).await?;
        Ok(match pass.more && pass.moved > 0 {
            true => Next::Now,
            false => Next::After(self.rounds().pause()),
        })
    }

    /// Does one pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable or a partition takes no deliveries; the others have theirs then. Unreadable events
    /// are logged, counted and passed over.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<FanOutPass, StoreError> {
        self.rounds().forget_all();
        self.follow(leases).await
    }

    async fn follow(&self, leases: &[Lease]) -> Result<FanOutPass, StoreError> {
        let mut pass = FanOutPass::default();
        let mut partitions = partitions(leases);
        if partitions.is_empty() {
            return Ok(pass);
        }
        self.rounds().rotate(&mut partitions);
        let mut all = Vec::new();
        for (partition, [own, system]) in self.cursors(&partitions).await? {
            // Where a node is out of reach, the others need not wait.
            for (audience, cursors) in [(Audience::Own, own), (Audience::System, system)] {
                if let Some(cursors) = cursors {
                    let waits =
                        |tenant: &str| audience == Audience::Own && self.remembered.lacks(tenant);
                    all.extend(Following::of(partition, audience, cursors, waits));
                }
            }
        }
        let reads = Following::reads(&all);
        let read = self.reader.read(&reads, &self.metrics.skipped).await?;
        (pass.followed, pass.more) = (read.pointers, read.more);
        self.rounds().found(&partitions, &read);
        self.tell_lags();
        let until = Instant::now() + PASS;
        let mut failures = self.failures.lock().await;
        failures.begin();
        let (mut of_system, mut system_fails) = (VecDeque::new(), false);
        for following in all {
            if Instant::now() > until && following.audience == Audience::Own {
                self.rounds().resume_at(following.partition);
                pass.more = true;
                break;
            }
            let outbox = read.outboxes.get(&following.from());
            let (home, is_system) = (following.home(), following.audience == Audience::System);
            let waits = outbox.is_none() && !following.is_apart() || is_system && system_fails;
            if waits || failures.leave_out(home).await {
                continue;
            }
            let outbox = outbox.map_or(&[][..], Vec::as_slice);
            let queued = match self.chunks(&following, outbox, &mut pass).await {
                Ok(chunks) if is_system => {
                    of_system.push_back((following.field(), VecDeque::from(chunks)));
                    Ok(())
                }
                Ok(chunks) => self.queue_for_tenants(&following, chunks, &mut pass).await,
                Err(failure) => Err(failure),
            };
            if let Err(failure) = queued {
                self.rounds().forget_all();
                failures.note(home, failure);
                system_fails |= is_system;
            }
        }
        if !failures.leave_out(Partition::FIRST).await
            && let Err(failure) = self.queue_for_system(of_system, &mut pass).await
        {
            self.rounds().forget_all();
            failures.note(Partition::FIRST, failure);
        }
        self.metrics.queued.inc_by(pass.queued.unsigned_abs());
        failures.end()?;
        Ok(pass)
    }

    /// The cursors of these outboxes.
    async fn cursors(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<(Partition, [Option<Cursors>; 2])>, StoreError> {
        let unknown = self.rounds().unknown(partitions);
        let mut read = HashMap::new();
        if !unknown.is_empty() {
            let cursors = self.store.fanned_to(&unknown).await?;
            let mut rounds = self.rounds();
            for (partition, cursors) in unknown.into_iter().zip(cursors) {
                read.insert(partition, rounds.know(partition, cursors));
            }
        }
        let rounds = self.rounds();
        let of = |partition: &Partition| {
            let cursors = read.remove(partition);
            (
                *partition,
                cursors.unwrap_or_else(|| rounds.cursors(*partition)),
            )
        };
        Ok(partitions.iter().map(of).collect())
    }

    /// Sets the metrics of how far behind the outboxes are.
    fn tell_lags(&self) {
        let now_ms = u64::try_from(self.store.clock().now_ms()).unwrap_or(0);
        let (worst_ms, lags_ms) = self.rounds().lags_ms(now_ms);
        self.metrics.lag.set(worst_ms as f64 / 1e3);
        let lag = |partition: &Partition| {
            let metric = &self.metrics.partition_lag;
            metric.with_label_values(&[&partition.to_string()])
        };
        for (partition, lag_ms) in &lags_ms {
            lag(partition).set(*lag_ms as f64 / 1e3);
        }
        let mut told = self.lagging.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in told.iter().filter(|known| !lags_ms.contains_key(known)) {
            let metric = &self.metrics.partition_lag;
            let _ = metric.remove_label_values(&[&gone.to_string()]);
        }
        *told = lags_ms.into_keys().collect();
    }

    fn rounds(&self) -> std::sync::MutexGuard<'_, Rounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be queued of an outbox behind a cursor, some at a time.
    async fn chunks(
        &self,
        following: &Following,
        outbox: &[PointerOf],
        pass: &mut FanOutPass,
    ) -> Result<Vec<Chunk>, StoreError> {
        let events = outbox
            .iter()
            .flat_map(|(_, events)| events.iter().flatten());
        let owners: BTreeSet<&str> = events.filter_map(|e| following.owner_of(e)).collect();
        let owners: Vec<String> = owners.into_iter().map(str::to_owned).collect();
        let hooks = self.remembered.of(&owners).await?;
        if following.audience == Audience::System && hooks.iter().any(|hooks| hooks.is_unknown) {
            return Err(StoreError::Refused {
                code: "WRONGTYPE".to_owned(),
                detail: self.store.webhooks_key(SYSTEM),
            });
        }
        let hooks: HashMap<&str, &Hooks> = owners.iter().map(String::as_str).zip(&hooks).collect();
        let lies = Outbox::of(&self.store, following.home(), following.partition).await?;
        let (chunks, is_cut) = following.chunks(outbox, &hooks, lies);
        pass.more |= is_cut;
        Ok(chunks)
    }

    /// Queues for the tenants of a partition.
    async fn queue_for_tenants(
        &self,
        following: &Following,
        chunks: Vec<Chunk>,
        pass: &mut FanOutPass,
    ) -> Result<(), StoreError> {
        for chunk in chunks {
            let parts = vec![(following.field(), chunk)];
            if !self.queue(following.partition, parts, pass).await? {
                break;
            }
        }
        Ok(())
    }

    /// Queues for the operator, for many outboxes at a time.
    async fn queue_for_system(
        &self,
        mut outboxes: VecDeque<(String, VecDeque<Chunk>)>,
        pass: &mut FanOutPass,
    ) -> Result<(), StoreError> {
        while !outboxes.is_empty() {
            let (mut parts, mut deliveries) = (Vec::new(), 0);
            // One of each outbox, because the next begins where it ends.
            for (field, chunks) in &mut outboxes {
                let fits = |chunk: &Chunk| deliveries + chunk.deliveries.len() <= DELIVERIES;
                if parts.len() < PARTS && chunks.front().is_some_and(fits) {
                    let chunk = chunks.pop_front().expect("it was looked at");
                    deliveries += chunk.deliveries.len();
                    parts.push((field.clone(), chunk));
                }
            }
            outboxes.retain(|(_, chunks)| !chunks.is_empty());
            if !self.queue(Partition::FIRST, parts, pass).await? {
                break;
            }
        }
        Ok(())
    }

    /// Queues the deliveries of some outboxes; whether all their cursors moved.
    async fn queue(
        &self,
        partition: Partition,
        parts: Vec<(String, Chunk)>,
        pass: &mut FanOutPass,
    ) -> Result<bool, StoreError> {
        let mut owners: Vec<(String, String)> = Vec::new();
        let (mut expected, mut of) = (Vec::new(), Vec::new());
        let mut encoded: Vec<FanOutPart> = Vec::new();
        for (field, chunk) in parts {
            let Some(next) = chunk.next else { continue };
            for owner in &chunk.owners {
                if !owners.contains(owner) {
                    owners.push(owner.clone());
                }
            }
            let number = |owner: &str| {
                owners
                    .iter()
                    .position(|(name, _)| name == owner)
                    .map_or(0, |at| at + 1)
            };
            let deliveries = chunk.deliveries.into_iter().map(|(owner, mut delivery)| {
                delivery.0.0 = number(&owner);
                delivery
            });
            let read = chunk.read.map(|read| read.to_string()).unwrap_or_default();
            let is_plain = chunk.parted.is_empty() && !field.contains(' ');
            of.push((Audience::of(&field, partition), is_plain, next.clone()));
            expected.push(next.to_string());
            let source = field.split(' ').next().unwrap_or_default();
            let apart = |tenant: &String| format!("{source} {tenant}");
            let left_out = chunk.left_out.iter().map(apart).collect();
            let parted = chunk.parted.iter();
            let parted = parted.map(|(tenant, place)| (apart(tenant), place.to_string()));
            let parted = parted.collect();
            let source = source.to_owned();
            encoded.push((
                ((field, source), (read, next.to_string())),
                (Counted(left_out), Counted(parted)),
                Counted(deliveries.collect()),
            ));
        }
        if encoded.is_empty() {
            return Ok(true);
        }
        let fanned = self
            .store
            .fan_out(partition, self.lane_concurrency, &owners, &encoded)
            .await?;
        match fanned {
            Fanned::Queued {
                count,
                damaged,
                cursors,
            } => {
                let damaged = damaged.lines().filter(|line| !line.is_empty());
                damaged.for_each(|line| log_damage(partition, line));
                pass.queued += count;
                if count > 0 {
                    self.queued.partition(partition);
                }
                let mut rounds = self.rounds();
                for (at, ((audience, source), is_plain, next)) in of.into_iter().enumerate() {
                    let has_moved = cursors.get(at) == expected.get(at);
                    pass.moved += usize::from(has_moved);
                    match has_moved && is_plain {
                        true => rounds.moved(source, audience, next),
                        false => rounds.forget(source),
                    }
                }
                Ok(cursors == expected)
            }
            Fanned::Stale(owners) => {
                self.remembered.forget(&owners);
                pass.more = true;
                Ok(false)
            }
        }
    }
}

lease_worker!(
    FanOut: "fan_out", AGAIN,
    |worker, leases, _| worker.look(leases).await?
);
