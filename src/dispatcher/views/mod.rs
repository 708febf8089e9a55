//! Keeps the view of events over all tenants: reads the outboxes of the leased partitions and adds a row per event.
//!
//! The worker keeps no state between passes. A script moves an outbox's cursor together with the rows that it adds, and only
//! from where the cursor was read. So the view holds each event once, even when dispatchers die or overlap.

mod row;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::error;

use super::due::partitions;
use super::metrics::ViewMetrics;
use super::outboxes::{CachedEntry, Facts, NewEntries, OutboxCursor, Outboxes, READ_ROWS};
use super::workers::{Next, lease_worker};
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::index_rows::{BATCH_ROWS, Followed, NewRow};
use crate::store::dispatcher::outbox::Pointer;
use crate::store::dispatcher::views::View;
use crate::store::{Lease, Store, StoreError};
use row::new_row;

/// The pause while no events are emitted, and the longest time until an event is in the view.
const IDLE: Duration = Duration::from_millis(500);

/// The pause after a pass that added events.
const BUSY: Duration = Duration::from_millis(200);

/// Age up to which cached entries are used, because the fan-out reads the outboxes more often.
const MAX_AGE: Duration = Duration::from_millis(600);

/// Result of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ViewPass {
    /// Events added.
    pub added: usize,
    /// Pointers and events that are damaged or gone.
    pub skipped: usize,
    /// Whether an outbox has more.
    pub more: bool,
    /// The view has every event of all partitions before this time of Redis's clock, in milliseconds.
    pub watermark_ms: i64,
}

impl ViewPass {
    /// When to start the next pass.
    pub fn next(&self) -> Next {
        match (self.more, self.added) {
            (true, _) => Next::Now,
            (false, 0) => Next::After(IDLE),
            (false, _) => Next::After(BUSY),
        }
    }
}

/// Keeps the view of events. Needs no fencing: a script refuses rows read from a cursor that has moved since.
pub struct EventFollower {
    store: Store,
    outboxes: Arc<Outboxes>,
    keep: Duration,
    metrics: ViewMetrics,
}

/// The entries of one outbox after its cursor.
struct Outbox {
    partition: Partition,
    cursor: Option<EntryId>,
    beyond: NewEntries,
}

impl EventFollower {
    /// A worker over `store`, whose event logs are kept for `keep`.
    pub fn new(
        store: Store,
        outboxes: Arc<Outboxes>,
        keep: Duration,
        metrics: ViewMetrics,
    ) -> Self {
        metrics.make_events();
        Self {
            store,
            outboxes,
            keep,
            metrics,
        }
    }

    /// Does one pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable or the view takes no rows. Unreadable entries are logged, counted and
    /// skipped.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<ViewPass, StoreError> {
        self.follow(leases, Duration::ZERO).await
    }

    /// The same; outboxes that were read within `age` are taken as they were.
    ///
    /// # Errors
    /// As for [`EventFollower::run_once`].
    pub async fn follow(&self, leases: &[Lease], age: Duration) -> Result<ViewPass, StoreError> {
        let mut pass = ViewPass::default();
        let times = self.store.node_times().await?;
        let now_ms = times.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
        let outboxes = self.outboxes(leases, age).await?;
        pass.more = outboxes.iter().any(|outbox| !outbox.beyond.is_whole);
        // Entries that any of them lacks are later than this, by the clock of any node.
        let as_of_ms = outboxes.iter().map(|outbox| outbox.beyond.as_of_ms);
        let as_of_ms = as_of_ms.min().unwrap_or(now_ms);
        let mut reached: BTreeSet<Partition> = outboxes
            .iter()
            .filter(|outbox| outbox.beyond.is_whole)
            .map(|outbox| outbox.partition)
            .collect();
        let added = self.add_all(outboxes, &mut reached, &mut pass).await;
        if added.is_err() {
            reached.clear();
        }
        let reached: Vec<_> = reached.into_iter().map(|p| (p, as_of_ms)).collect();
        // Also after a failure, so that the lag metric shows how far the view is behind.
        pass.watermark_ms = self.store.set_watermarks(View::Events, &reached).await?;
        self.count(&pass, now_ms);
        added.map(|()| pass)
    }

    async fn outboxes(&self, leases: &[Lease], age: Duration) -> Result<Vec<Outbox>, StoreError> {
        let partitions = partitions(leases);
        let cursors = self.store.view_cursors(&partitions).await?;
        let places: Vec<OutboxCursor> = partitions.into_iter().zip(cursors).collect();
        let found = self.outboxes.read(&places, age).await?;
        let outbox = |((partition, cursor), beyond): (OutboxCursor, Option<NewEntries>)| {
            Some(Outbox {
                partition,
                cursor,
                // Where the node is out of reach, the others need not wait.
                beyond: beyond?,
            })
        };
        Ok(places.into_iter().zip(found).filter_map(outbox).collect())
    }

    /// Adds the events that outboxes point to, some at a time.
    async fn add_all(
        &self,
        outboxes: Vec<Outbox>,
        reached: &mut BTreeSet<Partition>,
        pass: &mut ViewPass,
    ) -> Result<(), StoreError> {
        let (mut some, mut count) = (Vec::new(), 0);
        let has_some = |outbox: &Outbox| !outbox.beyond.entries.is_empty();
        for outbox in outboxes.into_iter().filter(has_some) {
            count += outbox.beyond.entries.len();
            some.push(outbox);
            if count >= READ_ROWS {
                self.add(std::mem::take(&mut some), reached, pass).await?;
                count = 0;
            }
        }
        self.add(some, reached, pass).await
    }

    /// Adds the events that some outboxes point to. Outboxes that are not read to their end leave `reached`.
    async fn add(
        &self,
        outboxes: Vec<Outbox>,
        reached: &mut BTreeSet<Partition>,
        pass: &mut ViewPass,
    ) -> Result<(), StoreError> {
        let entries = outboxes.iter().flat_map(|outbox| {
            let entries = outbox.beyond.entries.iter();
            entries.map(|entry| (outbox.partition, entry))
        });
        let entries: Vec<(Partition, &Arc<CachedEntry>)> = entries.collect();
        let mut found = self.outboxes.facts(&entries).await?.into_iter();
        let (mut batch, mut room) = (Vec::new(), BATCH_ROWS);
        let mut uncounted = Vec::new();
        for outbox in &outboxes {
            let mut rows = PendingRows::of(outbox);
            let mut cut = false;
            for entry in &outbox.beyond.entries {
                let facts = found.next().flatten();
                // The node is out of reach, or another dispatcher was faster: the rest of the outbox waits.
                cut |= facts.is_none();
                let Some(facts) = facts.filter(|_| !cut) else {
                    continue;
                };
                rows.take(&entry.pointer, &facts, pass);
                while !cut && room <= rows.rows.len() {
                    batch.push(rows.split(room));
                    let rows = std::mem::take(&mut batch);
                    let added = self.send(rows, &mut uncounted, reached, pass);
                    cut = !added.await?.contains(&outbox.partition);
                    room = BATCH_ROWS;
                }
            }
            if cut {
                reached.remove(&outbox.partition);
            }
            if rows.next.is_some() {
                room -= rows.rows.len().min(room);
                batch.push(rows.split(BATCH_ROWS));
            }
        }
        let sent = self.send(batch, &mut uncounted, reached, pass);
        sent.await.map(drop)
    }

    /// Sends the rows of one call and returns the partitions whose rows were added. `uncounted`: event types already added for a
    /// pointer that spans several calls.
    async fn send(
        &self,
        parts: Vec<Followed>,
        uncounted: &mut Vec<Option<String>>,
        reached: &mut BTreeSet<Partition>,
        pass: &mut ViewPass,
    ) -> Result<Vec<Partition>, StoreError> {
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let indexed = self.store.index_followed(&parts, self.keep).await?;
        let mut added = Vec::new();
        for (part, is_added) in parts.into_iter().zip(indexed) {
            if is_added {
                let types = part.rows.into_iter().map(|row| row.row.kind);
                uncounted.extend(types);
                // Rows in the middle of a pointer may be added again, by the dispatcher that moves the cursor.
                if part.read != Some(part.next) {
                    pass.added += uncounted.len();
                    let types = uncounted.drain(..).flatten();
                    types.for_each(|event_type| self.metrics.event(&event_type));
                }
                added.push(part.partition);
            } else {
                uncounted.clear();
                // Another dispatcher moved the cursor meanwhile, and counts what it added.
                reached.remove(&part.partition);
            }
        }
        Ok(added)
    }

    fn count(&self, pass: &ViewPass, now_ms: i64) {
        let (view, metrics) = ([View::Events.as_str()], &self.metrics);
        let added = metrics.added.with_label_values(&view);
        added.inc_by(pass.added as u64);
        let skipped = metrics.skipped.with_label_values(&view);
        skipped.inc_by(pass.skipped as u64);
        metrics.lag(View::Events, now_ms, pass.watermark_ms);
    }
}

lease_worker!(
    EventFollower: "views", Duration::from_millis(200),
    |worker, leases, _| worker.follow(leases, MAX_AGE).await?.next()
);

/// Rows of one outbox that are not sent yet.
struct PendingRows {
    partition: Partition,
    read: Option<EntryId>,
    next: Option<EntryId>,
    rows: Vec<NewRow>,
}

impl PendingRows {
    fn of(outbox: &Outbox) -> Self {
        Self {
            partition: outbox.partition,
            read: outbox.cursor,
            next: None,
            rows: Vec::new(),
        }
    }

    /// Takes this many of the rows so far; the next ones begin where they end. In the middle of a pointer the cursor stays:
    /// to add its first rows once more changes nothing.
    fn split(&mut self, count: usize) -> Followed {
        if let Some(read) = self.read
            && count < self.rows.len()
        {
            return Followed {
                partition: self.partition,
                read: Some(read),
                next: read,
                rows: self.rows.drain(..count).collect(),
            };
        }
        let next = self.next.take().unwrap_or_default();
        Followed {
            partition: self.partition,
            read: self.read.replace(next),
            next,
            rows: std::mem::take(&mut self.rows),
        }
    }

    /// Adds the rows of a pointer's events. Damaged or missing events do not stop the others.
    fn take(&mut self, pointer: &Pointer, facts: &Facts, pass: &mut ViewPass) {
        let partition = self.partition;
        self.next = Some(pointer.entry);
        let mut skip = |count: usize, why: &str| {
            pass.skipped += count;
            error!(
                partition = %partition, outbox.entry = %pointer.entry, count,
                "the view over all tenants skips {count} events of entry {} in the outbox of {partition}: {why}", pointer.entry
            );
        };
        let Some(target) = &pointer.target else {
            return skip(1, "the entry is damaged");
        };
        let gone = target.count.saturating_sub(facts.len());
        if gone > 0 {
            skip(gone, "the log has lost them");
        }
        for (entry, facts) in facts.iter() {
            match new_row(partition, target, *entry, facts) {
                Ok(row) => self.rows.push(row),
                Err(damage) => skip(1, &damage.to_string()),
            }
        }
    }
}
