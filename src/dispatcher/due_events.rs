//! Emits events that are due by an index of their partition: expired API keys, rollups of refusals, unusual rates.
//!
//! Each is emitted by one script, which also removes or moves its entry of the index: so each is emitted once.

use std::time::Duration;

use prometheus::Registry;

use super::due::{DueRows, Pass, RETRY_AFTER_MS, UNBOUNDED_MS, emit_each};
use super::metrics::DetectorMetrics;
use super::sweep::ClockWatch;
use super::workers::lease_worker;
use crate::domain::cause::Cause;
use crate::metrics::metrics;
use crate::store::dispatcher::due_events::DueEvent;
use crate::store::{Lease, Store, StoreError};

/// Entries of one index that a pass examines in each partition.
const ROWS: usize = 64;

metrics! {
    /// Metrics of the events that are emitted when they are due.
    struct DueEventMetrics {
        /// API keys whose expiry was emitted as an event.
        expired: IntCounter = "budget_api_keys_expired_total",
        /// Events and audit entries that sum up refusals which were only counted.
        rollups: IntCounterVec["kind"] = "budget_rollups_total",
    }
}

/// Emits events that are due.
pub struct DueEvents {
    store: Store,
    clock: ClockWatch,
    source: &'static str,
    metrics: DueEventMetrics,
    detected: DetectorMetrics,
}

impl DueEvents {
    /// A worker that emits no expiry of an API key while `clock` is in doubt. `source`: the part of the service that refused, named by
    /// rollups of denials. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(
        store: Store,
        clock: ClockWatch,
        source: &'static str,
        detected: DetectorMetrics,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        Ok(Self {
            store,
            clock,
            source,
            metrics: DueEventMetrics::register(registry)?,
            detected,
        })
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one event alone is logged.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let (mut pass, mut failure) = (Pass::default(), Ok(()));
        for &event in DueEvent::ALL {
            // A failure of one kind must not hold up the others.
            match self.emit(event, leases, &mut lost).await {
                Ok(emitted) => {
                    pass.done += emitted.done;
                    pass.failed += emitted.failed;
                    pass.more |= emitted.more;
                }
                Err(error) => failure = failure.and(Err(error)),
            }
        }
        failure.map(|()| pass)
    }

    async fn emit(
        &self,
        event: DueEvent,
        leases: &[Lease],
        lost: &mut impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let now_ms = match event {
            DueEvent::KeyExpiry => self.clock.now_ms(&self.store).await?,
            _ => Some(self.store.clock().now_ms()),
        };
        let Some(now_ms) = now_ms else {
            return Ok(Pass::default());
        };
        let (store, index, longest_ms) = (&self.store, event.index(), longest_ms(event));
        let due = DueRows::poll(store, index, leases, now_ms, ROWS, longest_ms).await?;
        let emit = |lease, member: String| async move {
            let cause = self.cause(event);
            store.emit_due(event, &member, lease, &cause).await
        };
        let (emitted, postponed) = emit_each(due, event.as_str(), lost, emit).await?;
        for (partition, member) in postponed {
            let key = index(store.keys(), partition);
            let again_ms = now_ms + RETRY_AFTER_MS;
            store.postpone(key, &member, again_ms).await?;
        }
        self.count(event, emitted.done.unsigned_abs());
        Ok(emitted)
    }

    fn cause(&self, event: DueEvent) -> String {
        let cause = match event {
            DueEvent::KeyExpiry => Cause::sweep(),
            DueEvent::Spikes | DueEvent::BurnRates => Cause::detector(),
            DueEvent::Denials | DueEvent::AuthFailures | DueEvent::AuditFailures => Cause {
                source: self.source,
                ..Cause::sweep()
            },
        };
        cause.lines()
    }

    fn count(&self, event: DueEvent, emitted: u64) {
        let kind = [event.as_str()];
        let counter = match event {
            DueEvent::KeyExpiry => self.metrics.expired.clone(),
            DueEvent::Spikes | DueEvent::BurnRates => {
                self.detected.emitted.with_label_values(&kind)
            }
            DueEvent::Denials | DueEvent::AuthFailures | DueEvent::AuditFailures => {
                self.metrics.rollups.with_label_values(&kind)
            }
        };
        counter.inc_by(emitted);
    }
}

/// How far ahead an entry of an index can be: one further ahead is from before the clock went back.
fn longest_ms(event: DueEvent) -> i64 {
    match event {
        DueEvent::Spikes => RETRY_AFTER_MS,
        _ => UNBOUNDED_MS,
    }
}

// An event is emitted this long after it is due, at most.
lease_worker!(DueEvents: "due_events", Duration::from_secs(2));
