//! Ended attempts that are not recorded yet, by partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::start_order::StartTicket;
use crate::domain::ids::Partition;
use crate::store::StoreError;
use crate::store::dispatcher::attempts::{AttemptEnd, EndResult};

/// Attempts that one call records at most, so that it stays below a millisecond: on a busy machine 12 take 0.75 ms, and 16 nearly one.
const ENDS_PER_CALL: usize = 12;

/// The result of one end, with the ticket of the next delivery of its lane, where these overlap. All ends of a call share its error.
pub(super) type EndReply = Result<(EndResult, Option<StartTicket>), Arc<StoreError>>;

/// Ended attempts of the partitions that have a writer.
#[derive(Default)]
pub(super) struct EndQueue(Mutex<BTreeMap<Partition, Vec<QueuedEnd>>>);

/// An ended attempt, and who waits for the result.
pub(super) struct QueuedEnd {
    pub end: Arc<AttemptEnd>,
    pub reply: oneshot::Sender<EndReply>,
}

impl EndQueue {
    /// Adds one; returns whether the partition needs a writer.
    pub fn add(&self, partition: Partition, end: QueuedEnd) -> bool {
        let mut waiting = self.0.lock();
        let is_first = !waiting.contains_key(&partition);
        waiting.entry(partition).or_default().push(end);
        is_first
    }

    /// Takes what the next call records. `None` where nothing is left: the next end needs a new writer.
    pub fn take(&self, partition: Partition) -> Option<Vec<QueuedEnd>> {
        let mut waiting = self.0.lock();
        let all = waiting.get_mut(&partition)?;
        let rest = all.split_off(all.len().min(ENDS_PER_CALL));
        let taken = std::mem::replace(all, rest);
        if taken.is_empty() {
            waiting.remove(&partition);
            return None;
        }
        Some(taken)
    }

    /// Drops what waits, after the writer of the partition failed.
    pub fn clear(&self, partition: Partition) {
        self.0.lock().remove(&partition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::webhook::{DeliveryId, SubscriptionId};
    use crate::driver::script::Counted;

    fn queued() -> QueuedEnd {
        let end = AttemptEnd {
            delivery: DeliveryId::from_stored("del_000_1".to_owned()),
            token: "a:1:1".to_owned(),
            subscription: SubscriptionId::parse("whsub_000_0123456789abcdef01234567")
                .expect("an id"),
            lane: String::new(),
            outcome: "success",
            delay_ms: 0,
            next_of_subscription: 0,
            fields: Counted(Vec::new()),
        };
        QueuedEnd {
            end: Arc::new(end),
            reply: oneshot::channel().0,
        }
    }

    #[test]
    fn a_partition_has_one_writer_with_bounded_batches() {
        let (queue, partition) = (EndQueue::default(), Partition::FIRST);
        let needs: Vec<bool> = (0..=ENDS_PER_CALL)
            .map(|_| queue.add(partition, queued()))
            .collect();
        assert!(needs[0] && needs[1..].iter().all(|needs| !needs));
        let taken = |count| queue.take(partition).map(|all| all.len()) == Some(count);
        assert!(taken(ENDS_PER_CALL) && taken(1));
        // An end that is added before the writer stops needs no other one.
        assert!(!queue.add(partition, queued()));
        assert!(taken(1) && queue.take(partition).is_none());
        assert!(queue.add(partition, queued()));
    }
}
