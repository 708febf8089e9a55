//! Queues the events that subscriptions missed while they were behind, in order, as room comes.
//!
//! Missed events are read again from the outbox, which keeps its entries for longer than a subscription stays behind. The script ends
//! being behind when the place of the subscription has reached the cursor of the fan-out.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, warn};

use super::backfill::{Backfill, BackfillPass, Backlog, MissedBatch, PassTime};
use super::fan_out_plan::PASS_DELIVERIES;
use super::state::STALE_MS;
use super::subscriptions::{OutboxLocation, Subscriber};
use crate::dispatcher::due::partitions;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::catch_up::{BehindWindow, CatchUp, CatchUpReply};
use crate::store::dispatcher::fan_out::OutboxPosition;
use crate::store::{Keys, Lane, Lease, MemoryStep, StoreError, outcome};

/// When to look again at a subscription that has no room; whose room was filled; whose record or one of whose outboxes cannot be read;
/// that fails.
const NO_ROOM_MS: i64 = 1_000;
const FULL_AGAIN_MS: i64 = 50;
const UNREADABLE_MS: i64 = 5_000;
const FAILED_MS: i64 = 60_000;

/// Subscriptions of a partition that one pass looks at.
const ROWS: usize = 64;

/// Outboxes that one look at a subscription follows, and how often it reads each.
const SOURCES: usize = 16;
const READS: usize = 10;

/// How often the subscriptions that are behind and the open deliveries are counted.
const COUNT: Duration = Duration::from_secs(15);

impl Backfill {
    /// Queues what subscriptions missed in the partitions of `leases`.
    pub(super) async fn catch_up(
        &mut self,
        leases: &[Lease],
        PassTime { now_ms, oldest_ms }: PassTime,
        pass: &mut BackfillPass,
    ) -> Result<(), StoreError> {
        let partitions = partitions(leases);
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
        let mut looked_at = Vec::new();
        for ((partition, id), window) in due.into_iter().zip(windows) {
            let Some(window) = window else { continue };
            if self.failures.leave_out(partition).await {
                continue;
            }
            let looked = self.look(partition, &id, &window, oldest_ms, pass);
            let again_ms = match looked.await {
                Ok(again_ms) => again_ms,
                Err(unavailable @ StoreError::Unavailable(_)) => {
                    self.failures.note(partition, unavailable);
                    continue;
                }
                Err(failure) => {
                    error!(
                        webhook.id = id, error = %failure,
                        "webhook `{id}` does not get its missed events: {failure}"
                    );
                    FAILED_MS
                }
            };
            let key = self.store.keys().behind(partition);
            looked_at.push((key, id, now_ms + again_ms));
        }
        let noted = self.store.postpone_each(looked_at).await;
        // Where nothing can be noted, the same ones would be looked at without a pause.
        pass.more &= noted.is_ok();
        self.count(&partitions, pass).await?;
        match noted {
            // What is not noted is looked at in the next pass.
            Err(StoreError::Full) => Ok(()),
            noted => noted,
        }
    }

    /// Queues what one subscription missed, if it has room. Returns after how many milliseconds to look at it again.
    async fn look(
        &mut self,
        partition: Partition,
        id: &str,
        window: &BehindWindow,
        oldest_ms: Option<i64>,
        pass: &mut BackfillPass,
    ) -> Result<i64, StoreError> {
        let is_full = match TenantId::parse(&window.owner) {
            Some(tenant) => self.store.refuses_new(&tenant, partition).is_some(),
            None => self.store.memory_step(partition) == MemoryStep::Refuse,
        };
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
            id,
            subscriber,
            room,
            oldest_ms,
        };
        let places = self.store.places_behind(partition, id).await?;
        if subscriber.is_none() || places.is_empty() {
            // The script takes it out of the index: it is not behind, or not active, any more.
            let nothing = MissedBatch::up_to(OutboxPosition::after(EntryId::ZERO));
            self.queue(&mut behind, "", "", &nothing, pass).await?;
            return Ok(0);
        }
        let (queued, expired) = (pass.queued, pass.expired);
        let (mut followed, mut is_unreachable, mut failed) = (0, false, None);
        for (source, place) in places {
            if followed == SOURCES || followed > 0 && behind.room == 0 {
                break;
            }
            let from = Partition::parse(&source).unwrap_or(partition);
            if self.failures.leave_out(from).await {
                is_unreachable = true;
                continue;
            }
            followed += 1;
            let followed = self.follow(&mut behind, &source, place, pass).await;
            match followed {
                Ok(()) => {}
                // The node of this outbox alone may be unavailable.
                Err(unavailable @ StoreError::Unavailable(_)) => {
                    self.failures.note(from, unavailable);
                    is_unreachable = true;
                }
                // A lane may be damaged, and no other.
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
        Ok(match (behind.room, is_unreachable) {
            (0, _) => FULL_AGAIN_MS,
            (_, true) => UNREADABLE_MS,
            (_, false) => 0,
        })
    }

    /// Queues what a subscription missed in one outbox.
    async fn follow(
        &self,
        behind: &mut Backlog<'_>,
        source: &str,
        mut read: String,
        pass: &mut BackfillPass,
    ) -> Result<(), StoreError> {
        let from = Partition::parse(source).unwrap_or(behind.partition);
        let location = OutboxLocation::of(&self.store, behind.partition, from).await?;
        for _ in 0..READS {
            let place = behind.begin(&read);
            let owner = behind.subscriber.and_then(|it| it.owner.tenant());
            let owner = owner.map(TenantId::as_str);
            let (outbox, is_all) = match behind.room {
                0 => (Vec::new(), true),
                _ => {
                    let place = (from, Some(place.done()));
                    self.outboxes.read_events_again(place, owner).await?
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
        pass: &mut BackfillPass,
    ) -> Result<Option<String>, StoreError> {
        let next = missed.next.to_string();
        let call = CatchUp {
            partition: behind.partition,
            lane_concurrency: self.lane_concurrency,
            owner: behind.owner,
            mark: behind.mark,
            subscription_id: behind.id,
            epoch: behind.subscriber.and_then(Subscriber::epoch),
            stale_ms: behind.oldest_ms.map(|_| STALE_MS),
            source,
            read,
            next: &next,
            too_old: missed.too_old,
            deliveries: &missed.deliveries,
        };
        let reply = outcome(self.store.run(Lane::Background, &call).await)?;
        let CatchUpReply::CaughtUp {
            queued,
            skipped,
            place,
        } = reply
        else {
            self.subscriptions.forget(&[behind.owner.to_owned()]);
            pass.more = true;
            return Ok(None);
        };
        behind.room = behind.room.saturating_sub(missed.deliveries.len());
        pass.queued += queued;
        pass.expired += skipped;
        Ok(Some(place))
    }

    async fn count(
        &mut self,
        partitions: &[Partition],
        pass: &BackfillPass,
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
