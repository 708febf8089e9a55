//! Attempts that have ended, until they are booked: those of a partition that end while the call before them is under way
//! share the next one, so that Redis reads and writes what they have in common once. One that ends alone is booked at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::starts::Start;
use crate::domain::ids::Partition;
use crate::store::StoreError;
use crate::store::dispatcher::attempts::{Booked, Ending};

/// Attempts that one call books at most, so that it stays below a millisecond: on a busy machine 12 take 0.75 ms, and 16 nearly one.
const BOOKED: usize = 12;

/// Attempts that have ended, of the partitions for which somebody is booking.
#[derive(Default)]
pub(super) struct Bookings(Mutex<BTreeMap<Partition, Vec<Booking>>>);

/// What came of one, and the start of the next delivery of its lane, where they overlap. The errors of a call are those of all that it
/// books.
pub(super) type Reply = Result<(Booked, Option<Start>), Arc<StoreError>>;

/// One of them.
pub(super) struct Booking {
    pub ending: Arc<Ending>,
    /// To whoever waits for it.
    pub reply: oneshot::Sender<Reply>,
}

impl Bookings {
    /// Adds one; returns whether somebody has to begin booking for the partition.
    pub fn add(&self, partition: Partition, booking: Booking) -> bool {
        let mut waiting = self.waiting();
        let begins = !waiting.contains_key(&partition);
        waiting.entry(partition).or_default().push(booking);
        begins
    }

    /// What the next call books; `None` where nothing is left, and whoever comes next begins anew.
    pub fn take(&self, partition: Partition) -> Option<Vec<Booking>> {
        let mut waiting = self.waiting();
        let all = waiting.get_mut(&partition)?;
        let rest = all.split_off(all.len().min(BOOKED));
        let taken = std::mem::replace(all, rest);
        if taken.is_empty() {
            waiting.remove(&partition);
            return None;
        }
        Some(taken)
    }

    /// Whoever was booking for the partition has broken off: nobody waits for it.
    pub fn break_off(&self, partition: Partition) {
        self.waiting().remove(&partition);
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Partition, Vec<Booking>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::webhook::{DeliveryId, SubscriptionId};
    use crate::driver::script::Counted;

    fn booking() -> Booking {
        let ending = Ending {
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
        Booking {
            ending: Arc::new(ending),
            reply: oneshot::channel().0,
        }
    }

    #[test]
    fn a_partition_has_one_booker_that_takes_so_many_at_a_time() {
        let (bookings, partition) = (Bookings::default(), Partition::FIRST);
        let begun: Vec<bool> = (0..=BOOKED)
            .map(|_| bookings.add(partition, booking()))
            .collect();
        assert!(begun[0] && begun[1..].iter().all(|begins| !begins));
        let taken = |count| bookings.take(partition).map(|all| all.len()) == Some(count);
        assert!(taken(BOOKED) && taken(1));
        // Whoever comes before it looks once more need not begin anew; then it ends.
        assert!(!bookings.add(partition, booking()));
        assert!(taken(1) && bookings.take(partition).is_none());
        assert!(bookings.add(partition, booking()));
    }
}
