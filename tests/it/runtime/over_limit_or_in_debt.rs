//! The index of ledgers that are over their limit or in debt: written only where that changes.

use serde_json::{Value, json};

use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::response::Response;

fn key(app: &TestApp) -> String {
    app.store
        .keys()
        .over_limit_or_in_debt(tenant_id("acme").partition())
}

async fn entries(app: &TestApp) -> Vec<String> {
    let pairs: Vec<(String, f64)> = app
        .run(&["ZRANGE", &key(app), "0", "-1", "WITHSCORES"])
        .await;
    pairs
        .into_iter()
        .map(|(entry, score)| format!("{entry} {score}"))
        .collect()
}

/// Reserves 10 and commits an amount.
async fn spend(app: &TestApp, name: &str, actual: i64, policy: &str) -> Response {
    let mut body = crate::harness::app::reserve_body(name, 10);
    body["overage_policy"] = json!(policy);
    let held = app.post("/v1/reservations", body).await.expect(200);
    let path = format!("/v1/reservations/{}/commit", held.text("/reservation_id"));
    let actual = json!({"unit": "TOKENS", "amount": actual});
    app.post(&path, json!({"idempotency_key": name, "actual": actual}))
        .await
}

fn posted(name: &str, amount: i64) -> Value {
    json!({"idempotency_key": name, "subject": {"tenant": "acme"}, "action": {"kind": "llm", "name": "m"},
        "actual": {"unit": "TOKENS", "amount": amount}, "overage_policy": "ALLOW_WITH_OVERDRAFT"})
}

#[tokio::test]
async fn only_ledgers_over_limit_or_in_debt_are_indexed() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 100, 100).await;
    for (name, actual) in [("less", 1), ("all", 10), ("more", 20)] {
        spend(&app, name, actual, "ALLOW_WITH_OVERDRAFT")
            .await
            .expect(200);
        assert!(entries(&app).await.is_empty(), "{name}");
    }
    // 69 are left: 10 are held, and 64 beyond them leave a debt of 5.
    spend(&app, "owes", 74, "ALLOW_WITH_OVERDRAFT")
        .await
        .expect(200);
    assert_eq!(entries(&app).await, ["debt acme TOKENS tenant:acme 5"]);
    app.post("/v1/events", posted("p1", 20)).await.expect(201);
    assert_eq!(entries(&app).await, ["debt acme TOKENS tenant:acme 25"]);
    // Capped at what is left: the flag is set, and no debt.
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 15, 0).await;
    spend(&app, "capped", 40, "ALLOW_IF_AVAILABLE")
        .await
        .expect(200);
    assert_eq!(entries(&app).await, ["over acme TOKENS tenant:acme -1"]);
}

#[tokio::test]
async fn an_index_of_the_wrong_type_refuses_a_charge_before_the_first_write() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 10, 100).await;
    app.run::<()>(&["SET", &key(&app), "no index"]).await;
    let before = app.figures("tenant:acme").await;
    app.post("/v1/events", posted("p1", 50)).await.expect(500);
    assert_eq!(app.figures("tenant:acme").await, before);
    spend(&app, "owes", 50, "ALLOW_WITH_OVERDRAFT")
        .await
        .expect(500);
    assert_eq!(
        app.figures("tenant:acme").await,
        (0, 10, 0, 0),
        "it is held as before"
    );
    app.run::<()>(&["DEL", &key(&app)]).await;
    app.post("/v1/events", posted("p1", 50)).await.expect(201);
    assert_eq!(entries(&app).await, ["debt acme TOKENS tenant:acme 50"]);
}
