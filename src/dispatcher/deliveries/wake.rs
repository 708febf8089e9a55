//! Tells a courier which partitions have something new, so that it need not ask all of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::domain::ids::Partition;

/// The partitions with something new.
#[derive(Debug, Default)]
pub struct Wake {
    partitions: Mutex<BTreeSet<Partition>>,
    /// Whether each partition may have something.
    all: AtomicBool,
    notify: Notify,
}

impl Wake {
    /// Says that a partition has something to be attempted.
    pub fn partition(&self, partition: Partition) {
        self.set().insert(partition);
        self.notify.notify_one();
    }

    /// Says that every partition may have something to be attempted.
    pub fn all(&self) {
        self.all.store(true, Ordering::Relaxed);
        self.notify.notify_one();
    }

    /// Waits until that was said of one, or of the time since the last look.
    pub(super) async fn woken(&self) {
        self.notify.notified().await;
    }

    /// The partitions of which it was said since the last look.
    pub(super) fn take(&self) -> BTreeSet<Partition> {
        std::mem::take(&mut *self.set())
    }

    /// Whether it was said of all since the last look.
    pub(super) fn take_all(&self) -> bool {
        self.all.swap(false, Ordering::Relaxed)
    }

    /// Lets the courier look again at what it has noted itself.
    pub(super) fn look(&self) {
        self.notify.notify_one();
    }

    fn set(&self) -> std::sync::MutexGuard<'_, BTreeSet<Partition>> {
        self.partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
