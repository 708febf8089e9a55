//! Limits over windows of time: what they refuse and count, and how a window ends.

pub(crate) mod settings;
pub(crate) mod time;

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{tokens, with};

pub(crate) const ROOT: &str = "tenant:acme";
const BUDGETS: &str = "/v1/admin/budgets";

/// A limit over windows of this length.
pub(crate) fn limit(every: &str, amount: i64) -> Value {
    json!({"every": every, "amount": tokens(amount)})
}

/// A budget with an allocation of 1,000 and limits.
pub(crate) async fn limited(app: &TestApp, scope: &str, limits: Value) {
    let body = json!({
        "tenant_id": "acme", "scope": scope, "unit": "TOKENS", "allocated": tokens(1_000), "limits": limits,
    });
    app.post_as_admin(BUDGETS, body).await.expect(201);
}

/// The path of an operation on the budget of the root.
pub(crate) fn path(operation: &str) -> String {
    format!("{BUDGETS}{operation}?scope={ROOT}&unit=TOKENS")
}

/// The limits of the root, as readers see them.
pub(crate) async fn found(app: &TestApp) -> Vec<Value> {
    let found = app.get_as_admin(&path("/lookup")).await.expect(200).body;
    found["limits"].as_array().cloned().unwrap_or_default()
}

/// What each window of the root has used.
pub(crate) async fn used(app: &TestApp) -> Vec<i64> {
    let limits = found(app).await;
    let used = limits.iter().map(|limit| limit["used"]["amount"].as_i64());
    used.map(|used| used.expect("an amount")).collect()
}

#[tokio::test]
async fn a_window_refuses_what_it_has_no_room_for_and_says_when_it_ends() {
    for app in TestApp::spawn_both().await {
        limited(&app, ROOT, json!([limit("P1D", 500), limit("PT1H", 50)])).await;
        app.post_event("e1", ROOT, 30, json!({})).await.expect(201);
        app.held(ROOT, 15, json!({})).await;
        let refused = app.create("r1", ROOT, 6, json!({})).await;
        let refused = refused.refused(409, "BUDGET_EXCEEDED");
        let hour = found(&app).await.swap_remove(1);
        let end = hour["window_end"].as_str().expect("a time").to_owned();
        assert_eq!(
            refused.at("/details/limit"),
            &json!({
                "every": "PT1H", "amount": tokens(50), "used": tokens(30), "reserved": tokens(15), "window_end": end,
            })
        );
        assert_eq!(
            refused.text("message"),
            format!(
                "The limit of 50 in PT1H is reached at {ROOT}: requested 6 TOKENS, used 30, reserved 15; the window ends at {end}"
            )
        );
        // What fits, passes.
        app.create("r2", ROOT, 5, json!({})).await.expect(200);
        assert_eq!(used(&app).await, [30, 30]);
    }
}

#[tokio::test]
async fn decisions_and_dry_runs_are_denied_alike() {
    let app = TestApp::spawn().await;
    limited(&app, ROOT, json!([limit("PT1H", 50)])).await;
    for (amount, reason) in [(50, None), (51, Some("BUDGET_EXCEEDED"))] {
        let decided = app
            .decide(&format!("d{amount}"), ROOT, amount)
            .await
            .expect(200);
        assert_eq!(decided.at("/reason_code").as_str(), reason);
        let tried = app
            .dry_run(&format!("t{amount}"), ROOT, amount)
            .await
            .expect(200);
        assert_eq!(tried.at("/reason_code").as_str(), reason);
    }
}

#[tokio::test]
async fn commits_always_count_and_usage_events_are_refused_under_reject_alone() {
    let app = TestApp::spawn().await;
    limited(&app, ROOT, json!([limit("PT1H", 50)])).await;
    let id = app
        .held(ROOT, 40, json!({"overage_policy": "ALLOW_IF_AVAILABLE"}))
        .await;
    app.commit(&id, "c", 70).await.expect(200);
    assert_eq!(used(&app).await, [70]);
    let reject = json!({"overage_policy": "REJECT"});
    let refused = app.post_event("e1", ROOT, 1, reject.clone()).await;
    let refused = refused.refused(409, "BUDGET_EXCEEDED");
    assert_eq!(refused.at("/details/limit/used"), &tokens(70));
    for policy in ["ALLOW_IF_AVAILABLE", "ALLOW_WITH_OVERDRAFT"] {
        let more = json!({"overage_policy": policy});
        app.post_event(policy, ROOT, 4, more).await.expect(201);
    }
    assert_eq!(used(&app).await, [78]);
    app.create("r", ROOT, 0, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
}

#[tokio::test]
async fn a_release_and_an_expiry_use_nothing() {
    let app = TestApp::spawn().await;
    limited(&app, ROOT, json!([limit("PT1H", 50)])).await;
    let id = app.held(ROOT, 30, json!({})).await;
    app.release(&id, "x").await.expect(200);
    let more = json!({"ttl_ms": 1_000, "grace_period_ms": 0});
    let dead = app.create("dead", ROOT, 30, more).await.expect(200);
    app.backdate(dead.text("/reservation_id"), 10_000).await;
    // A hold that is over would be in the way.
    app.create("next", ROOT, 50, json!({})).await.expect(200);
    assert_eq!(used(&app).await, [0]);
}

#[tokio::test]
async fn the_first_ledger_on_the_path_that_refuses_is_named() {
    let app = TestApp::spawn().await;
    let (agent, frozen) = (
        format!("{ROOT}/agent:a"),
        format!("{ROOT}/agent:a/toolset:t"),
    );
    limited(&app, ROOT, json!([limit("PT1H", 50)])).await;
    app.budget(&agent, 10, 0).await;
    let refused = app.create("r1", &agent, 60, json!({})).await;
    let refused = refused.refused(409, "BUDGET_EXCEEDED");
    assert_eq!(refused.at("/details/scope"), ROOT);
    assert_eq!(refused.at("/details/limit/every"), "PT1H");
    let refused = app.create("r2", &agent, 20, json!({})).await;
    let refused = refused.refused(409, "BUDGET_EXCEEDED");
    assert_eq!(refused.at("/details/scope"), &json!(agent));
    assert_eq!(refused.at("/details/limit"), &Value::Null);
    // Another class comes first.
    app.budget(&frozen, 100, 0).await;
    app.set_ledger(&frozen, &[("status", "FROZEN")]).await;
    let refused = app.create("r3", &frozen, 60, json!({})).await;
    refused.refused(409, "BUDGET_FROZEN");
}

#[tokio::test]
async fn what_a_window_has_used_ends_at_the_highest_integer() {
    let app = TestApp::spawn().await;
    let body = json!({
        "tenant_id": "acme", "scope": ROOT, "unit": "TOKENS", "allocated": tokens(i64::MAX), "limits": [limit("P1Y", i64::MAX)],
    });
    app.post_as_admin(BUDGETS, body).await.expect(201);
    let more = with(json!({}), json!({"overage_policy": "ALLOW_IF_AVAILABLE"}));
    app.post_event("e1", ROOT, i64::MAX - 1, more.clone())
        .await
        .expect(201);
    let renew = json!({"operation": "RENEW", "idempotency_key": "k"});
    let fund = format!("{}&tenant_id=acme", path("/fund"));
    app.post_as_admin(&fund, renew).await.expect(200);
    app.post_event("e2", ROOT, i64::MAX - 1, more)
        .await
        .expect(201);
    assert_eq!(used(&app).await, [i64::MAX]);
    app.create("r", ROOT, 1, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
}

#[tokio::test]
async fn a_ledger_that_does_not_say_whether_it_has_terms_has_them() {
    let app = TestApp::spawn().await;
    limited(&app, ROOT, json!([limit("P1D", 50)])).await;
    app.run::<i64>(&["HDEL", &app.ledger_key(0, ROOT), "terms"])
        .await;
    let refused = app.create("r1", ROOT, 51, json!({})).await;
    refused.refused(409, "BUDGET_EXCEEDED");
    app.create("r2", ROOT, 50, json!({})).await.expect(200);
}
