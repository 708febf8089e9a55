//! The workers of evidence: the signer, and a gauge of how long entries have waited. An entry leaves its stream once its envelope is
//! written, so the first one is the oldest without an envelope.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::due::partitions;
use super::sweep::ClockWatch;
use super::workers::{Next, lease_worker};
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::evidence::signing::{Signer, SignerMetrics};
use crate::store::{Lease, Store, StoreError};

/// The pause while nothing is queued: evidence can be read within a second.
const IDLE: Duration = Duration::from_millis(250);

/// How often the first entries are read.
const PERIOD: Duration = Duration::from_secs(10);

/// For so long after a jump of the store's clock, the time in an entry's place says nothing about its age.
const CLOCK_SETTLES_AFTER: Duration = Duration::from_secs(300);

/// Measures the backlog of leased partitions. Dispatchers without keys run it too, so that entries which nobody signs raise an
/// alarm.
pub struct BacklogGauge {
    store: Store,
    clock: ClockWatch,
    metrics: SignerMetrics,
    first: HashMap<Partition, FirstSeen>,
}

/// The first entry of a stream, and since when this process knows it to be that.
type FirstSeen = (EntryId, Instant);

impl BacklogGauge {
    /// `clock` says whether the clock of `store` jumped.
    pub fn new(store: Store, clock: ClockWatch, metrics: SignerMetrics) -> Self {
        Self {
            store,
            clock,
            metrics,
            first: HashMap::new(),
        }
    }

    /// Sets the gauges by one look at the first entry of each leased partition.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn run_once(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        let leased = partitions(leases);
        let quarantined = self.store.quarantined(&leased).await?;
        self.metrics.quarantined.set(quarantined as f64);
        let (now_ms, _) = self.clock.time(&self.store).await?;
        let now_ms = (!self.clock.jumped_within(CLOCK_SETTLES_AFTER)).then_some(now_ms);
        let firsts = self.store.first_unsigned(&leased).await?;
        let (now, before) = (Instant::now(), std::mem::take(&mut self.first));
        let mut oldest = Duration::ZERO;
        for (partition, first) in leased.iter().zip(firsts) {
            let Some(first) = first else { continue };
            let known = before.get(partition).filter(|(entry, _)| *entry == first);
            let seen_at = known.map_or(now, |(_, seen_at)| *seen_at);
            self.first.insert(*partition, (first, seen_at));
            oldest = oldest.max(age(first, now - seen_at, now_ms));
        }
        self.metrics
            .oldest_unsigned_seconds
            .set(oldest.as_secs_f64());
        Ok(())
    }
}

lease_worker!(Signer: "signer", IDLE, |signer, leases, _lost| Next::more(
    signer.run_once(leases).await?.more
));
lease_worker!(BacklogGauge: "signer_backlog", PERIOD, |gauge, leases, _lost| {
    gauge.run_once(leases).await?;
    Next::Idle
});

/// The time since an entry was queued: by its place, if the store's clock can be trusted. Places only rise, so an entry that was
/// queued after the clock was set back lies ahead of the clock; it has waited at least since this process saw it.
fn age(entry: EntryId, seen_for: Duration, now_ms: Option<i64>) -> Duration {
    let by_place_ms = now_ms.map_or(0, |now_ms| now_ms.saturating_sub_unsigned(entry.ms).max(0));
    Duration::from_millis(by_place_ms.unsigned_abs()).max(seen_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_ages_from_its_time_or_from_when_it_was_seen() {
        for (ms, seen_for_s, now_ms, age_s) in [
            (5_000, 0, Some(7_000), 2),
            (5_000, 1, Some(8_000), 3),
            // The clock is set back, and the same entry still waits.
            (5_000, 2, Some(1_000), 2),
            (5_000, 400, Some(399_000), 400),
            // The entry is ahead of the clock.
            (9_000_000, 0, Some(400_000), 0),
            (9_000_000, 301, Some(701_000), 301),
            // The clock has just jumped.
            (700_000, 0, None, 0),
            (700_000, 1, None, 1),
        ] {
            let entry = EntryId { ms, sequence: 0 };
            let age = age(entry, Duration::from_secs(seen_for_s), now_ms);
            assert_eq!(age.as_secs(), age_s, "{ms} {seen_for_s} {now_ms:?}");
        }
    }
}
