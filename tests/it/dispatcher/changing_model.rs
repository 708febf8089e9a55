//! The model of `changing_histories`: the events that must and may arrive at the receivers of a subscription, how often, in which order,
//! and by which secrets it is signed.

use std::collections::{BTreeMap, BTreeSet};

use budget_authority::domain::webhook::sign;

use crate::harness::receiver::{ReceivedRequest, Receiver};

pub(super) const FUNDED: &str = "budget.funded";
pub(super) const UPDATED: &str = "tenant.updated";

/// An event: the request that caused it, and the facts that subscriptions select by.
#[derive(Debug, Clone)]
pub(super) struct ModelEvent {
    pub request: String,
    pub tenant: usize,
    pub event_type: &'static str,
}

/// A subscription: its settings as they were after each change, and what it must get.
pub(super) struct ModelSubscription {
    pub id: String,
    /// `None`: the operator's.
    pub owner: Option<usize>,
    pub types: BTreeSet<&'static str>,
    pub scope: Option<String>,
    pub receivers: Vec<Receiver>,
    pub secrets: Vec<String>,
    pub is_active: bool,
    /// By request: the first secret with which it may be signed.
    pub must: BTreeMap<String, usize>,
    pub may: BTreeMap<String, usize>,
}

impl ModelSubscription {
    pub fn selects(&self, what: &ModelEvent) -> bool {
        let scope = (what.event_type == FUNDED).then_some("tenant:umbra");
        let in_scope = match self.scope.as_deref() {
            None => true,
            Some(filter) => match filter.strip_suffix('*') {
                Some(start) => {
                    scope.is_some_and(|scope| scope.len() > start.len() && scope.starts_with(start))
                }
                None => scope == Some(filter),
            },
        };
        self.owner.is_none_or(|owner| owner == what.tenant)
            && self.types.contains(what.event_type)
            && in_scope
    }

    /// The requests that arrived at any of its receivers, in that order.
    fn arrived(&self) -> Vec<ReceivedRequest> {
        let mut all: Vec<_> = self.receivers.iter().flat_map(Receiver::arrived).collect();
        all.sort_by_key(|one| one.place);
        all
    }

    /// The requests whose events have not arrived, or have not been answered with 200.
    fn without(&self, fits: impl Fn(&ReceivedRequest) -> bool) -> Vec<String> {
        let arrived: BTreeSet<_> = self
            .arrived()
            .iter()
            .filter(|one| fits(one))
            .map(request_of)
            .collect();
        let without = self
            .must
            .keys()
            .filter(|request| !arrived.contains(*request));
        without.cloned().collect()
    }

    pub fn missing(&self) -> Vec<String> {
        self.without(|_| true)
    }

    /// The events that must arrive and have not succeeded.
    pub fn open(&self) -> Vec<String> {
        self.without(|one| one.is_taken)
    }

    /// Events that have not arrived by now may or may not arrive.
    pub fn leave(&mut self) {
        for request in self.missing() {
            let from = self.must.remove(&request).expect("it is there");
            self.may.insert(request, from);
        }
    }

    /// `happened`: all that did, in order.
    pub fn check(&self, happened: &[ModelEvent]) {
        let arrived = self.arrived();
        self.check_secrets(&arrived);
        self.check_doubles(&arrived);
        self.check_order(&arrived, happened);
        assert_eq!(self.missing(), Vec::<String>::new(), "{} lacks", self.id);
    }

    /// Every arrived event is for it, and signed by a current secret.
    fn check_secrets(&self, arrived: &[ReceivedRequest]) {
        for one in arrived {
            let request = request_of(one);
            let from = self.must.get(&request).or_else(|| self.may.get(&request));
            let from = from.unwrap_or_else(|| panic!("{}: {request} is not for it", self.id));
            let signature = one.header("x-service-signature").expect("a signature");
            let signs = |secret: &String| sign(secret, &one.body) == signature;
            assert!(
                self.secrets[*from..].iter().any(signs),
                "{}: {request} is not signed by a secret from {from} on",
                self.id
            );
        }
    }

    /// Nothing is killed here: an event that got 200 does not arrive again, at this receiver or at another.
    fn check_doubles(&self, arrived: &[ReceivedRequest]) {
        let mut taken = BTreeSet::new();
        for one in arrived {
            let request = request_of(one);
            assert!(
                !taken.contains(&request),
                "{}: {request} came again after it had succeeded",
                self.id
            );
            if one.is_taken {
                taken.insert(request);
            }
        }
    }

    /// The first attempts of each tenant's events come in the order of the events, whatever the receiver was by then. Retries come at
    /// any time.
    fn check_order(&self, arrived: &[ReceivedRequest], happened: &[ModelEvent]) {
        let place_of = |request: &String| {
            let place = happened.iter().position(|what| what.request == *request);
            place.expect("it happened")
        };
        let (mut came, mut last) = (BTreeSet::new(), BTreeMap::new());
        for request in arrived.iter().map(request_of) {
            let place = place_of(&request);
            if came.insert(request) {
                let before = last.insert(happened[place].tenant, place);
                assert!(
                    before < Some(place),
                    "{}: event {place} came after {before:?}",
                    self.id
                );
            }
        }
    }
}

/// The request that caused an event.
fn request_of(one: &ReceivedRequest) -> String {
    one.header("x-request-id").expect("an id").to_owned()
}
