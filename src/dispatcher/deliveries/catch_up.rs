//! Queues what subscriptions missed that fell behind, in order, as room comes.
//!
//! What was missed is read again from the outbox, which keeps its entries for longer than anything stays behind. Like the fan-out,
//! the worker keeps no place between passes: a script moves the place of a subscription together with the deliveries that it
//! queues, and only from where it was read. The script ends being behind when the place has reached the cursor of the fan-out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::time::Instant;
use tracing::{error, warn};

use super::backlog::{Backlog, CatchUpPass, MissedBatch};
use super::events::EventReader;
use super::fan_out_plan::PASS_DELIVERIES;
use super::partition_failures::PartitionFailures;
use super::signal::DeliverySignal;
use super::state::STALE_MS;
use super::subscriptions::{OutboxLocation, Subscriber, SubscriptionCache};
use crate::dispatcher::due::partitions;
use crate::dispatcher::outboxes::Outboxes;
use crate::dispatcher::sweep::ClockWatch;
use crate::dispatcher::workers::lease_worker;
use crate::domain::ids::{Partition, TenantId};
use crate::metrics::metrics;
use crate::store::dispatcher::catch_up::{BehindWindow, CatchUp as CatchUpCall};
use crate::store::{Keys, Lease, MemoryStep, Store, StoreError};

/// The pause while no subscription is behind.
const IDLE: Duration = Duration::from_secs(1);

/// When to look again at a subscription that has no room; at one whose room was filled; at one whose record cannot be read; at one of
/// which an outbox is out of reach; at one that fails.
const NO_ROOM_MS: i64 = 1_000;
const FULL_AGAIN_MS: i64 = 50;
const UNREADABLE_MS: i64 = 5_000;
const AWAY_MS: i64 = 5_000;
const FAILED_MS: i64 = 60_000;

/// Subscriptions of a partition that one pass looks at.
const ROWS: usize = 64;

/// Outboxes that one look at a subscription follows, and how often it reads each.
const SOURCES: usize = 16;
const READS: usize = 10;

/// How often it is counted what is behind and open.
const COUNT: Duration = Duration::from_secs(15);

metrics! {
    /// Metrics of what is behind.
    struct CatchUpMetrics {
        /// Webhooks that are behind, because too many deliveries to them are open.
        behind: IntGauge = "budget_webhooks_behind",
        /// Deliveries to webhooks that have not ended.
        open: IntGauge = "budget_webhook_deliveries_open",
        /// Events that were behind for 24 hours, and are not delivered.
        expired: IntCounter = "budget_webhook_events_expired_total",
    }
}

/// Queues what was missed.
pub struct CatchUp {
    store: Store,
    clock: ClockWatch,
    reader: EventReader,
    subscriptions: SubscriptionCache,
    lane_concurrency: u32,
    queued: Arc<DeliverySignal>,
    failures: PartitionFailures,
    metrics: CatchUpMetrics,
    counted: Option<Instant>,
}

impl CatchUp {
    /// A worker over `store` that wakes `queued` for new deliveries. Its metrics are in `registry`.
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
        let metrics = CatchUpMetrics::register(registry)?;
        Ok(Self {
            reader: EventReader {
                outboxes: Arc::new(Outboxes::new(store.clone())),
            },
            subscriptions: SubscriptionCache::new(store.clone(), None),
            failures: PartitionFailures::new(store.clone(), "events that were missed"),
            store,
            clock,
            lane_concurrency,
            queued,
            metrics,
            counted: None,
        })
    }

    /// Does one pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable, or a node of it after the others had their turn; a failure of one subscription alone
    /// is logged and postponed.
    pub async fn run_once(&mut self, leases: &[Lease]) -> Result<CatchUpPass, StoreError> {
        let mut pass = CatchUpPass::default();
        let partitions = partitions(leases);
        if partitions.is_empty() {
            return Ok(pass);
        }
        let (now_ms, is_in_doubt) = self.clock.time(&self.store).await?;
        let oldest_ms = (!is_in_doubt).then_some(now_ms - STALE_MS);
        let mut due = Vec::new();
        let polled = self.store.poll(Keys::behind, &partitions, ROWS).await?;
        for (partition, members) in partitions.iter().zip(polled) {
            let members = members.unwrap_or_default();
            pass.behind += members.len();
            // One further ahead is from before the clock went back.
            let is_due = |at_ms| at_ms <= now_ms || at_ms > now_ms + 2 * FAILED_MS;
            let members = members.into_iter().filter(|member| is_due(member.at_ms));
            let members: Vec<_> = members.map(|due| (*partition, due.member)).collect();
            pass.more |= members.len() == ROWS;
            due.extend(members);
        }
        let windows = self.store.behind_windows(&due).await?;
        let mut looked_at: BTreeMap<(Partition, i64), Vec<String>> = BTreeMap::new();
        self.failures.begin();
        for ((partition, id), window) in due.into_iter().zip(windows) {
            let Some(window) = window else { continue };
            if self.failures.leave_out(partition).await {
                continue;
            }
            let looked = self.look(partition, &id, &window, oldest_ms, &mut pass);
            let again_ms = match looked.await {
                Ok(again_ms) => again_ms,
                Err(unavailable @ StoreError::Unavailable(_)) => {
                    self.failures.note(partition, unavailable);
                    continue;
                }
                Err(failure) => {
                    error!(
                        webhook.id = id, error = %failure,
                        "webhook `{id}` does not get what it missed: {failure}"
                    );
                    FAILED_MS
                }
            };
            let looked_at = looked_at.entry((partition, again_ms)).or_default();
            looked_at.push(id);
        }
        for ((partition, again_ms), ids) in looked_at {
            let again = self
                .store
                .look_again_at_behind(partition, &ids, now_ms + again_ms);
            match again.await {
                // They are looked at with the next pass.
                Ok(()) | Err(StoreError::Full) => {}
                Err(failure) => self.failures.note(partition, failure),
            }
        }
        self.count(&partitions, &pass).await?;
        self.failures.end()?;
        Ok(pass)
    }

    /// Queues what one subscription missed, if it has room. Returns after how many milliseconds to look at it again.
    async fn look(
        &mut self,
        partition: Partition,
        id: &str,
        window: &BehindWindow,
        oldest_ms: Option<i64>,
        pass: &mut CatchUpPass,
    ) -> Result<i64, StoreError> {
        let is_full = self.store.memory_step(partition) == MemoryStep::Refuse;
        let has_room = window.is_half_free && window.room > 0 && !is_full;
        let has_old = oldest_ms.is_some_and(|ms| window.has_before(ms));
        if !has_room && !has_old && !window.owner.is_empty() {
            return Ok(NO_ROOM_MS);
        }
        let owner = window.owner.as_str();
        let subscribers = self.subscriptions.of(&[owner.to_owned()]).await?;
        let subscribers = subscribers.into_iter().next().unwrap_or_default();
        let subscriber = subscribers
            .active
            .iter()
            .find(|subscriber| subscriber.id.as_str() == id);
        if subscribers.is_unknown
            || subscriber.is_some_and(|subscriber| subscriber.epoch().is_none())
        {
            return Ok(UNREADABLE_MS);
        }
        let places = self.store.places_behind(partition, id).await?;
        let (Some(subscriber), false) = (subscriber, places.is_empty()) else {
            self.leave(partition, id, owner, &subscribers.mark, subscriber)
                .await?;
            return Ok(0);
        };
        let room = match has_room {
            true => usize::try_from(window.room)
                .unwrap_or(0)
                .min(PASS_DELIVERIES),
            false => 0,
        };
        let mut behind = Backlog {
            partition,
            owner,
            mark: &subscribers.mark,
            subscriber,
            room,
            oldest_ms,
        };
        let (queued, expired) = (pass.queued, pass.expired);
        let (mut followed, mut is_away, mut failed) = (0, false, None);
        for (source, place) in places {
            if followed == SOURCES || followed > 0 && behind.room == 0 {
                break;
            }
            let from = Partition::parse(&source).unwrap_or(partition);
            if self.failures.leave_out(from).await {
                is_away = true;
                continue;
            }
            followed += 1;
            let followed = self.follow(&mut behind, &source, place, pass).await;
            // It may be the node of the outbox alone; or a lane that is damaged, and no other.
            match self.failures.note_unavailable(from, followed) {
                Ok(is_unavailable) => is_away |= is_unavailable,
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        if pass.queued > queued {
            self.queued.partition(partition);
        }
        let expired = pass.expired - expired;
        if expired > 0 {
            warn!(
                webhook.id = id,
                count = expired,
                "webhook `{id}` does not get {expired} events, because it was behind for 24 hours"
            );
        }
        if let Some(failure) = failed.filter(|_| behind.room > 0) {
            return Err(failure);
        }
        Ok(match (behind.room, is_away) {
            (0, _) => FULL_AGAIN_MS,
            (_, true) => AWAY_MS,
            (_, false) => 0,
        })
    }

    /// Takes a subscription out of the index that is not behind, or not active, any more.
    async fn leave(
        &self,
        partition: Partition,
        id: &str,
        owner: &str,
        mark: &str,
        subscriber: Option<&Subscriber>,
    ) -> Result<(), StoreError> {
        let call = CatchUpCall {
            partition,
            lane_concurrency: self.lane_concurrency,
            owner,
            mark,
            subscription_id: id,
            epoch: subscriber.and_then(Subscriber::epoch),
            stale_ms: None,
            source: "",
            read: "",
            next: "",
            too_old: 0,
            deliveries: &[],
        };
        if self.store.catch_up(&call).await?.is_none() {
            self.subscriptions.forget(&[owner.to_owned()]);
        }
        Ok(())
    }

    /// Queues what a subscription missed in one outbox.
    async fn follow(
        &self,
        behind: &mut Backlog<'_>,
        source: &str,
        mut read: String,
        pass: &mut CatchUpPass,
    ) -> Result<(), StoreError> {
        let from = Partition::parse(source).unwrap_or(behind.partition);
        let location = OutboxLocation::of(&self.store, behind.partition, from).await?;
        for _ in 0..READS {
            let place = behind.begin(&read);
            let tenant = behind.subscriber.owner.tenant().map(TenantId::as_str);
            let (outbox, is_all) = match behind.room {
                0 => (Vec::new(), true),
                _ => {
                    let place = (from, Some(place.done()));
                    self.reader.read_again(place, tenant).await?
                }
            };
            for missed in behind.missed(place, &outbox, location) {
                let next = missed.next.to_string();
                let Some(place) = self.queue(behind, source, &read, &missed, pass).await? else {
                    return Ok(());
                };
                // It has caught up, or another dispatcher was faster.
                if place != next {
                    return Ok(());
                }
                read = place;
            }
            if is_all || behind.room == 0 {
                return Ok(());
            }
        }
        pass.more = true;
        Ok(())
    }

    /// Queues some of what was missed. Returns the place then; `None` where the owner's subscriptions have changed.
    async fn queue(
        &self,
        behind: &mut Backlog<'_>,
        source: &str,
        read: &str,
        missed: &MissedBatch,
        pass: &mut CatchUpPass,
    ) -> Result<Option<String>, StoreError> {
        let next = missed.next.to_string();
        let call = CatchUpCall {
            partition: behind.partition,
            lane_concurrency: self.lane_concurrency,
            owner: behind.owner,
            mark: behind.mark,
            subscription_id: behind.subscriber.id.as_str(),
            epoch: behind.subscriber.epoch(),
            stale_ms: behind.oldest_ms.map(|_| STALE_MS),
            source,
            read,
            next: &next,
            too_old: missed.too_old,
            deliveries: &missed.deliveries,
        };
        let Some(caught_up) = self.store.catch_up(&call).await? else {
            self.subscriptions.forget(&[behind.owner.to_owned()]);
            pass.more = true;
            return Ok(None);
        };
        behind.room = behind.room.saturating_sub(missed.deliveries.len());
        pass.queued += caught_up.queued;
        pass.expired += caught_up.skipped;
        Ok(Some(caught_up.place))
    }

    async fn count(
        &mut self,
        partitions: &[Partition],
        pass: &CatchUpPass,
    ) -> Result<(), StoreError> {
        let expired = pass.expired.unsigned_abs();
        self.metrics.expired.inc_by(expired);
        if self.counted.is_none_or(|at| at.elapsed() >= COUNT) {
            self.counted = Some(Instant::now());
            let (behind, open) = self.store.count_behind(partitions).await?;
            self.metrics.behind.set(behind);
            self.metrics.open.set(open);
        }
        Ok(())
    }
}

lease_worker!(
    CatchUp: "catch_up", IDLE,
    |worker, leases, _| worker.run_once(leases).await?.next()
);
