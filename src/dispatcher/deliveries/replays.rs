//! Moves the deliveries of replays into their lanes, some of each at a time, and ends the replays.
//!
//! The worker keeps nothing between passes. A script moves deliveries from the list of a replay into its lane, both or
//! neither. So dispatchers may die or overlap.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::sync::Mutex;
use tracing::{error, info};

use super::partition_failures::PartitionFailures;
use super::signal::DeliverySignal;
use super::state::STALE_MS;
use crate::dispatcher::due::partitions;
use crate::dispatcher::sweep::ClockWatch;
use crate::dispatcher::workers::{Next, lease_worker};
use crate::metrics::metrics;
use crate::store::dispatcher::replays::{FeedReplay, FeedReplayReply};
use crate::store::{Keys, Lease, MemoryStep, Store, StoreError};

/// The pause while there are no replays.
const IDLE: Duration = Duration::from_secs(1);

/// The pause while there are some.
const BUSY: Duration = Duration::from_millis(100);

/// Replays of a partition that one pass looks at, those first that were not for longest.
const ROWS: usize = 20;

/// How long one waits that cannot go on, in milliseconds.
const PUT_OFF_MS: i64 = 60_000;

/// Calls for one replay in a pass.
const CALLS: usize = 5;

/// Deliveries that one call queues at most.
const DELIVERIES: usize = 50;

metrics! {
    /// Metrics of replays.
    struct ReplayMetrics {
        /// Deliveries of replayed events that were queued.
        queued: IntCounter = "budget_webhook_replayed_deliveries_total",
        /// Replays whose first attempts have all ended.
        ended: IntCounter = "budget_webhook_replays_ended_total",
    }
}

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayPass {
    /// Deliveries queued.
    pub queued: u64,
    /// Replays ended.
    pub ended: u64,
    /// Replays that go on.
    pub left: usize,
    /// Whether one of them can at once.
    pub more: bool,
}

/// Feeds replays.
pub struct Replays {
    store: Store,
    clock: ClockWatch,
    lane_concurrency: u32,
    queued: Arc<DeliverySignal>,
    failures: Mutex<PartitionFailures>,
    metrics: ReplayMetrics,
}

impl Replays {
    /// A worker over `store`. It wakes `queued` for new deliveries. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(
        store: Store,
        clock: ClockWatch,
        lane_concurrency: u32,
        queued: Arc<DeliverySignal>,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        Ok(Self {
            failures: Mutex::new(PartitionFailures::new(store.clone(), "replays")),
            store,
            clock,
            lane_concurrency,
            queued,
            metrics: ReplayMetrics::register(registry)?,
        })
    }

    /// Does one pass over the partitions of `leases`, and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when a node is unavailable, and the replays of the others went on; a failure of one replay alone is logged.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<ReplayPass, StoreError> {
        let mut pass = ReplayPass::default();
        let polled = self
            .store
            .poll(Keys::replays, &partitions(leases), ROWS)
            .await?;
        let replays = || polled.iter().flatten().flatten();
        pass.left = replays().count();
        if pass.left == 0 {
            return Ok(pass);
        }
        let (now_ms, is_in_doubt) = self.clock.time(&self.store).await?;
        let stale_before_ms = (!is_in_doubt).then_some(now_ms - STALE_MS);
        // Those further ahead are from before the clock went back.
        let is_due = |at_ms: i64| !(now_ms + 1..now_ms + 2 * PUT_OFF_MS).contains(&at_ms);
        let mut failures = self.failures.lock().await;
        failures.begin();
        for (lease, replays) in leases.iter().zip(&polled) {
            let due = replays.iter().flatten();
            for replay in due.filter(|replay| is_due(replay.at_ms)) {
                if failures.leave_out(lease.partition).await {
                    break;
                }
                match self
                    .feed(*lease, &replay.member, stale_before_ms, &mut pass)
                    .await
                {
                    Ok(true) => {}
                    Ok(false) => {
                        lost(*lease);
                        break;
                    }
                    Err(unavailable @ StoreError::Unavailable(_)) => {
                        failures.note(lease.partition, unavailable);
                    }
                    Err(failure) => {
                        let id = &replay.member;
                        error!(replay.id = id, error = %failure, "replay `{id}` cannot go on: {failure}");
                        let key = self.store.keys().replays(lease.partition);
                        let put_off = self.store.postpone(key, id, now_ms + PUT_OFF_MS);
                        if let Err(failure) = put_off.await {
                            failures.note(lease.partition, failure);
                        }
                    }
                }
            }
        }
        self.metrics.queued.inc_by(pass.queued);
        self.metrics.ended.inc_by(pass.ended);
        failures.end()?;
        Ok(pass)
    }

    /// Feeds one replay; `false` where another dispatcher holds the lease.
    async fn feed(
        &self,
        lease: Lease,
        replay_id: &str,
        stale_before_ms: Option<i64>,
        pass: &mut ReplayPass,
    ) -> Result<bool, StoreError> {
        // What would take memory waits.
        let is_full = self.store.memory_step(lease.partition) == MemoryStep::Refuse;
        let call = FeedReplay {
            fencing_token: lease,
            replay_id,
            most: if is_full { 0 } else { DELIVERIES },
            lane_concurrency: self.lane_concurrency,
            stale_before_ms,
        };
        for _ in 0..CALLS {
            let (queued, more, hopeless) = match self.store.feed_replay(&call).await? {
                None => return Ok(false),
                Some(FeedReplayReply::Ended) => {
                    info!(replay.id = replay_id, "replay `{replay_id}` has ended");
                    pass.ended += 1;
                    pass.left = pass.left.saturating_sub(1);
                    return Ok(true);
                }
                Some(FeedReplayReply::Fed {
                    queued,
                    more,
                    hopeless,
                }) => (queued, more, hopeless),
            };
            pass.queued += queued;
            if queued > 0 || hopeless {
                self.queued.partition(lease.partition);
            }
            if !more {
                return Ok(true);
            }
        }
        pass.more = true;
        Ok(true)
    }
}

lease_worker!(
    Replays: "replays", BUSY,
    |worker, leases, lost| worker.run_once(leases, lost).await?.next()
);

impl ReplayPass {
    /// When to start the next pass.
    fn next(self) -> Next {
        match (self.more, self.left) {
            (true, _) => Next::Now,
            (false, 0) => Next::After(IDLE),
            (false, _) => Next::After(BUSY),
        }
    }
}
