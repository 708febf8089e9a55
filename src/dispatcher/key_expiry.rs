//! Emits an event for each API key that has expired. Every reader derives a key's status from the clock, so this worker
//! changes nothing else; one script removes the pending expiry and emits the event, so each key gets one event.

use std::time::Duration;

use prometheus::Registry;

use super::due::{Pass, emit_due};
use super::sweep::ClockWatch;
use super::workers::lease_worker;
use crate::domain::cause::Cause;
use crate::metrics::metrics;
use crate::store::{Keys, Lease, Store, StoreError};

metrics! {
    /// Metrics of the expiry of API keys.
    struct ExpiryMetrics {
        /// API keys whose expiry was emitted as an event.
        emitted: IntCounter = "budget_api_keys_expired_total",
    }
}

/// Emits the expiry of API keys.
pub struct KeyExpiry {
    store: Store,
    clock: ClockWatch,
    metrics: ExpiryMetrics,
}

impl KeyExpiry {
    /// A worker that halts while `clock` is in doubt, because an event cannot be taken back. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(store: Store, clock: ClockWatch, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            store,
            clock,
            metrics: ExpiryMetrics::register(registry)?,
        })
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one key alone is logged.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let Some(now_ms) = self.clock.now_ms(&self.store).await? else {
            return Ok(Pass::default());
        };
        let emit = |lease, key: String| async move {
            let cause = Cause::sweep().lines();
            self.store.expire_api_key(&key, lease, &cause).await
        };
        let (store, index, what) = (&self.store, Keys::expiring, "expiry of API key");
        let pass = emit_due(store, index, leases, now_ms, what, &mut lost, emit).await?;
        self.metrics.emitted.inc_by(pass.done.unsigned_abs());
        Ok(pass)
    }
}

// An expiry is emitted this long after it, at most.
lease_worker!(KeyExpiry: "key_expiry", Duration::from_secs(5));
