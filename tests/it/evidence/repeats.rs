//! Clocks and policies that are others than a replica assumed: what it repeats is attested once, with the time of the call that
//! decided, and what the clock was set back for is found by the purge.

#![cfg(target_os = "linux")]

use budget_authority::evidence::Endpoint;
use budget_authority::store::ExtraRoundTrip;
use serde_json::json;
use tokio::task::block_in_place;

use super::fixture::{EvidenceFixture, ON, signer};
use crate::dispatcher::clocks::JumpingRedis;
use crate::harness::app::TestApp;
use crate::harness::redis_fixture::now_ms;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::ask_body;

const SCOPE: &str = "tenant:acme";

fn trips(app: &TestApp, trip: ExtraRoundTrip) -> u64 {
    let trips = &app.store.metrics().extra_round_trips;
    trips.with_label_values(&[trip.as_str()]).get()
}

/// Decides and reserves, each of which is to be repeated for this reason; what was sent and came back is attested once.
async fn decide(issued: &mut EvidenceFixture, trip: ExtraRoundTrip, before: impl AsyncFn()) {
    for (path, endpoint) in [
        ("/v1/decide", Endpoint::Decide),
        ("/v1/reservations", Endpoint::Reserve),
    ] {
        let (begun, queued) = (trips(&issued.app, trip), issued.ever_queued().await);
        let since_ms = now_ms(&issued.app.store).await;
        // Nothing is read from here on, or the service would learn of it.
        before().await;
        let body = ask_body(path, SCOPE, 5);
        let got = issued.app.post(path, body.clone()).await.expect(200);
        assert_eq!(trips(&issued.app, trip) - begun, 1, "{path}");
        assert_eq!(issued.ever_queued().await, queued + 1, "{path}");
        issued.sign().await;
        let envelope = issued.check(endpoint, &body, &got.body).await;
        let issued_at_ms = envelope["issued_at_ms"].as_i64().expect("a time");
        let until_ms = now_ms(&issued.app.store).await;
        assert!((since_ms..=until_ms).contains(&issued_at_ms), "{path}");
    }
}

#[tokio::test]
async fn e03_a_decision_repeated_for_outdated_policies_is_attested_once() {
    let mut issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget(SCOPE, 1_000, 0).await;
    let other = issued.app.replica(ON).await;
    let caps = |ms: i64| json!({"caps": {"cooldown_ms": ms}});
    let policy = other.policy("p", SCOPE, caps(0)).await;
    // The queue begins, and the policies are known.
    let first = issued.app.post("/v1/decide", ask_body("first", SCOPE, 1));
    first.await.expect(200);
    let changes = std::sync::atomic::AtomicI64::new(1);
    let amend = async || {
        let ms = changes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        other.amend(&policy, caps(ms)).await;
    };
    decide(&mut issued, ExtraRoundTrip::Stale, amend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e03_a_decision_repeated_at_midnight_is_attested_once() {
    let redis = block_in_place(JumpingRedis::start);
    let app = TestApp::spawn_on(&redis.server.url(), &[ON, LONG_REDIS_TIMEOUT].concat()).await;
    app.budget(SCOPE, 1_000, 0).await;
    let mut issued = EvidenceFixture {
        signer: signer(&app, ON),
        settings: ON.to_vec(),
        app,
    };
    let first = issued.app.post("/v1/decide", ask_body("first", SCOPE, 1));
    first.await.expect(200);
    let days = std::sync::atomic::AtomicI64::new(1);
    let next_day = async || {
        let day = days.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        redis.jump(day * 86_400);
    };
    decide(&mut issued, ExtraRoundTrip::Clock, next_day).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e14_after_the_clock_is_set_back_records_store_the_place_of_their_entry() {
    let redis = block_in_place(JumpingRedis::start);
    let app = TestApp::spawn_on(&redis.server.url(), &[ON, LONG_REDIS_TIMEOUT].concat()).await;
    app.budget(SCOPE, 1_000, 0).await;
    let partition = app.callers[0].partition;
    let unsigned = app.store.keys().unsigned(partition);
    let reserve = async |key: &str| {
        let held = app.post("/v1/reservations", ask_body(key, SCOPE, 5)).await;
        held.expect(200).text("/reservation_id").to_owned()
    };
    let places = async |id: &str| {
        let record = app.store.keys().reservation(partition, id);
        let kept: Option<String> = app.run(&["HGET", &record, "queued"]).await;
        let last: Vec<(String, Vec<String>)> = app
            .run(&["XREVRANGE", &unsigned, "+", "-", "COUNT", "1"])
            .await;
        (kept, last[0].0.clone())
    };
    let usual = reserve("usual").await;
    assert_eq!(places(&usual).await.0, None);
    redis.jump(3_600);
    reserve("ahead").await;
    redis.jump(0);
    let behind = reserve("behind").await;
    let (kept, last) = places(&behind).await;
    assert_eq!(kept, Some(last));
    // The end comes behind the create.
    for (id, operation) in [(&behind, "commit"), (&usual, "release")] {
        let body = match operation {
            "commit" => json!({"idempotency_key": "c", "actual": {"unit": "TOKENS", "amount": 1}}),
            _ => json!({"idempotency_key": "r"}),
        };
        let path = format!("/v1/reservations/{id}/{operation}");
        app.post(&path, body).await.expect(200);
        let (kept, last) = places(id).await;
        assert_eq!(kept, Some(last), "{operation}");
    }
}
