//! Claims: attempts whose dispatcher died, and when another dispatcher takes them over.

use std::time::Duration;

use serde_json::{Value, json};

use super::fan_out::{fan_out, follow};
use super::replays::{hook, past, replayed};
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

/// Deletes the record of a delivery in flight, and with `deletes_lane` its lane; its claim ends, and no count or note is left.
async fn lose_in_flight(is_retry: bool, is_replay: bool, deletes_lane: bool) {
    let app = here().await;
    let receiver = Receiver::start(Reply::Silence).await;
    if is_retry {
        receiver.reply(Reply::Status(500, ""));
    }
    let settings = json!({"retry_policy": {"initial_delay_ms": 6_000}});
    past(&app, usize::from(is_replay)).await;
    let webhook = made(&app, hook(&receiver, settings)).await;
    if is_replay {
        replayed(&app, &webhook, 1).await;
    } else {
        fund(&app, 1).await;
    }
    let _running = RunningDispatcher::start(&app);
    if is_retry {
        reached(&app, &webhook, "RETRYING", 1).await;
        receiver.reply(Reply::Silence);
    }
    let (keys, partition) = (app.store.keys(), umbra());
    let window = keys.window(partition, &webhook);
    let counts = async || -> [i64; 4] {
        let fields = ["HMGET", &window, "flying", "retrying", "open", "replaying"];
        let counts: Vec<Option<i64>> = app.run(&fields).await;
        [0, 1, 2, 3].map(|n| counts[n].unwrap_or(0))
    };
    eventually("it is in flight", || async {
        let found = (receiver.arrived().len(), counts().await);
        let in_flight = [1, i64::from(is_retry), 1, i64::from(is_replay)];
        let expected = (1 + usize::from(is_retry), in_flight);
        (found == expected).then_some(()).ok_or(found)
    })
    .await;
    let rows = deliveries(&app, &webhook).await;
    let id = rows[0]["delivery_id"].as_str().expect("an id");
    app.run::<i64>(&["DEL", &keys.delivery(partition, id)])
        .await;
    if deletes_lane {
        let lane = keys.lane(partition, format!("{webhook}:{partition}:umbra"));
        assert_eq!(app.run::<i64>(&["DEL", &lane]).await, 1);
    }
    let noted = keys.claimed_lanes(partition);
    // As if a dispatcher of an earlier release had ended a claim.
    app.run::<i64>(&["HSET", &noted, "ended", "lane"]).await;
    // As if its dispatcher had died long ago.
    app.run::<i64>(&["ZADD", &keys.claims(partition), "XX", "1", id])
        .await;
    eventually("it counts no more", || async {
        let open = ["HVALS", &keys.open_deliveries(partition)];
        let found = (counts().await, app.run::<Vec<String>>(&open).await);
        (found == ([0; 4], Vec::new())).then_some(()).ok_or(found)
    })
    .await;
    assert_eq!(app.run::<i64>(&["EXISTS", &noted]).await, 0);
}

#[tokio::test]
async fn w33_a_claim_whose_record_and_dispatcher_are_gone_leaves_no_count_behind() {
    for is_retry in [false, true] {
        lose_in_flight(is_retry, false, false).await;
    }
}

#[tokio::test]
async fn w33_a_claim_whose_record_and_lane_are_gone_leaves_no_count_behind() {
    lose_in_flight(false, false, true).await;
}

#[tokio::test]
async fn w33_a_claim_of_a_replayed_retry_whose_record_is_gone_leaves_no_count_behind() {
    lose_in_flight(true, true, false).await;
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
    assert!((20_000..=35_000).contains(&left_ms), "{left_ms} ms");
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
