//! Ended attempts that are not recorded yet, by partition.

use std::collections::{BTreeMap, VecDeque};
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

/// Ended attempts that are not recorded yet, by partition.
#[derive(Default)]
pub(super) struct EndQueues(Mutex<BTreeMap<Partition, Arc<EndQueue>>>);

/// Ended attempts of a partition that are not recorded yet.
#[derive(Default)]
pub(super) struct EndQueue {
    pub waiting: Mutex<VecDeque<QueuedEnd>>,
    /// Held by the task that records some of them.
    pub recording: tokio::sync::Mutex<()>,
}

/// An ended attempt, and who waits for the result.
pub(super) struct QueuedEnd {
    pub end: Arc<AttemptEnd>,
    pub reply: oneshot::Sender<EndReply>,
}

impl EndQueues {
    pub fn of(&self, partition: Partition) -> Arc<EndQueue> {
        Arc::clone(self.0.lock().entry(partition).or_default())
    }
}

impl EndQueue {
    /// Takes what the next call records.
    pub fn take(&self) -> Vec<QueuedEnd> {
        let mut waiting = self.waiting.lock();
        let count = waiting.len().min(ENDS_PER_CALL);
        waiting.drain(..count).collect()
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
    fn one_call_records_a_bounded_number() {
        let queue = EndQueue::default();
        let ends = (0..=ENDS_PER_CALL).map(|_| queued());
        queue.waiting.lock().extend(ends);
        let taken = [queue.take(), queue.take(), queue.take()];
        assert_eq!(taken.map(|ends| ends.len()), [ENDS_PER_CALL, 1, 0]);
    }
}
