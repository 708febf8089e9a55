//! Deliveries that wait or end without an attempt, through no fault of the receiver.

use std::time::Duration;

use budget_authority::domain::ids::Partition;
use serde_json::json;

use super::fan_out::{fan_out, follow};
use crate::admin::webhooks::subscriptions::{HOOKS, made, patch};
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, deliveries, fund, here, reached, webhook};
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis_fixture::now_ms;
use crate::harness::{eventually, within};

/// Two events that wait for a healthy receiver.
struct WaitingDeliveries {
    app: TestApp,
    receiver: Receiver,
    id: String,
    running: RunningDispatcher,
}

impl WaitingDeliveries {
    /// `damage`: what happens to Redis before there is a dispatcher.
    async fn after(damage: impl AsyncFnOnce(&TestApp, &str)) -> Self {
        let app = here().await;
        let receiver = Receiver::start(Reply::Status(200, "")).await;
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"],
            "disable_after_failures": 1});
        let id = made(&app, body).await;
        fund(&app, 2).await;
        assert_eq!(follow(&fan_out(&app)).await, 2);
        damage(&app, &id).await;
        let running = RunningDispatcher::start(&app);
        Self {
            app,
            receiver,
            id,
            running,
        }
    }

    /// Checks that the lane is due again after this many seconds, and nothing was sent or counted.
    async fn waits(&self, reason: &str, seconds: i64) {
        let line =
            format!(r#"budget_webhook_attempts_total{{outcome="later",reason="{reason}"}} 1"#);
        eventually("it is put off", || async {
            let metrics = self.running.telemetry.render().expect("metrics");
            metrics.contains(&line).then_some(())
        })
        .await;
        let rows = deliveries(&self.app, &self.id).await;
        for row in &rows {
            assert_eq!(
                (&row["status"], &row["attempts"]),
                (&json!("PENDING"), &json!(0))
            );
        }
        assert_eq!(
            webhook(&self.app, &self.id).await["consecutive_failures"],
            0
        );
        let lanes = self.app.store.keys().lanes(umbra());
        let found: Vec<(String, i64)> = self
            .app
            .run(&["ZRANGE", &lanes, "0", "-1", "WITHSCORES"])
            .await;
        let [(_, due_ms)] = found[..] else {
            panic!("{found:?}")
        };
        let wait_ms = due_ms - now_ms(&self.app.store).await;
        assert!(
            (seconds * 1_000 - 20_000..=seconds * 1_000).contains(&wait_ms),
            "{wait_ms} ms"
        );
        assert_eq!(self.receiver.accepted(), 0);
    }

    /// Makes the lane due; then all arrive.
    async fn resume(&self) {
        let lanes = self.app.store.keys().lanes(umbra());
        let lane = format!("{}:{}:umbra", self.id, umbra());
        self.app
            .run::<()>(&["ZADD", &lanes, "XX", "0", &lane])
            .await;
        let rows = reached(&self.app, &self.id, "SUCCESS", 2).await;
        assert!(rows.iter().all(|row| row["attempts"] == 1), "{rows:?}");
    }
}

/// Stores a secret as under a key that the dispatcher does not have; returns what was stored.
async fn unsealable(app: &TestApp, id: &str) -> String {
    let record = app.store.keys().webhook(umbra(), id);
    let sealed: String = app.run(&["HGET", &record, "signing_secret"]).await;
    let other = format!("{}x", &sealed[..sealed.len() - 1]);
    app.run::<()>(&["HSET", &record, "signing_secret", &other])
        .await;
    sealed
}

#[tokio::test]
async fn w24_a_lane_with_an_undecryptable_secret_waits_and_is_retried_each_minute() {
    let mut sealed = String::new();
    let waiting = WaitingDeliveries::after(async |app, id| {
        sealed = unsealable(app, id).await;
    })
    .await;
    waiting.waits("missing_signing_secret", 60).await;
    let record = waiting.app.store.keys().webhook(umbra(), &waiting.id);
    let words = ["HSET", &record, "signing_secret", &sealed];
    waiting.app.run::<()>(&words).await;
    waiting.resume().await;
}

#[tokio::test]
async fn w3_postponed_deliveries_fail_within_seconds_of_a_pause_or_deletion() {
    for is_deleted in [false, true] {
        let waiting = WaitingDeliveries::after(async |app, id| {
            unsealable(app, id).await;
        })
        .await;
        waiting.waits("missing_signing_secret", 60).await;
        let rows = deliveries(&waiting.app, &waiting.id).await;
        match is_deleted {
            false => patch(&waiting.app, &waiting.id, json!({"status": "PAUSED"})).await,
            true => {
                let path = format!("{HOOKS}/{}", waiting.id);
                let gone = waiting
                    .app
                    .as_admin(reqwest::Method::DELETE, &path, &json!(null));
                gone.await.expect(204)
            }
        };
        for row in &rows {
            let id = row["delivery_id"].as_str().expect("an id");
            let record = waiting.app.store.keys().delivery(umbra(), id);
            within(Duration::from_secs(40), "it fails", || async {
                let status: Option<String> = waiting.app.run(&["HGET", &record, "status"]).await;
                (status.as_deref() == Some("FAILED"))
                    .then_some(())
                    .ok_or(status)
            })
            .await;
        }
        assert_eq!(waiting.receiver.accepted(), 0);
    }
}

#[tokio::test]
async fn w23_while_the_address_rules_are_unreadable_nothing_is_sent_or_counted() {
    let waiting = WaitingDeliveries::after(async |app, _| {
        let rules = app.store.keys().webhook_security(Partition::FIRST);
        app.run::<()>(&["RENAME", &rules, &format!("{rules}:kept")])
            .await;
        app.run::<()>(&["SET", &rules, "x"]).await;
    })
    .await;
    waiting.waits("security_unreadable", 30).await;
    let rules = waiting.app.store.keys().webhook_security(Partition::FIRST);
    waiting
        .app
        .run::<()>(&["RENAME", &format!("{rules}:kept"), &rules])
        .await;
    waiting.resume().await;
}

#[tokio::test]
async fn w12_a_delivery_that_waited_for_a_day_fails_uncounted() {
    let waiting = WaitingDeliveries::after(async |app, id| {
        let rows = deliveries(app, id).await;
        let old = rows[0]["delivery_id"].as_str().expect("an id");
        let record = app.store.keys().delivery(umbra(), old);
        let day_ago = now_ms(&app.store).await - 24 * 3_600_000 - 1_000;
        app.run::<()>(&["HSET", &record, "at_ms", &day_ago.to_string()])
            .await;
    })
    .await;
    let rows = reached(&waiting.app, &waiting.id, "FAILED", 1).await;
    assert_eq!(rows[0]["error_message"], "The delivery is too old");
    assert_eq!(rows[0]["attempts"], 0);
    reached(&waiting.app, &waiting.id, "SUCCESS", 1).await;
    let record = webhook(&waiting.app, &waiting.id).await;
    assert_eq!(
        (&record["status"], &record["consecutive_failures"]),
        (&json!("ACTIVE"), &json!(0))
    );
}

#[tokio::test]
async fn w28_at_most_sixteen_retries_of_a_subscription_are_in_flight() {
    const EVENTS: usize = 40;
    let app = here().await;
    let (failing, slow) = (
        Receiver::start(Reply::Status(500, "")).await,
        Receiver::start(Reply::Held).await,
    );
    let body = json!({"url": failing.url("/in"), "event_types": ["budget.funded"],
        "retry_policy": {"max_retries": 1, "initial_delay_ms": 15_000}});
    let id = made(&app, body).await;
    fund(&app, EVENTS).await;
    let _running = RunningDispatcher::with_lanes(&app, 64);
    reached(&app, &id, "RETRYING", EVENTS).await;
    patch(&app, &id, json!({"url": slow.url("/in")}))
        .await
        .expect(200);
    eventually("the maximum is in flight", || async {
        slow.arrived().len() >= 16
    })
    .await;
    // Long enough for one more to start, if it could.
    slow.reply(Reply::After(Duration::from_millis(700)));
    reached(&app, &id, "SUCCESS", EVENTS).await;
    assert_eq!(slow.arrived().len(), EVENTS);
    // Those in flight at the same time have a connection each, and leave it to the next.
    assert_eq!(slow.accepted(), 16);
}
