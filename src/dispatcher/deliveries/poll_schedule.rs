//! Schedules which outboxes a pass of the fan-out polls, and caches their cursors. A script refuses a stale cursor, so the cache
//! need not be exact.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::events::EventsRead;
use super::fan_out_plan::{Audience, AudienceCursor};
use crate::domain::ids::Partition;
use crate::store::Lease;
use crate::store::dispatcher::fan_out::{CursorsOfOutbox, OutboxPosition};

/// How often all outboxes are polled.
const ALL: Duration = Duration::from_millis(250);

/// The pause between polls of busy outboxes, and how much longer it is for each of them, so that any number costs Redis little.
const BUSY: Duration = Duration::from_millis(20);
const BUSY_EACH: Duration = Duration::from_micros(100);

/// How long an outbox is busy after something happened.
const BUSY_FOR: Duration = Duration::from_secs(5);

/// How long cursors are cached: a node that fails over may have lost the last ones.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// Outboxes that are further behind than this have a metric of their own, up to this number.
const LAG_MS: u64 = 1_000;
const LAGGING: usize = 64;

/// The schedule of a dispatcher.
#[derive(Default)]
pub(super) struct PollSchedule {
    /// When all outboxes were polled last.
    all_at: Option<Instant>,
    busy: HashMap<Partition, Instant>,
    known: HashMap<Partition, CursorsOfOutbox>,
    known_since: Option<Instant>,
    /// Time of the oldest entry beyond the cursors of each outbox at the last poll, in milliseconds.
    oldest_ms: BTreeMap<Partition, u64>,
    /// Where the next pass resumes, because the last one took too long.
    first: Option<Partition>,
}

impl PollSchedule {
    /// The leases of the outboxes that are due.
    pub fn due(&mut self, leases: &[Lease]) -> Vec<Lease> {
        if self.all_at.is_none_or(|at| at.elapsed() >= ALL) {
            self.all_at = Some(Instant::now());
            self.oldest_ms
                .retain(|partition, _| leases.iter().any(|lease| lease.partition == *partition));
            return leases.to_vec();
        }
        let is_busy = |lease: &&Lease| self.busy.contains_key(&lease.partition);
        leases.iter().filter(is_busy).copied().collect()
    }

    /// The pause before the next poll.
    pub fn pause(&self) -> Duration {
        match u32::try_from(self.busy.len()).unwrap_or(u32::MAX) {
            0 => ALL,
            busy => (BUSY + BUSY_EACH * busy).min(ALL),
        }
    }

    /// Notes what a poll of these outboxes has found.
    pub fn found(&mut self, partitions: &[Partition], read: &EventsRead) {
        self.busy.retain(|_, since| since.elapsed() < BUSY_FOR);
        for partition in partitions {
            // An outbox that is out of reach keeps its lag.
            if !read.unreachable.contains(partition) {
                self.oldest_ms.remove(partition);
            }
        }
        for ((partition, _), outbox) in &read.outboxes {
            let Some((first, _)) = outbox.first() else {
                continue;
            };
            self.busy.insert(*partition, Instant::now());
            let oldest = self.oldest_ms.entry(*partition).or_insert(first.ms);
            *oldest = first.ms.min(*oldest);
        }
    }

    /// How far behind the outboxes are at a time, in milliseconds: the furthest one, and those with a metric of their own.
    pub fn lags_ms(&self, now_ms: u64) -> (u64, BTreeMap<Partition, u64>) {
        let lags = self.oldest_ms.iter();
        let mut lags: Vec<(Partition, u64)> = lags
            .map(|(partition, oldest_ms)| (*partition, now_ms.saturating_sub(*oldest_ms)))
            .collect();
        lags.sort_by_key(|(_, lag_ms)| std::cmp::Reverse(*lag_ms));
        let worst = lags.first().map_or(0, |(_, lag_ms)| *lag_ms);
        let lagging = lags.into_iter().take(LAGGING);
        let lagging = lagging.filter(|(_, lag_ms)| *lag_ms > LAG_MS).collect();
        (worst, lagging)
    }

    /// Those of these partitions whose cursors are not cached.
    pub fn unknown(&mut self, partitions: &[Partition]) -> Vec<Partition> {
        if self.known_since.is_none_or(|at| at.elapsed() >= KNOWN_FOR) {
            self.forget_all();
        }
        let are_known = |cursors: &CursorsOfOutbox| cursors.iter().all(Option::is_some);
        let is_unknown = |it: &&Partition| !self.known.get(it).is_some_and(are_known);
        partitions.iter().filter(is_unknown).copied().collect()
    }

    /// Caches cursors that were read.
    pub fn know(&mut self, read: impl Iterator<Item = (Partition, CursorsOfOutbox)>) {
        self.known.extend(read);
    }

    /// The cached cursors of an outbox, without those whose node is out of reach.
    pub fn cursors(&self, partition: Partition) -> impl Iterator<Item = AudienceCursor> {
        let known = self.known.get(&partition).cloned().unwrap_or_default();
        let audiences = [Audience::Tenants, Audience::System].into_iter();
        audiences.zip(known).filter_map(move |(audience, cursor)| {
            Some(AudienceCursor {
                partition,
                audience,
                cursor: cursor?,
            })
        })
    }

    /// Notes where a cursor of an outbox is now.
    pub fn moved(&mut self, partition: Partition, audience: Audience, to: OutboxPosition) {
        if let Some(cursors) = self.known.get_mut(&partition) {
            cursors[audience as usize] = Some(Some(to));
        }
    }

    /// Has the cursors of an outbox read again.
    pub fn forget(&mut self, partition: Partition) {
        self.known.remove(&partition);
    }

    /// Has all cursors read again.
    pub fn forget_all(&mut self) {
        self.known.clear();
        self.known_since = Some(Instant::now());
    }

    /// Puts the partitions first that the last pass did not reach.
    pub fn rotate(&mut self, partitions: &mut [Partition]) {
        let first = self.first.take();
        let at = partitions.partition_point(|partition| Some(*partition) < first);
        partitions.rotate_left(at % partitions.len().max(1));
    }

    /// Notes the first partition that a pass did not reach.
    pub fn resume_at(&mut self, partition: Partition) {
        self.first = Some(partition);
    }
}
