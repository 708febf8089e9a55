//! Claims: attempts whose dispatcher died, and when another dispatcher takes them over.

use std::time::Duration;

use serde_json::{Value, json};

use super::fan_out::{fan_out, follow};
use crate::admin::webhooks::subscriptions::made;
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, deliveries, fund, here, reached, webhook};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis_fixture::now_ms;

/// A delivery that was claimed by a dispatcher that has died.
struct AbandonedClaim {
    app: TestApp,
    webhook: String,
    id: String,
}

impl AbandonedClaim {
    /// The last of `attempts` attempts, of which `lost` in a row had no outcome before.
    async fn after(receiver: &Receiver, attempts: i64, lost: i64, settings: Value) -> Self {
        let app = here().await;
        let mut body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        for (name, value) in settings.as_object().expect("members") {
            body[name] = value.clone();
        }
        let webhook = made(&app, body).await;
        fund(&app, 1).await;
        assert_eq!(follow(&fan_out(&app)).await, 1);
        let rows = deliveries(&app, &webhook).await;
        let id = rows[0]["delivery_id"].as_str().expect("an id").to_owned();
        let (keys, partition) = (app.store.keys(), umbra());
        let record = keys.delivery(partition, &id);
        let [attempts, lost] = [attempts, lost].map(|number| number.to_string());
        let fields = ["attempts", &attempts, "lost", &lost, "claim", "gone:1:1"];
        let lane = format!("{webhook}:{partition}:umbra");
        app.run::<()>(&[&["HSET", &record], &fields[..]].concat())
            .await;
        for words in [
            ["ZADD", &keys.claims(partition), "1", &id].as_slice(),
            &["ZREM", &keys.lanes(partition), &lane],
            &["HSET", &keys.window(partition, &webhook), "flying", "1"],
        ] {
            app.run::<()>(words).await;
        }
        Self { app, webhook, id }
    }

    async fn field(&self, name: &str) -> Option<String> {
        let record = self.app.store.keys().delivery(umbra(), &self.id);
        self.app.run(&["HGET", &record, name]).await
    }
}

#[tokio::test]
async fn w15_five_lost_attempts_in_a_row_end_a_delivery_uncounted_with_an_alarm() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let settings = json!({"disable_after_failures": 1});
    let claimed = AbandonedClaim::after(&receiver, 5, 4, settings).await;
    let running = RunningDispatcher::start(&claimed.app);
    let rows = reached(&claimed.app, &claimed.webhook, "FAILED", 1).await;
    assert_eq!(rows[0]["attempts"], 5, "{rows:?}");
    assert_eq!(rows[0]["error_message"], "Attempts were lost");
    let record = webhook(&claimed.app, &claimed.webhook).await;
    assert_eq!(
        (&record["status"], &record["consecutive_failures"]),
        (&json!("ACTIVE"), &json!(0))
    );
    assert_eq!(receiver.accepted(), 0);
    let alarm = r#"budget_webhook_attempts_total{outcome="dropped",reason="attempts_lost"} 1"#;
    eventually("it is counted", || async {
        let metrics = running.telemetry.render().expect("metrics");
        metrics.contains(alarm).then_some(())
    })
    .await;
}

#[tokio::test]
async fn w15_a_lost_attempt_counts_as_an_attempt_but_not_as_a_retry() {
    let receiver = Receiver::start(Reply::Status(500, "")).await;
    let settings = json!({"retry_policy": {"max_retries": 1, "initial_delay_ms": 100}});
    let claimed = AbandonedClaim::after(&receiver, 4, 3, settings).await;
    let _running = RunningDispatcher::start(&claimed.app);
    let rows = reached(&claimed.app, &claimed.webhook, "FAILED", 1).await;
    assert_eq!(rows[0]["attempts"], 6, "four lost ones and two: {rows:?}");
    assert_eq!(rows[0]["error_message"], "HTTP 500");
    assert_eq!(receiver.arrived().len(), 2);
    let record = webhook(&claimed.app, &claimed.webhook).await;
    assert_eq!(record["consecutive_failures"], 1);
}

#[tokio::test]
async fn w33_a_claim_whose_record_and_dispatcher_are_gone_leaves_no_count_behind() {
    for is_retry in [false, true] {
        let app = here().await;
        let receiver = Receiver::start(Reply::Silence).await;
        if is_retry {
            receiver.reply(Reply::Status(500, ""));
        }
        let body = json!({
            "url": receiver.url("/in"), "event_types": ["budget.funded"], "retry_policy": {"initial_delay_ms": 2_000},
        });
        let webhook = made(&app, body).await;
        let _running = RunningDispatcher::start(&app);
        fund(&app, 1).await;
        if is_retry {
            reached(&app, &webhook, "RETRYING", 1).await;
            receiver.reply(Reply::Silence);
        }
        let (keys, partition) = (app.store.keys(), umbra());
        let window = keys.window(partition, &webhook);
        let counts = async || -> (i64, i64) {
            let counts: Vec<Option<i64>> = app.run(&["HMGET", &window, "flying", "open"]).await;
            (counts[0].unwrap_or(0), counts[1].unwrap_or(0))
        };
        eventually("it is in flight", || async {
            let arrived = receiver.arrived().len() == 1 + usize::from(is_retry);
            (arrived && counts().await == (1, 1)).then_some(())
        })
        .await;
        let rows = deliveries(&app, &webhook).await;
        let id = rows[0]["delivery_id"].as_str().expect("an id");
        app.run::<i64>(&["DEL", &keys.delivery(partition, id)])
            .await;
        // As if its dispatcher had died long ago.
        app.run::<i64>(&["ZADD", &keys.claims(partition), "XX", "1", id])
            .await;
        eventually("it counts no more", || async {
            let found = counts().await;
            (found == (0, 0)).then_some(()).ok_or(found)
        })
        .await;
        let noted = ["EXISTS", &keys.claimed_lanes(partition)];
        assert_eq!(app.run::<i64>(&noted).await, 0);
    }
}

#[tokio::test]
async fn w17_a_claim_of_a_running_dispatcher_passes_on_only_when_it_lapses() {
    let receiver = Receiver::start(Reply::Silence).await;
    let claimed = AbandonedClaim::after(&receiver, 1, 0, json!({})).await;
    let app = &claimed.app;
    let _holder = RunningDispatcher::start(app);
    eventually("it is in flight", || async {
        (receiver.arrived().len() == 1).then_some(())
    })
    .await;
    let (claims, mine) = (
        app.store.keys().claims(umbra()),
        claimed.field("claim").await,
    );
    let until_ms: i64 = app.run(&["ZSCORE", &claims, &claimed.id]).await;
    let left_ms = until_ms - now_ms(&app.store).await;
    assert!((30_000..=35_000).contains(&left_ms), "{left_ms} ms");
    let _other = RunningDispatcher::start(app);
    // Claims of dead dispatchers are looked for every two seconds; this one lives.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(claimed.field("claim").await, mine);
    app.run::<()>(&["ZADD", &claims, "XX", "1", &claimed.id])
        .await;
    eventually("it is attempted again", || async {
        (receiver.arrived().len() == 2).then_some(())
    })
    .await;
    let rows = deliveries(app, &claimed.webhook).await;
    assert_eq!(
        (&rows[0]["attempts"], &rows[0]["status"]),
        (&json!(3), &json!("PENDING")),
        "{rows:?}"
    );
    assert_ne!(claimed.field("claim").await, mine);
}
