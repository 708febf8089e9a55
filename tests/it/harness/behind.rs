//! A subscription that falls behind, and the workers that queue for it.

use std::sync::Arc;

use budget_authority::dispatcher::sweep::{ClockMetrics, ClockWatch};
use budget_authority::dispatcher::{Backfill, DeliverySignal, FanOut};
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::domain::log_entry::EntryId;
use prometheus::{Registry, TextEncoder};
use serde_json::json;

use super::app::TestApp;
use crate::admin::webhooks::subscriptions::{HOOKS, URL, hooked, made};
use crate::dispatcher::fan_out::{fan_out, leases};

/// A subscription with its window, and the workers that queue for it.
pub struct SubscriptionFixture {
    pub app: TestApp,
    pub id: String,
    /// The partition of the subscription.
    pub partition: Partition,
    /// The field of its cursor.
    pub source: String,
    pub fan_out: FanOut,
    pub catch_up: Backfill,
    registry: Registry,
}

pub fn umbra() -> Partition {
    TenantId::parse("umbra").expect("an id").partition()
}

pub fn catch_up_of(app: &TestApp) -> (Backfill, Registry) {
    let registry = Registry::new();
    let clock = ClockWatch::new(ClockMetrics::register(&registry).expect("distinct names"));
    let queued = Arc::new(DeliverySignal::default());
    let worker = Backfill::new(app.store.clone(), clock, 1, queued, &registry);
    (worker.expect("distinct names"), registry)
}

impl SubscriptionFixture {
    /// Of `umbra`.
    pub async fn own() -> Self {
        let app = hooked().await;
        let id = made(&app, json!({"url": URL, "event_types": ["budget.funded"]})).await;
        Self::of(app, id, umbra(), "own".to_owned())
    }

    /// Of the operator.
    pub async fn system() -> Self {
        let app = hooked().await;
        let body = json!({"url": URL, "event_types": ["budget.funded"]});
        let response = app.post_as_admin(HOOKS, body).await.expect(201);
        let id = response.text("/subscription/subscription_id").to_owned();
        Self::of(app, id, Partition::FIRST, umbra().to_string())
    }

    /// Of `umbra`, on a service that has it; and one of the operator beside it.
    pub async fn both_on(app: TestApp) -> Self {
        let body = json!({"url": "https://93.184.216.34/in", "event_types": ["budget.funded"]});
        app.post_as_admin(HOOKS, body.clone()).await.expect(201);
        let id = made(&app, body).await;
        Self::of(app, id, umbra(), "own".to_owned())
    }

    fn of(app: TestApp, id: String, partition: Partition, source: String) -> Self {
        let fan_out = fan_out(&app);
        let (catch_up, registry) = catch_up_of(&app);
        Self {
            app,
            id,
            partition,
            source,
            fan_out,
            catch_up,
            registry,
        }
    }

    pub fn window(&self) -> String {
        self.app.store.keys().window(self.partition, &self.id)
    }

    /// Sets the count of open deliveries in the window.
    pub async fn let_open(&self, count: i64) {
        let count = count.to_string();
        let window = self.window();
        self.app.run::<()>(&["HSET", &window, "open", &count]).await;
        self.look_now().await;
    }

    /// Makes the subscription due at the next pass.
    pub async fn look_now(&self) {
        let behind = self.app.store.keys().behind(self.partition);
        self.app
            .run::<()>(&["ZADD", &behind, "XX", "0", &self.id])
            .await;
    }

    pub async fn field(&self, name: &str) -> Option<String> {
        self.app.run(&["HGET", &self.window(), name]).await
    }

    /// The place up to which it has events.
    pub async fn place(&self) -> Option<String> {
        self.field(&format!("behind {}", self.source)).await
    }

    pub async fn is_behind(&self) -> bool {
        let behind = self.app.store.keys().behind(self.partition);
        let score: Option<String> = self.app.run(&["ZSCORE", &behind, &self.id]).await;
        assert_eq!(self.field("sources").await.is_some(), score.is_some());
        score.is_some()
    }

    /// Passes until there is nothing more to do at once; how many deliveries were queued.
    pub async fn catch_up(&mut self) -> i64 {
        let mut queued = 0;
        loop {
            let pass = self.catch_up.run_once(&leases(), |_| {}).await;
            let pass = pass.expect("Redis answers");
            queued += pass.queued;
            if pass.queued == 0 && !pass.more {
                return queued;
            }
        }
    }

    /// Checks that `count` deliveries wait, each once and in order.
    pub async fn expect_in_order(&self, count: usize) {
        expect_in_order(&self.app, self.partition, &self.id, count).await;
    }

    /// The metrics of catching up have this line.
    pub fn measures(&self, line: &str) {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("text");
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}

/// Checks that `count` deliveries wait in the lane of `umbra` to a subscription, each once and in order.
pub async fn expect_in_order(app: &TestApp, partition: Partition, id: &str, count: usize) {
    let keys = app.store.keys();
    let lane = keys.lane(partition, format!("{id}:{}:umbra", umbra()));
    let ids: Vec<String> = app.run(&["LRANGE", &lane, "0", "-1"]).await;
    let mut places = Vec::new();
    for id in ids {
        let key = keys.delivery(partition, &id);
        let place: String = app.run(&["HGET", &key, "place"]).await;
        let entry = place.rsplit(' ').next().expect("an entry");
        places.push(EntryId::parse(entry).expect("an entry"));
    }
    assert_eq!(places.len(), count, "{places:?}");
    assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
}
