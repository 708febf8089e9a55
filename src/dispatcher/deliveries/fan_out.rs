//! Gives the events of the outboxes to the subscriptions that they are for: queues a delivery for each, exactly once.
//!
//! The worker keeps no place between passes. A script moves the cursor of an outbox together with the deliveries that it
//! queues, and only from where it was read. A tenant's own subscriptions lie in the partition of its outbox; those of the
//! operator lie in partition `000`, which has a cursor for each partition.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use super::events::{EventReader, Happened};
use super::subscriptions::{Hooks, Outbox, Remembered, When};
use super::wake::Wake;
use crate::dispatcher::due::partitions;
use crate::dispatcher::workers::{Next, lease_worker};
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::tenant::SYSTEM;
use crate::metrics::metrics;
use crate::store::dispatcher::fan_out::{FanOutPart, Fanned, FannedTo, QueuedDelivery};
use crate::store::signature::Counted;
use crate::store::{Lease, MemoryStep, Store, StoreError};

/// The pause while no events are emitted.
const IDLE: Duration = Duration::from_millis(500);

/// The pause after a pass that followed events.
const BUSY: Duration = Duration::from_millis(50);

/// Deliveries that one call queues at most, each half a dozen commands.
pub(super) const DELIVERIES: usize = 50;

/// Deliveries of one outbox that one pass queues at most, so that no tenant holds up the others.
pub(super) const PASS_DELIVERIES: usize = 500;

/// Outboxes of one call at most.
const PARTS: usize = 100;

metrics! {
    /// Metrics of the fan-out.
    struct FanOutMetrics {
        /// Deliveries of events to webhooks that were queued.
        queued: IntCounter = "budget_webhook_deliveries_queued_total",
        /// Events that no webhook gets, because they are damaged or gone.
        skipped: IntCounter = "budget_webhook_events_skipped_total",
    }
}

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FanOutPass {
    /// Deliveries queued.
    pub queued: i64,
    /// Pointers followed.
    pub followed: usize,
    /// Whether there may be more.
    pub more: bool,
}

/// Queues deliveries.
pub struct FanOut {
    store: Store,
    reader: EventReader,
    remembered: Remembered,
    lane_concurrency: u32,
    queued: Arc<Wake>,
    metrics: FanOutMetrics,
}

/// Whose subscriptions get the events of an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Those of its tenants.
    Own,
    /// Those of the operator.
    System,
}

/// What is to be queued next of one outbox, and the cursor behind it.
struct Chunk {
    read: Option<FannedTo>,
    /// `None` where nothing was looked at.
    next: Option<FannedTo>,
    /// Whose subscriptions were looked at, and their marks.
    owners: Vec<(String, String)>,
    /// With the owner of each.
    deliveries: Vec<(String, QueuedDelivery)>,
}

impl FanOut {
    /// A worker over `store`. It wakes `queued` for new deliveries. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(
        store: Store,
        lane_concurrency: u32,
        queued: Arc<Wake>,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let metrics = FanOutMetrics::register(registry)?;
        Ok(Self {
            remembered: Remembered::new(store.clone()),
            reader: EventReader {
                store: store.clone(),
            },
            store,
            lane_concurrency,
            queued,
            metrics,
        })
    }

    /// Does one pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable or takes no deliveries. Unreadable events are logged, counted and passed over.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<FanOutPass, StoreError> {
        let mut pass = FanOutPass::default();
        let partitions = partitions(leases);
        if partitions.is_empty() {
            return Ok(pass);
        }
        let cursors = self.store.fanned_to(&partitions).await?;
        let mut reads: Vec<(Partition, Option<EntryId>)> = Vec::new();
        for (partition, cursors) in partitions.iter().zip(&cursors) {
            for cursor in cursors {
                let from = cursor.as_ref().map(FannedTo::done);
                if !reads.contains(&(*partition, from)) {
                    reads.push((*partition, from));
                }
            }
        }
        let read = self.reader.read(&reads, &self.metrics.skipped).await?;
        (pass.followed, pass.more) = (read.pointers, read.more);
        let outboxes = read.outboxes;
        let mut of_system = VecDeque::new();
        for (partition, cursors) in partitions.into_iter().zip(cursors) {
            let [own, system] = cursors;
            if let Some(events) = outboxes.get(&(partition, own.as_ref().map(FannedTo::done))) {
                let chunks = self
                    .chunks(partition, Audience::Own, own, events, &mut pass)
                    .await?;
                for chunk in chunks {
                    if !self
                        .queue(partition, vec![("own".to_owned(), chunk)], &mut pass)
                        .await?
                    {
                        break;
                    }
                }
            }
            if let Some(events) = outboxes.get(&(partition, system.as_ref().map(FannedTo::done))) {
                let chunks = self
                    .chunks(partition, Audience::System, system, events, &mut pass)
                    .await?;
                of_system.push_back((partition, VecDeque::from(chunks)));
            }
        }
        self.queue_for_system(of_system, &mut pass).await?;
        self.metrics.queued.inc_by(pass.queued.unsigned_abs());
        Ok(pass)
    }

    /// What is to be queued of an outbox behind a cursor, some at a time.
    async fn chunks(
        &self,
        partition: Partition,
        audience: Audience,
        cursor: Option<FannedTo>,
        outbox: &[(EntryId, Option<Vec<Happened>>)],
        pass: &mut FanOutPass,
    ) -> Result<Vec<Chunk>, StoreError> {
        // What belongs to no tenant is for the operator alone.
        let owner_of = |event: &Happened| match audience {
            Audience::Own => Some(event.place.tenant.clone()).filter(|tenant| tenant != SYSTEM),
            Audience::System => Some(SYSTEM.to_owned()),
        };
        let events = || {
            outbox
                .iter()
                .flat_map(|(_, events)| events.iter().flatten())
        };
        let owners: BTreeSet<String> = events().filter_map(owner_of).collect();
        let owners: Vec<String> = owners.into_iter().collect();
        let hooks = self.remembered.of(&owners).await?;
        let hooks: HashMap<&String, &Hooks> = owners.iter().zip(&hooks).collect();
        let home = match audience {
            Audience::Own => partition,
            Audience::System => Partition::FIRST,
        };
        let lies = Outbox::of(&self.store, home, partition).await?;
        let done = cursor.as_ref().and_then(|cursor| cursor.within.clone());
        let resumed = cursor.as_ref().map(|cursor| cursor.entry);
        let mut chunks = Vec::new();
        let mut chunk = Chunk::behind(cursor);
        let mut count = 0;
        for (entry, events) in outbox {
            if resumed.is_some_and(|resumed| *entry < resumed) {
                continue;
            }
            for event in events.iter().flatten() {
                let Some(owner) = owner_of(event) else {
                    continue;
                };
                let of_owner = hooks[&owner];
                chunk.name(&owner, &of_owner.mark);
                let when = When {
                    entry: *entry,
                    at_ms: event.at_ms,
                    outbox: lies,
                };
                for hook in of_owner.active.iter() {
                    let id = hook.subscription.subscription_id.as_str();
                    let seen = (event.number, id.to_owned());
                    let is_done =
                        Some(*entry) == resumed && done.as_ref().is_some_and(|done| seen <= *done);
                    if is_done || !hook.gets(&event.seen(), when) {
                        continue;
                    }
                    if count == PASS_DELIVERIES {
                        pass.more = true;
                        return Ok(chunks);
                    }
                    count += 1;
                    chunk.push(&owner, event.delivery_to(hook));
                    chunk.next = Some(FannedTo {
                        entry: *entry,
                        within: Some(seen),
                    });
                    if chunk.deliveries.len() == DELIVERIES {
                        let next = Chunk::behind(chunk.next.clone());
                        chunks.push(std::mem::replace(&mut chunk, next));
                        chunk.name(&owner, &of_owner.mark);
                    }
                }
            }
            chunk.next = Some(FannedTo {
                entry: *entry,
                within: None,
            });
        }
        chunks.push(chunk);
        Ok(chunks)
    }

    /// Queues for the operator, for many outboxes at a time.
    async fn queue_for_system(
        &self,
        mut outboxes: VecDeque<(Partition, VecDeque<Chunk>)>,
        pass: &mut FanOutPass,
    ) -> Result<(), StoreError> {
        while !outboxes.is_empty() {
            let (mut parts, mut deliveries) = (Vec::new(), 0);
            // One of each outbox, because the next begins where it ends.
            for (partition, chunks) in &mut outboxes {
                let fits = |chunk: &Chunk| deliveries + chunk.deliveries.len() <= DELIVERIES;
                if parts.len() < PARTS && chunks.front().is_some_and(fits) {
                    let chunk = chunks.pop_front().expect("it was looked at");
                    deliveries += chunk.deliveries.len();
                    parts.push((partition.to_string(), chunk));
                }
            }
            outboxes.retain(|(_, chunks)| !chunks.is_empty());
            if !self.queue(Partition::FIRST, parts, pass).await? {
                break;
            }
        }
        Ok(())
    }

    /// Queues the deliveries of some outboxes; whether all their cursors moved.
    async fn queue(
        &self,
        partition: Partition,
        parts: Vec<(String, Chunk)>,
        pass: &mut FanOutPass,
    ) -> Result<bool, StoreError> {
        // Cursors go on, or outboxes could not be trimmed; what would take memory waits.
        let is_full = self.store.memory_step(partition) == MemoryStep::Refuse;
        if is_full && parts.iter().any(|(_, chunk)| !chunk.deliveries.is_empty()) {
            return Ok(false);
        }
        let mut owners: Vec<(String, String)> = Vec::new();
        let mut expected = Vec::new();
        let mut encoded: Vec<FanOutPart> = Vec::new();
        for (field, chunk) in parts {
            let Some(next) = chunk.next else { continue };
            for owner in &chunk.owners {
                if !owners.contains(owner) {
                    owners.push(owner.clone());
                }
            }
            let number = |owner: &str| {
                owners
                    .iter()
                    .position(|(name, _)| name == owner)
                    .map_or(0, |at| at + 1)
            };
            let deliveries = chunk.deliveries.into_iter().map(|(owner, mut delivery)| {
                delivery.0.0 = number(&owner);
                delivery
            });
            let read = chunk.read.map(|read| read.to_string()).unwrap_or_default();
            expected.push(next.to_string());
            encoded.push((
                (field, read, next.to_string()),
                Counted(deliveries.collect()),
            ));
        }
        if encoded.is_empty() {
            return Ok(true);
        }
        let fanned = self
            .store
            .fan_out(partition, self.lane_concurrency, &owners, &encoded)
            .await?;
        match fanned {
            Fanned::Queued { count, cursors } => {
                pass.queued += count;
                if count > 0 {
                    self.queued.partition(partition);
                }
                Ok(cursors == expected)
            }
            Fanned::Stale(owners) => {
                self.remembered.forget(&owners);
                pass.more = true;
                Ok(false)
            }
        }
    }
}

lease_worker!(
    FanOut: "fan_out", BUSY,
    |worker, leases, _| worker.run_once(leases).await?.next()
);

impl FanOutPass {
    /// When to start the next pass.
    fn next(self) -> Next {
        match (self.more, self.followed) {
            (true, _) => Next::Now,
            (false, 0) => Next::After(IDLE),
            (false, _) => Next::After(BUSY),
        }
    }
}

impl Chunk {
    fn behind(read: Option<FannedTo>) -> Self {
        Self {
            read,
            next: None,
            owners: Vec::new(),
            deliveries: Vec::new(),
        }
    }

    /// Notes an owner of whom it was looked at.
    fn name(&mut self, owner: &str, mark: &str) {
        let named = (owner.to_owned(), mark.to_owned());
        if !self.owners.contains(&named) {
            self.owners.push(named);
        }
    }

    fn push(&mut self, owner: &str, delivery: QueuedDelivery) {
        self.deliveries.push((owner.to_owned(), delivery));
    }
}
