//! W33: a key of the wrong type stops the deliveries of its own lane, and no others.

use std::time::Duration;

use serde_json::json;

use super::fan_out::{fan_out, follow};
use crate::admin::webhooks::subscriptions::{HOOKS, made};
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};

const METRIC: &str = "budget_webhook_damaged_lanes_total";

async fn hook(app: &TestApp, receiver: &Receiver) -> String {
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
    made(app, body).await
}

/// The only key of this form.
async fn key(app: &TestApp, form: &str) -> String {
    let keys = app.keys_like(form).await;
    assert_eq!(keys.len(), 1, "{form}: {keys:?}");
    keys[0].clone()
}

async fn damage(app: &TestApp, key: &str) {
    app.run::<()>(&["SET", key, "something else"]).await;
}

async fn arrive(receiver: &Receiver, count: usize) {
    eventually("the events arrive", || async {
        receiver.arrived().len() == count
    })
    .await;
}

/// How many lanes were found to be damaged.
async fn found(running: &RunningDispatcher) {
    eventually("the damage is counted", || async {
        let metrics = running.telemetry.render().expect("metrics");
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix(METRIC)?.trim().parse::<u64>().ok());
        count > Some(0)
    })
    .await;
}

#[tokio::test]
async fn w33_a_key_of_the_wrong_type_stops_only_its_lane() {
    for what in ["lane", "delivery", "window", "webhook"] {
        let app = here().await;
        let receiver = Receiver::start(Reply::Status(200, "")).await;
        let sick = hook(&app, &receiver).await;
        fund(&app, 2).await;
        follow(&fan_out(&app)).await;
        let well = Receiver::start(Reply::Status(200, "")).await;
        hook(&app, &well).await;
        let lane = key(&app, &format!("*:lane:{sick}:*")).await;
        let first: String = app.run(&["LINDEX", &lane, "0"]).await;
        let form = match what {
            "delivery" => format!("*:delivery:{first}"),
            "lane" => format!("*:lane:{sick}:*"),
            _ => format!("*:{what}:{sick}"),
        };
        damage(&app, &key(&app, &form).await).await;
        let running = RunningDispatcher::start(&app);
        // The next event replaces a window.
        found(&running).await;
        for count in 1..4 {
            fund(&app, 1).await;
            arrive(&well, count).await;
        }
        assert_eq!(receiver.arrived().len(), 0, "{what}");
    }
}

#[tokio::test]
async fn w33_retries_of_the_wrong_type_stop_only_their_lane() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(503, "")).await;
    // The retry is not under way when its key is damaged.
    let policy = json!({"initial_delay_ms": 6_000});
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"], "retry_policy": policy});
    let sick = made(&app, body).await;
    let running = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    reached(&app, &sick, "RETRYING", 1).await;
    let well = Receiver::start(Reply::Status(200, "")).await;
    hook(&app, &well).await;
    damage(&app, &key(&app, &format!("*:lane:{sick}:retries")).await).await;
    found(&running).await;
    for count in 1..4 {
        fund(&app, 1).await;
        arrive(&well, count).await;
    }
}

#[tokio::test]
async fn w33_an_outcome_is_recorded_although_its_lane_is_damaged_meanwhile() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Held).await;
    let id = hook(&app, &receiver).await;
    let running = RunningDispatcher::start(&app);
    fund(&app, 2).await;
    arrive(&receiver, 1).await;
    damage(&app, &key(&app, &format!("*:lane:{id}:*")).await).await;
    receiver.reply(Reply::Status(200, ""));
    reached(&app, &id, "SUCCESS", 1).await;
    found(&running).await;
    // Events from now on are fetched when the key is repaired.
    fund(&app, 1).await;
    let window = key(&app, &format!("*:window:{id}")).await;
    eventually("it is behind", || async {
        let sources: Option<i64> = app.run(&["HGET", &window, "sources"]).await;
        sources == Some(1)
    })
    .await;
}

#[tokio::test]
async fn w33_a_batch_of_outcomes_is_recorded_except_the_damaged_one() {
    for what in ["delivery", "window", "webhook"] {
        let app = here().await;
        let (sick_receiver, receiver) = (
            Receiver::start(Reply::Held).await,
            Receiver::start(Reply::Held).await,
        );
        let sick = hook(&app, &sick_receiver).await;
        let mut well = Vec::new();
        for _ in 0..6 {
            well.push(hook(&app, &receiver).await);
        }
        let _running = RunningDispatcher::start(&app);
        fund(&app, 1).await;
        arrive(&receiver, well.len()).await;
        arrive(&sick_receiver, 1).await;
        let form = match what {
            "delivery" => {
                let lane = key(&app, &format!("*:lane:{sick}:*")).await;
                let id: String = app.run(&["LINDEX", &lane, "0"]).await;
                format!("*:delivery:{id}")
            }
            _ => format!("*:{what}:{sick}"),
        };
        damage(&app, &key(&app, &form).await).await;
        for held in [&receiver, &sick_receiver] {
            held.reply(Reply::Status(200, ""));
        }
        for id in &well {
            reached(&app, id, "SUCCESS", 1).await;
        }
        assert_eq!(receiver.arrived().len(), well.len(), "{what}: each once");
    }
}

#[tokio::test]
async fn w33_an_index_of_the_wrong_type_stops_only_its_subscription() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let sick = hook(&app, &receiver).await;
    fund(&app, 1).await;
    follow(&fan_out(&app)).await;
    damage(&app, &key(&app, &format!("*:deliveries:{sick}:*")).await).await;
    let well = Receiver::start(Reply::Status(200, "")).await;
    hook(&app, &well).await;
    let _running = RunningDispatcher::start(&app);
    for count in 1..4 {
        fund(&app, 1).await;
        arrive(&well, count).await;
    }
}

#[tokio::test]
async fn w33_a_place_damaged_in_flight_fails_its_delivery_and_the_lane_continues() {
    let (own, system) = (format!("{HOOKS}?tenant_id=umbra"), HOOKS.to_owned());
    let elsewhere = format!("{} other 20261123 1-1", umbra());
    for (path, place) in [(&own, "x"), (&system, "x"), (&system, &elsewhere)] {
        let app = here().await;
        let receiver = Receiver::start(Reply::After(Duration::from_secs(12))).await;
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        let made = app.post_as_admin(path, body).await.expect(201);
        let id = made.text("/subscription/subscription_id");
        let running = RunningDispatcher::start(&app);
        fund(&app, 3).await;
        arrive(&receiver, 1).await;
        // Only the first one takes so long.
        receiver.reply(Reply::Status(200, ""));
        let lane = key(&app, &format!("*:lane:{id}:*")).await;
        let sick: String = app.run(&["LINDEX", &lane, "0"]).await;
        let record = key(&app, &format!("*:delivery:{sick}")).await;
        app.run::<()>(&["HSET", &record, "place", place]).await;
        // As if its dispatcher had died.
        let claims = key(&app, "*:claims").await;
        let ended: i64 = app.run(&["ZADD", &claims, "XX", "CH", "1", &sick]).await;
        assert_eq!(ended, 1, "it is in flight");
        reached(&app, id, "SUCCESS", 2).await;
        let why: [String; 2] = app
            .run(&["HMGET", &record, "status", "error_message"])
            .await;
        assert_eq!(why, ["FAILED", "The delivery is damaged"]);
        eventually("the lane is empty", || async {
            app.run::<i64>(&["EXISTS", &lane]).await == 0
        })
        .await;
        let window = key(&app, &format!("*:window:{id}")).await;
        eventually("nothing is open", || async {
            let left: [String; 2] = app.run(&["HMGET", &window, "open", "flying"]).await;
            (left == ["0", "0"]).then_some(()).ok_or(left)
        })
        .await;
        let counted = r#"budget_webhook_attempts_total{outcome="dropped",reason="damaged"} 1"#;
        // It is counted a moment after Redis has recorded it.
        eventually("it is counted", || async {
            let metrics = running.telemetry.render().expect("metrics");
            metrics.contains(counted).then_some(()).ok_or(metrics)
        })
        .await;
    }
}

#[tokio::test]
async fn w33_an_id_damaged_in_its_lane_is_skipped() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Held).await;
    let id = hook(&app, &receiver).await;
    let _running = RunningDispatcher::start(&app);
    fund(&app, 2).await;
    arrive(&receiver, 1).await;
    let lane = key(&app, &format!("*:lane:{id}:*")).await;
    app.run::<()>(&["LSET", &lane, "0", "something else"]).await;
    receiver.reply(Reply::Status(200, ""));
    reached(&app, &id, "SUCCESS", 2).await;
    eventually("the lane is empty", || async {
        app.run::<i64>(&["EXISTS", &lane]).await == 0
    })
    .await;
}

#[tokio::test]
async fn the_lane_of_a_tenant_named_retries_is_a_lane_like_others() {
    let app = here().await;
    let tenant = json!({"tenant_id": "retries", "name": "Retries"});
    app.post_as_admin("/v1/admin/tenants", tenant)
        .await
        .expect(201);
    let amount = json!({"unit": "TOKENS", "amount": 100});
    let budget = json!({"tenant_id": "retries", "scope": "tenant:retries", "unit": "TOKENS", "allocated": amount});
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.created"]});
    app.post_as_admin("/v1/admin/webhooks?tenant_id=retries", body)
        .await
        .expect(201);
    let _running = RunningDispatcher::start(&app);
    app.post_as_admin("/v1/admin/budgets", budget)
        .await
        .expect(201);
    arrive(&receiver, 1).await;
}
