//! Which outboxes a pass of the fan-out looks at, and from where on: what it remembers between passes. A script refuses a cursor
//! that is not the present one, so what is remembered need only be right mostly.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::events::EventsRead;
use super::following::Audience;
use crate::domain::ids::Partition;
use crate::store::Lease;
use crate::store::dispatcher::fan_out::{Cursors, FannedTo};

/// How often all outboxes are looked at.
const ALL: Duration = Duration::from_millis(250);

/// The pause between looks at busy ones; and how much longer it is for each of them, so that Redis has little work with any number.
const BUSY: Duration = Duration::from_millis(20);
const BUSY_EACH: Duration = Duration::from_micros(100);

/// How long an outbox is busy after something happened.
const BUSY_FOR: Duration = Duration::from_secs(5);

/// How long cursors are remembered: a node that fails over may have lost the last ones.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// An outbox that is further behind than this is told apart; and how many are at most.
const LAG_MS: u64 = 1_000;
const LAGGING: usize = 64;

/// See the module.
#[derive(Default)]
pub(super) struct Rounds {
    /// When all outboxes were looked at last.
    all_at: Option<Instant>,
    busy: HashMap<Partition, Instant>,
    known: HashMap<Partition, [Cursors; 2]>,
    known_since: Option<Instant>,
    /// The oldest entry that each outbox had beyond its cursors at the last look, in milliseconds.
    oldest_ms: BTreeMap<Partition, u64>,
    /// Where the next pass goes on, because the last one took too long.
    first: Option<Partition>,
}

impl Rounds {
    /// The leases of the outboxes that are to be looked at now.
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

    /// The pause before the next look.
    pub fn pause(&self) -> Duration {
        match u32::try_from(self.busy.len()).unwrap_or(u32::MAX) {
            0 => ALL,
            busy => (BUSY + BUSY_EACH * busy).min(ALL),
        }
    }

    /// Notes what a look at these outboxes has found.
    pub fn found(&mut self, partitions: &[Partition], read: &EventsRead) {
        self.busy.retain(|_, since| since.elapsed() < BUSY_FOR);
        for partition in partitions {
            // What is out of reach is no less behind.
            if !read.away.contains(partition) {
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

    /// How far behind the outboxes are at a time, in milliseconds: the one that is furthest, and those that are to be told apart.
    pub fn lags_ms(&self, now_ms: u64) -> (u64, BTreeMap<Partition, u64>) {
        let lags = self.oldest_ms.iter();
        let mut lags: Vec<(Partition, u64)> = lags
            .map(|(partition, oldest_ms)| (*partition, now_ms.saturating_sub(*oldest_ms)))
            .collect();
        lags.sort_by_key(|(_, lag_ms)| std::cmp::Reverse(*lag_ms));
        let worst = lags.first().map_or(0, |(_, lag_ms)| *lag_ms);
        let told = lags.into_iter().take(LAGGING);
        let told = told.filter(|(_, lag_ms)| *lag_ms > LAG_MS).collect();
        (worst, told)
    }

    /// Those of these partitions whose cursors are not known.
    pub fn unknown(&mut self, partitions: &[Partition]) -> Vec<Partition> {
        if self.known_since.is_none_or(|at| at.elapsed() >= KNOWN_FOR) {
            self.forget_all();
        }
        let is_unknown = |partition: &&Partition| !self.known.contains_key(partition);
        partitions.iter().filter(is_unknown).copied().collect()
    }

    /// Remembers cursors that were read; those of an outbox whose node is out of reach are not known.
    pub fn know(
        &mut self,
        partition: Partition,
        cursors: [Option<Cursors>; 2],
    ) -> [Option<Cursors>; 2] {
        if let [Some(own), Some(system)] = &cursors {
            self.known.insert(partition, [own.clone(), system.clone()]);
        }
        cursors
    }

    /// The cursors of an outbox, as far as they are known.
    pub fn cursors(&self, partition: Partition) -> [Option<Cursors>; 2] {
        let known = self.known.get(&partition).cloned();
        known.map_or([None, None], |cursors| cursors.map(Some))
    }

    /// Notes where the main cursor of an outbox is now.
    pub fn moved(&mut self, partition: Partition, audience: Audience, to: FannedTo) {
        if let Some([own, system]) = self.known.get_mut(&partition) {
            let cursors = match audience {
                Audience::Own => own,
                Audience::System => system,
            };
            cursors.main = Some(to);
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

    /// Puts what the last pass did not come to first.
    pub fn rotate(&mut self, partitions: &mut [Partition]) {
        let first = self.first.take();
        let at = partitions.partition_point(|partition| Some(*partition) < first);
        partitions.rotate_left(at % partitions.len().max(1));
    }

    /// Notes to what a pass did not come.
    pub fn resume_at(&mut self, partition: Partition) {
        self.first = Some(partition);
    }
}
