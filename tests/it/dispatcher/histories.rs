//! Random histories of subscriptions and events, with a model of the events that must, may and must not arrive.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, patch};
use crate::harness::app::TestApp;
use crate::harness::deliveries::{RunningDispatcher, fund, here};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};

/// Steps of a history.
const STEPS: usize = 90;
/// Subscriptions at once.
const HOOKED: usize = 4;

/// A subscription to the events of `umbra`, which differ by the allocation after them.
struct ModelSubscription {
    id: String,
    receiver: Receiver,
    is_active: bool,
    is_deleted: bool,
    /// Events that must arrive, and how often.
    must: BTreeMap<i64, usize>,
    /// Events that may arrive once more: they waited when it was paused or deleted.
    may: BTreeSet<i64>,
    is_replayed: bool,
}

impl ModelSubscription {
    async fn make(app: &TestApp, is_own: bool) -> Self {
        let receiver = Receiver::start(Reply::Status(204, "")).await;
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        let path = match is_own {
            true => format!("{HOOKS}?tenant_id=umbra"),
            false => HOOKS.to_owned(),
        };
        let made = app.post_as_admin(&path, body).await.expect(201);
        Self {
            id: made.text("/subscription/subscription_id").to_owned(),
            receiver,
            is_active: true,
            is_deleted: false,
            must: BTreeMap::new(),
            may: BTreeSet::new(),
            is_replayed: false,
        }
    }

    /// The events in the order of their arrival.
    fn arrived(&self) -> Vec<i64> {
        let event = |body: &[u8]| -> Value { serde_json::from_slice(body).expect("JSON") };
        let arrived = self.receiver.arrived();
        let figures = arrived.iter().map(|request| event(&request.body));
        let figures = figures.map(|event| event["data"]["new_state"]["allocated"].as_i64());
        figures.map(|figure| figure.expect("a figure")).collect()
    }

    fn counts(&self) -> BTreeMap<i64, usize> {
        let mut counts = BTreeMap::new();
        for event in self.arrived() {
            *counts.entry(event).or_default() += 1;
        }
        counts
    }

    fn has_all(&self) -> bool {
        let counts = self.counts();
        let came = |(event, times): (&i64, &usize)| counts.get(event).unwrap_or(&0) >= times;
        self.must.iter().all(came)
    }

    /// Events that have not arrived when it becomes inactive are no longer sent, unless they are in flight.
    fn leave(&mut self) {
        let counts = self.counts();
        for (event, times) in &mut self.must {
            let came = counts.get(event).copied().unwrap_or(0);
            if came < *times {
                *times = came;
                self.may.insert(*event);
            }
        }
        self.is_active = false;
    }

    /// `repeats`: how often each event may arrive once more, since a dispatcher was stopped.
    fn check(&self, repeats: usize) {
        let counts = self.counts();
        for (event, count) in &counts {
            let must = self.must.get(event).copied().unwrap_or(0);
            let most = must + usize::from(self.may.contains(event));
            assert!(most > 0, "{}: {event} is not for it: {counts:?}", self.id);
            assert!(
                *count <= most + repeats,
                "{}: {event} came {count} times",
                self.id
            );
        }
        assert!(self.has_all(), "{}: {counts:?} of {:?}", self.id, self.must);
        if !self.is_replayed && repeats == 0 {
            assert!(
                self.arrived().is_sorted(),
                "{}: {:?}",
                self.id,
                self.arrived()
            );
        }
    }
}

struct History {
    app: TestApp,
    random: StdRng,
    dispatchers: Vec<RunningDispatcher>,
    hooks: Vec<ModelSubscription>,
    /// The allocation behind the last event.
    last: i64,
    stops: usize,
}

impl History {
    async fn begin(seed: u64) -> Self {
        let app = here().await;
        let ledger = "/v1/admin/budgets/lookup?scope=tenant:umbra&unit=TOKENS";
        let ledger = app.get_as_admin(ledger).await.expect(200);
        Self {
            last: ledger.at("/allocated/amount").as_i64().expect("a figure"),
            dispatchers: vec![RunningDispatcher::start(&app)],
            app,
            random: StdRng::seed_from_u64(seed),
            hooks: Vec::new(),
            stops: 0,
        }
    }

    fn is(&mut self, chance: f64) -> bool {
        self.random.random_bool(chance)
    }

    /// One of the subscriptions that are active, or that are paused.
    fn one(&mut self, is_active: bool) -> Option<usize> {
        let fits = |(_, hook): &(usize, &ModelSubscription)| {
            hook.is_active == is_active && !hook.is_deleted
        };
        let those: Vec<_> = self
            .hooks
            .iter()
            .enumerate()
            .filter(fits)
            .map(|(at, _)| at)
            .collect();
        let count = those.len();
        (count > 0).then(|| those[self.random.random_range(0..count)])
    }

    async fn step(&mut self) {
        match self.random.random_range(0..12) {
            0..=4 => self.fund().await,
            5 => self.create().await,
            6 => self.pause().await,
            7 => self.resume().await,
            8 => self.delete().await,
            9 => self.replay().await,
            10 => self.change_dispatchers().await,
            _ => self.drained().await,
        }
    }

    async fn fund(&mut self) {
        let times = self.random.random_range(1..6);
        fund(&self.app, times).await;
        for _ in 0..times {
            self.last += 1;
            for hook in self.hooks.iter_mut().filter(|hook| hook.is_active) {
                *hook.must.entry(self.last).or_default() += 1;
            }
        }
    }

    async fn create(&mut self) {
        if self.hooks.iter().filter(|hook| !hook.is_deleted).count() < HOOKED {
            let is_own = self.is(0.6);
            self.hooks
                .push(ModelSubscription::make(&self.app, is_own).await);
        }
    }

    async fn pause(&mut self) {
        if let Some(at) = self.one(true) {
            let id = self.hooks[at].id.clone();
            patch(&self.app, &id, json!({"status": "PAUSED"}))
                .await
                .expect(200);
            self.hooks[at].leave();
        }
    }

    async fn resume(&mut self) {
        if let Some(at) = self.one(false) {
            let id = self.hooks[at].id.clone();
            patch(&self.app, &id, json!({"status": "ACTIVE"}))
                .await
                .expect(200);
            self.hooks[at].is_active = true;
        }
    }

    async fn delete(&mut self) {
        let is_active = self.is(0.5);
        if self.is(0.5)
            && let Some(at) = self.one(is_active)
        {
            let path = format!("{HOOKS}/{}", self.hooks[at].id);
            self.app
                .as_admin(Method::DELETE, &path, &json!({}))
                .await
                .expect(204);
            self.hooks[at].leave();
            self.hooks[at].is_deleted = true;
        }
    }

    async fn replay(&mut self) {
        self.drained().await;
        let Some(at) = self.one(true) else { return };
        let path = format!("{HOOKS}/{}/replay", self.hooks[at].id);
        let body = json!({"max_events": 1000});
        // The lock of one before lasts until its first attempts have ended.
        let queued = eventually("a replay is queued", || async {
            let queued = self.app.post_as_admin(&path, body.clone()).await;
            (queued.status == 202).then_some(queued)
        });
        let queued = queued
            .await
            .at("/events_queued")
            .as_i64()
            .expect("a number");
        let hook = &mut self.hooks[at];
        for event in self.last - queued + 1..=self.last {
            *hook.must.entry(event).or_default() += 1;
        }
        hook.is_replayed = true;
    }

    /// Starts a second dispatcher, or stops one of two.
    async fn change_dispatchers(&mut self) {
        if self.dispatchers.len() < 2 {
            self.dispatchers.push(RunningDispatcher::start(&self.app));
        } else {
            let at = self.random.random_range(0..2);
            self.dispatchers.swap_remove(at).stop().await;
            self.stops += 1;
        }
    }

    /// Waits until all has arrived that must.
    async fn drained(&self) {
        for hook in self.hooks.iter().filter(|hook| hook.is_active) {
            eventually(
                &format!("{} has all of {:?}", hook.id, hook.must),
                || async { hook.has_all().then_some(()) },
            )
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_match_a_model_on_a_random_history() {
    let seed = crate::harness::seed_of_history();
    let mut history = History::begin(seed).await;
    history.create().await;
    for _ in 0..STEPS {
        history.step().await;
        for hook in history.hooks.iter().filter(|hook| !hook.is_active) {
            hook.check(history.stops);
        }
    }
    history.drained().await;
    // Leaves time for unexpected requests to arrive.
    history.fund().await;
    history.drained().await;
    for hook in &history.hooks {
        hook.check(history.stops);
    }
}
