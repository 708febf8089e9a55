//! The refusal of a ledger that is over its limit names the charge that took it there.

use reqwest::Method;
use serde_json::json;

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

const ROOT: &str = "tenant:acme";
const CURE: &str = "; it refuses reservations until an operator funds it (REPAY_DEBT where it has debt, else CREDIT)";

async fn held(app: &TestApp, key: &str, amount: i64) -> String {
    let held = app.create(key, ROOT, amount, json!({})).await.expect(200);
    held.text("/reservation_id").to_owned()
}

async fn denial(app: &TestApp, key: &str) -> String {
    let refused = app.create(key, ROOT, 1, json!({})).await;
    let refused = refused.refused(409, "OVERDRAFT_LIMIT_EXCEEDED");
    assert_eq!(refused.at("/details/scope"), ROOT);
    refused.text("/message").to_owned()
}

fn message(remaining: i64, since: &str) -> String {
    format!(
        "The overdraft limit is exceeded at {ROOT}: requested 1 TOKENS, remaining {remaining}{since}{CURE}"
    )
}

async fn field(app: &TestApp) -> Option<String> {
    app.run(&["HGET", &app.ledger_key(0, ROOT), "over_limit_by"])
        .await
}

async fn operator(app: &TestApp, method: Method, path: &str, body: serde_json::Value) -> Response {
    let path = format!("{path}scope={ROOT}&unit=TOKENS&tenant_id=acme");
    let request = app.request(method, &path).json(&body);
    app.send(request.header("X-Admin-API-Key", ADMIN_KEY)).await
}

#[tokio::test]
async fn a_denial_names_the_commit_that_took_the_ledger_over_its_limit() {
    let app = TestApp::spawn().await;
    app.admin_fixture().budget("acme", ROOT, 100).await;
    let (first, second) = (
        held(&app, "first", 60).await,
        held(&app, "second", 20).await,
    );
    assert_eq!(field(&app).await, None);
    app.commit(&first, "commit", 90).await.expect(200);
    let since = format!("; it is over its limit since the commit of reservation {first}");
    assert_eq!(denial(&app, "denied").await, message(0, &since));
    app.commit(&second, "commit", 30).await.expect(200);
    assert_eq!(
        denial(&app, "denied").await,
        message(0, &since),
        "the first stays named"
    );
    let deny = app.decide("decide", ROOT, 1).await;
    assert_eq!(deny.at("/reason_code"), "OVERDRAFT_LIMIT_EXCEEDED");

    let credit = json!({"idempotency_key": "f", "operation": "CREDIT", "amount": tokens(50)});
    operator(&app, Method::POST, "/v1/admin/budgets/fund?", credit)
        .await
        .expect(200);
    assert_eq!(field(&app).await, None);
    held(&app, "held", 10).await;
}

#[tokio::test]
async fn a_denial_names_a_usage_event_but_no_cause_if_an_operator_lowered_the_limit() {
    let app = TestApp::spawn().await;
    app.admin_fixture().budget("acme", ROOT, 100).await;
    let event = app
        .post_event(
            "event",
            ROOT,
            130,
            json!({"overage_policy": "ALLOW_IF_AVAILABLE"}),
        )
        .await;
    let id = event.expect(201).text("/event_id").to_owned();
    let since = format!("; it is over its limit since the usage event {id}");
    assert_eq!(denial(&app, "denied").await, message(0, &since));
    // Any update by an operator recomputes the flag.
    let limit = json!({"overdraft_limit": tokens(50)});
    operator(&app, Method::PATCH, "/v1/admin/budgets?", limit)
        .await
        .expect(200);
    assert_eq!(field(&app).await, None);

    let event = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
    app.post_event("debt", ROOT, 30, event).await.expect(201);
    assert_eq!(field(&app).await, None, "30 of debt are within the limit");
    let limit = json!({"overdraft_limit": tokens(20)});
    operator(&app, Method::PATCH, "/v1/admin/budgets?", limit)
        .await
        .expect(200);
    assert_eq!(denial(&app, "denied").await, message(-30, ""));
}
