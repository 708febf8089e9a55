//! Counts deliveries in flight by owner, so that an owner of slow receivers leaves room for the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::domain::ids::Partition;
use crate::domain::webhook::{DeliveryId, Owner};

/// An owner with this multiple of the free permits in flight gets no more. So one alone has three quarters at most, of several each
/// the same, and some stay free.
const TIMES_FREE_MAX: usize = 3;

/// From this multiple on, it gets more only for subscriptions with none in flight: its own receivers that are slow leave room for
/// those that are not.
const TIMES_FREE: usize = 1;

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
    /// By the owner's name; never 0.
    of_owners: BTreeMap<String, usize>,
    deliveries: BTreeSet<(Partition, String)>,
}

/// The right to have a delivery in flight, until it is dropped.
pub(super) struct Permit {
    permits: Arc<Permits>,
    owner: Owner,
    delivery: DeliveryId,
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
    pub fn take(self: &Arc<Self>, owner: &Owner, delivery: &DeliveryId) -> Permit {
        let mut in_flight = self.in_flight.lock();
        in_flight.add(owner, delivery);
        in_flight.all += 1;
        let of_owner = in_flight.of_owners.entry(owner.as_str().to_owned());
        *of_owner.or_default() += 1;
        Permit {
            permits: Arc::clone(self),
            owner: owner.clone(),
            delivery: delivery.clone(),
            since: Instant::now(),
        }
    }

    /// The owners in a partition that may have no more of every subscription in flight: with blanks between, and behind each a
    /// colon and how many of one it may have.
    pub fn busy_owners(&self, partition: Partition) -> String {
        let in_flight = self.in_flight.lock();
        let free = self.most.saturating_sub(in_flight.all);
        let is_there =
            |name: &str| Owner::parse(name).is_some_and(|it| it.partition() == partition);
        let mut busy = Vec::new();
        for (name, count) in &in_flight.of_owners {
            let most = most_of_subscription(*count, free);
            if most < OF_SUBSCRIPTION && is_there(name) {
                busy.push(format!("{name}:{most}"));
            }
        }
        busy.join(" ")
    }

    /// The deliveries in flight of a partition, with blanks between.
    pub fn held(&self, partition: Partition) -> String {
        let in_flight = self.in_flight.lock();
        let all = in_flight.deliveries.range((partition, String::new())..);
        let held = all.take_while(|(of, _)| *of == partition);
        held.map(|(_, id)| id.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Deliveries of one subscription that may be in flight, by how many its owner has and how many permits are free.
fn most_of_subscription(count: usize, free: usize) -> i64 {
    match count {
        count if count >= TIMES_FREE_MAX * free => 0,
        count if count >= TIMES_FREE * free => 1,
        _ => OF_SUBSCRIPTION,
    }
}

impl InFlight {
    fn add(&mut self, owner: &Owner, delivery: &DeliveryId) {
        self.deliveries
            .insert((owner.partition(), delivery.to_string()));
    }

    fn remove(&mut self, owner: &Owner, delivery: &DeliveryId) {
        self.deliveries
            .remove(&(owner.partition(), delivery.to_string()));
    }
}

impl Permit {
    /// Passes it on to the next delivery of the lane.
    pub fn pass_on(&mut self, next: &DeliveryId) {
        let mut in_flight = self.permits.in_flight.lock();
        in_flight.remove(&self.owner, &self.delivery);
        in_flight.add(&self.owner, next);
        self.delivery = next.clone();
    }

    /// Deliveries of its subscription that may be in flight, the next one of the lane under this permit included; 0 for none.
    pub fn next_of_subscription(&self) -> i64 {
        let in_flight = self.permits.in_flight.lock();
        let free = self.permits.most.saturating_sub(in_flight.all);
        if free == 0 && self.since.elapsed() >= KEPT_FOR {
            return 0;
        }
        let count = in_flight.of_owners.get(self.owner.as_str()).copied();
        most_of_subscription(count.unwrap_or_default().saturating_sub(1), free + 1)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut in_flight = self.permits.in_flight.lock();
        in_flight.all -= 1;
        in_flight.remove(&self.owner, &self.delivery);
        let name = self.owner.as_str();
        match in_flight.of_owners.get_mut(name) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                in_flight.of_owners.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(permits: &Arc<Permits>, name: &str) -> Permit {
        let delivery = DeliveryId::from_stored(format!("{:x}", rand::random::<u64>()));
        permits.take(&owner(name), &delivery)
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
    fn deliveries_in_flight_are_known_by_partition() {
        let permits = Permits::new(4);
        let (one, mut other) = (take(&permits, "acme"), take(&permits, "umbra"));
        let held = |name| permits.held(owner(name).partition());
        assert_eq!(held("acme"), one.delivery.to_string());
        let next = DeliveryId::from_stored("next".to_owned());
        other.pass_on(&next);
        assert_eq!(held("umbra"), "next");
        drop((one, other));
        assert_eq!(
            (held("acme"), held("umbra")),
            (String::new(), String::new())
        );
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
