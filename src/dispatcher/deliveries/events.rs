//! Reads the events that outbox entries point to, as far as needed to find their subscriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounter;
use tracing::error;

use super::subscriptions::Subscriber;
use crate::dispatcher::outboxes::{
    CachedEntry, Facts, OutboxCursor, Outboxes, READ_ROWS, ROWS, events_of, fitting,
};
use crate::domain::event::StoredEvent;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::{Record, RecordError};
use crate::domain::webhook::{CrossedThreshold, DeliveryId, EventSummary, reported_on, trace_of};
use crate::store::StoreError;
use crate::store::dispatcher::deliveries::EventPlace;
use crate::store::dispatcher::fan_out::QueuedDelivery;
use crate::store::dispatcher::outbox::{OutboxPage, Pointer};

/// Events that one pass reads, about: they are in memory until its end, some kilobytes each.
const EVENTS_MAX: usize = 10_000;

/// An event, as far as needed to find its subscriptions.
pub(super) struct OutboxEvent {
    /// Its number among those of its entry.
    pub number: usize,
    pub place: EventPlace,
    pub at_ms: i64,
    event_id: String,
    event_type: String,
    scope: Option<String>,
    crossed: Option<CrossedThreshold>,
    reported_on: Option<String>,
    trace: String,
}

/// An outbox entry and its events; `None` where the node is out of reach.
pub(super) type OutboxEntry = (EntryId, Option<Vec<OutboxEvent>>);

/// Events that were read.
#[derive(Default)]
pub(super) struct EventsRead {
    /// The entries after each place.
    pub outboxes: BTreeMap<OutboxCursor, Vec<OutboxEntry>>,
    /// Number of these entries.
    pub pointers: usize,
    /// Whether an outbox has more.
    pub more: bool,
    /// Partitions whose node is out of reach.
    pub unreachable: BTreeSet<Partition>,
}

impl Outboxes {
    /// Reads the events after these cursors. `skipped` counts those that are damaged or gone.
    pub(super) async fn read_events(
        &self,
        places: &BTreeSet<OutboxCursor>,
        skipped: &IntCounter,
    ) -> Result<EventsRead, StoreError> {
        let places: Vec<OutboxCursor> = places.iter().copied().collect();
        let beyond = self.read(&places, Duration::ZERO).await?;
        let entries = beyond.into_iter().map(|beyond| Some(beyond?.entries));
        self.events_of_entries(&places, entries.collect(), None, Some(skipped))
            .await
    }

    /// Reads the entries after a place that cursors have passed already, with the events of a `tenant` or of all; and whether these
    /// are all entries.
    pub(super) async fn read_events_again(
        &self,
        place: OutboxCursor,
        tenant: Option<&str>,
    ) -> Result<(Vec<OutboxEntry>, bool), StoreError> {
        let beyond = self.store.read_outboxes(&[place], ROWS).await?;
        let entries = |beyond: OutboxPage| beyond.pointers.into_iter().map(CachedEntry::of);
        let entries = beyond.into_iter().map(|it| Some(entries(it?).collect()));
        let mut read = self
            .events_of_entries(&[place], entries.collect(), tenant, None)
            .await?;
        let is_all = !read.more;
        Ok((read.outboxes.remove(&place).unwrap_or_default(), is_all))
    }

    /// Reads what entries point to. `skipped` counts what is damaged or gone.
    async fn events_of_entries(
        &self,
        places: &[OutboxCursor],
        beyond: Vec<Option<Vec<Arc<CachedEntry>>>>,
        tenant: Option<&str>,
        skipped: Option<&IntCounter>,
    ) -> Result<EventsRead, StoreError> {
        let mut read = EventsRead::default();
        let mut entries = Vec::new();
        let share = share_of(&beyond);
        for (place, beyond) in places.iter().zip(beyond) {
            // Where the node is out of reach, the others need not wait.
            if beyond.is_none() {
                read.unreachable.insert(place.0);
            }
            let mut found = beyond.unwrap_or_default();
            let fits = fitting(&found, share);
            read.more |= found.len() == ROWS || fits < found.len();
            found.truncate(fits);
            entries.extend(found.into_iter().map(|entry| (*place, entry)));
        }
        read.pointers = entries.len();
        let is_wanted = |pointer: &Pointer| {
            let of_tenant = |tenant| {
                pointer
                    .target
                    .as_ref()
                    .is_some_and(|it| it.tenant == tenant)
            };
            tenant.is_none_or(of_tenant)
        };
        for some in entries.chunks(READ_ROWS) {
            let wanted = some.iter().filter(|(_, entry)| is_wanted(&entry.pointer));
            let wanted: Vec<_> = wanted.map(|(place, entry)| (place.0, entry)).collect();
            let mut facts = self.facts(&wanted).await?.into_iter();
            for (place, entry) in some {
                let pointer = &entry.pointer;
                let events = match is_wanted(pointer) {
                    false => Some(Vec::new()),
                    true => facts
                        .next()
                        .flatten()
                        .map(|facts| events_at(place.0, pointer, &facts, skipped)),
                };
                let outbox = read.outboxes.entry(*place).or_default();
                outbox.push((pointer.entry, events));
            }
        }
        for outbox in read.outboxes.values_mut() {
            // Behind one that is out of reach, the rest waits.
            let reached = outbox
                .iter()
                .take_while(|(_, events)| events.is_some())
                .count();
            outbox.truncate(reached);
        }
        Ok(read)
    }
}

/// Events of one outbox that a pass reads at most, so that all outboxes have a share.
fn share_of(beyond: &[Option<Vec<Arc<CachedEntry>>>]) -> usize {
    let found = || {
        beyond
            .iter()
            .flatten()
            .filter(|entries| !entries.is_empty())
    };
    let events: usize = found().map(|entries| events_of(entries)).sum();
    match events > EVENTS_MAX {
        true => EVENTS_MAX / found().count(),
        false => EVENTS_MAX,
    }
}

/// The events of an entry; those that are damaged or gone are logged and counted by `skipped`.
fn events_at(
    partition: Partition,
    pointer: &Pointer,
    facts: &Facts,
    skipped: Option<&IntCounter>,
) -> Vec<OutboxEvent> {
    let skip = |count: usize, why: &str| {
        let Some(skipped) = skipped else { return };
        skipped.inc_by(count as u64);
        error!(
            partition = %partition, outbox.entry = %pointer.entry, count,
            "no webhook gets {count} events of entry {} in the outbox of {partition}: {why}", pointer.entry
        );
    };
    let Some(target) = &pointer.target else {
        skip(1, "the entry is damaged");
        return Vec::new();
    };
    let gone = target.count.saturating_sub(facts.len());
    if gone > 0 {
        skip(gone, "the log has lost them");
    }
    let mut events = Vec::new();
    for (number, (entry, facts)) in facts.iter().enumerate() {
        let place = EventPlace {
            partition,
            tenant: target.tenant.clone(),
            day: target.day,
            entry: *entry,
        };
        match OutboxEvent::read(number, place, facts) {
            Ok(event) => events.push(event),
            Err(damage) => skip(1, &damage.to_string()),
        }
    }
    events
}

impl OutboxEvent {
    fn read(number: usize, place: EventPlace, facts: &Record) -> Result<Self, RecordError> {
        let entry = place.entry.to_string();
        let event = StoredEvent {
            partition: place.partition,
            tenant: &place.tenant,
            entry: &entry,
            facts,
        };
        let event_type = facts.text("type")?;
        Ok(Self {
            number,
            event_id: event.event_id(),
            at_ms: facts.integer("at_ms")?,
            event_type: event_type.to_owned(),
            scope: facts.get("scope").map(str::to_owned),
            crossed: CrossedThreshold::of(event_type, facts)?,
            reported_on: reported_on(event_type, facts),
            trace: trace_of(facts)?,
            place,
        })
    }

    pub fn summary(&self) -> EventSummary<'_> {
        EventSummary {
            event_type: &self.event_type,
            tenant: &self.place.tenant,
            scope: self.scope.as_deref(),
            crossed: self.crossed,
            reported_on: self.reported_on.as_deref(),
        }
    }

    /// The delivery to a subscription, without the number of the owner.
    pub fn delivery_to(&self, subscriber: &Subscriber) -> QueuedDelivery {
        let id = &subscriber.id;
        let delivery = DeliveryId::of(subscriber.owner.partition(), &self.event_id, id, None);
        let lane = format!("{id}:{}:{}", self.place.partition, self.place.tenant);
        (
            (0, id.to_string(), subscriber.epoch()),
            (delivery.to_string(), lane, self.place.to_string()),
            (self.event_type.clone(), self.trace.clone()),
        )
    }
}
