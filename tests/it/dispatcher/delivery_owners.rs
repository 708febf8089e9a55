//! Deliveries by the status of the owner.

use reqwest::Method;
use serde_json::json;

use super::fan_out::{fan_out, follow};
use crate::admin::webhooks::subscriptions::{HOOKS, made};
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached, webhook};
use crate::harness::receiver::{Receiver, Reply};

#[tokio::test]
async fn w2_a_closed_tenant_gets_no_events_and_the_operator_gets_those_of_the_close() {
    let app = here().await;
    let (tenants, operators) = (
        Receiver::start(Reply::Status(200, "")).await,
        Receiver::start(Reply::Status(200, "")).await,
    );
    let types = json!([
        "budget.funded",
        "tenant.closed",
        "budget.closed_via_tenant_cascade"
    ]);
    let id = made(
        &app,
        json!({"url": tenants.url("/in"), "event_types": types}),
    )
    .await;
    let body = json!({"url": operators.url("/in"), "event_types": types});
    let system = app.post_as_admin(HOOKS, body).await.expect(201);
    let system = system.text("/subscription/subscription_id").to_owned();
    // Two are queued before the close, two are not.
    fund(&app, 2).await;
    assert_eq!(follow(&fan_out(&app)).await, 4);
    fund(&app, 2).await;
    let closed = json!({"status": "CLOSED"});
    app.as_admin(Method::PATCH, "/v1/admin/tenants/umbra", &closed)
        .await
        .expect(200);
    let _running = RunningDispatcher::start(&app);
    let rows = reached(&app, &system, "SUCCESS", 6).await;
    let types: Vec<_> = rows.iter().map(|row| row["event_type"].clone()).collect();
    assert_eq!(
        types[..4],
        [
            json!("budget.funded"),
            json!("budget.funded"),
            json!("budget.funded"),
            json!("budget.funded")
        ]
    );
    assert!(types.contains(&json!("tenant.closed")), "{types:?}");
    assert!(
        types.contains(&json!("budget.closed_via_tenant_cascade")),
        "{types:?}"
    );
    let rows = reached(&app, &id, "FAILED", 2).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in &rows {
        assert_eq!(
            (&row["attempts"], &row["error_message"]),
            (&json!(0), &json!("The subscription is not active"))
        );
    }
    assert_eq!(webhook(&app, &id).await["consecutive_failures"], 0);
    assert_eq!(tenants.accepted(), 0);
}
