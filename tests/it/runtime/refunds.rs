//! Refunds: what was charged is given back where the period of the charge still lasts, once, and no more than was charged.

use std::sync::Arc;

use budget_authority::tools::verify::verify;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::{Event, ask_body, tokens, with};

const ROOT: &str = "tenant:acme";
const APP: &str = "tenant:acme/app:chat";

fn body(key: &str, amount: i64) -> Value {
    json!({"idempotency_key": key, "amount": tokens(amount), "reason": "wrong"})
}

async fn refund(app: &TestApp, id: &str, key: &str, amount: i64) -> Response {
    let path = match id.starts_with('e') {
        true => format!("/v1/usage-events/{id}/refund"),
        false => format!("/v1/reservations/{id}/refund"),
    };
    app.post(&path, body(key, amount)).await
}

/// A reservation that has charged an amount.
async fn charged(app: &TestApp, scope: &str, amount: i64) -> String {
    let id = app.held(scope, amount, json!({})).await;
    app.commit(&id, "c", amount).await.expect(200);
    id
}

async fn of_type(app: &TestApp, event_type: &str) -> Vec<Event> {
    let mut events = app.events().await;
    events.retain(|event| event.get("type") == event_type);
    events
}

async fn is_right(app: &TestApp) {
    let report = verify(&app.store, None, |_| {})
        .await
        .expect("Redis answers");
    assert!(report.is_right(), "{}", report.table(true));
}

#[tokio::test]
async fn a_part_is_given_back_on_every_budget_once() {
    for (dialect, app) in TestApp::spawn_both().await.into_iter().enumerate() {
        app.budget(ROOT, 100, 0).await;
        app.budget(APP, 80, 0).await;
        let id = charged(&app, APP, 60).await;
        let first = refund(&app, &id, "k", 25).await.expect(200);
        assert_eq!(
            (first.at("/refunded"), first.at("/charged")),
            (&tokens(25), &tokens(35))
        );
        assert_eq!(first.at("/balances/1/remaining"), &tokens(45));
        assert_eq!(first.at("/not_refunded"), &Value::Null);
        assert_eq!(
            refund(&app, &id, "k", 25).await.expect(200).body,
            first.body
        );
        refund(&app, &id, "k", 26)
            .await
            .refused(409, "IDEMPOTENCY_MISMATCH");
        assert_eq!(app.figures(ROOT).await, (65, 0, 35, 0));
        assert_eq!(app.figures(APP).await, (45, 0, 35, 0));
        let found = app.found(&id).await;
        let seen = if dialect == 0 {
            tokens(25)
        } else {
            Value::Null
        };
        assert_eq!(
            (found.text("status"), found.at("/refunded")),
            ("COMMITTED", &seen)
        );
        let events = of_type(&app, "reservation.refunded").await;
        let facts = [
            "data.reservation_id",
            "data.amount",
            "data.refunded",
            "data.charged",
            "data.reason",
        ];
        let lines: Vec<_> = events.iter().map(|event| event.line(&facts)).collect();
        assert_eq!(
            lines,
            [format!("reservation.refunded {APP} {id} 25 25 35 wrong")]
        );
        is_right(&app).await;
    }
}

#[tokio::test]
async fn a_usage_event_is_refunded_alike() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 100, 0).await;
    let posted = app.post_event("e", ROOT, 40, json!({})).await.expect(201);
    let id = posted.text("/event_id").to_owned();
    let given = refund(&app, &id, "k", 40).await.expect(200);
    assert_eq!(
        (given.at("/refunded"), given.at("/charged")),
        (&tokens(40), &tokens(0))
    );
    assert_eq!(app.figures(ROOT).await, (100, 0, 0, 0));
    let events = of_type(&app, "reservation.refunded").await;
    assert_eq!(events[0].get("data.event_id"), id);
    refund(&app, &id, "k2", 1)
        .await
        .refused(400, "LIMIT_EXCEEDED");
    app.post("/v1/usage-events/evt_x/refund", body("k", 1))
        .await
        .refused(404, "NOT_FOUND");
    is_right(&app).await;
}

#[tokio::test]
async fn refunds_never_exceed_the_charge_and_are_not_too_many() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 100, 0).await;
    let id = charged(&app, ROOT, 50).await;
    let refused = refund(&app, &id, "k", 51)
        .await
        .refused(400, "LIMIT_EXCEEDED");
    assert_eq!(
        (refused.at("/details/limit"), refused.at("/details/present")),
        (&json!(50), &json!(51))
    );
    for number in 0..32 {
        refund(&app, &id, &format!("k{number}"), 1)
            .await
            .expect(200);
    }
    let refused = refund(&app, &id, "more", 1)
        .await
        .refused(400, "LIMIT_EXCEEDED");
    assert_eq!(
        (refused.at("/details/limit"), refused.at("/details/present")),
        (&json!(32), &json!(33))
    );
    assert_eq!(app.figures(ROOT).await, (82, 0, 18, 0));
    is_right(&app).await;
}

#[tokio::test]
async fn what_was_not_charged_cannot_be_given_back() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 100, 0).await;
    let active = app.create("a", ROOT, 10, json!({})).await.expect(200);
    let id = active.text("/reservation_id").to_owned();
    refund(&app, &id, "k", 1)
        .await
        .refused(409, "INVALID_REQUEST");
    app.release(&id, "x").await.expect(200);
    refund(&app, &id, "k", 1)
        .await
        .refused(409, "RESERVATION_FINALIZED");
    let id = charged(&app, ROOT, 10).await;
    let other =
        json!({"idempotency_key": "k", "amount": {"unit": "CREDITS", "amount": 1}, "reason": "r"});
    let path = format!("/v1/reservations/{id}/refund");
    app.post(&path, other).await.refused(400, "UNIT_MISMATCH");
    app.post(&path, json!({"idempotency_key": "k", "amount": tokens(1)}))
        .await
        .refused(400, "INVALID_REQUEST");
    app.set_key(&[("permissions", " reservations:commit ")])
        .await;
    assert_eq!(refund(&app, &id, "k", 1).await.status, 403);
    app.post_as_admin(&path, body("k", 1)).await.expect(200);
    // A frozen budget is refunded, a closed tenant's is not.
    app.set_ledger(ROOT, &[("status", "FROZEN")]).await;
    app.post_as_admin(&path, body("k2", 1)).await.expect(200);
    app.set_tenant(&[("status", "CLOSED")]).await;
    app.post_as_admin(&path, body("k3", 1))
        .await
        .refused(409, "TENANT_CLOSED");
    app.post_as_admin(&path, body("k2", 1)).await.expect(200);
}

#[tokio::test]
async fn a_hold_past_its_grace_is_expired_whether_it_was_swept_or_not() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 100, 0).await;
    let active = app.create("a", ROOT, 10, json!({})).await.expect(200);
    let id = active.text("/reservation_id").to_owned();
    app.backdate(&id, 10_000).await;
    for _ in 0..2 {
        refund(&app, &id, "k", 1)
            .await
            .refused(410, "RESERVATION_EXPIRED");
        app.sweep().await;
    }
}

#[tokio::test]
async fn what_debt_was_repaid_since_is_not_given_back() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 40, 60).await;
    let more = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
    let id = app.held(ROOT, 40, more).await;
    app.commit(&id, "c", 100).await.expect(200);
    let fund = format!("/v1/admin/budgets/fund?scope={ROOT}&unit=TOKENS&tenant_id=acme");
    let repay = json!({"operation": "REPAY_DEBT", "amount": tokens(60)});
    app.post_as_admin(&fund, repay).await.expect(200);
    refund(&app, &id, "k", 100).await.expect(200);
    assert_eq!(app.figures(ROOT).await, (40, 0, 0, 0));
    is_right(&app).await;
}

#[tokio::test]
async fn debt_falls_first_and_with_it_the_limit() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 100, 20).await;
    let more = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
    let id = app.held(ROOT, 90, more).await;
    app.commit(&id, "c", 108).await.expect(200);
    assert_eq!(app.figures(ROOT).await, (-8, 0, 100, 8));
    refund(&app, &id, "k", 30).await.expect(200);
    assert_eq!(app.figures(ROOT).await, (22, 0, 78, 0));
    app.set_ledger(ROOT, &[("is_over_limit", "1")]).await;
    refund(&app, &id, "k2", 1).await.expect(200);
    assert_eq!(of_type(&app, "budget.over_limit_exited").await.len(), 1);
    app.create("next", ROOT, 23, json!({})).await.expect(200);
    is_right(&app).await;
}

#[tokio::test]
async fn a_budget_in_a_new_period_is_left_alone_and_listed() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 100, 0).await;
    app.budget(APP, 80, 0).await;
    let id = charged(&app, APP, 60).await;
    let fund = format!("/v1/admin/budgets/fund?scope={APP}&unit=TOKENS&tenant_id=acme");
    let reset =
        json!({"operation": "RESET_SPENT", "amount": tokens(80), "idempotency_key": "reset"});
    app.post_as_admin(&fund, reset).await.expect(200);
    let given = refund(&app, &id, "k", 60).await.expect(200);
    assert_eq!(
        given.at("/not_refunded"),
        &json!([{"scope": APP, "reason": "NEW_PERIOD"}])
    );
    assert_eq!(given.at("/refunded"), &tokens(60));
    assert_eq!(app.figures(ROOT).await, (100, 0, 0, 0));
    assert_eq!(app.figures(APP).await, (80, 0, 0, 0));
    // What is charged in the new period can be given back.
    let held = app
        .post("/v1/reservations", ask_body("new", APP, 5))
        .await
        .expect(200);
    let id = held.text("/reservation_id").to_owned();
    app.commit(&id, "c", 5).await.expect(200);
    let given = refund(&app, &id, "k", 5).await.expect(200);
    assert_eq!(given.at("/not_refunded"), &Value::Null);
    assert_eq!(app.figures(APP).await, (80, 0, 0, 0));
    is_right(&app).await;
}

#[tokio::test]
async fn the_window_of_the_charge_is_used_less() {
    let app = TestApp::spawn().await;
    let limits =
        json!([{"every": "PT1H", "amount": tokens(50)}, {"every": "P1D", "amount": tokens(90)}]);
    let budget =
        json!({"tenant_id": "acme", "scope": ROOT, "unit": "TOKENS", "allocated": tokens(1_000)});
    app.post_as_admin("/v1/admin/budgets", with(budget, json!({"limits": limits})))
        .await
        .expect(201);
    let id = charged(&app, ROOT, 40).await;
    app.create("r", ROOT, 20, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    // As if the hour had begun since the charge.
    let key = app.ledger_key(0, ROOT);
    let stored: String = app.run(&["HGET", &key, "limits"]).await;
    let later = (app.now_ms().await + 1_000).to_string();
    let first = stored.lines().nth(1).expect("a limit");
    let mut words: Vec<&str> = first.split(' ').collect();
    words[4] = &later;
    let moved = stored.replace(first, &words.join(" "));
    app.set_ledger(ROOT, &[("limits", &moved)]).await;
    refund(&app, &id, "k", 30).await.expect(200);
    let lookup = format!("/v1/admin/budgets/lookup?scope={ROOT}&unit=TOKENS");
    let found = app.get_as_admin(&lookup).await.expect(200);
    let used = [found.at("/limits/0/used"), found.at("/limits/1/used")];
    assert_eq!(used, [&tokens(40), &tokens(10)]);
}

#[tokio::test]
async fn refunds_at_once_give_back_what_was_charged_and_no_more() {
    let app = Arc::new(TestApp::spawn().await);
    app.budget(ROOT, 100, 0).await;
    app.budget(APP, 90, 0).await;
    let id = charged(&app, APP, 50).await;
    let fund = format!("/v1/admin/budgets/fund?scope={APP}&unit=TOKENS&tenant_id=acme");
    let renew = json!({"operation": "RENEW", "idempotency_key": "renew"});
    let mut clients = JoinSet::new();
    for number in 0..32 {
        let (app, id) = (app.clone(), id.clone());
        clients.spawn(async move {
            let key = format!("k{number}");
            refund(&app, &id, &key, 2).await.status
        });
    }
    app.post_as_admin(&fund, renew).await.expect(200);
    let ended = clients.join_all().await;
    let given = ended.iter().filter(|status| **status == 200).count();
    assert_eq!(given, 25, "{ended:?}");
    assert_eq!(app.figures(ROOT).await, (100, 0, 0, 0));
    // A refund before the new period changes what it began with, one behind it nothing.
    assert_eq!(app.figures(APP).await, (90, 0, 0, 0));
    is_right(&app).await;
}
