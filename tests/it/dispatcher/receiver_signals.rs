//! What a receiver's response says besides success and failure: when to come again, and that it is gone. And how long failures
//! must last before they disable a webhook.

use std::time::Duration;

use budget_authority::domain::moment::Moment;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{made, patch};
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, deliveries, fund, here, reached, webhook};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};

fn ms(time: &Value) -> i64 {
    let time = time.as_str().and_then(Moment::parse);
    time.expect("a time").as_ms()
}

#[tokio::test]
async fn a_receiver_that_asks_to_wait_is_called_no_sooner_and_within_the_longest_delay() {
    let app = here().await;
    let at = Timestamp::now() + Duration::from_secs(40);
    let date = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let mut hooks = Vec::new();
    for (status, after, back_off_ms, expected_ms) in [
        (429, "30", 1_000, 30_000),
        (503, "30", 1_000, 30_000),
        (503, &date, 1_000, 40_000),
        (429, "1", 20_000, 20_000),
        (429, "3600", 1_000, 50_000),
        (500, "30", 20_000, 20_000),
        (429, "soon", 20_000, 20_000),
    ] {
        let response =
            format!("HTTP/1.1 {status} x\r\nRetry-After: {after}\r\nContent-Length: 0\r\n\r\n");
        let receiver = Receiver::start(Reply::Bytes(response)).await;
        let policy = json!({"initial_delay_ms": back_off_ms, "max_delay_ms": 50_000});
        let body = json!({
            "url": receiver.url("/in"), "event_types": ["budget.funded"], "retry_policy": policy,
        });
        let case = format!("{status} {after}");
        hooks.push((made(&app, body).await, receiver, case, expected_ms));
    }
    fund(&app, 1).await;
    let _running = RunningDispatcher::start(&app);
    for (id, _receiver, case, expected_ms) in hooks {
        let row = reached(&app, &id, "RETRYING", 1).await.remove(0);
        let attempted = ms(&webhook(&app, &id).await["last_triggered_at"]);
        let waits_ms = ms(&row["next_retry_at"]) - attempted;
        // An attempt takes a moment; a date has no fractions of a second, and counts from before the attempt.
        let tolerance_ms = if case.ends_with("GMT") { 15_000 } else { 0 };
        let expected = expected_ms - tolerance_ms..expected_ms + 5_000;
        assert!(expected.contains(&waits_ms), "{case}: {waits_ms} {row}");
    }
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_disabled_at_once_and_its_owner_reads_why() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(410, "")).await;
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
    let id = made(&app, body).await;
    let _running = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    let row = reached(&app, &id, "FAILED", 1).await.remove(0);
    assert_eq!(
        (&row["attempts"], &row["response_status"]),
        (&json!(1), &json!(410)),
        "{row}"
    );
    let record = webhook(&app, &id).await;
    assert_eq!(
        (&record["status"], &record["consecutive_failures"]),
        (&json!("DISABLED"), &json!(1))
    );
    let (_, key) = crate::admin::http::key(&app, &["events:read"]).await;
    let disabled = app.get_with(&key, "/v1/events?event_type=webhook.disabled");
    let disabled = disabled.await.expect(200).at("/events/0/data").clone();
    assert_eq!(disabled["subscription_id"], id);
    assert_eq!(disabled["disable_reason"], "gone");
    let page = app.get_with(&key, "/v1/events").await.expect(200);
    let events = page.at("/events").as_array().expect("events").clone();
    let of_webhooks = events.iter().filter(|event| event["category"] == "webhook");
    let types: Vec<&Value> = of_webhooks.map(|event| &event["event_type"]).collect();
    assert_eq!(types, ["webhook.disabled"], "and no other of webhooks");
    // An event of webhooks cannot be subscribed to.
    let body = json!({"url": receiver.url("/in"), "event_types": ["webhook.disabled"]});
    let path = "/v1/admin/webhooks?tenant_id=umbra";
    app.post_as_admin(path, body)
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_former_receiver_that_is_gone_does_not_disable_a_webhook_that_has_moved() {
    let app = here().await;
    let former = Receiver::start(Reply::Held).await;
    let present = Receiver::start(Reply::Status(200, "")).await;
    let body = json!({"url": former.url("/in"), "event_types": ["budget.funded"]});
    let id = made(&app, body).await;
    let _running = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    eventually("the attempt is under way", || async {
        !former.arrived().is_empty()
    })
    .await;
    patch(&app, &id, json!({"url": present.url("/in")}))
        .await
        .expect(200);
    former.reply(Reply::Status(410, ""));
    reached(&app, &id, "FAILED", 1).await;
    let record = webhook(&app, &id).await;
    assert_eq!(
        (&record["status"], &record["consecutive_failures"]),
        (&json!("ACTIVE"), &json!(1))
    );
    fund(&app, 1).await;
    reached(&app, &id, "SUCCESS", 1).await;
}

#[tokio::test]
async fn failures_disable_a_webhook_only_after_they_have_lasted() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(500, "")).await;
    let body = json!({
        "url": receiver.url("/in"), "event_types": ["budget.funded"],
        "retry_policy": {"max_retries": 0}, "disable_after_failures": 2, "disable_after_seconds": 3600,
    });
    let id = made(&app, body).await;
    assert_eq!(webhook(&app, &id).await["disable_after_seconds"], 3600);
    let _running = RunningDispatcher::start(&app);
    let record = app.store.keys().webhook(umbra(), &id);
    let since = async || -> i64 { app.run(&["HGET", &record, "failing_since_ms"]).await };
    let failed = async |count: usize| {
        fund(&app, 1).await;
        reached(&app, &id, "FAILED", count).await;
        let record = webhook(&app, &id).await;
        (
            record["status"].clone(),
            record["consecutive_failures"].clone(),
        )
    };
    let active = |failures: i64| (json!("ACTIVE"), json!(failures));
    assert_eq!(failed(1).await, active(1));
    let first = since().await;
    assert_eq!([failed(2).await, failed(3).await], [active(2), active(3)]);
    assert_eq!(since().await, first, "the first of them counts");
    // A success ends the series.
    receiver.reply(Reply::Status(200, ""));
    fund(&app, 1).await;
    reached(&app, &id, "SUCCESS", 1).await;
    receiver.reply(Reply::Status(500, ""));
    assert_eq!([failed(4).await, failed(5).await], [active(1), active(2)]);
    assert!(since().await > first);
    // It began an hour ago.
    let past = (app.now_ms().await - 3_600_000).to_string();
    app.run::<i64>(&["HSET", &record, "failing_since_ms", &past])
        .await;
    assert_eq!(failed(6).await, (json!("DISABLED"), json!(3)));
    let cleared = json!({"status": "ACTIVE", "disable_after_seconds": null});
    patch(&app, &id, cleared).await.expect(200);
    assert_eq!(webhook(&app, &id).await.get("disable_after_seconds"), None);
    assert_eq!(failed(7).await, active(1));
    assert_eq!(failed(8).await, (json!("DISABLED"), json!(2)));
    let too_long = json!({"disable_after_seconds": 604_801});
    patch(&app, &id, too_long)
        .await
        .refused(400, "INVALID_REQUEST");
    let of_none = || async { deliveries(&app, &id).await.len() == 9 };
    eventually("nothing is delivered twice", of_none).await;
}
