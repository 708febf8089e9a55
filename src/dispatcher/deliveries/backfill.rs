//! Queues deliveries later: events that subscriptions missed while they were behind (`catch_up.rs`), and replays (`replays.rs`).
//!
//! The worker keeps no place between passes. Scripts move the place of a subscription, or the list of a replay, together with the
//! deliveries that they queue. So dispatchers may die or overlap.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::time::Instant;

use super::events::EventReader;
use super::partition_failures::PartitionFailures;
use super::signal::DeliverySignal;
use super::state::STALE_MS;
use super::subscriptions::SubscriptionCache;
use crate::dispatcher::outboxes::Outboxes;
use crate::dispatcher::sweep::ClockWatch;
use crate::dispatcher::workers::{Next, lease_worker};
use crate::metrics::metrics;
use crate::store::{Lease, Store, StoreError};

/// The pauses: while nothing is behind and no replay runs; while some subscriptions are behind; while a replay runs; and after a
/// pass that queued missed events.
const IDLE: Duration = Duration::from_secs(1);
const BEHIND: Duration = Duration::from_millis(250);
const REPLAYING: Duration = Duration::from_millis(100);
const BUSY: Duration = Duration::from_millis(50);

metrics! {
    /// Metrics of deliveries that are queued later.
    pub(super) struct BackfillMetrics {
        /// Webhooks that are behind, because too many deliveries to them are open.
        pub behind: IntGauge = "budget_webhooks_behind",
        /// Deliveries to webhooks that have not ended.
        pub open: IntGauge = "budget_webhook_deliveries_open",
        /// Events that were behind for 24 hours, and are not delivered.
        pub expired: IntCounter = "budget_webhook_events_expired_total",
        /// Deliveries of replayed events that were queued.
        pub replayed: IntCounter = "budget_webhook_replayed_deliveries_total",
        /// Replays whose first attempts have all ended.
        pub ended: IntCounter = "budget_webhook_replays_ended_total",
    }
}

/// Result of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackfillPass {
    /// Deliveries of missed events queued.
    pub queued: i64,
    /// Missed events that were too old.
    pub expired: i64,
    /// Subscriptions that are behind, as far as it looked.
    pub behind: usize,
    /// Deliveries of replays queued.
    pub replayed: u64,
    /// Replays ended.
    pub ended: u64,
    /// Replays in progress.
    pub replays: usize,
    /// Whether there may be more to do at once.
    pub more: bool,
}

/// Queues missed events and replays.
pub struct Backfill {
    pub(super) store: Store,
    clock: ClockWatch,
    pub(super) reader: EventReader,
    pub(super) subscriptions: SubscriptionCache,
    pub(super) lane_concurrency: u32,
    pub(super) queued: Arc<DeliverySignal>,
    pub(super) catch_up_failures: PartitionFailures,
    pub(super) replay_failures: PartitionFailures,
    pub(super) metrics: BackfillMetrics,
    /// Last time that subscriptions behind and open deliveries were counted.
    pub(super) counted: Option<Instant>,
}

/// Time of a pass.
#[derive(Clone, Copy)]
pub(super) struct PassTime {
    pub now_ms: i64,
    /// What is older is not delivered any more; `None` while the clock is in doubt.
    pub oldest_ms: Option<i64>,
}

impl Backfill {
    /// A worker over `store` that signals new deliveries by `queued`. Its metrics are in `registry`.
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
        let metrics = BackfillMetrics::register(registry)?;
        Ok(Self {
            reader: EventReader {
                outboxes: Arc::new(Outboxes::new(store.clone())),
            },
            subscriptions: SubscriptionCache::new(store.clone(), None),
            catch_up_failures: PartitionFailures::new(store.clone(), "missed events"),
            replay_failures: PartitionFailures::new(store.clone(), "replays"),
            store,
            clock,
            lane_concurrency,
            queued,
            metrics,
            counted: None,
        })
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable, or a node of it after the others had their ticket; a failure of one subscription or
    /// replay alone is logged and postponed.
    pub async fn run_once(
        &mut self,
        leases: &[Lease],
        lost: impl FnMut(Lease),
    ) -> Result<BackfillPass, StoreError> {
        let mut pass = BackfillPass::default();
        if leases.is_empty() {
            return Ok(pass);
        }
        let (now_ms, is_in_doubt) = self.clock.time(&self.store).await?;
        let time = PassTime {
            now_ms,
            oldest_ms: (!is_in_doubt).then_some(now_ms - STALE_MS),
        };
        let caught_up = self.catch_up(leases, time, &mut pass).await;
        let replayed = self.feed_replays(leases, time, lost, &mut pass).await;
        caught_up.and(replayed).map(|()| pass)
    }
}

lease_worker!(
    Backfill: "backfill", BEHIND,
    |worker, leases, lost| worker.run_once(leases, lost).await?.next()
);

impl BackfillPass {
    /// When to start the next pass.
    fn next(self) -> Next {
        match self {
            Self { more: true, .. } => Next::Now,
            Self { queued: 1.., .. } => Next::After(BUSY),
            Self { replays: 1.., .. } => Next::After(REPLAYING),
            Self { behind: 1.., .. } => Next::After(BEHIND),
            _ => Next::After(IDLE),
        }
    }
}
