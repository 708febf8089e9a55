//! Follows the outboxes of partitions, and keeps the view of events over all tenants.
//!
//! Nothing is remembered from pass to pass: the cursors are in the store, and a script moves one only together with the
//! rows that it brings, from where it was read. So the view holds each event once, whoever dies or follows at the same time.

mod row;

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::{error, warn};

use super::metrics::ViewMetrics;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::reservation::Record;
use crate::store::dispatcher::outbox::{Beyond, Pointer, Target};
use crate::store::dispatcher::views::{BATCH_ROWS, Followed, NewRow, View};
use crate::store::{Lease, Store, StoreError};
use row::new_row;

/// How often to look while nothing happens. What happens is in the view, and told, so long after it at most.
pub const QUIET: Duration = Duration::from_millis(500);

/// How soon to look again after something has happened.
pub const BUSY: Duration = Duration::from_millis(200);

/// Entries of one outbox that one pass follows.
const ROWS: usize = 100;

/// How far before its cursor an outbox is followed again that has lost what was followed, in milliseconds: further than a
/// replica that takes over lacks entries, and than its clock may be behind.
const TURN_BACK_MS: u64 = 3_600_000;

/// Entries of outboxes whose facts are read at once.
const READ_ROWS: usize = 500;

/// What one pass came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Follow {
    /// Events added.
    pub added: usize,
    /// Pointers and facts that are damaged or gone.
    pub passed_over: usize,
    /// Whether an outbox had more: go on at once.
    pub more: bool,
    /// All that happened before this time of the store's clock is in the view, in all partitions; milliseconds.
    pub watermark_ms: i64,
}

impl Follow {
    /// How long to wait before the next pass.
    pub fn pause(&self) -> Duration {
        match (self.more, self.added) {
            (true, _) => Duration::ZERO,
            (false, 0) => QUIET,
            (false, _) => BUSY,
        }
    }
}

/// Follows outboxes under the leases that it is given. Needs no fence: a cursor that has moved stops whoever is late.
pub struct EventFollower {
    store: Store,
    keep: Duration,
    metrics: ViewMetrics,
}

/// What one outbox has beyond its cursor.
struct Outbox {
    partition: Partition,
    cursor: Option<EntryId>,
    pointers: Vec<Pointer>,
    /// Whether that is all.
    whole: bool,
}

impl EventFollower {
    /// Over a store. `keep`: for how long event logs are kept.
    pub fn new(store: Store, keep: Duration, metrics: ViewMetrics) -> Self {
        Self {
            store,
            keep,
            metrics,
        }
    }

    /// One pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable, or the view takes no rows. What cannot be read is logged, counted and passed
    /// over instead.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<Follow, StoreError> {
        let mut pass = Follow::default();
        // Before the outboxes are read: what they do not hold by then happens later, on the clock of any node.
        let times = self.store.node_times().await?;
        let now_ms = times.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
        let outboxes = self.outboxes(leases).await?;
        pass.more = outboxes.iter().any(|outbox| !outbox.whole);
        let mut reached: BTreeSet<Partition> = outboxes
            .iter()
            .filter(|outbox| outbox.whole)
            .map(|outbox| outbox.partition)
            .collect();
        let followed = self.follow_all(outboxes, &mut reached, &mut pass).await;
        if followed.is_err() {
            reached.clear();
        }
        let reached: Vec<_> = reached.into_iter().map(|p| (p, now_ms)).collect();
        // Also after a failure: how far the view is behind must show.
        pass.watermark_ms = self.store.set_watermarks(View::Events, &reached).await?;
        self.count(&pass, now_ms);
        followed.map(|()| pass)
    }

    async fn outboxes(&self, leases: &[Lease]) -> Result<Vec<Outbox>, StoreError> {
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        let cursors = self.store.view_cursors(&partitions).await?;
        let cursors: Vec<_> = partitions.into_iter().zip(cursors).collect();
        let mut found = self.store.read_outboxes(&cursors, ROWS).await?;
        self.turn_back(&cursors, &mut found).await?;
        let outbox = |((partition, cursor), beyond): (_, Option<Beyond>)| {
            // Its node is out of reach; the others need not wait.
            let pointers = beyond?.pointers;
            Some(Outbox {
                partition,
                cursor,
                whole: pointers.len() < ROWS,
                pointers,
            })
        };
        Ok(cursors.into_iter().zip(found).filter_map(outbox).collect())
    }

    /// Reads those outboxes again that have lost what was followed, from further back: a replica that took over without the
    /// last entries gives their places anew, and earlier ones where its clock is behind. What was followed before changes
    /// nothing.
    async fn turn_back(
        &self,
        cursors: &[(Partition, Option<EntryId>)],
        found: &mut [Option<Beyond>],
    ) -> Result<(), StoreError> {
        let turned_back = |beyond: &Option<Beyond>| beyond.as_ref().is_some_and(|b| b.turned_back);
        let places: Vec<usize> = (0..found.len())
            .filter(|place| turned_back(&found[*place]))
            .collect();
        if places.is_empty() {
            return Ok(());
        }
        let earlier = |place: &usize| {
            let (partition, cursor) = cursors[*place];
            let cursor = cursor.map(|cursor| EntryId {
                ms: cursor.ms.saturating_sub(TURN_BACK_MS),
                sequence: 0,
            });
            (partition, cursor)
        };
        let earlier: Vec<_> = places.iter().map(earlier).collect();
        let again = self.store.read_outboxes(&earlier, ROWS).await?;
        for ((place, beyond), (partition, _)) in places.into_iter().zip(again).zip(earlier) {
            if beyond.as_ref().is_some_and(|b| !b.pointers.is_empty()) {
                warn!(
                    partition = %partition,
                    "the outbox of {partition} has lost entries that were followed; it is followed again from an hour before"
                );
            }
            found[place] = beyond;
        }
        Ok(())
    }

    /// Adds what outboxes point to, some at a time.
    async fn follow_all(
        &self,
        outboxes: Vec<Outbox>,
        reached: &mut BTreeSet<Partition>,
        pass: &mut Follow,
    ) -> Result<(), StoreError> {
        let (mut some, mut count) = (Vec::new(), 0);
        for outbox in outboxes.into_iter().filter(|o| !o.pointers.is_empty()) {
            count += outbox.pointers.len();
            some.push(outbox);
            if count >= READ_ROWS {
                self.follow(std::mem::take(&mut some), reached, pass)
                    .await?;
                count = 0;
            }
        }
        self.follow(some, reached, pass).await
    }

    /// Adds what some outboxes point to. Those that are not followed to their end leave `reached`.
    async fn follow(
        &self,
        outboxes: Vec<Outbox>,
        reached: &mut BTreeSet<Partition>,
        pass: &mut Follow,
    ) -> Result<(), StoreError> {
        let target = |outbox: &Outbox, pointer: &Pointer| {
            let target = pointer.target.clone()?;
            Some((outbox.partition, target))
        };
        let targets: Vec<(Partition, Target)> = outboxes
            .iter()
            .flat_map(|outbox| outbox.pointers.iter().filter_map(|p| target(outbox, p)))
            .collect();
        let wanted: Vec<_> = targets.iter().map(|(p, target)| (*p, target)).collect();
        let mut found = match wanted.is_empty() {
            true => Vec::new(),
            false => self.store.read_targets(&wanted).await?,
        }
        .into_iter();
        let mut batch = Batch::default();
        for outbox in outboxes {
            let mut part = Part::of(&outbox);
            let mut cut = false;
            for pointer in outbox.pointers {
                let facts = match &pointer.target {
                    None => Some(Vec::new()),
                    Some(_) => found.next().flatten(),
                };
                // Its node is out of reach, or another has come first: the rest of the outbox waits.
                cut |= facts.is_none();
                let Some(facts) = facts.filter(|_| !cut) else {
                    continue;
                };
                part.take(outbox.partition, &pointer, facts, pass);
                if batch.rows + part.rows.len() >= BATCH_ROWS {
                    batch.push(part.split());
                    cut = !self
                        .send(&mut batch, reached, pass)
                        .await?
                        .contains(&outbox.partition);
                }
            }
            if cut {
                reached.remove(&outbox.partition);
            }
            if part.moved() {
                batch.push(part.split());
            }
        }
        self.send(&mut batch, reached, pass).await.map(drop)
    }

    /// Sends a batch; answers the partitions whose cursors are where it put them.
    async fn send(
        &self,
        batch: &mut Batch,
        reached: &mut BTreeSet<Partition>,
        pass: &mut Follow,
    ) -> Result<Vec<Partition>, StoreError> {
        let Batch { parts, .. } = std::mem::take(batch);
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let cursors = self
            .store
            .index_followed(View::Events, &parts, self.keep)
            .await?;
        let mut moved = Vec::new();
        for (part, cursor) in parts.iter().zip(cursors) {
            if cursor == Some(part.next) {
                pass.added += part.rows.len();
                moved.push(part.partition);
            } else {
                // Followed by another meanwhile, perhaps not as far.
                reached.remove(&part.partition);
            }
        }
        Ok(moved)
    }

    fn count(&self, pass: &Follow, now_ms: i64) {
        let view = [View::Events.as_str()];
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let metrics = &self.metrics;
        metrics
            .rows
            .with_label_values(&view)
            .inc_by(count(pass.added));
        let passed_over = metrics.passed_over.with_label_values(&view);
        passed_over.inc_by(count(pass.passed_over));
        metrics.lag(View::Events, now_ms, pass.watermark_ms);
    }
}

/// What one call adds.
#[derive(Default)]
struct Batch {
    parts: Vec<Followed>,
    rows: usize,
}

impl Batch {
    fn push(&mut self, part: Followed) {
        self.rows += part.rows.len();
        self.parts.push(part);
    }
}

/// What was followed of one outbox and not sent yet.
struct Part {
    partition: Partition,
    read: Option<EntryId>,
    next: Option<EntryId>,
    rows: Vec<NewRow>,
}

impl Part {
    fn of(outbox: &Outbox) -> Self {
        Self {
            partition: outbox.partition,
            read: outbox.cursor,
            next: None,
            rows: Vec::new(),
        }
    }

    fn moved(&self) -> bool {
        self.next.is_some()
    }

    /// Takes what was followed so far; the next part begins where it ends.
    fn split(&mut self) -> Followed {
        let next = self.next.take().unwrap_or_default();
        Followed {
            partition: self.partition,
            read: self.read.replace(next),
            next,
            rows: std::mem::take(&mut self.rows),
        }
    }

    /// The rows of a pointer's facts. What is damaged or gone keeps no other from being added.
    fn take(
        &mut self,
        partition: Partition,
        pointer: &Pointer,
        facts: Vec<(EntryId, Record)>,
        pass: &mut Follow,
    ) {
        self.next = Some(pointer.entry);
        let mut pass_over = |count: usize, why: &str| {
            pass.passed_over += count;
            error!(
                partition = %partition, outbox.entry = %pointer.entry, count,
                "{count} events behind the entry {} of the outbox of {partition} are missing in the view over all \
                 tenants: {why}", pointer.entry
            );
        };
        let Some(target) = &pointer.target else {
            return pass_over(1, "the entry is damaged");
        };
        let gone = target.count.saturating_sub(facts.len());
        if gone > 0 {
            pass_over(gone, "the log does not hold them any more");
        }
        for (entry, facts) in facts {
            match new_row(partition, target, entry, &facts) {
                Ok(row) => self.rows.push(row),
                Err(damage) => pass_over(1, &damage.to_string()),
            }
        }
    }
}
