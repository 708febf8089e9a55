//! Temporary increases: what is allocated is higher until they end, by themselves, early or with a reset.

use budget_authority::domain::moment::Moment;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::{Event, tokens, with};

const ROOT: &str = "tenant:acme";
const BUDGETS: &str = "/v1/admin/budgets";

fn path(operation: &str) -> String {
    format!("{BUDGETS}{operation}?scope={ROOT}&unit=TOKENS&tenant_id=acme")
}

async fn budget(app: &TestApp, allocated: i64, more: Value) {
    let body = json!({"tenant_id": "acme", "scope": ROOT, "unit": "TOKENS", "allocated": tokens(allocated)});
    app.post_as_admin(BUDGETS, with(body, more))
        .await
        .expect(201);
}

async fn increase(app: &TestApp, key: &str, amount: i64, lasting: &str) -> Response {
    let body = json!({"amount": tokens(amount), "for": lasting, "reason": "a peak", "idempotency_key": key});
    app.post_as_admin(&path("/increases"), body).await
}

/// Moves the end of the increase into the past, as stored, and when the ledger turns.
async fn age(app: &TestApp, increase_id: &str, ago_ms: i64) {
    let key = app.ledger_key(0, ROOT);
    let stored: String = app.run(&["HGET", &key, "increases"]).await;
    let at_ms = app.now_ms().await - ago_ms;
    let lines = stored
        .lines()
        .map(|line| match line.starts_with(increase_id) {
            false => line.to_owned(),
            true => {
                let words: Vec<&str> = line.splitn(4, ' ').collect();
                let mut kept: Value = serde_json::from_str(words[3]).expect("JSON");
                kept["until"] = Moment::from_ms(at_ms).expect("a time").to_string().into();
                format!("{} {} {at_ms} {kept}", words[0], words[1])
            }
        });
    let moved = lines.collect::<Vec<_>>().join("\n");
    let turns = at_ms.to_string();
    app.set_ledger(ROOT, &[("increases", &moved), ("turns_at_ms", &turns)])
        .await;
}

async fn of_type(app: &TestApp, event_type: &str) -> Vec<Event> {
    let mut events = app.events().await;
    events.retain(|event| event.get("type") == event_type);
    events
}

async fn end(app: &TestApp, increase_id: &str) -> Response {
    let path = path(&format!("/increases/{increase_id}"));
    app.as_admin(Method::DELETE, &path, &Value::Null).await
}

#[tokio::test]
async fn an_increase_ends_by_itself_and_what_was_spent_stays_spent() {
    for app in TestApp::spawn_both().await {
        budget(&app, 100, json!({})).await;
        let made = increase(&app, "k", 50, "P2D").await.expect(201);
        assert_eq!(made.at("/budget/allocated"), &tokens(150));
        assert_eq!(
            made.at("/budget/increases/0/increase_id"),
            made.at("/increase_id")
        );
        assert_eq!(
            (made.text("reason"), made.text("/actor/type")),
            ("a peak", "admin_on_behalf_of")
        );
        app.post_event("e", ROOT, 130, json!({})).await.expect(201);
        let id = made.text("/increase_id").to_owned();
        age(&app, &id, 1_000).await;
        // Readers see it first.
        let found = app.get_as_admin(&path("/lookup")).await.expect(200);
        assert_eq!(
            (found.at("/allocated"), found.at("/increases")),
            (&tokens(100), &Value::Null)
        );
        assert_eq!(app.figures(ROOT).await, (-30, 0, 130, 0));
        app.create("r", ROOT, 1, json!({}))
            .await
            .refused(409, "BUDGET_EXCEEDED");
        let ended = of_type(&app, "budget.increase_ended").await;
        let lines: Vec<_> = ended
            .iter()
            .map(|event| event.line(&["data.increase_id", "data.amount", "actor"]))
            .collect();
        assert_eq!(
            lines,
            [format!("budget.increase_ended {ROOT} {id} 50 scheduler")]
        );
        let started = of_type(&app, "budget.increase_started").await;
        assert_eq!(
            started[0].line(&["data.increase_id", "data.amount", "data.reason"]),
            format!("budget.increase_started {ROOT} {id} 50 a peak")
        );
        // What is spent beyond is no debt, and the next operation changes nothing more.
        app.decide("d", ROOT, 1).await.expect(200);
        assert_eq!(of_type(&app, "budget.increase_ended").await.len(), 1);
    }
}

#[tokio::test]
async fn an_increase_is_made_once_and_ended_once() {
    let app = TestApp::spawn().await;
    budget(&app, 100, json!({})).await;
    let first = increase(&app, "k", 50, "P2D").await.expect(201);
    let again = increase(&app, "k", 50, "P2D").await.expect(201);
    assert_eq!(first.lasting(), again.lasting());
    increase(&app, "k", 51, "P2D")
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    let id = first.text("/increase_id");
    let ended = end(&app, id).await.expect(200);
    assert_eq!(
        (ended.at("/allocated"), ended.at("/increases")),
        (&tokens(100), &Value::Null)
    );
    let refused = end(&app, id).await.refused(404, "NOT_FOUND");
    assert!(refused.text("message").contains(id), "{refused:?}");
    let ended = of_type(&app, "budget.increase_ended").await;
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].get("actor"), "admin_on_behalf_of");
    app.create("r", ROOT, 101, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
}

#[tokio::test]
async fn a_tenant_with_the_permission_increases_its_own_budgets_alone() {
    let app = TestApp::spawn().await;
    budget(&app, 100, json!({})).await;
    let body = json!({"amount": tokens(5), "for": "PT36H", "reason": "r", "idempotency_key": "k"});
    app.set_key(&[("permissions", " budgets:read ")]).await;
    let poor = app.post(&path("/increases"), body.clone()).await;
    assert_eq!(poor.status, 403);
    app.set_key(&[("permissions", " budgets:write ")]).await;
    let made = app
        .post(&path("/increases"), body.clone())
        .await
        .expect(201);
    assert_eq!(made.text("/actor/type"), "api_key");
    let other = format!("{BUDGETS}/increases?scope=tenant:other&unit=TOKENS");
    let body = with(body, json!({"idempotency_key": "other"}));
    app.post(&other, body).await.refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn what_cannot_be_increased_is_refused_and_stays() {
    let app = TestApp::spawn().await;
    budget(&app, i64::MAX - 10, json!({})).await;
    let past = json!({"amount": tokens(1), "until": "2026-01-01T00:00:00Z", "reason": "r"});
    let late = json!({"amount": tokens(1), "until": "2099-01-01T00:00:00Z", "reason": "r"});
    for body in [past, late] {
        let refused = app.post_as_admin(&path("/increases"), body).await;
        let refused = refused.refused(400, "INVALID_REQUEST");
        assert!(
            refused
                .text("message")
                .contains("until: must lie in the future"),
            "{refused:?}"
        );
    }
    let refused = increase(&app, "late", 1, "P11Y").await;
    let refused = refused.refused(400, "INVALID_REQUEST");
    assert!(
        refused.text("message").contains("for: must be a positive"),
        "{refused:?}"
    );
    increase(&app, "over", 11, "P1D")
        .await
        .refused(400, "INVALID_REQUEST");
    for number in 0..8 {
        increase(&app, &format!("k{number}"), 1, "P1D")
            .await
            .expect(201);
    }
    let refused = increase(&app, "k8", 1, "P1D")
        .await
        .refused(400, "LIMIT_EXCEEDED");
    assert_eq!(
        (refused.at("/details/limit"), refused.at("/details/present")),
        (&json!(8), &json!(9))
    );
    app.set_ledger(ROOT, &[("status", "FROZEN")]).await;
    increase(&app, "k9", 1, "P1D")
        .await
        .refused(409, "BUDGET_FROZEN");
    let found = app.get_as_admin(&path("/lookup")).await.expect(200);
    let id = found.text("/increases/0/increase_id").to_owned();
    end(&app, &id).await.refused(409, "BUDGET_FROZEN");
    // The timed end still happens.
    age(&app, &id, 1).await;
    app.create("r", ROOT, 1, json!({}))
        .await
        .refused(409, "BUDGET_FROZEN");
    assert_eq!(of_type(&app, "budget.increase_ended").await.len(), 1);
}

#[tokio::test]
async fn a_reset_ends_all_of_them_and_a_new_period_keeps_them() {
    let app = TestApp::spawn().await;
    let more = json!({"period": {"every": "P1M"}, "rollover_policy": "CARRY_FORWARD"});
    budget(&app, 100, more).await;
    increase(&app, "k1", 50, "P2D").await.expect(201);
    increase(&app, "k2", 7, "P3D").await.expect(201);
    app.post_event("e", ROOT, 40, json!({})).await.expect(201);
    let fund = async |body: Value| app.post_as_admin(&path("/fund"), body).await;
    // 60 of the regular 100 are left.
    let body = json!({"operation": "RENEW", "idempotency_key": "renew"});
    let renewed = fund(body).await.expect(200);
    assert_eq!(renewed.at("/new_allocated"), &tokens(217));
    let body = json!({"operation": "RESET", "amount": tokens(30), "idempotency_key": "reset"});
    let reset = fund(body).await.expect(200);
    assert_eq!(reset.at("/new_allocated"), &tokens(30));
    assert_eq!(of_type(&app, "budget.increase_ended").await.len(), 2);
    let found = app.get_as_admin(&path("/lookup")).await.expect(200);
    assert_eq!(found.at("/increases"), &Value::Null);
    assert_eq!(found.at("/period/allocated"), &tokens(100));
}

#[tokio::test]
async fn what_a_period_gets_is_copied_without_increases() {
    let app = TestApp::spawn().await;
    budget(&app, 100, json!({})).await;
    increase(&app, "k", 50, "P2D").await.expect(201);
    let changed = app
        .patch_as_admin(&path(""), json!({"period": {"every": "P1D"}}))
        .await
        .expect(200);
    assert_eq!(changed.at("/period/allocated"), &tokens(100));
    assert_eq!(changed.at("/allocated"), &tokens(150));
}
