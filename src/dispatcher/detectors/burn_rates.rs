//! Emits an event when a ledger is charged far more than usual. Only ledgers that an active subscription watches are counted, so
//! only these are looked at, whenever a tenth of a window is over.

use std::time::Duration;

use super::DetectorMetrics;
use crate::dispatcher::due::{Pass, emit_due};
use crate::dispatcher::workers::lease_worker;
use crate::domain::cause::Cause;
use crate::store::{Keys, Lease, Store, StoreError};

/// Judges burn rates.
pub struct BurnRates {
    store: Store,
    metrics: DetectorMetrics,
}

impl BurnRates {
    /// A worker over `store`.
    pub fn new(store: Store, metrics: DetectorMetrics) -> Self {
        Self { store, metrics }
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one ledger alone is logged.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let (store, index, now_ms) = (&self.store, Keys::burning, self.store.clock().now_ms());
        let judge = |lease, ledger: String| async move {
            let cause = Cause::detector().lines();
            store.detect_burn(&ledger, lease, &cause).await
        };
        let what = "burn rate";
        let pass = emit_due(store, index, leases, now_ms, what, &mut lost, judge).await?;
        let emitted = self.metrics.emitted.with_label_values(&["burn_rates"]);
        emitted.inc_by(pass.done.unsigned_abs());
        Ok(pass)
    }
}

lease_worker!(BurnRates: "burn_rates", Duration::from_secs(2));
