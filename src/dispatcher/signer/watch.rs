//! What a dispatcher without keys does about evidence: it tells how long entries have waited for one that has them.

use std::time::Duration;

use super::SignerMetrics;
use crate::dispatcher::due::partitions;
use crate::dispatcher::workers::{Next, lease_worker};
use crate::store::{Lease, Store, StoreError};

const PERIOD: Duration = Duration::from_secs(10);

/// See the module.
pub struct UnsignedWatch {
    store: Store,
    metrics: SignerMetrics,
}

impl UnsignedWatch {
    /// A worker that reads `store`.
    pub fn new(store: Store, metrics: SignerMetrics) -> Self {
        Self { store, metrics }
    }

    /// Looks at the first entry of each leased partition.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn run_once(&mut self, leases: &[Lease]) -> Result<(), StoreError> {
        let leased = partitions(leases);
        let quarantined = self.store.quarantined(&leased).await?;
        self.metrics.quarantined.set(quarantined as f64);
        let heads = self.store.first_unsigned(&leased).await?;
        let oldest = heads.into_iter().flatten().min();
        self.metrics
            .show_oldest(oldest, self.store.clock().now_ms());
        Ok(())
    }
}

lease_worker!(UnsignedWatch: "signer", PERIOD, |watch, leases, _lost| {
    watch.run_once(leases).await?;
    Next::Idle
});
