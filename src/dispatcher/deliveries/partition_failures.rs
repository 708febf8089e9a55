//! Failures in a pass over many partitions, so that the others need not wait.

use std::collections::BTreeSet;

use tracing::warn;

use crate::domain::ids::Partition;
use crate::store::{Store, StoreError};

/// The failures of the present pass, by partition.
pub(super) struct PartitionFailures {
    store: Store,
    /// Name of the postponed work in the log.
    what: &'static str,
    failed: BTreeSet<Partition>,
    /// Those of the pass before, which are logged already.
    before: BTreeSet<Partition>,
    /// Partitions whose nodes are unavailable, one of each node.
    unreachable: Vec<Partition>,
    first: Option<StoreError>,
}

impl PartitionFailures {
    pub fn new(store: Store, what: &'static str) -> Self {
        Self {
            store,
            what,
            failed: BTreeSet::new(),
            before: BTreeSet::new(),
            unreachable: Vec::new(),
            first: None,
        }
    }

    /// Begins a pass, in which every node is tried again.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.failed);
        self.unreachable.clear();
        self.first = None;
    }

    /// Whether a partition is left out of the pass, because its node is unavailable: each further call could take as long as the
    /// first.
    pub async fn leave_out(&self, partition: Partition) -> bool {
        if self.unreachable.is_empty() {
            return false;
        }
        let keys = self.store.keys();
        let outbox = keys.outbox(partition);
        for unreachable in &self.unreachable {
            let unreachable = keys.outbox(*unreachable);
            // Without an owner, it is out of reach as well.
            let is_shared = self.store.share_a_node(&unreachable, &outbox).await;
            if is_shared.unwrap_or(true) {
                return true;
            }
        }
        false
    }

    /// Notes a failure, and logs the first of a series.
    pub fn note(&mut self, partition: Partition, failure: StoreError) {
        if !self.before.contains(&partition) && !self.failed.contains(&partition) {
            let what = self.what;
            warn!(%partition, error = %failure, "{what} of partition {partition} wait: {failure}");
        }
        self.failed.insert(partition);
        if matches!(failure, StoreError::Unavailable(_)) {
            self.unreachable.push(partition);
        }
        self.first.get_or_insert(failure);
    }

    /// The first failure of the pass.
    ///
    /// # Errors
    /// That one.
    pub fn end(&mut self) -> Result<(), StoreError> {
        self.first.take().map_or(Ok(()), Err)
    }
}
