//! Copies the thresholds that the operator's webhooks watch to partitions that missed a change: the process that makes a
//! change copies it to all partitions before it responds, but may be killed before the last one.

use std::time::Duration;

use super::due::partitions;
use super::workers::{Next, lease_worker};
use crate::store::{Lease, Store, StoreError};

/// Copies thresholds to the leased partitions. Needs no fencing: an older version changes nothing.
pub struct ThresholdCopies {
    store: Store,
}

impl ThresholdCopies {
    /// A worker over `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Does one pass and returns how many partitions were behind.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<usize, StoreError> {
        let Some(watched) = self.store.watched().await? else {
            return Ok(0);
        };
        let behind = self
            .store
            .behind(&partitions(leases), watched.version)
            .await?;
        if !behind.is_empty() {
            self.store.copy_thresholds(&behind, &watched).await?;
        }
        Ok(behind.len())
    }
}

lease_worker!(
    ThresholdCopies: "thresholds", Duration::from_secs(5),
    |worker, leases, _| worker.run_once(leases).await.map(|_| Next::Idle)?
);
