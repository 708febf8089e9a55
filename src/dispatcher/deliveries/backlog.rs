//! What a subscription missed that is behind in an outbox; and what a pass did that queued it.

use std::time::Duration;

use super::events::OutboxEntry;
use super::fan_out_plan::DELIVERIES;
use super::subscriptions::{Occurrence, OutboxLocation, Subscriber};
use crate::dispatcher::workers::Next;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::catch_up::MissedDelivery;
use crate::store::dispatcher::fan_out::OutboxPosition;

const HOUR_MS: i64 = 3_600_000;

/// The pause while some subscriptions are behind.
const BEHIND: Duration = Duration::from_millis(250);

/// The pause after a pass that queued something.
const BUSY: Duration = Duration::from_millis(50);

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CatchUpPass {
    /// Deliveries queued.
    pub queued: i64,
    /// Events that were too old.
    pub expired: i64,
    /// Subscriptions that are behind, as far as it looked.
    pub behind: usize,
    /// Whether there may be more to do at once.
    pub more: bool,
}

/// A subscription that is behind, and what may be queued for it.
pub(super) struct Backlog<'a> {
    pub partition: Partition,
    pub owner: &'a str,
    pub mark: &'a str,
    pub subscriber: &'a Subscriber,
    /// How many deliveries may be queued.
    pub room: usize,
    /// Events before this time are too old; `None` while the clock is doubted.
    pub oldest_ms: Option<i64>,
}

/// Some of what was missed.
pub(super) struct MissedBatch {
    pub deliveries: Vec<MissedDelivery>,
    pub too_old: usize,
    /// The place behind it.
    pub next: OutboxPosition,
}

impl Backlog<'_> {
    /// Where to begin: at the place, or behind the hours of which everything is too old.
    pub fn begin(&self, place: &str) -> OutboxPosition {
        let place = OutboxPosition::parse(place).unwrap_or(OutboxPosition {
            entry: EntryId::ZERO,
            within: None,
        });
        let first_ms = self.first_hour_ms().unsigned_abs();
        if place.entry.ms >= first_ms {
            return place;
        }
        OutboxPosition {
            entry: EntryId {
                ms: first_ms - 1,
                sequence: u64::MAX,
            },
            within: None,
        }
    }

    /// When the hour began in which events are too old that are counted one by one.
    fn first_hour_ms(&self) -> i64 {
        self.oldest_ms.map_or(0, |ms| ms - ms % HOUR_MS)
    }

    /// What it missed of an outbox behind a place, some at a time; as far as there is room.
    pub fn missed(
        &self,
        place: OutboxPosition,
        outbox: &[OutboxEntry],
        location: OutboxLocation,
    ) -> Vec<MissedBatch> {
        let id = self.subscriber.id.as_str();
        let (mut chunks, mut room) = (Vec::new(), self.room);
        let mut chunk = MissedBatch::up_to(place.clone());
        for (entry, events) in outbox {
            for event in events.iter().flatten() {
                let seen = (event.number, id.to_owned());
                let done = place.within.as_ref().filter(|_| *entry == place.entry);
                let when = Occurrence {
                    entry: *entry,
                    at_ms: event.at_ms,
                    outbox: location,
                };
                if *entry < place.entry
                    || done.is_some_and(|done| seen <= *done)
                    || !self.subscriber.gets(&event.seen(), when)
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
                let (_, names, about) = event.delivery_to(self.subscriber);
                chunk.deliveries.push((names, about));
                room -= 1;
                if chunk.deliveries.len() == DELIVERIES {
                    let next = MissedBatch::up_to(chunk.next.clone());
                    chunks.push(std::mem::replace(&mut chunk, next));
                }
            }
            chunk.next = OutboxPosition {
                entry: *entry,
                within: None,
            };
        }
        chunks.push(chunk);
        chunks
    }
}

impl MissedBatch {
    fn up_to(next: OutboxPosition) -> Self {
        Self {
            deliveries: Vec::new(),
            too_old: 0,
            next,
        }
    }
}

impl CatchUpPass {
    /// When to start the next pass.
    pub(super) fn next(self) -> Next {
        match self {
            Self { more: true, .. } => Next::Now,
            Self { behind: 0, .. } => Next::Idle,
            Self { queued: 0, .. } => Next::After(BEHIND),
            _ => Next::After(BUSY),
        }
    }
}
