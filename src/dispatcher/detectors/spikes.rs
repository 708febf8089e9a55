//! Emits an event when an unusual share of a tenant's requests is denied or refused, or of its reservations expires.
//!
//! Only tenants are looked at of whom something was denied, refused or expired lately: an index by time has them.

use std::time::Duration;

use super::DetectorMetrics;
use crate::dispatcher::due::{DueRows, Pass, RETRY_AFTER_MS, emit_rows};
use crate::dispatcher::workers::lease_worker;
use crate::domain::cause::Cause;
use crate::store::{Keys, Lease, Store, StoreError};

/// Tenants of one partition that are looked at in a pass.
const ROWS: usize = 64;

/// Samples of a window below which no share is unusual: one denial of three requests says nothing.
const SAMPLES_MIN: u32 = 10;

/// Judges shares.
pub struct Spikes {
    store: Store,
    metrics: DetectorMetrics,
}

impl Spikes {
    /// A worker over `store`.
    pub fn new(store: Store, metrics: DetectorMetrics) -> Self {
        Self { store, metrics }
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one tenant alone is logged.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let (store, index, now_ms) = (&self.store, Keys::traffic_due, self.store.clock().now_ms());
        let due = DueRows::poll_within(store, index, leases, now_ms, ROWS, RETRY_AFTER_MS).await?;
        let judge = |lease, tenant: String| async move {
            let cause = Cause::detector().lines();
            let judged = store.detect_spikes(&tenant, lease, &cause, SAMPLES_MIN);
            judged.await
        };
        let pass = emit_rows(store, index, due, now_ms, "spikes", &mut lost, judge).await?;
        let emitted = self.metrics.emitted.with_label_values(&["spikes"]);
        emitted.inc_by(pass.done.unsigned_abs());
        Ok(pass)
    }
}

// Each tenant is judged every 10 seconds; this is how late that may be.
lease_worker!(Spikes: "spikes", Duration::from_secs(2));
