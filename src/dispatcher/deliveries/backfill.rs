//! Queues deliveries later: events that subscriptions missed while they were behind (`catch_up.rs`), and replays (`replays.rs`).
//!
//! The worker keeps no place between passes. Scripts move the place of a subscription, or the list of a replay, together with the
//! deliveries that they queue. So dispatchers may die or overlap.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::time::Instant;

use super::events::OutboxEntry;
use super::fan_out_plan::DELIVERIES;
use super::partition_failures::PartitionFailures;
use super::state::{DeliverySignal, STALE_MS};
use super::subscriptions::{Occurrence, OutboxLocation, Subscriber, SubscriptionCache};
use crate::dispatcher::outboxes::Outboxes;
use crate::dispatcher::sweep::ClockWatch;
use crate::dispatcher::workers::{Next, lease_worker};
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::metrics::metrics;
use crate::store::dispatcher::catch_up::MissedDelivery;
use crate::store::dispatcher::fan_out::OutboxPosition;
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
    pub(super) outboxes: Outboxes,
    pub(super) subscriptions: SubscriptionCache,
    pub(super) lane_concurrency: u32,
    pub(super) queued: Arc<DeliverySignal>,
    pub(super) failures: PartitionFailures,
    pub(super) metrics: BackfillMetrics,
    /// Last time that subscriptions behind and open deliveries were counted.
    pub(super) counted: Option<Instant>,
}

/// Time of a pass.
#[derive(Clone, Copy)]
pub(super) struct PassTime {
    pub now_ms: i64,
    /// Older events are no longer delivered; `None` while the clock is in doubt.
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
            outboxes: Outboxes::new(store.clone()),
            subscriptions: SubscriptionCache::new(store.clone(), None),
            failures: PartitionFailures::new(store.clone(), "missed events and replays"),
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
    /// [`StoreError`] when Redis is unavailable, or after the other nodes were served, when one of them is; a failure of one
    /// subscription or replay alone is logged and postponed.
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
        self.failures.begin();
        let caught_up = self.catch_up(leases, time, &mut pass).await;
        self.feed_replays(leases, time, lost, &mut pass).await?;
        caught_up?;
        self.failures.end().map(|()| pass)
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

const HOUR_MS: i64 = 3_600_000;

/// A subscription that is behind, and what may be queued for it.
pub(super) struct Backlog<'a> {
    pub partition: Partition,
    pub owner: &'a str,
    pub mark: &'a str,
    pub id: &'a str,
    /// The subscription; `None` where it is not active.
    pub subscriber: Option<&'a Subscriber>,
    /// How many deliveries may be queued.
    pub room: usize,
    /// Events before this time are too old; `None` while the clock is doubted.
    pub oldest_ms: Option<i64>,
}

/// Some missed events.
pub(super) struct MissedBatch {
    pub deliveries: Vec<MissedDelivery>,
    pub too_old: usize,
    /// The place after it.
    pub next: OutboxPosition,
}

impl Backlog<'_> {
    /// Where to begin: at the place, or after the hours in which everything is too old.
    pub fn begin(&self, place: &str) -> OutboxPosition {
        let place = OutboxPosition::parse(place).unwrap_or(OutboxPosition::after(EntryId::ZERO));
        let first_ms = self.first_hour_ms().unsigned_abs();
        if place.entry.ms >= first_ms {
            return place;
        }
        OutboxPosition::after(EntryId {
            ms: first_ms - 1,
            sequence: u64::MAX,
        })
    }

    /// Begin of the oldest hour that is not over the age limit as a whole; its old events are counted one by one.
    fn first_hour_ms(&self) -> i64 {
        self.oldest_ms.map_or(0, |ms| ms - ms % HOUR_MS)
    }

    /// Batches of the events of an outbox that it missed after a place, as far as there is room.
    pub fn missed(
        &self,
        place: OutboxPosition,
        outbox: &[OutboxEntry],
        location: OutboxLocation,
    ) -> Vec<MissedBatch> {
        let Some(subscriber) = self.subscriber else {
            return Vec::new();
        };
        let (mut chunks, mut room) = (Vec::new(), self.room);
        let mut chunk = MissedBatch::up_to(place.clone());
        for (entry, events) in outbox {
            for event in events.iter().flatten() {
                let seen = (event.number, self.id.to_owned());
                let done = place.within.as_ref().filter(|_| *entry == place.entry);
                let when = Occurrence {
                    entry: *entry,
                    at_ms: event.at_ms,
                    outbox: location,
                };
                if *entry < place.entry
                    || done.is_some_and(|done| seen <= *done)
                    || !subscriber.gets(&event.summary(), when)
                {
                    continue;
                }
                let is_too_old = self.oldest_ms.is_some_and(|ms| event.at_ms < ms);
                if !is_too_old && room == 0 {
                    chunks.push(chunk);
                    return chunks;
                }
                chunk.next = OutboxPosition {
                    entry: *entry,
                    within: Some(seen),
                };
                if is_too_old {
                    chunk.too_old += usize::from(event.at_ms >= self.first_hour_ms());
                    continue;
                }
                let (_, names, about) = event.delivery_to(subscriber);
                chunk.deliveries.push((names, about));
                room -= 1;
                if chunk.deliveries.len() == DELIVERIES {
                    let next = MissedBatch::up_to(chunk.next.clone());
                    chunks.push(std::mem::replace(&mut chunk, next));
                }
            }
            chunk.next = OutboxPosition::after(*entry);
        }
        chunks.push(chunk);
        chunks
    }
}

impl MissedBatch {
    /// No events, up to a place.
    pub fn up_to(next: OutboxPosition) -> Self {
        Self {
            deliveries: Vec::new(),
            too_old: 0,
            next,
        }
    }
}
