//! The status of a tenant: what closed, suspended and unreadable tenants may still do, and the order of the checks.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::{ask_body, event_body, ledger, with};

const ROOT: &str = "tenant:acme";

/// Status and code of a response, or the reason of a 200 with a denial.
fn outcome(response: &Response) -> (u16, String) {
    let reason = response.at("/reason_code").as_str();
    (
        response.status,
        reason.unwrap_or(response.error().1).to_owned(),
    )
}

/// Puts the tenant's record into a state; `none` removes it.
async fn enter(app: &TestApp, state: &str) {
    let key = app.tenant_key();
    app.run::<()>(&["DEL", &key]).await;
    match state {
        "none" => {}
        "text" => app.run::<()>(&["SET", &key, "not json"]).await,
        "no status" => app.set_tenant(&[("max_reservation_extensions", "3")]).await,
        status => app.set_tenant(&[("status", status)]).await,
    }
}

#[tokio::test]
async fn the_tenants_status_decides_which_operations_it_may_call() {
    let good = [200, 200, 200, 201, 200, 200, 200];
    let rows = [
        ("ACTIVE", good, "none", "none"),
        ("none", good, "none", "none"),
        (
            "SUSPENDED",
            [403, 200, 200, 403, 200, 200, 200],
            "FORBIDDEN",
            "TENANT_SUSPENDED",
        ),
        (
            "CLOSED",
            [409, 200, 200, 409, 409, 409, 409],
            "TENANT_CLOSED",
            "TENANT_CLOSED",
        ),
        ("closed", [500; 7], "INTERNAL_ERROR", "INTERNAL_ERROR"),
        ("PAUSED", [500; 7], "INTERNAL_ERROR", "INTERNAL_ERROR"),
        ("no status", [500; 7], "INTERNAL_ERROR", "INTERNAL_ERROR"),
        ("text", [500; 7], "INTERNAL_ERROR", "INTERNAL_ERROR"),
    ];
    for (state, statuses, code, reason) in rows {
        let app = TestApp::spawn().await;
        app.budget(ROOT, 1_000, 0).await;
        let to_commit = app.held("tenant:acme/app:c", 100, json!({})).await;
        let to_release = app.held("tenant:acme/app:r", 100, json!({})).await;
        enter(&app, state).await;
        let responses = [
            app.reserve("k1", 10).await,
            app.dry_run("k2", ROOT, 10).await,
            app.decide("k3", ROOT, 10).await,
            app.post_event("k4", ROOT, 10, json!({})).await,
            app.extend(&to_commit, "k5", 10).await,
            app.commit(&to_commit, "k6", 100).await,
            app.release(&to_release, "k7").await,
        ];
        for (number, (response, status)) in responses.iter().zip(statuses).enumerate() {
            let word = match number {
                1 | 2 => reason,
                _ if status < 300 => "none",
                _ => code,
            };
            assert_eq!(
                outcome(response),
                (status, word.to_owned()),
                "{state}, operation {number}: {response:?}"
            );
        }
        let expected = match state {
            "ACTIVE" | "none" => ledger(880, 10, 110, 0),
            "SUSPENDED" => ledger(900, 0, 100, 0),
            _ => ledger(800, 200, 0, 0),
        };
        assert_eq!(app.stored_ledger(ROOT).await, expected, "{state}");
    }
}

#[tokio::test]
async fn reads_are_allowed_in_every_status() {
    for state in ["CLOSED", "SUSPENDED", "closed", "text", "none"] {
        let app = TestApp::spawn().await;
        app.budget(ROOT, 1_000, 0).await;
        let id = app.held(ROOT, 100, json!({})).await;
        enter(&app, state).await;
        assert_eq!(app.found(&id).await.status, 200, "{state}");
        let listed = app.get("/v1/reservations").await;
        assert_eq!(
            listed.at("/reservations/0/reservation_id"),
            &json!(id),
            "{state}"
        );
        let balances = app.get("/v1/balances?tenant=acme").await;
        assert_eq!(balances.at("/balances/0/scope"), ROOT, "{state}");
    }
}

#[tokio::test]
async fn an_unreadable_tenant_is_refused_before_anything_is_written() {
    for state in ["closed", "text"] {
        let app = TestApp::spawn().await;
        app.budget(ROOT, 1_000, 0).await;
        let id = app.held(ROOT, 100, json!({})).await;
        enter(&app, state).await;
        let before = app.everything().await;
        app.reserve("k1", 10).await;
        app.dry_run("k2", ROOT, 10).await;
        app.decide("k3", ROOT, 10).await;
        app.post_event("k4", ROOT, 10, json!({})).await;
        app.extend(&id, "k5", 10).await;
        app.commit(&id, "k6", 100).await;
        app.release(&id, "k7").await;
        assert!(app.everything().await == before, "{state}");
    }
}

#[tokio::test]
async fn the_tenants_status_is_checked_before_the_reservations() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let mut ids = Vec::new();
    for end in ["commit", "release", "lapse", "expire"] {
        let id = app
            .held(&format!("tenant:acme/app:{end}"), 10, json!({}))
            .await;
        match end {
            "commit" => drop(app.commit(&id, "c", 10).await),
            "release" => drop(app.release(&id, "r").await),
            "expire" => {
                app.backdate(&id, 60_000).await;
                assert_eq!(app.sweep().await, 1);
            }
            _ => {}
        }
        ids.push(id);
    }
    app.backdate(&ids[2], 60_000).await;
    app.set_tenant(&[("status", "CLOSED")]).await;
    for id in &ids {
        let closed = (409, "TENANT_CLOSED");
        assert_eq!(app.commit(id, "x", 10).await.error(), closed);
        assert_eq!(app.release(id, "x").await.error(), closed);
        assert_eq!(app.extend(id, "x", 10).await.error(), closed);
        assert_eq!(app.admin_release(id, "x").await.error(), closed);
    }
}

#[tokio::test]
async fn existence_and_ownership_are_checked_before_the_tenants_status_and_missing_budgets_after_it()
 {
    let app = TestApp::spawn().await;
    app.budget_of(1, "tenant:bolt", 500).await;
    let response = app
        .post_as(1, "/v1/reservations", &ask_body("k", "tenant:bolt", 50))
        .await;
    let foreign = response.text("/reservation_id");
    app.set_tenant(&[("status", "CLOSED")]).await;
    app.commit("nonsense", "x", 1)
        .await
        .refused(404, "NOT_FOUND");
    app.commit(foreign, "x", 1).await.refused(403, "FORBIDDEN");
    let closed = app.reserve("k", 1).await.refused(409, "TENANT_CLOSED");
    assert!(closed.text("/message").contains("acme"), "{closed:?}");
    app.post_event("k", ROOT, 1, json!({}))
        .await
        .refused(409, "TENANT_CLOSED");
    let dry = app.dry_run("k", ROOT, 1).await;
    assert_eq!(dry.at("/reason_code"), "TENANT_CLOSED");
    let credits = json!({"estimate": {"unit": "CREDITS", "amount": 1}});
    let response = app
        .post("/v1/decide", with(ask_body("k", ROOT, 1), credits))
        .await;
    assert_eq!(response.at("/reason_code"), "TENANT_CLOSED");
}

#[tokio::test]
async fn successes_before_the_close_are_replayed_after_it() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let created = app.reserve("k", 100).await;
    let id = created.text("/reservation_id").to_owned();
    let other = app.held("tenant:acme/app:r", 10, json!({})).await;
    let commit = json!({"idempotency_key": "c", "actual": {"unit": "TOKENS", "amount": 90}});
    let release = json!({"idempotency_key": "r"});
    let extend = json!({"idempotency_key": "e", "extend_by_ms": 10});
    let path = |id: &str, operation: &str| format!("/v1/reservations/{id}/{operation}");
    let requests: Vec<(String, Value)> = vec![
        (path(&id, "extend"), extend),
        (path(&id, "commit"), commit.clone()),
        (path(&other, "release"), release),
        ("/v1/events".to_owned(), event_body("k", ROOT, 5)),
        ("/v1/decide".to_owned(), ask_body("k", ROOT, 5)),
        (
            "/v1/reservations".to_owned(),
            with(ask_body("d", ROOT, 5), json!({"dry_run": true})),
        ),
    ];
    let mut first = Vec::new();
    for (path, body) in &requests {
        first.push(app.post(path, body.clone()).await);
    }
    app.set_tenant(&[("status", "CLOSED")]).await;
    let before = app.everything().await;
    for ((path, body), then) in requests.iter().zip(first) {
        let mut now = app.post(path, body.clone()).await;
        if path.ends_with("extend") {
            assert_eq!(now.body["remaining_ttl_ms"], 0);
            now.body["remaining_ttl_ms"] = then.body["remaining_ttl_ms"].clone();
        }
        assert_eq!((now.status, now.body), (then.status, then.body), "{path}");
    }
    let again = app.reserve("k", 100).await;
    assert_eq!(again.at("/reservation_id"), &json!(id));
    app.commit(&id, "c", 91)
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    app.commit(&id, "d", 90).await.refused(409, "TENANT_CLOSED");
    assert!(app.everything().await == before, "and nothing was written");
    assert_eq!(
        app.decide("new", ROOT, 5).await.at("/reason_code"),
        "TENANT_CLOSED"
    );
}

#[tokio::test]
async fn the_sweep_runs_for_closed_and_suspended_tenants_too() {
    for state in ["CLOSED", "SUSPENDED", "closed"] {
        let app = TestApp::spawn().await;
        app.budget(ROOT, 1_000, 0).await;
        let id = app.held(ROOT, 100, json!({})).await;
        app.backdate(&id, 60_000).await;
        app.set_tenant(&[("status", state)]).await;
        assert_eq!(app.sweep().await, 1, "{state}");
        assert_eq!(
            app.stored_ledger(ROOT).await,
            ledger(1_000, 0, 0, 0),
            "{state}"
        );
    }
}

#[tokio::test]
async fn a_revoked_key_of_a_closed_tenant_is_refused_as_revoked() {
    let app = TestApp::spawn().await;
    app.set_tenant(&[("status", "CLOSED")]).await;
    app.set_key(&[("status", "REVOKED")]).await;
    app.reserve("k", 1).await.refused(401, "UNAUTHORIZED");
    let request = app.request(Method::GET, "/v1/balances?tenant=acme");
    app.send(request).await.refused(401, "UNAUTHORIZED");
}
