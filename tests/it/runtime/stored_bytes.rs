//! The limit on bytes that a tenant's requests store in a minute.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::redis::shared;
use crate::harness::response::Response;

const ROOT: &str = "tenant:acme";
const SETTING: &str = "BUDGET_STORED_BYTES_PER_MINUTE";

/// A service with a limit of 10,000 bytes, early enough in a minute.
async fn service() -> TestApp {
    let app = TestApp::spawn_on(&shared().url(), &["--stored-bytes-per-minute", "10000"]).await;
    app.budget(ROOT, 100_000, 0).await;
    app.with_left_in_minute(Duration::from_secs(25)).await;
    app
}

fn metadata(bytes: usize) -> Value {
    json!({"metadata": {"text": "x".repeat(bytes)}})
}

async fn create(app: &TestApp, key: &str) -> Response {
    app.create(key, ROOT, 1, metadata(4_000)).await
}

fn rates_key(app: &TestApp) -> String {
    app.store.keys().rates(app.callers[0].partition, "acme")
}

async fn counted(app: &TestApp) -> i64 {
    let counted: Option<i64> = app.run(&["HGET", &rates_key(app), "bytes"]).await;
    counted.unwrap_or(0)
}

#[tokio::test]
async fn creates_and_events_above_the_limit_are_refused_until_the_next_minute() {
    let app = service().await;
    for key in ["a", "b", "c"] {
        create(&app, key).await.expect(200);
    }
    let stored = counted(&app).await;
    assert!((12_000..12_300).contains(&stored), "{stored}");
    let before = app.digest().await;
    let refused = create(&app, "d").await.refused(429, "LIMIT_EXCEEDED");
    let wait: u64 = refused
        .header("retry-after")
        .expect("a header")
        .parse()
        .expect("seconds");
    assert!((1..=60).contains(&wait));
    assert!(refused.header("x-ratelimit-reset").is_some());
    let message = format!(
        "The requests of this tenant have stored {stored} bytes in this minute, with a limit of 10000; \
         retry in {wait} s, or send less metadata"
    );
    assert_eq!(refused.text("/message"), message);
    assert_eq!(
        refused.at("/details"),
        &json!({"limit": 10_000, "present": stored})
    );
    let event = app.post_event("e", ROOT, 1, metadata(600)).await;
    event.refused(429, "LIMIT_EXCEEDED");
    assert_eq!(app.digest().await, before);
    let metrics = app.telemetry.render().expect("metrics");
    let line = format!("budget_limit_refusals_total{{limit=\"{SETTING}\"}} 2\n");
    assert!(metrics.contains(&line), "{metrics}");

    // Small requests pass, and so do other tenants.
    app.reserve("small", 1).await.expect(200);
    app.budget_of(1, "tenant:bolt", 100).await;
    let mut body = crate::harness::runtime_calls::ask_body("d", "tenant:bolt", 1);
    body["metadata"] = metadata(4_000)["metadata"].clone();
    app.post_as(1, "/v1/reservations", &body).await.expect(200);

    let key = rates_key(&app);
    let minute: i64 = app.run(&["HGET", &key, "minute_ms"]).await;
    app.set(&key, &[("minute_ms", &(minute - 60_000).to_string())])
        .await;
    create(&app, "d").await.expect(200);
    let event = app.post_event("e", ROOT, 1, metadata(600)).await;
    event.expect(201);
    let stored = counted(&app).await;
    assert!((4_600..4_900).contains(&stored), "{stored}");
}

#[tokio::test]
async fn replays_and_small_requests_count_nothing() {
    let app = service().await;
    app.reserve("small", 1).await.expect(200);
    app.post_event("small", ROOT, 1, metadata(100))
        .await
        .expect(201);
    assert!(!app.run::<bool>(&["EXISTS", &rates_key(&app)]).await);
    for key in ["a", "b", "c"] {
        create(&app, key).await.expect(200);
    }
    let stored = counted(&app).await;
    create(&app, "a").await.expect(200);
    assert_eq!(counted(&app).await, stored);
    create(&app, "d").await.refused(429, "LIMIT_EXCEEDED");
}

#[tokio::test]
async fn commits_and_extensions_are_counted_and_never_refused() {
    let app = service().await;
    let mut ids = Vec::new();
    for key in ["1", "2", "3"] {
        let held = app.create(key, ROOT, 5, json!({})).await.expect(200);
        ids.push(held.text("/reservation_id").to_owned());
    }
    let send = async |id: &str, what: &str, mut body: Value| {
        body["metadata"] = metadata(9_000)["metadata"].clone();
        app.post(&format!("/v1/reservations/{id}/{what}"), body)
            .await
            .expect(200);
    };
    let actual = json!({"unit": "TOKENS", "amount": 5});
    send(
        &ids[0],
        "extend",
        json!({"idempotency_key": "x", "extend_by_ms": 1_000}),
    )
    .await;
    assert!((9_000..9_050).contains(&counted(&app).await));
    send(
        &ids[0],
        "extend",
        json!({"idempotency_key": "x", "extend_by_ms": 1_000}),
    )
    .await;
    assert!(counted(&app).await < 9_050, "a replay counts nothing");
    send(
        &ids[0],
        "commit",
        json!({"idempotency_key": "c", "actual": actual}),
    )
    .await;
    send(
        &ids[1],
        "commit",
        json!({"idempotency_key": "c", "actual": actual}),
    )
    .await;
    send(
        &ids[2],
        "extend",
        json!({"idempotency_key": "x", "extend_by_ms": 1_000}),
    )
    .await;
    let stored = counted(&app).await;
    assert!((36_000..36_200).contains(&stored), "{stored}");
    create(&app, "a").await.refused(429, "LIMIT_EXCEEDED");

    // Requests that would add more wait too, however small.
    let before = app.digest().await;
    let refused = app.reserve("small", 1).await;
    let refused = refused.refused(429, "LIMIT_EXCEEDED");
    let numbers = json!({"limit": 10_000, "present": stored});
    assert_eq!(refused.at("/details"), &numbers);
    let event = app.post_event("small", ROOT, 1, json!({})).await;
    event.refused(429, "LIMIT_EXCEEDED");
    assert_eq!(app.digest().await, before);
    app.create("1", ROOT, 5, json!({})).await.expect(200);
    app.decide("d", ROOT, 1).await.expect(200);
    app.release(&ids[2], "r").await.expect(200);

    // Until the minute is over. A mark from before a step back of the clock is ignored.
    let note: String = app.run(&["HGET", &app.tenant_key(), "bytes_full"]).await;
    let until_ms: i64 = note.split(' ').next().expect("a time").parse().expect("ms");
    assert_eq!(note, format!("{until_ms} 10000 {stored}"));
    for (number, until_ms) in [until_ms - 60_000, until_ms + 60_000].iter().enumerate() {
        app.set_tenant(&[("bytes_full", &format!("{until_ms} 10000 {stored}"))])
            .await;
        app.reserve(&format!("later {number}"), 1).await.expect(200);
    }
}

#[tokio::test]
async fn stored_bytes_and_policy_rates_are_counted_together() {
    let app = service().await;
    let limits = json!({"rate_limits": {"max_reservations_per_minute": 5}});
    app.policy("limits", "tenant:acme", limits).await;
    for key in ["a", "b", "c"] {
        create(&app, key).await.expect(200);
    }
    let all: Vec<String> = app.run(&["HKEYS", &rates_key(&app)]).await;
    assert!(
        all.iter().any(|field| field.starts_with("reserved ")) && all.contains(&"bytes".to_owned()),
        "{all:?}"
    );
    create(&app, "d").await.refused(429, "LIMIT_EXCEEDED");
    for key in ["e", "f"] {
        app.create(key, ROOT, 1, json!({})).await.expect(200);
    }
    let refused = app
        .create("g", ROOT, 1, json!({}))
        .await
        .refused(429, "LIMIT_EXCEEDED");
    assert!(
        refused
            .text("/message")
            .contains("rate limit of the policy")
    );
}
