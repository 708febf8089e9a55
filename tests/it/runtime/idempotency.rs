//! Idempotency: what counts as a repetition, its response, and that it has no second effect.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::{ask_body, event_body, ledger, tokens, with};

const ROOT: &str = "tenant:acme";

async fn funded() -> TestApp {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    app
}

fn without_ttl(response: &Response) -> Value {
    let mut body = response.body.clone();
    body.as_object_mut()
        .expect("an object")
        .remove("remaining_ttl_ms");
    body
}

/// Posts a body byte for byte.
async fn post_raw(app: &TestApp, path: &str, text: &str) -> Response {
    let request = app.request(Method::POST, path).body(text.to_owned());
    let request = request.header("Content-Type", "application/json");
    app.send(request.header("X-Service-API-Key", &app.keys[0]))
        .await
}

#[tokio::test]
async fn a_repeated_create_returns_the_same_expiry_and_the_time_left_now() {
    let app = funded().await;
    let first = app.reserve("k", 100).await;
    app.extend(first.text("/reservation_id"), "e", 600_000)
        .await;
    app.held("tenant:acme/agent:a", 500, json!({})).await;
    for _ in 0..2 {
        let clock = app.now_ms().await;
        let again = app.reserve("k", 100).await;
        assert_eq!(
            without_ttl(&again),
            without_ttl(&first),
            "balances of that moment too"
        );
        let expiry = again.at("/expires_at_ms").as_i64().expect("a time");
        let read_at = expiry - again.at("/remaining_ttl_ms").as_i64().expect("a time");
        assert!((clock..=app.now_ms().await).contains(&read_at));
        assert_ne!(again.headers["x-request-id"], first.headers["x-request-id"]);
    }
}

#[tokio::test]
async fn a_repeated_create_of_an_ended_reservation_has_no_time_left() {
    for end in ["commit", "release", "lapse", "expire"] {
        let app = funded().await;
        let first = app.reserve("k", 100).await;
        let id = first.text("/reservation_id");
        match end {
            "commit" => drop(app.commit(id, "c", 1).await),
            "release" => drop(app.release(id, "r").await),
            _ => {
                app.backdate(id, 60_000).await;
                if end == "expire" {
                    assert_eq!(app.sweep().await, 1);
                }
            }
        }
        let again = app.reserve("k", 100).await;
        assert_eq!(again.status, 200, "{end}");
        assert_eq!(again.at("/reservation_id"), &json!(id), "{end}");
        assert_eq!(again.at("/remaining_ttl_ms"), 0, "{end}");
    }
}

#[tokio::test]
async fn member_order_and_white_space_do_not_change_a_request() {
    let app = funded().await;
    let first = r#"{"idempotency_key":"k","subject":{"tenant":"acme","agent":"a"},"action":{"kind":"x","name":"y"},
        "estimate":{"unit":"TOKENS","amount":5},"metadata":{"a":{"x":1,"y":[1,2]},"b":2}}"#;
    let again = r#"{"metadata":{"b":2,"a":{"y":[ 1,2 ],"x":1}},"estimate":{"amount":5,"unit":"TOKENS"},"action":
        {"name":"y","kind":"x"},"subject":{"agent":"a","tenant":"acme"},   "idempotency_key":"k","dry_run":null}"#;
    let response = post_raw(&app, "/v1/reservations", first).await.expect(200);
    let repeated = post_raw(&app, "/v1/reservations", again).await;
    assert_eq!(without_ttl(&repeated), without_ttl(&response));
    let swapped = again.replace("1,2 ", "2,1 ");
    let other = post_raw(&app, "/v1/reservations", &swapped).await;
    assert_eq!(
        other.error(),
        (409, "IDEMPOTENCY_MISMATCH"),
        "the order in a list counts"
    );
    assert_eq!(app.stored_ledger(ROOT).await, ledger(995, 5, 0, 0));
}

#[tokio::test]
async fn a_fixed_default_equals_an_absent_member_and_a_tenants_default_does_not() {
    let app = funded().await;
    let body = ask_body("k", ROOT, 100);
    app.post("/v1/reservations", body.clone()).await.expect(200);
    let same = [
        json!({"dry_run": false}),
        json!({"grace_period_ms": 5_000}),
        json!({"ttl_ms": null, "metadata": null}),
    ];
    for more in same {
        app.post("/v1/reservations", with(body.clone(), more))
            .await
            .expect(200);
    }
    let other = [
        json!({"ttl_ms": 60_000}),
        json!({"overage_policy": "ALLOW_IF_AVAILABLE"}),
        json!({"grace_period_ms": 5_001}),
        json!({"metadata": {}}),
        json!({"dry_run": true}),
        json!({"estimate": tokens(101)}),
        json!({"action": {"kind": "llm.completion", "name": "openai:gpt-4o-mini", "tags": []}}),
    ];
    for more in other {
        let response = app
            .post("/v1/reservations", with(body.clone(), more.clone()))
            .await;
        assert_eq!(response.error(), (409, "IDEMPOTENCY_MISMATCH"), "{more}");
    }
    let request = app.request(Method::POST, "/v1/reservations").json(&body);
    let request = request.header("X-Service-API-Key", &app.keys[0]);
    let response = app.send(request.header("X-Idempotency-Key", "k")).await;
    assert_eq!(response.status, 200, "the header is no part of the request");
    assert_eq!(app.stored_ledger(ROOT).await, ledger(900, 100, 0, 0));
}

#[tokio::test]
async fn amounts_that_round_to_one_double_are_different_requests() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, i64::MAX, 0).await;
    let amount = 9_007_199_254_740_992;
    app.reserve("k", amount).await.expect(200);
    app.reserve("k", amount + 1)
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
}

#[tokio::test]
async fn a_refused_request_leaves_its_key_unused() {
    let app = TestApp::spawn().await;
    app.reserve("k", 100).await.refused(404, "NOT_FOUND");
    app.post_event("k", ROOT, 100, json!({}))
        .await
        .refused(404, "NOT_FOUND");
    app.budget(ROOT, 99, 0).await;
    app.reserve("k", 100).await.refused(409, "BUDGET_EXCEEDED");
    let reject = json!({"overage_policy": "REJECT"});
    app.post_event("k", ROOT, 100, reject.clone())
        .await
        .refused(409, "BUDGET_EXCEEDED");
    app.budget(ROOT, 1_000, 0).await;
    assert_eq!(
        app.reserve("k", 200).await.status,
        200,
        "with another body too"
    );
    app.post_event("k", ROOT, 200, reject).await.expect(201);
    let id = app
        .held(ROOT, 100, json!({"overage_policy": "REJECT"}))
        .await;
    app.commit(&id, "c", 101)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    app.commit(&id, "c", 99).await.expect(200);
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_one_tenant_operation_and_reservation() {
    let app = funded().await;
    app.budget_of(1, "tenant:bolt", 500).await;
    let own = app.reserve("k", 100).await;
    let foreign = app
        .post_as(1, "/v1/reservations", &ask_body("k", "tenant:bolt", 50))
        .await;
    assert_eq!((own.status, foreign.status), (200, 200));
    assert_ne!(own.text("/reservation_id"), foreign.text("/reservation_id"));
    let id = own.text("/reservation_id").to_owned();
    let other = app.held("tenant:acme/agent:a", 100, json!({})).await;
    app.extend(&id, "k", 1).await.expect(200);
    app.commit(&id, "k", 90).await.expect(200);
    app.commit(&other, "k", 80).await.expect(200);
    app.decide("k", ROOT, 1).await.expect(200);
    app.post_event("k", ROOT, 5, json!({})).await.expect(201);
    let event = event_body("k", "tenant:bolt", 7);
    app.post_as(1, "/v1/events", &event).await.expect(201);
    assert_eq!(app.stored_ledger(ROOT).await, ledger(825, 0, 175, 0));
}

#[tokio::test]
async fn fifty_parallel_creates_return_one_reservation() {
    let app = Arc::new(funded().await);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let app = app.clone();
        calls.spawn(async move { app.reserve("k", 100).await });
    }
    let responses = calls.join_all().await;
    let first = without_ttl(&responses[0]);
    assert!(
        responses
            .iter()
            .all(|response| response.status == 200 && without_ttl(response) == first)
    );
    assert_eq!(app.stored_ledger(ROOT).await, ledger(900, 100, 0, 0));
}

#[tokio::test]
async fn one_of_two_concurrent_requests_under_one_key_takes_effect() {
    let app = funded().await;
    for round in 0..20 {
        let key = format!("k{round}");
        let (one, two) = tokio::join!(app.reserve(&key, 1), app.reserve(&key, 2));
        let mut responses = [one.error(), two.error()];
        responses.sort_unstable();
        assert_eq!(responses, [(200, "none"), (409, "IDEMPOTENCY_MISMATCH")]);
    }
    let listed = app.get("/v1/reservations?limit=200").await;
    assert_eq!(
        listed.at("/reservations").as_array().map(Vec::len),
        Some(20)
    );
}

#[tokio::test]
async fn a_repeated_commit_returns_the_first_response_and_writes_nothing() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 400, 100).await;
    let id = app
        .held(ROOT, 300, json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"}))
        .await;
    app.commit(&id, "c", 401)
        .await
        .refused(409, "OVERDRAFT_LIMIT_EXCEEDED");
    app.set_ledger(ROOT, &[("overdraft_limit", "101")]).await;
    let first = app.commit(&id, "c", 401).await.expect(200);
    app.place(ROOT, 9_000, 0, ledger(1, 0, 0, 0)).await;
    let before = app.everything().await;
    assert_eq!(app.commit(&id, "c", 401).await.body, first.body);
    app.commit(&id, "c", 400)
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    app.commit(&id, "d", 401)
        .await
        .refused(409, "RESERVATION_FINALIZED");
    assert!(app.everything().await == before);
}

#[tokio::test]
async fn existence_and_ownership_are_checked_before_the_idempotency_key() {
    let app = funded().await;
    app.budget_of(1, "tenant:bolt", 500).await;
    let response = app
        .post_as(1, "/v1/reservations", &ask_body("k", "tenant:bolt", 50))
        .await;
    let foreign = response.text("/reservation_id");
    let own = app.held(ROOT, 1, json!({})).await;
    app.commit(&own, "x", 1).await;
    let partition = app.callers[0].partition;
    let unknown = [
        format!("r{partition}_{}", "A".repeat(24)),
        "nonsense".to_owned(),
        "x".repeat(128),
    ];
    for key in ["x", "y"] {
        for id in &unknown {
            assert_eq!(
                app.commit(id, key, 1).await.error(),
                (404, "NOT_FOUND"),
                "{id}"
            );
            assert_eq!(
                app.release(id, key).await.error(),
                (404, "NOT_FOUND"),
                "{id}"
            );
            assert_eq!(
                app.extend(id, key, 1).await.error(),
                (404, "NOT_FOUND"),
                "{id}"
            );
            assert_eq!(app.found(id).await.error(), (404, "NOT_FOUND"), "{id}");
        }
        app.commit(foreign, key, 1).await.refused(403, "FORBIDDEN");
        app.release(foreign, key).await.refused(403, "FORBIDDEN");
        app.extend(foreign, key, 1).await.refused(403, "FORBIDDEN");
        app.found(foreign).await.refused(403, "FORBIDDEN");
    }
    let neighbour = app.held("tenant:acme/agent:n", 1, json!({})).await;
    app.set(&app.reservation_key(&neighbour), &[("tenant", "other")])
        .await;
    assert_eq!(
        app.commit(&neighbour, "x", 1).await.error(),
        (403, "FORBIDDEN"),
        "of the same partition"
    );
    app.found(&neighbour).await.refused(403, "FORBIDDEN");
}

/// The lost field of a record, and its request.
#[tokio::test]
async fn a_lost_reply_is_an_error_and_is_not_resent() {
    let app = funded().await;
    let id = app.held(ROOT, 300, json!({})).await;
    app.extend(&id, "e", 10).await;
    app.commit(&id, "c", 200).await;
    let record = app.reservation_key(&id);
    let fields: Vec<String> = app.run(&["HKEYS", &record]).await;
    let stored = |name: &&String| name.ends_with(".1");
    let lost: Vec<_> = fields.iter().filter(stored).collect();
    assert_eq!(lost.len(), 3, "of create, extension and commit: {fields:?}");
    for field in lost {
        app.run::<()>(&["HDEL", &record, field]).await;
    }
    let before = app.everything().await;
    let responses = [
        app.create(ROOT, ROOT, 300, json!({})).await,
        app.extend(&id, "e", 10).await,
        app.commit(&id, "c", 200).await,
    ];
    for response in responses {
        assert_eq!(response.error(), (500, "INTERNAL_ERROR"));
    }
    assert!(app.everything().await == before);
}
