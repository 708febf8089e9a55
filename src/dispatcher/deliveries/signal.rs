//! Signals which partitions have new deliveries, so that the delivery worker need not poll all of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::domain::ids::Partition;

/// Partitions with new deliveries.
#[derive(Debug, Default)]
pub struct DeliverySignal {
    partitions: Mutex<BTreeSet<Partition>>,
    /// Whether any partition may have some.
    all: AtomicBool,
    notify: Notify,
}

impl DeliverySignal {
    /// Signals that a partition has deliveries to attempt.
    pub fn partition(&self, partition: Partition) {
        self.set().insert(partition);
        self.notify.notify_one();
    }

    /// Signals that every partition may have deliveries to attempt.
    pub fn all(&self) {
        self.all.store(true, Ordering::Relaxed);
        self.notify.notify_one();
    }

    /// Waits for a signal.
    pub(super) async fn signalled(&self) {
        self.notify.notified().await;
    }

    /// Takes the partitions that were signalled.
    pub(super) fn take(&self) -> BTreeSet<Partition> {
        std::mem::take(&mut *self.set())
    }

    /// Takes whether all were signalled.
    pub(super) fn take_all(&self) -> bool {
        self.all.swap(false, Ordering::Relaxed)
    }

    /// Wakes the delivery worker, which knows what is due.
    pub(super) fn wake(&self) {
        self.notify.notify_one();
    }

    fn set(&self) -> std::sync::MutexGuard<'_, BTreeSet<Partition>> {
        self.partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
