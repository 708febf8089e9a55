//! Batches of the events that a subscription missed in an outbox.

use super::events::OutboxEntry;
use super::fan_out_plan::DELIVERIES;
use super::subscriptions::{Occurrence, OutboxLocation, Subscriber};
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::catch_up::MissedDelivery;
use crate::store::dispatcher::fan_out::OutboxPosition;

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
    /// The place behind it.
    pub next: OutboxPosition,
}

impl Backlog<'_> {
    /// Where to begin: at the place, or behind the hours of which everything is too old.
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

    /// Batches of the events of an outbox that it missed behind a place, as far as there is room.
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
                    || !subscriber.gets(&event.seen(), when)
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
