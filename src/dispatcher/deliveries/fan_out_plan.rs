//! Plans one pass of the fan-out over an outbox: which deliveries are queued, and by which calls of the script.
//!
//! A tenant that takes more than its share of a pass does not hold up the others: from there on, the subscriptions that its events
//! are for fall behind in this outbox, and catch up later. So do those of an owner whose data takes too much memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::events::{OutboxEntry, OutboxEvent};
use super::subscriptions::{Occurrence, OutboxLocation, Subscribers};
use crate::dispatcher::outboxes::OutboxCursor;
use crate::domain::ids::Partition;
use crate::domain::tenant::SYSTEM;
use crate::store::dispatcher::fan_out::{OutboxPosition, QueuedDelivery};

/// Deliveries that one call queues at most, each half a dozen commands.
pub(super) const DELIVERIES: usize = 25;

/// Deliveries and events of a backlog in one call at most: each may be of another subscription, whose window is read and written.
const CALL_EVENTS: usize = 50;

/// Deliveries of one outbox that one pass queues at most; and of these of one tenant.
pub(super) const PASS_DELIVERIES: usize = 500;
const TENANT_SHARE: usize = PASS_DELIVERIES / 2;

/// Events that only move a subscription's backlog: this many cost as much as one delivery.
const BACKLOG_PER_DELIVERY: usize = 8;
pub(super) const CALL_COST: usize = DELIVERIES * BACKLOG_PER_DELIVERY;
const PASS_COST: usize = PASS_DELIVERIES * BACKLOG_PER_DELIVERY;

/// Owner of the subscriptions that get the events of an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// The tenants of the partition.
    Tenants,
    /// The operator.
    System,
}

/// An outbox, and the cursor of one audience in it.
pub(super) struct AudienceCursor {
    pub partition: Partition,
    pub audience: Audience,
    pub cursor: Option<OutboxPosition>,
}

/// One call of the script for one outbox: what is queued, and the cursor after it.
#[derive(Default)]
pub(super) struct Step {
    pub read: Option<OutboxPosition>,
    /// `None` where nothing was examined.
    pub next: Option<OutboxPosition>,
    /// Owners whose subscriptions were examined, and the marks of these.
    pub owners: BTreeMap<String, String>,
    /// With the owner of each.
    pub deliveries: Vec<(String, QueuedDelivery)>,
    pub cost: usize,
}

/// The calls of one pass over an outbox.
#[derive(Default)]
pub(super) struct Plan {
    pub steps: Vec<Step>,
    /// Whether the pass reached its limit before the last event.
    pub is_cut: bool,
    /// Events for owners whose list of subscriptions cannot be read.
    pub skipped: u64,
    step: Step,
    cost: usize,
}

impl AudienceCursor {
    /// The field of the cursor.
    pub fn field(&self) -> String {
        match self.audience {
            Audience::Tenants => "own".to_owned(),
            Audience::System => self.partition.to_string(),
        }
    }

    /// The partition of the subscriptions.
    pub fn home(&self) -> Partition {
        match self.audience {
            Audience::Tenants => self.partition,
            Audience::System => Partition::FIRST,
        }
    }

    /// Where reading starts.
    pub fn place(&self) -> OutboxCursor {
        let done = self.cursor.as_ref().map(OutboxPosition::done);
        (self.partition, done)
    }

    /// The owner whose subscriptions get an event. An event without a tenant is for the operator alone.
    pub fn owner_of<'e>(&self, event: &'e OutboxEvent) -> Option<&'e str> {
        match self.audience {
            Audience::Tenants => {
                Some(event.place.tenant.as_str()).filter(|tenant| *tenant != SYSTEM)
            }
            Audience::System => Some(SYSTEM),
        }
    }

    /// The position before the first entry, where the outbox was read again from before the cursor.
    fn rewound(&self, entries: &[OutboxEntry]) -> Option<OutboxPosition> {
        let (first, _) = entries.first()?;
        let is_behind = *first > self.cursor.as_ref()?.done();
        (!is_behind).then(|| OutboxPosition::before(*first))
    }

    /// Plans what is queued of these entries. `subscribers`: of each owner. `full`: owners for whom nothing is queued now.
    pub fn plan(
        &self,
        entries: &[OutboxEntry],
        subscribers: &HashMap<&str, &Subscribers>,
        full: &BTreeSet<&str>,
        outbox: OutboxLocation,
    ) -> Plan {
        let mut plan = Plan {
            step: Step::after(self.cursor.clone()),
            ..Plan::default()
        };
        if let Some(position) = self.rewound(entries) {
            // A step of its own moves the cursor back, so that what follows has its true place before it.
            plan.step.next = Some(position);
            plan.end_step();
        }
        let begin = plan.step.read.clone();
        let mut unreadable = BTreeSet::new();
        let mut of_tenants: BTreeMap<&str, usize> = BTreeMap::new();
        for (entry, events) in entries {
            let resumed = begin.as_ref().filter(|begin| begin.entry == *entry);
            let done = resumed.and_then(|begin| begin.within.as_ref());
            for event in events.iter().flatten() {
                let Some(owner) = self.owner_of(event) else {
                    continue;
                };
                let of_owner = subscribers[owner];
                if of_owner.is_unknown {
                    plan.skipped += 1;
                    continue;
                }
                let queued = of_tenants.entry(&event.place.tenant).or_default();
                plan.step.name(owner, of_owner);
                let occurrence = Occurrence {
                    entry: *entry,
                    at_ms: event.at_ms,
                    outbox,
                };
                for subscriber in of_owner.active.iter() {
                    let within = (event.number, subscriber.id.to_string());
                    // Of an unreadable record only the place is kept, so its first event is enough.
                    if done.is_some_and(|done| within <= *done)
                        || !subscriber.gets(&event.summary(), occurrence)
                        || subscriber.epoch().is_none() && !unreadable.insert(&subscriber.id)
                    {
                        continue;
                    }
                    if plan.cost >= PASS_COST {
                        return plan.finish(true);
                    }
                    let falls_behind = *queued >= TENANT_SHARE || full.contains(owner);
                    *queued += usize::from(!falls_behind);
                    let mut delivery = event.delivery_to(subscriber);
                    if falls_behind {
                        delivery.1.1.clear();
                    }
                    plan.step.name(owner, of_owner);
                    plan.step.next = Some(OutboxPosition {
                        entry: *entry,
                        within: Some(within),
                    });
                    plan.push(owner, delivery, falls_behind);
                }
            }
            plan.step.next = Some(OutboxPosition::after(*entry));
        }
        plan.finish(false)
    }
}

impl Plan {
    fn finish(mut self, is_cut: bool) -> Self {
        self.is_cut = is_cut;
        self.end_step();
        self
    }

    fn push(&mut self, owner: &str, delivery: QueuedDelivery, falls_behind: bool) {
        let cost = match falls_behind {
            true => 1,
            false => BACKLOG_PER_DELIVERY,
        };
        self.cost += cost;
        self.step.cost += cost;
        self.step.deliveries.push((owner.to_owned(), delivery));
        if self.step.cost >= CALL_COST || self.step.deliveries.len() >= CALL_EVENTS {
            self.end_step();
        }
    }

    fn end_step(&mut self) {
        let next = Step::after(self.step.next.clone());
        self.steps.push(std::mem::replace(&mut self.step, next));
    }
}

impl Step {
    fn after(read: Option<OutboxPosition>) -> Self {
        Self {
            read,
            ..Self::default()
        }
    }

    /// Notes an owner whose subscriptions were examined.
    fn name(&mut self, owner: &str, subscribers: &Subscribers) {
        let owner = self.owners.entry(owner.to_owned());
        owner.or_insert_with(|| subscribers.mark.clone());
    }
}
