//! Rules of the admin plane over HTTP, each by its number: one of them is one test, as an operator or a tenant would find it.

mod funding;
mod scopes;
mod tenants;
mod webhook_states;
mod webhooks;

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, key, umbra};
use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

/// The refusal of most of these rules.
const INVALID: (u16, &str) = (400, "INVALID_REQUEST");

/// The figures of the root ledger: allocated, remaining, reserved, spent, debt.
async fn root(app: &TestApp) -> [i64; 5] {
    let response = app
        .get_as_admin("/v1/admin/budgets/lookup?scope=tenant:umbra&unit=TOKENS")
        .await
        .expect(200);
    figures(&response.body)
}

fn figures(ledger: &Value) -> [i64; 5] {
    ["allocated", "remaining", "reserved", "spent", "debt"]
        .map(|name| ledger[name]["amount"].as_i64().expect("a figure"))
}

/// Whether the root ledger is over its limit.
async fn is_over(app: &TestApp) -> bool {
    let response = app
        .get_as_admin("/v1/admin/budgets/lookup?scope=tenant:umbra&unit=TOKENS")
        .await;
    response.at("/is_over_limit").as_bool().expect("a flag")
}

/// Funds the root ledger.
async fn fund(app: &TestApp, operation: &str, amount: i64, more: Value) -> Response {
    let mut body = json!({"operation": operation, "amount": tokens(amount)});
    let members = body.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    let path = "/v1/admin/budgets/fund?tenant_id=umbra&scope=tenant:umbra&unit=TOKENS";
    app.post_as_admin(path, body).await
}

/// Sets how much debt the root ledger may have.
async fn limit(app: &TestApp, limit: i64) {
    let path = format!("{BUDGETS}?scope=tenant:umbra&unit=TOKENS");
    app.as_admin(
        Method::PATCH,
        &path,
        &json!({"overdraft_limit": tokens(limit)}),
    )
    .await
    .expect(200);
}

/// A tenant that spent all of its 10,000 and owes 600, with a limit of 500.
async fn in_debt() -> TestApp {
    let app = umbra().await;
    fund(&app, "RESET", 10_000, json!({})).await.expect(200);
    limit(&app, 600).await;
    let (_, key) = key(&app, &["reservations:create", "reservations:commit"]).await;
    let reserve = json!({
        "idempotency_key": "r", "subject": {"tenant": "umbra"}, "action": {"kind": "llm", "name": "m"},
        "estimate": tokens(10_000), "overage_policy": "ALLOW_WITH_OVERDRAFT",
    });
    let held = app.post_with(&key, "/v1/reservations", &reserve).await;
    let path = format!("/v1/reservations/{}/commit", held.text("/reservation_id"));
    let commit = json!({"idempotency_key": "c", "actual": tokens(10_600)});
    app.post_with(&key, &path, &commit).await.expect(200);
    limit(&app, 500).await;
    assert_eq!(root(&app).await, [10_000, -600, 0, 10_000, 600]);
    app
}

/// The events of the tenant of this type.
fn events(app: &TestApp, event_type: &str) -> Vec<Value> {
    let events = app.admin_fixture().events("umbra");
    events
        .into_iter()
        .filter(|event| event["event_type"] == event_type)
        .collect()
}
