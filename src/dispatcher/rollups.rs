//! Emits rollups: above a rate, refusals are only counted, and one event or audit entry per minute sums them up. The next
//! refusal of the same kind emits it as well; this worker does so when none follows.

use std::time::Duration;

use prometheus::Registry;

use super::due::{Pass, emit_due};
use super::workers::lease_worker;
use crate::domain::cause::{Actor, Cause};
use crate::domain::ids::TraceId;
use crate::metrics::metrics;
use crate::store::dispatcher::rollups::Rollup;
use crate::store::{Lease, Store, StoreError};

metrics! {
    /// Metrics of the rollups.
    struct RollupMetrics {
        /// Events and audit entries that sum up refusals which were only counted.
        emitted: IntCounterVec["kind"] = "budget_rollups_total",
    }
}

/// Emits the rollups of past minutes.
pub struct Rollups {
    store: Store,
    source: &'static str,
    metrics: RollupMetrics,
}

impl Rollups {
    /// A worker whose events of denials name `source`, the part of the service that refused. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(
        store: Store,
        source: &'static str,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        Ok(Self {
            store,
            source,
            metrics: RollupMetrics::register(registry)?,
        })
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one rollup alone is logged.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let mut pass = Pass::default();
        for &kind in Rollup::ALL {
            let now_ms = self.store.clock().now_ms();
            let what = format!("rollup of {}", kind.as_str());
            let emit = |lease, member: String| async move {
                let cause = self.cause();
                self.store.emit_rollup(kind, &member, lease, &cause).await
            };
            let (store, index) = (&self.store, kind.index());
            let emitted = emit_due(store, index, leases, now_ms, &what, &mut lost, emit).await?;
            self.metrics
                .emitted
                .with_label_values(&[kind.as_str()])
                .inc_by(emitted.done.unsigned_abs());
            pass.done += emitted.done;
            pass.failed += emitted.failed;
            pass.more |= emitted.more;
        }
        Ok(pass)
    }

    fn cause(&self) -> String {
        let cause = Cause {
            source: self.source,
            actor: Actor::System,
            source_ip: None,
            request_id: None,
            trace_id: TraceId::mint(),
            trace_flags: None,
        };
        cause.lines()
    }
}

// A rollup is emitted this long after the end of its minute, at most.
lease_worker!(Rollups: "rollups", Duration::from_secs(5));
