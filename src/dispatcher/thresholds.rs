//! Brings the thresholds that the operator's webhooks watch to partitions that did not hear of a change: whoever made it
//! tells all of them before he answers, but may be killed on the way.

use std::time::Duration;

use crate::store::{Lease, Store, StoreError};

/// How often to look.
pub const PERIOD: Duration = Duration::from_secs(5);

/// Brings thresholds to the partitions of the leases that it is given. Needs no fence: an older version changes nothing.
pub struct ThresholdCopies {
    store: Store,
}

impl ThresholdCopies {
    /// Over a store.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// One pass; how many partitions were behind.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn run_once(&self, leases: &[Lease]) -> Result<usize, StoreError> {
        let Some(watched) = self.store.watched().await? else {
            return Ok(0);
        };
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        let behind = self.store.behind(&partitions, watched.version).await?;
        if !behind.is_empty() {
            self.store.copy_thresholds(&behind, &watched).await?;
        }
        Ok(behind.len())
    }
}
