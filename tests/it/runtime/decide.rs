//! Decisions: never a refusal, never an effect on a ledger.

use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{ask_body, ledger, with};
use crate::runtime::reserve::DENYING_STATES;

const ROOT: &str = "tenant:acme";

#[tokio::test]
async fn a_decision_says_whether_a_reservation_would_succeed() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let allowed = app.decide("k1", ROOT, 1_000).await;
    let body = json!({"decision": "ALLOW", "affected_scopes": [ROOT]});
    assert_eq!((allowed.status, allowed.body), (200, body));
    let denied = app.decide("k2", ROOT, 1_001).await;
    let body =
        json!({"decision": "DENY", "reason_code": "BUDGET_EXCEEDED", "affected_scopes": [ROOT]});
    assert_eq!((denied.status, denied.body), (200, body));
    assert_eq!(app.stored_ledger(ROOT).await, ledger(1_000, 0, 0, 0));
}

#[tokio::test]
async fn a_decision_is_denied_for_the_reason_that_denies_a_reserve() {
    let app = TestApp::spawn().await;
    for row in DENYING_STATES {
        let scope = row.place(&app).await;
        let before = app.stored_ledger(&scope).await;
        let response = app.decide(row.name, &scope, 10).await;
        assert_eq!(
            (response.status, response.text("/reason_code")),
            (200, row.reason),
            "{}",
            row.name
        );
        assert_eq!(response.at("/decision"), "DENY", "{}", row.name);
        assert!(response.body.get("caps").is_none(), "{}", row.name);
        assert_eq!(app.stored_ledger(&scope).await, before, "{}", row.name);
    }
}

#[tokio::test]
async fn a_decision_without_a_budget_is_denied_and_in_another_unit_refused() {
    let app = TestApp::spawn().await;
    let response = app.decide("k", "workspace:prod", 1).await.expect(200);
    assert_eq!(response.at("/reason_code"), "BUDGET_NOT_FOUND");
    assert_eq!(response.at("/affected_scopes"), &json!(["workspace:prod"]));
    app.budget(ROOT, 1_000, 0).await;
    let credits = json!({"estimate": {"unit": "CREDITS", "amount": 1}});
    app.post("/v1/decide", with(ask_body("k2", ROOT, 1), credits))
        .await
        .refused(400, "UNIT_MISMATCH");
}

#[tokio::test]
async fn a_decision_and_a_reserve_do_not_share_their_idempotency_keys() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    app.decide("k", ROOT, 1).await.expect(200);
    app.create("k", ROOT, 2, json!({})).await.expect(200);
    app.post_event("k", ROOT, 3, json!({})).await.expect(201);
    assert_eq!(app.stored_ledger(ROOT).await, ledger(995, 2, 3, 0));
    app.decide("k", ROOT, 2)
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
}

#[tokio::test]
async fn a_repeated_decision_gets_the_first_response() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    assert_eq!(app.decide("k1", ROOT, 1_000).await.at("/decision"), "ALLOW");
    app.held(ROOT, 1_000, json!({})).await;
    let denied = app.decide("k2", ROOT, 1_000).await;
    assert_eq!(denied.at("/decision"), "DENY");
    app.budget(ROOT, 9_000, 0).await;
    let before = app.everything().await;
    assert_eq!(app.decide("k1", ROOT, 1_000).await.at("/decision"), "ALLOW");
    assert_eq!(app.decide("k2", ROOT, 1_000).await.body, denied.body);
    assert!(app.everything().await == before, "a replay writes nothing");
}
