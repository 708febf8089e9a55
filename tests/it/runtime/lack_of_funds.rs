//! What a client learns that lacks funds: the figures of the budget, and when waiting may help.

use budget_authority::domain::moment::Moment;
use budget_authority::domain::reservation::GRACE_PERIOD_MS_DEFAULT;
use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::{ask_body, ledger, tokens};

const ROOT: &str = "tenant:acme";
const AGENT: &str = "tenant:acme/agent:a";

/// When the hold of a new reservation ends that is not extended.
pub(super) fn ends(created: &Response) -> String {
    let expires_at_ms = created.at("/expires_at_ms").as_i64().expect("a time");
    let ends = Moment::from_ms(expires_at_ms + GRACE_PERIOD_MS_DEFAULT);
    ends.expect("a time").to_string()
}

/// A client that waits for holds knows how long: as long as those of any scope of the tenant.
#[tokio::test]
async fn a_denial_for_lack_of_funds_has_the_figures_and_when_the_last_hold_ends() {
    let app = TestApp::spawn().await;
    app.place(ROOT, 1_000, 0, ledger(300, 0, 700, 0)).await;
    app.budget(AGENT, 50, 0).await;
    let short = app.create("k", ROOT, 301, json!({})).await;
    let short = short.refused(409, "BUDGET_EXCEEDED");
    let without_holds = json!({
        "scope": ROOT, "unit": "TOKENS", "requested": 301, "remaining": 300, "allocated": 1_000, "spent": 700, "reserved": 0, "debt": 0,
    });
    assert_eq!(short.at("/details"), &without_holds);

    let held = app.create("a", "tenant:acme/app:x", 100, json!({})).await;
    held.expect(200);
    let last = app.create("b", AGENT, 40, json!({"ttl_ms": 600_000})).await;
    let last = last.expect(200);
    let denied = app.create("c", ROOT, 161, json!({})).await;
    let denied = denied.refused(409, "BUDGET_EXCEEDED");
    let details = json!({
        "scope": ROOT, "unit": "TOKENS", "requested": 161, "remaining": 160, "allocated": 1_000, "spent": 700, "reserved": 140,
        "debt": 0, "holds_expire_by": ends(&last),
    });
    assert_eq!(denied.at("/details"), &details);
    let charged = app.post_event("e", ROOT, 161, json!({"overage_policy": "REJECT"}));
    let charged = charged.await.refused(409, "BUDGET_EXCEEDED");
    assert_eq!(charged.at("/details"), &details);

    // An operator who takes away too much learns the same, but for the holds.
    let path = "/v1/admin/budgets/fund?scope=tenant:acme&unit=TOKENS&tenant_id=acme";
    let debit = json!({"operation": "DEBIT", "amount": tokens(161)});
    let debited = app.post_as_admin(path, debit).await;
    let debited = debited.refused(409, "BUDGET_EXCEEDED");
    let mut figures = details.clone();
    figures
        .as_object_mut()
        .expect("members")
        .remove("holds_expire_by");
    assert_eq!(debited.at("/details"), &figures);

    // A key that may act in the agent's scope alone sees why the whole tenant's budget refuses it.
    let key = app.add_key(0, &[("scope_filter", AGENT)]).await;
    app.set_ledger(AGENT, &[("allocated", "5000"), ("remaining", "4960")])
        .await;
    let body = ask_body("d", AGENT, 161);
    let fenced = app.post_with(&key, "/v1/reservations", &body).await;
    let fenced = fenced.refused(409, "BUDGET_EXCEEDED");
    assert_eq!(fenced.at("/details"), &details);
}
