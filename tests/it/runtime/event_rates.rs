//! How many events the requests of a tenant cause at a replica is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::app::TestApp;
use crate::harness::eventually;
use crate::harness::redis::{RedisServer, shared};
use crate::harness::retrying_client::{LONG_REDIS_TIMEOUT, RetryingClient};
use crate::harness::runtime_calls::{Event, ask_body};
use crate::harness::slow_proxy::SlowProxy;

const ROOT: &str = "tenant:acme";
const SETTING: &str = "BUDGET_EVENTS_PER_SECOND";
/// Thresholds that a reservation of nearly all crosses.
const THRESHOLDS: i64 = 24;

/// A service that admits so many events in a second, and a tenant with many thresholds.
async fn service(events_per_second: &str) -> TestApp {
    service_on(&shared().url(), &["--events-per-second", events_per_second]).await
}

async fn service_on(redis_url: &str, settings: &[&str]) -> TestApp {
    let app = TestApp::spawn_on(redis_url, settings).await;
    app.budget(ROOT, 1_000, 0).await;
    let thresholds = (1..=THRESHOLDS).map(|step| (step * 40_000).to_string());
    let thresholds = thresholds.collect::<Vec<_>>().join(" ");
    app.set_tenant(&[("thresholds", &thresholds)]).await;
    app
}

/// Reserves nearly all, and answers the id.
async fn cross(app: &TestApp, key: &str) -> String {
    let made = app.reserve(key, 990).await.expect(200);
    made.text("/reservation_id").to_owned()
}

#[tokio::test]
async fn who_would_wait_longer_than_a_second_is_refused_and_holds_nothing() {
    let app = service("1").await;
    let id = cross(&app, "all").await;
    let before = app.figures(ROOT).await;
    let refused = app.reserve("late", 1).await.refused(429, "LIMIT_EXCEEDED");
    let wait: i64 = refused
        .header("retry-after")
        .expect("a header")
        .parse()
        .expect("seconds");
    assert!((1..=THRESHOLDS).contains(&wait), "{wait}");
    assert_eq!(refused.at("/details/limit"), &json!(1));
    let present = refused.at("/details/present").as_i64().expect("a number");
    assert!((2..=1 + THRESHOLDS).contains(&present), "{present}");
    let message = format!(
        "The requests of this tenant cause too many events: {present} of late, and at most 1 are admitted in a second; \
         retry in {wait} s, or let fewer thresholds be crossed at once"
    );
    assert_eq!(refused.text("/message"), message);
    let event = app.post_event("late", ROOT, 1, json!({})).await;
    event.refused(429, "LIMIT_EXCEEDED");
    assert_eq!(app.figures(ROOT).await, before);
    let metrics = app.telemetry.render().expect("metrics");
    let line = format!("budget_limit_refusals_total{{setting=\"{SETTING}\"}} 2\n");
    assert!(metrics.contains(&line), "{metrics}");

    // What was made before is answered again.
    assert_eq!(cross(&app, "all").await, id);

    // Whose request made no events, what is asked or extended, and what must be charged, need not wait.
    app.budget_of(1, "tenant:bolt", 100).await;
    let other = ask_body("k", "tenant:bolt", 1);
    let other = app.post_as(1, "/v1/reservations", &other).await;
    other.expect(200);
    let reserve = ask_body("by another key", ROOT, 1);
    let key = app.add_key(0, &[]).await;
    let another = app.post_with(&key, "/v1/reservations", &reserve).await;
    another.expect(200);
    let last = if key.ends_with('x') { 'y' } else { 'x' };
    let forged = format!("{}{last}", &key[..key.len() - 1]);
    let refused = app.post_with(&forged, "/v1/reservations", &reserve).await;
    assert_eq!(refused.status, 401);
    app.decide("decide", ROOT, 1).await.expect(200);
    app.extend(&id, "extend", 1_000).await.expect(200);
    app.commit(&id, "commit", 990).await.expect(200);
}

#[tokio::test]
async fn who_hangs_up_before_the_response_is_counted() {
    let server = RedisServer::start();
    let way = SlowProxy::to(server.port).await;
    let settings = [&["--events-per-second", "1"][..], LONG_REDIS_TIMEOUT];
    let app = Arc::new(service_on(&way.url(), &settings.concat()).await);
    // Connects, which may not take long.
    app.reserve("first", 1).await.expect(200);
    way.delay(Duration::from_millis(1_500));
    let client = Arc::clone(&app);
    let waiting = tokio::spawn(async move { cross(&client, "all").await });
    let outbox = app.store.keys().outbox(app.callers[0].partition);
    eventually("it has crossed them", async || {
        server.run::<i64>(&["XLEN", &outbox]) > 0
    })
    .await;
    waiting.abort();
    let ended = waiting.await.expect_err("it still waits");
    assert!(ended.is_cancelled(), "{ended}");
    way.delay(Duration::ZERO);
    let number = AtomicUsize::new(0);
    eventually("the next ones wait", async || {
        let key = number.fetch_add(1, Ordering::Relaxed).to_string();
        app.reserve(&key, 1).await.status == 429
    })
    .await;
}

#[tokio::test]
async fn after_many_events_at_once_the_next_reservation_waits() {
    let app = service("50").await;
    let begun = Instant::now();
    let id = cross(&app, "all").await;
    // What a release causes counts as well: 48 in all.
    app.release(&id, "release").await.expect(200);
    app.reserve("next", 1).await.expect(200);
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(950), "{waited:?}");
}

#[tokio::test]
async fn those_that_wait_go_one_after_the_other_and_each_is_made_up_for() {
    let app = service("100").await;
    let client = RetryingClient::new(&[app.address], &app.keys[0]);
    let (mut crossing, begun) = (JoinSet::new(), Instant::now());
    for number in 0..4 {
        let client = client.clone();
        crossing.spawn(async move {
            for round in 0..3 {
                let body = ask_body(&format!("{number} {round}"), ROOT, 990);
                let held = client.post("/v1/reservations", &body).await;
                if held.status == 200 {
                    let id = held.text("/reservation_id");
                    let release = json!({"idempotency_key": "release"});
                    let path = format!("/v1/reservations/{id}/release");
                    client.post(&path, &release).await.expect(200);
                }
            }
        });
    }
    crossing.join_all().await;
    let events = app.events().await;
    let crossed = |event: &&Event| event.get("type") == "budget.threshold_crossed";
    let events = events.iter().filter(crossed).count() as f64;
    // The first come at once; the last need not be made up for.
    let least = (events - 2.0 * THRESHOLDS as f64) / 100.0;
    let took = begun.elapsed();
    assert!(took.as_secs_f64() >= least, "{events} events in {took:?}");
}

#[tokio::test]
async fn a_request_with_few_events_does_not_count_and_0_is_no_limit() {
    let app = TestApp::spawn_on(&shared().url(), &["--events-per-second", "1"]).await;
    app.budget(ROOT, 1_000, 0).await;
    let id = cross(&app, "few").await;
    app.release(&id, "release").await.expect(200);
    assert_eq!(app.events().await.len(), 4, "two thresholds up and down");
    app.reserve("next", 1).await.expect(200);
    let unlimited = service("0").await;
    for round in ["1", "2", "3"] {
        let id = cross(&unlimited, round).await;
        unlimited.release(&id, "release").await.expect(200);
    }
    unlimited.reserve("next", 1).await.expect(200);
}
