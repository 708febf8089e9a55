//! A reservation's life over HTTP, on one Redis, on a cluster, and through a failover.

use serde_json::json;

use crate::harness::app::TestApp;

#[tokio::test]
async fn a_commit_below_the_reservation_returns_the_rest_to_every_enclosing_budget() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let reserved = app.reserve("k1", 300).await;
    assert_eq!(reserved.status, 200, "{reserved:?}");
    let id = reserved.text("/reservation_id").to_owned();
    assert_eq!(app.figures("tenant:acme").await, (700, 300, 0, 0));
    let path = format!("/v1/reservations/{id}/commit");
    let body = json!({"idempotency_key": "c1", "actual": {"unit": "TOKENS", "amount": 200}});
    let committed = app.post(&path, body.clone()).await;
    assert_eq!(
        committed.body["charged"],
        json!({"unit": "TOKENS", "amount": 200}),
        "{committed:?}"
    );
    assert_eq!(
        committed.body["released"],
        json!({"unit": "TOKENS", "amount": 100})
    );
    assert_eq!(app.figures("tenant:acme").await, (800, 0, 200, 0));
    let again = app.post(&path, body).await;
    assert_eq!(again.body, committed.body);
    let found = app.get(&format!("/v1/reservations/{id}")).await;
    assert_eq!(found.body["status"], "COMMITTED", "{found:?}");
    let listed = app.get("/v1/reservations").await;
    assert_eq!(
        listed.at("/reservations/0/reservation_id"),
        &json!(id),
        "{listed:?}"
    );
}
