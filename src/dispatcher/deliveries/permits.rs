//! Counts deliveries in flight by owner, so that an owner of slow receivers leaves room for the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::domain::ids::Partition;
use crate::domain::webhook::Owner;

/// An owner with this multiple of the free permits in flight gets no more. So one alone has three quarters at most, of several each
/// the same, and some stay free. From as many as are free on, it gets more only for subscriptions with none in flight: its own
/// receivers that are slow leave room for those that are not.
const TIMES_FREE_MAX: usize = 3;

/// Deliveries of a subscription that may be in flight at once.
const OF_SUBSCRIPTION: i64 = 64;

/// For how long a lane may pass its permit on while none is free and other lanes wait.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// The permits of a delivery worker.
pub(super) struct Permits {
    most: usize,
    in_flight: Mutex<InFlight>,
}

#[derive(Default)]
struct InFlight {
    all: usize,
    /// Never 0.
    of_owners: HashMap<Owner, usize>,
}

/// The right to have a delivery in flight, until it is dropped.
pub(super) struct Permit {
    permits: Arc<Permits>,
    owner: Owner,
    since: Instant,
}

impl Permits {
    /// All permits.
    pub fn new(most: usize) -> Arc<Self> {
        let in_flight = Mutex::default();
        Arc::new(Self { most, in_flight })
    }

    /// Number of free permits.
    pub fn free(&self) -> usize {
        self.most.saturating_sub(self.in_flight.lock().all)
    }

    /// Takes one for a delivery that is claimed already: no more are claimed than are free.
    pub fn take(self: &Arc<Self>, owner: &Owner) -> Permit {
        let mut in_flight = self.in_flight.lock();
        in_flight.all += 1;
        *in_flight.of_owners.entry(owner.clone()).or_default() += 1;
        Permit {
            permits: Arc::clone(self),
            owner: owner.clone(),
            since: Instant::now(),
        }
    }

    /// The owners in a partition that may have no more of every subscription in flight: with blanks between, and behind each a
    /// colon and how many of one it may have.
    pub fn busy_owners(&self, partition: Partition) -> String {
        let in_flight = self.in_flight.lock();
        let free = self.most.saturating_sub(in_flight.all);
        let owners = in_flight.of_owners.iter();
        let busy = owners.filter_map(|(owner, count)| {
            let most = most_of_subscription(*count, free);
            let is_busy = most < OF_SUBSCRIPTION && owner.partition() == partition;
            is_busy.then(|| format!("{owner}:{most}"))
        });
        busy.collect::<Vec<_>>().join(" ")
    }
}

/// Deliveries of one subscription that may be in flight, by how many its owner has and how many permits are free.
fn most_of_subscription(count: usize, free: usize) -> i64 {
    match count {
        count if count >= TIMES_FREE_MAX * free => 0,
        count if count >= free => 1,
        _ => OF_SUBSCRIPTION,
    }
}

impl Permit {
    /// Deliveries of its subscription that may be in flight, the next one of the lane under this permit included; 0 for none.
    pub fn next_of_subscription(&self) -> i64 {
        let in_flight = self.permits.in_flight.lock();
        let free = self.permits.most.saturating_sub(in_flight.all);
        if free == 0 && self.since.elapsed() >= KEPT_FOR {
            return 0;
        }
        let count = in_flight.of_owners.get(&self.owner).copied();
        most_of_subscription(count.unwrap_or_default().saturating_sub(1), free + 1)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut in_flight = self.permits.in_flight.lock();
        in_flight.all -= 1;
        match in_flight.of_owners.get_mut(&self.owner) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(in_flight.of_owners.remove(&self.owner)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(permits: &Arc<Permits>, name: &str) -> Permit {
        permits.take(&owner(name))
    }

    fn owner(name: &str) -> Owner {
        Owner::parse(name).expect("a name")
    }

    /// Takes permits until the owner may have no more of a subscription that has one; how many.
    fn fill(permits: &Arc<Permits>, name: &str, most: i64, taken: &mut Vec<Permit>) -> usize {
        let (owner, before) = (owner(name), taken.len());
        let limit = || {
            let busy = permits.busy_owners(owner.partition());
            let mut busy = busy.split(' ').filter_map(|it| it.split_once(':'));
            let found = busy.find(|(busy, _)| *busy == name);
            found.map_or(OF_SUBSCRIPTION, |(_, most)| most.parse().expect("a number"))
        };
        while permits.free() > 0 && limit() > most {
            taken.push(take(permits, name));
        }
        taken.len() - before
    }

    #[test]
    fn an_owner_leaves_room_for_others_and_yields_permits() {
        let (permits, mut hostile, mut others) = (Permits::new(100), Vec::new(), Vec::new());
        assert_eq!(fill(&permits, "acme", 1, &mut hostile), 50);
        // Of subscriptions with none in flight.
        assert_eq!(fill(&permits, "acme", 0, &mut hostile), 25);
        assert_eq!(
            hostile[0].next_of_subscription(),
            1,
            "nobody else takes any"
        );
        assert_eq!(fill(&permits, "umbra", 1, &mut others), 13);
        assert_eq!(others[0].next_of_subscription(), OF_SUBSCRIPTION);
        while hostile.last().expect("some").next_of_subscription() == 0 {
            hostile.pop();
        }
        assert!(hostile.len() < 70, "{}", hostile.len());
        // Permits that one gave up are for the other.
        assert!(fill(&permits, "umbra", 1, &mut others) > 0);
        drop((hostile, others));
        assert_eq!(permits.free(), 100);
        assert!(permits.in_flight.lock().of_owners.is_empty());
    }

    #[test]
    fn a_lane_gives_its_permit_back_after_a_while_when_none_is_free() {
        let permits = Permits::new(4);
        let names = ["acme", "umbra", "quiet", "other"];
        let mut taken: Vec<_> = names.iter().map(|it| take(&permits, it)).collect();
        assert!(taken[0].next_of_subscription() > 0);
        taken[0].since = Instant::now().checked_sub(KEPT_FOR).expect("a time");
        assert_eq!(taken[0].next_of_subscription(), 0);
        taken.pop();
        assert!(taken[0].next_of_subscription() > 0);
    }
}
