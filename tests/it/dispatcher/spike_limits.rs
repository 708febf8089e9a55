//! Counts of request outcomes, and limits of rates, which only apply to the subscriptions that have them.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::fan_out::{fan_out, follow, queued_to};
use super::spikes::denied;
use crate::admin::http::key;
use crate::admin::webhooks::subscriptions::{HOOKS, URL, hooked, made, patch};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::deliveries::{RunningDispatcher, here};
use crate::harness::due_events::due_events;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::runtime_calls::{ask_body, ledger};
use crate::harness::{eventually, within};

const SPIKE: &str = "reservation.denial_rate_spike";

/// The counts of a tenant: decided, denied, ended, expired, tried, refused.
async fn counted(fixture: &LedgerFixture, tenant: &str) -> Vec<u64> {
    let partition = match tenant {
        "__system__" => budget_authority::domain::ids::Partition::FIRST,
        tenant => tenant_id(tenant).partition(),
    };
    let key = fixture.store.keys().traffic(partition, tenant);
    let hash = fixture.hashes(&[key]).await.remove(0);
    let mut totals = vec![0; 6];
    for (_, bucket) in hash.iter().filter(|(field, _)| field.starts_with("5.")) {
        let counts = bucket.split(' ').skip(1);
        for (total, count) in totals.iter_mut().zip(counts) {
            *total += count.parse::<u64>().expect("a count");
        }
    }
    totals
}

/// The same once it is this.
async fn counted_soon(app: &TestApp, tenant: &str, expected: [u64; 6]) {
    eventually("the counts are stored", || async {
        let counts = counted(app, tenant).await;
        if counts == expected {
            Ok(())
        } else {
            Err(counts)
        }
    })
    .await;
}

#[tokio::test]
async fn the_outcome_of_each_request_is_counted_once() {
    let app = TestApp::spawn().await;
    let scope = "tenant:acme";
    app.place(scope, 100, 0, ledger(100, 0, 0, 0)).await;
    for _ in 0..2 {
        let id = app.held(scope, 10, json!({})).await;
        app.commit(&id, "c", 10).await.expect(200);
        app.decide("d", scope, 1_000).await.expect(200);
    }
    app.create("much", scope, 1_000, json!({}))
        .await
        .expect(409);
    app.dry_run("dry", scope, 1).await.expect(200);
    let id = app.create("r", scope, 10, json!({})).await.expect(200);
    app.release(id.text("/reservation_id"), "r")
        .await
        .expect(200);
    // Neither is a decision.
    app.create("none", "tenant:acme/app:x", -1, json!({}))
        .await
        .expect(400);
    let revoked = app.add_key(0, &[("status", "REVOKED")]).await;
    app.get_with(&revoked, "/v1/reservations").await.expect(401);
    app.get_with("nonsense", "/v1/reservations")
        .await
        .expect(401);
    counted_soon(&app, "acme", [5, 2, 2, 0, 12, 1]).await;
    counted_soon(&app, "__system__", [0, 0, 0, 0, 13, 1]).await;
}

#[tokio::test]
async fn expiries_are_counted_by_the_sweep() {
    let app = TestApp::spawn().await;
    let scope = "tenant:acme";
    app.place(scope, 100, 0, ledger(100, 0, 0, 0)).await;
    for key in ["a", "b"] {
        let held = app.create(key, scope, 10, json!({})).await.expect(200);
        app.backdate(held.text("/reservation_id"), 60_000).await;
    }
    assert_eq!((app.sweep().await, app.sweep().await), (2, 0));
    assert_eq!(counted(&app, "acme").await[2..4], [2, 2]);
}

#[tokio::test]
async fn a_replica_stores_its_counts_at_shutdown() {
    let app = TestApp::spawn().await;
    app.place("tenant:acme", 100, 0, ledger(100, 0, 0, 0)).await;
    app.decide("d", "tenant:acme", 1).await.expect(200);
    app.stop();
    counted_soon(&app, "acme", [1, 0, 0, 0, 1, 0]).await;
}

#[tokio::test]
async fn a_spike_is_delivered_while_it_lasts() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    made(
        &app,
        json!({"url": receiver.url("/in"), "event_types": [SPIKE]}),
    )
    .await;
    let (_, key) = key(&app, &["reservations:create"]).await;
    let _running = RunningDispatcher::start(&app);
    for number in 0..12 {
        let body = ask_body(&format!("d{number}"), "tenant:umbra", 1_000_000);
        let denied = app.by_key(&key, Method::POST, "/v1/decide", &body).await;
        assert_eq!(denied.expect(200).text("/decision"), "DENY");
    }
    let limit = Duration::from_secs(60);
    let arrived = within(limit, "the event arrives", || async {
        receiver.arrived().pop()
    })
    .await;
    let event: Value = serde_json::from_slice(&arrived.body).expect("JSON");
    assert_eq!(
        (&event["event_type"], &event["tenant_id"]),
        (&json!(SPIKE), &json!("umbra"))
    );
    assert_eq!(
        event["data"],
        json!({"metric": "denial_rate", "current_rate": 1.0, "threshold_rate": 0.1, "window_seconds": 300, "sample_count": 12})
    );
}

async fn watched(app: &TestApp, tenant: &str) -> Option<String> {
    let key = app
        .store
        .keys()
        .tenant(tenant_id(tenant).partition(), tenant);
    app.run(&["HGET", &key, "watched_rates"]).await
}

fn selecting(more: Value) -> Value {
    json!({"url": URL, "event_types": [SPIKE], "thresholds": more})
}

#[tokio::test]
async fn a_spike_goes_to_subscriptions_with_its_threshold_and_window() {
    let app = hooked().await;
    let usual = made(&app, json!({"url": URL, "event_types": [SPIKE]})).await;
    let same = made(&app, selecting(json!({"denial_rate_threshold": 0.1}))).await;
    let own = json!({"denial_rate_threshold": 0.5, "rate_window_seconds": 600});
    let own = made(&app, selecting(own)).await;
    let high = made(&app, selecting(json!({"denial_rate_threshold": 1}))).await;
    let all = json!({"url": URL, "event_types": ["budget.funded"], "event_categories": ["reservation"],
        "thresholds": {"rate_window_seconds": 90}});
    let all = app.post_as_admin(HOOKS, all).await.expect(201);
    let all = all.text("/subscription/subscription_id").to_owned();

    let umbra = tenant_id("umbra");
    let seen = vec![(Some(umbra.clone()), denied(8, 10))];
    let counted = app.store.count_traffic(seen).await;
    counted.outcome.expect("Redis answers");
    assert_eq!(counted.left, []);
    let index = app.store.keys().traffic_due(umbra.partition());
    app.run::<()>(&["ZADD", &index, "1", "umbra"]).await;
    let lease = app
        .lease_of(umbra.partition(), "d", Duration::from_secs(60))
        .await;
    let pass = due_events(&app.store).run_once(&[lease], |_| {}).await;
    // The usual limit, 0.5 in ten minutes, and 0.1 in 90 seconds.
    assert_eq!(pass.expect("Redis answers").done, 3);
    follow(&fan_out(&app)).await;
    for (id, expected) in [(&usual, 1), (&same, 1), (&own, 1), (&high, 0), (&all, 1)] {
        let queued = queued_to(&app, id).await;
        let spikes = queued.iter().filter(|event_type| *event_type == SPIKE);
        assert_eq!(spikes.count(), expected, "{id}: {queued:?}");
    }
}

#[tokio::test]
async fn limits_are_watched_while_a_subscription_that_selects_them_is_active() {
    let app = hooked().await;
    assert_eq!(watched(&app, "umbra").await, None);
    let own = json!({"denial_rate_threshold": 0.5, "rate_window_seconds": 600, "budget_utilization": [0.25]});
    let id = made(&app, selecting(own)).await;
    let words = "denial_rate:0.5:600";
    assert_eq!(watched(&app, "umbra").await.as_deref(), Some(words));
    patch(&app, &id, json!({"status": "PAUSED"}))
        .await
        .expect(200);
    assert_eq!(watched(&app, "umbra").await, None);
    patch(&app, &id, json!({"status": "ACTIVE"}))
        .await
        .expect(200);
    assert_eq!(watched(&app, "umbra").await.as_deref(), Some(words));
    patch(&app, &id, json!({"thresholds": null}))
        .await
        .expect(200);
    assert_eq!(watched(&app, "umbra").await, None);
    // Those of the operator reach every tenant, later ones too.
    let burn = json!({"url": URL, "event_types": ["budget.burn_rate_anomaly"], "scope_filter": "tenant:umbra/*"});
    app.post_as_admin(HOOKS, burn).await.expect(201);
    let words = "burn_rate:3:300:tenant:umbra/*";
    assert_eq!(watched(&app, "umbra").await.as_deref(), Some(words));
    app.post_as_admin(
        "/v1/admin/tenants",
        json!({"tenant_id": "later", "name": "later"}),
    )
    .await
    .expect(201);
    assert_eq!(watched(&app, "later").await.as_deref(), Some(words));
}

#[tokio::test]
async fn an_owner_has_at_most_four_windows_of_burn_rates() {
    let app = hooked().await;
    let burning = |window: u32| json!({"url": URL, "event_types": ["budget.burn_rate_anomaly"], "thresholds": {"burn_rate_window_seconds": window}});
    let mut ids = Vec::new();
    for window in [60, 120, 180, 240] {
        ids.push(made(&app, burning(window)).await);
    }
    made(&app, burning(60)).await;
    let create = async |window| {
        let path = format!("{HOOKS}?tenant_id=umbra");
        app.post_as_admin(&path, burning(window)).await
    };
    let refused = create(300).await.refused(400, "LIMIT_EXCEEDED");
    assert_eq!(refused.at("/details"), &json!({"limit": 4, "present": 5}));
    let id = &ids[3];
    let thresholds = json!({"thresholds": {"burn_rate_window_seconds": 300}});
    patch(&app, id, thresholds).await.expect(200);
    app.as_admin(Method::DELETE, &format!("{HOOKS}/{id}"), &json!({}))
        .await
        .expect(204);
    create(90).await.expect(201);
}
