//! What a dispatcher without keys does about evidence: it tells how long entries have waited for one that has them.

use std::collections::HashMap;
use std::time::Duration;

use super::SignerMetrics;
use super::oldest::{self, Oldest};
use crate::dispatcher::due::partitions;
use crate::dispatcher::sweep::ClockWatch;
use crate::dispatcher::workers::{Next, lease_worker};
use crate::domain::ids::Partition;
use crate::store::{Lease, Store, StoreError};

const PERIOD: Duration = Duration::from_secs(10);

/// See the module.
pub struct UnsignedWatch {
    store: Store,
    clock: ClockWatch,
    metrics: SignerMetrics,
    heads: HashMap<Partition, Oldest>,
}

impl UnsignedWatch {
    /// A worker that reads `store`, of which `clock` tells whether its clock jumped.
    pub fn new(store: Store, clock: ClockWatch, metrics: SignerMetrics) -> Self {
        let heads = HashMap::new();
        Self {
            store,
            clock,
            metrics,
            heads,
        }
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
        let now = oldest::now(&self.store, &self.clock).await?;
        self.heads.retain(|partition, _| leased.contains(partition));
        let heads = leased.iter().zip(heads);
        let ages = heads.filter_map(|(partition, head)| {
            let known = self.heads.entry(*partition).or_default();
            Some(known.age(head?, now))
        });
        self.metrics.show_oldest(ages);
        Ok(())
    }
}

lease_worker!(UnsignedWatch: "signer", PERIOD, |watch, leases, _lost| {
    watch.run_once(leases).await?;
    Next::Idle
});
