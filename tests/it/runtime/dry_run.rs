//! Dry runs: the checks of a live reserve without its effects, and without its refusals.

use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{ask_body, ledger, tokens, with};
use crate::runtime::reserve::DENYING_STATES;

const ROOT: &str = "tenant:acme";

#[tokio::test]
async fn an_allowed_dry_run_shows_current_balances_and_holds_nothing() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let scope = "tenant:acme/agent:a";
    let response = app.dry_run("k", scope, 300).await;
    let mut expected = json!({
        "decision": "ALLOW", "affected_scopes": [ROOT, scope], "scope_path": scope, "reserved": tokens(300),
    });
    expected["balances"] = json!([{
        "scope": ROOT, "scope_path": ROOT, "remaining": tokens(1_000), "reserved": tokens(0), "spent": tokens(0),
        "allocated": tokens(1_000),
    }]);
    assert_eq!((response.status, response.body), (200, expected));
    assert_eq!(app.stored_ledger(ROOT).await, ledger(1_000, 0, 0, 0));
    let listed = app.get("/v1/reservations").await;
    assert_eq!(listed.at("/reservations"), &json!([]));
    assert!(app.events().await.is_empty());
}

#[tokio::test]
async fn a_dry_run_is_denied_for_the_reason_that_denies_a_reserve() {
    let app = TestApp::spawn().await;
    for row in DENYING_STATES {
        let scope = row.place(&app).await;
        let before = app.stored_ledger(&scope).await;
        let response = app.dry_run(row.name, &scope, 10).await;
        let outer = scope.trim_end_matches("/agent:a");
        let denied = json!({
            "decision": "DENY", "reason_code": row.reason, "scope_path": scope,
            "affected_scopes": [ROOT, outer, scope],
        });
        assert_eq!(
            (response.status, response.body),
            (200, denied),
            "{}",
            row.name
        );
        assert_eq!(app.stored_ledger(&scope).await, before, "{}", row.name);
    }
}

#[tokio::test]
async fn a_dry_run_without_a_budget_is_denied_where_a_reserve_is_404() {
    let app = TestApp::spawn().await;
    let response = app.dry_run("k1", ROOT, 1).await.expect(200);
    assert_eq!(response.at("/reason_code"), "BUDGET_NOT_FOUND");
    assert_eq!(response.at("/affected_scopes"), &json!([ROOT]));
    app.post("/v1/reservations", ask_body("k2", ROOT, 1))
        .await
        .refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn only_a_unit_mismatch_refuses_a_dry_run() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let credits = json!({"estimate": {"unit": "CREDITS", "amount": 1}, "dry_run": true});
    app.post("/v1/reservations", with(ask_body("k", ROOT, 1), credits))
        .await
        .refused(400, "UNIT_MISMATCH");
    let again = app.dry_run("k", ROOT, 1).await;
    assert_eq!(again.at("/decision"), "ALLOW", "the key was not used up");
}

#[tokio::test]
async fn a_dry_run_and_a_reserve_share_their_idempotency_keys() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(ROOT, 100, json!({})).await;
    app.dry_run(ROOT, ROOT, 100)
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    app.dry_run("k", ROOT, 100).await.expect(200);
    app.create("k", ROOT, 100, json!({}))
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    assert_eq!(app.stored_ledger(ROOT).await, ledger(900, 100, 0, 0));
    let listed = app.get("/v1/reservations?idempotency_key=k").await;
    assert_eq!(listed.at("/reservations"), &json!([]));
    app.commit(&id, "c", 100).await.expect(200);
}

#[tokio::test]
async fn a_dry_run_is_replayed_unchanged() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let allowed = app.dry_run("k1", ROOT, 1_000).await;
    app.held(ROOT, 1_000, json!({})).await;
    let denied = app.dry_run("k2", ROOT, 1).await;
    assert_eq!(denied.at("/reason_code"), "BUDGET_EXCEEDED");
    app.budget(ROOT, 5_000, 0).await;
    let before = app.everything().await;
    assert_eq!(app.dry_run("k1", ROOT, 1_000).await.body, allowed.body);
    assert_eq!(app.dry_run("k2", ROOT, 1).await.body, denied.body);
    assert!(app.everything().await == before, "a replay writes nothing");
    assert_eq!(app.dry_run("k3", ROOT, 1).await.at("/decision"), "ALLOW");
}
