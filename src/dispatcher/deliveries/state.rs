//! State that the tasks of a delivery worker share: which partitions are due, and caches.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::error;

use super::attempt::PolicyReader;
use super::end_queue::EndQueues;
use super::host_rates::HostRates;
use super::partition_failures::PartitionFailures;
use super::permits::Permits;
use super::rendered_event::EventCache;
use super::start_order::StartOrder;
use crate::admin::webhooks::Webhooks;
use crate::admin::webhooks::sending::Receiver;
use crate::dispatcher::due::partitions;
use crate::dispatcher::leases::{ALIVE, Leases};
use crate::dispatcher::sweep::ClockWatch;
use crate::domain::ids::Partition;
use crate::domain::webhook::SubscriptionId;
use crate::metrics::metrics;
use crate::shutdown::Shutdown;
use crate::store::dispatcher::deliveries::{LapseClaims, LapseClaimsReply};
use crate::store::{Keys, Lane, Lease, Store, StoreError, unless_fenced};

/// How long a claim lasts: longer than an attempt, its outcome included.
pub(super) const CLAIM_MS: i64 = 35_000;

/// How long an attempt may take from its claim on, with all that precedes the request: so its outcome is recorded in time.
pub(super) const ATTEMPT: Duration = Duration::from_secs(32);

/// The age from which on a delivery is not attempted, and a missed event is not queued.
pub(super) const STALE_MS: i64 = 24 * 3_600_000;

/// How often all partitions are polled.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// How far ahead postponed lanes are that are looked at, because they may not need to wait.
const AHEAD_MS: i64 = 2_000;

/// How long attempts in flight may take at a shutdown before they are cancelled.
pub(super) const LAST_WAIT: Duration = Duration::from_millis(500);

metrics! {
    /// Metrics of deliveries.
    pub(super) struct DeliveryMetrics {
        /// Attempts to deliver events to webhooks, by outcome and reason.
        pub attempts: IntCounterVec["outcome", "reason"] = "budget_webhook_attempts_total",
        /// Time from an event to the first attempt to deliver it to a webhook, without replays.
        pub delay: Histogram buckets [
            0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 3_600.0, 86_400.0,
        ] = "budget_webhook_delay_seconds",
        /// Deliveries to webhooks in flight.
        pub in_flight: IntGauge = "budget_webhook_in_flight",
        /// Webhooks that were disabled after too many failures.
        pub disabled: IntCounter = "budget_webhooks_disabled_total",
        /// Times that deliveries of a lane could not be looked at, because a key holds something else than it should.
        pub damaged: IntCounter = "budget_webhook_damaged_lanes_total",
    }
}

/// Settings of a delivery worker.
pub struct DeliverySettings {
    /// How its claims name it; a name that no other dispatcher has, without blank and colon.
    pub name: String,
    /// `source` of the events about its deliveries.
    pub source: &'static str,
    /// Deliveries that may be in flight at once.
    pub in_flight: usize,
    /// First attempts of a lane that may be in flight at once.
    pub lane_concurrency: u32,
    /// Deliveries of one tenant's events to one host in a second; 0: any number.
    pub host_rate: u32,
}

/// State that the tasks of a delivery worker share.
pub(super) struct WorkerState {
    pub store: Store,
    pub webhooks: Webhooks,
    pub leases: Leases,
    pub clock: ClockWatch,
    pub settings: DeliverySettings,
    pub permits: Arc<Permits>,
    pub host_rates: HostRates,
    pub start_order: Arc<StartOrder>,
    /// Ended attempts that are not recorded yet.
    pub ends: EndQueues,
    pub receivers: Cache<SubscriptionId, (String, Option<Arc<Receiver>>)>,
    pub events: EventCache,
    pub policies: PolicyReader,
    /// Partitions whose claims could not be ended.
    pub lapses: tokio::sync::Mutex<PartitionFailures>,
    pub signal: Arc<DeliverySignal>,
    pub shutdown: Shutdown,
    pub metrics: DeliveryMetrics,
}

impl WorkerState {
    /// Counts deliveries that ended without an attempt, and logs those that an operator should know of. `ended`: reasons and ids.
    pub fn count_ended(&self, ended: &[(String, String)]) {
        for (reason, id) in ended {
            let attempts = &self.metrics.attempts;
            attempts.with_label_values(&["dropped", reason]).inc();
            let why = match reason.as_str() {
                "attempts_lost" => "five attempts in a row ended without an outcome",
                "damaged" => "its record is gone, or does not say where its event lies",
                _ => continue,
            };
            error!(
                delivery.id = id,
                reason, "delivery {id} failed, because {why}"
            );
        }
    }

    /// Ends lapsed claims, and notes when each partition is due. `alive`: the living dispatchers, where the claims of all others are
    /// to end, or '' where these are not known; `None` to end only claims whose time is over, and not to look at postponed lanes.
    pub async fn poll(&self, alive: Option<&str>) -> Result<(), StoreError> {
        let leases = self.leases.current();
        if leases.is_empty() {
            return Ok(());
        }
        let (now_ms, is_in_doubt) = self.clock.time(&self.store).await?;
        // A clock that stepped ahead ends no claim, and makes no dispatcher dead.
        let over_ms = (!is_in_doubt).then_some(now_ms);
        let hastens = alive.is_some();
        let alive = alive.filter(|_| !self.clock.jumped_within(ALIVE));
        let partitions = partitions(&leases);
        let claims = self.store.poll(Keys::claims, &partitions, 1).await?;
        let mut failures = self.lapses.lock().await;
        failures.begin();
        for (lease, claims) in leases.iter().zip(claims) {
            let Some(first) = claims.unwrap_or_default().into_iter().next() else {
                continue;
            };
            let over_ms = over_ms.filter(|now_ms| first.at_ms <= *now_ms);
            if over_ms.is_none() && alive.is_none() || failures.leave_out(lease.partition).await {
                continue;
            }
            match self.lapse(*lease, over_ms, alive.unwrap_or_default()).await {
                Ok(true) => {}
                Ok(false) => self.leases.lost(*lease),
                Err(failure) => failures.note(lease.partition, failure),
            }
        }
        let lanes = self.store.poll(Keys::lanes, &partitions, 1).await?;
        for (partition, lanes) in partitions.iter().zip(lanes) {
            if let Some(first) = lanes.unwrap_or_default().into_iter().next() {
                let wait = u64::try_from(first.at_ms - now_ms).unwrap_or(0);
                self.signal.after(*partition, Duration::from_millis(wait));
            }
        }
        match hastens {
            true => self.hasten(&partitions, now_ms, &mut failures).await,
            false => Ok(()),
        }
    }

    /// Makes lanes due whose time is from before the clock went back, and those that can only fail.
    async fn hasten(
        &self,
        partitions: &[Partition],
        now_ms: i64,
        failures: &mut PartitionFailures,
    ) -> Result<(), StoreError> {
        let after_ms = now_ms + AHEAD_MS;
        let last = self.store.poll_range(Keys::lanes, partitions, (-1, -1));
        for (partition, last) in partitions.iter().zip(last.await?) {
            let last = last.and_then(|mut last| last.pop());
            let is_ahead = last.is_some_and(|lane| lane.at_ms > after_ms);
            if !is_ahead || failures.leave_out(*partition).await {
                continue;
            }
            if let Err(failure) = self.store.hasten_lanes(*partition, after_ms).await {
                failures.note(*partition, failure);
            }
        }
        Ok(())
    }

    /// Ends claims of a partition: those whose time is over, or those that no dispatcher keeps. `false` where another holds the lease.
    async fn lapse(
        &self,
        lease: Lease,
        over_ms: Option<i64>,
        alive: &str,
    ) -> Result<bool, StoreError> {
        let mut after = 0;
        loop {
            let call = LapseClaims {
                fencing_token: lease,
                over_ms,
                alive,
                after,
            };
            let lapsed = unless_fenced(self.store.run(Lane::Background, &call).await)?;
            let Some(LapseClaimsReply::Lapsed { damaged, next, .. }) = lapsed else {
                return Ok(false);
            };
            self.note_damage(lease.partition, &damaged);
            match next {
                Some(next) => after = next,
                None => return Ok(true),
            }
        }
    }

    /// Logs and counts damaged keys.
    pub fn note_damage(&self, partition: Partition, damaged: &str) {
        for line in damaged.lines().filter(|line| !line.is_empty()) {
            self.metrics.damaged.inc();
            log_damage(partition, line);
        }
    }

    /// The leases of the partitions that are due, round robin: those behind `last`, the one that was served last, come first.
    pub fn due_now(&self, last: Option<Partition>) -> Vec<Lease> {
        let ready = self.signal.take();
        let mut leases = self.leases.current();
        leases.retain(|lease| ready.contains(&lease.partition));
        rotate(&mut leases, last);
        leases
    }

    /// Deliveries that were queued before this time are too old; `None` while the clock is doubted. Not by the clock of the
    /// script, which may have jumped a moment ago.
    pub fn stale_before_ms(&self) -> Option<i64> {
        self.clock.expected_ms().map(|now_ms| now_ms - STALE_MS)
    }
}

/// Logs a damaged key. `line`: the key, and what is wrong with it.
pub(super) fn log_damage(partition: Partition, line: &str) {
    let (key, why) = line.split_once(' ').unwrap_or((line, ""));
    error!(
        %partition, redis.key = key, error = why,
        "deliveries may wait until key `{key}` is repaired or deleted: {why}"
    );
}

/// Puts the partitions behind `last` first.
fn rotate(leases: &mut [Lease], last: Option<Partition>) {
    let first = leases.partition_point(|lease| Some(lease.partition) <= last);
    leases.rotate_left(first);
}

/// Partitions that may have deliveries to attempt, and when.
#[derive(Debug, Default)]
pub struct DeliverySignal {
    due: Mutex<HashMap<Partition, Instant>>,
    /// Whether a poll of all partitions is requested.
    full_poll: AtomicBool,
    notify: Notify,
}

impl DeliverySignal {
    /// Signals that a partition has deliveries to attempt.
    pub fn partition(&self, partition: Partition) {
        self.after(partition, Duration::ZERO);
        self.notify.notify_one();
    }

    /// Notes that a partition may have deliveries to attempt after a pause.
    pub(super) fn after(&self, partition: Partition, pause: Duration) {
        let at = Instant::now() + pause;
        let mut due = self.due.lock();
        let known = due.entry(partition).or_insert(at);
        *known = at.min(*known);
    }

    /// Requests a poll of all partitions, without waiting for the next one by the clock.
    pub fn request_full_poll(&self) {
        self.full_poll.store(true, Ordering::Relaxed);
        self.notify.notify_one();
    }

    /// Takes the request for a poll of all partitions.
    pub(super) fn take_full_poll(&self) -> bool {
        self.full_poll.swap(false, Ordering::Relaxed)
    }

    /// Waits for a signal.
    pub(super) async fn signalled(&self) {
        self.notify.notified().await;
    }

    /// Takes the partitions that are due now.
    fn take(&self) -> BTreeSet<Partition> {
        let now = Instant::now();
        let mut due = self.due.lock();
        let ready = due.extract_if(|_, at| *at <= now);
        ready.map(|(partition, _)| partition).collect()
    }

    /// How long until the next one is due.
    pub(super) fn next(&self) -> Duration {
        let first = self.due.lock().values().min().copied();
        first.map_or(POLL, |at| at.saturating_duration_since(Instant::now()))
    }

    /// Wakes the delivery worker, which knows what is due.
    pub(super) fn wake(&self) {
        self.notify.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_that_are_always_due_rotate() {
        let mut last = None;
        let served = (0..7).map(|_| {
            let mut leases: Vec<Lease> = Partition::all()
                .take(3)
                .map(|partition| Lease {
                    partition,
                    token: 1,
                })
                .collect();
            rotate(&mut leases, last);
            last = Some(leases[0].partition);
            leases[0].partition.to_string()
        });
        let served: Vec<String> = served.collect();
        assert_eq!(served, ["000", "001", "002", "000", "001", "002", "000"]);
    }
}
