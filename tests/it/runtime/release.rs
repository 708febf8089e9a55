//! Releases, by the tenant and by the operator.

use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{ledger, tokens};

const ROOT: &str = "tenant:acme";

#[tokio::test]
async fn a_release_returns_the_whole_hold_once() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held("tenant:acme/agent:a", 300, json!({})).await;
    let response = app.release(&id, "r").await;
    let balance = json!([{
        "scope": ROOT, "scope_path": ROOT, "remaining": tokens(1_000), "reserved": tokens(0), "spent": tokens(0),
        "allocated": tokens(1_000),
    }]);
    let body = json!({"status": "RELEASED", "released": tokens(300), "balances": balance});
    assert_eq!((response.status, &response.body), (200, &body));
    app.held(ROOT, 700, json!({})).await;
    let before = app.everything().await;
    assert_eq!(app.release(&id, "r").await.body, body, "as it was then");
    assert!(app.everything().await == before);
    let found = app.found(&id).await;
    assert_eq!(found.at("/status"), "RELEASED");
    assert_eq!(found.at("/reserved"), &tokens(300));
    assert!(found.at("/finalized_at_ms").is_i64() && found.body.get("committed").is_none());
}

#[tokio::test]
async fn a_reservation_ends_once_under_any_key() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let committed = app.held("tenant:acme/app:c", 100, json!({})).await;
    let released = app.held("tenant:acme/app:r", 100, json!({})).await;
    app.commit(&committed, "x", 100).await.expect(200);
    app.release(&released, "x").await.expect(200);
    let late = (409, "RESERVATION_FINALIZED");
    for key in ["x", "y"] {
        assert_eq!(app.release(&committed, key).await.error(), late, "{key}");
        assert_eq!(app.commit(&released, key, 100).await.error(), late, "{key}");
        for id in [&committed, &released] {
            assert_eq!(app.extend(id, key, 1).await.error(), late, "{key}");
        }
    }
    assert_eq!(app.commit(&committed, "y", 100).await.error(), late);
    assert_eq!(app.release(&released, "y").await.error(), late);
    assert_eq!(app.stored_ledger(ROOT).await, ledger(900, 0, 100, 0));
}

#[tokio::test]
async fn another_reason_under_the_same_key_is_another_request() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(ROOT, 100, json!({})).await;
    app.release(&id, "r").await.expect(200);
    let path = format!("/v1/reservations/{id}/release");
    let body = json!({"idempotency_key": "r", "reason": "cancelled"});
    app.post(&path, body)
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
}

#[tokio::test]
async fn the_operator_releases_any_reservation_and_leaves_one_audit_entry() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(ROOT, 300, json!({})).await;
    let response = app.admin_release(&id, "r").await;
    assert_eq!(
        (response.status, response.at("/released")),
        (200, &tokens(300))
    );
    assert!(response.headers.get("x-service-tenant").is_none());
    assert_eq!(app.stored_ledger(ROOT).await, ledger(1_000, 0, 0, 0));
    let again = app.admin_release(&id, "r").await;
    assert_eq!(again.body, response.body);
    let path = format!("/v1/reservations/{id}/release");
    let body = json!({"idempotency_key": "r", "reason": "stuck"});
    let same = app.post(&path, body).await;
    assert_eq!(
        same.body, response.body,
        "the owner's key space is the same"
    );
    app.admin_release(&id, "other")
        .await
        .refused(409, "RESERVATION_FINALIZED");
    app.admin_release("r000_none", "r")
        .await
        .refused(404, "NOT_FOUND");

    let (caller, keys) = (&app.callers[0], app.store.keys());
    let log = |day| keys.audit(caller.partition, caller.tenant.as_str(), day);
    let entries = app.log_facts(log).await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    let request_id = response.headers["x-request-id"].to_str().expect("text");
    let audited = [
        ("sequence", "1"),
        ("operation", "releaseReservation"),
        ("metadata.actor_type", "admin_on_behalf_of"),
        ("resource_type", "reservation"),
        ("resource_id", &id),
        ("metadata.reason", "stuck"),
        ("source_ip", "127.0.0.1"),
        ("request_id", request_id),
    ];
    for (name, value) in audited {
        assert_eq!(entries[0][name], value, "{name}");
    }
}
