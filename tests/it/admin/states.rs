//! Changes and states of tenants and budgets over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, TENANTS, get, post, tokens, umbra};
use crate::harness::app::{ADMIN_KEY, Said, TestApp};
use crate::harness::desk::{Desk, tenant_id};
use crate::harness::estate::Estate;
use crate::harness::eventually;
use crate::harness::redis::RedisServer;

async fn patch(app: &TestApp, path: &str, body: Value) -> Said {
    let request = app.request(Method::PATCH, path).json(&body);
    app.send(request.header("X-Admin-API-Key", ADMIN_KEY)).await
}

#[tokio::test]
async fn tenants_are_changed_over_http() {
    let app = umbra().await;
    let path = &format!("{TENANTS}/umbra");
    let said = patch(
        &app,
        path,
        json!({"name": "Umbra two", "metadata": {"team": "x"}, "status": null}),
    )
    .await;
    assert_eq!(said.status, 200, "{said:?}");
    assert_eq!(
        (said.text("/name"), said.text("/metadata/team")),
        ("Umbra two", "x")
    );
    assert!(
        said.at("/updated_at").is_string() && said.header("x-service-cascade-status").is_none()
    );
    let cleared = patch(&app, path, json!({"metadata": null})).await;
    assert_eq!(cleared.at("/metadata"), &Value::Null);
    // Rule 14.
    let fixed = patch(
        &app,
        path,
        json!({"reservation_expiry_policy": "GRACE_ONLY"}),
    )
    .await;
    assert_eq!(fixed.error(), (400, "INVALID_REQUEST"));
    let unknown = patch(&app, "/v1/admin/tenants/NOBODY", json!({})).await;
    assert_eq!(unknown.error(), (404, "TENANT_NOT_FOUND"));
    // Rule 18: the name of a literal route is a tenant's like any other.
    let bulk = json!({"tenant_id": "bulk-action", "name": "b"});
    assert_eq!(post(&app, TENANTS, bulk).await.status, 201);
    let path = &format!("{TENANTS}/bulk-action");
    assert_eq!(
        patch(&app, path, json!({"status": "SUSPENDED"}))
            .await
            .text("/status"),
        "SUSPENDED"
    );
    assert_eq!(get(&app, path).await.text("/status"), "SUSPENDED");
    assert_eq!(
        patch(&app, path, json!({"status": "CLOSED"})).await.status,
        200
    );
    let leaving = patch(&app, path, json!({"status": "ACTIVE"})).await;
    assert_eq!(leaving.error(), (400, "INVALID_REQUEST"));
    let budget = json!({"tenant_id": "bulk-action", "scope": "tenant:bulk-action", "unit": "TOKENS", "allocated": tokens(1)});
    assert_eq!(
        post(&app, BUDGETS, budget).await.error(),
        (409, "TENANT_CLOSED")
    );
}

#[tokio::test]
async fn a_close_that_something_stands_against_is_told_and_booked_once() {
    let app = umbra().await;
    let store = &app.world.store;
    let umbra = tenant_id("umbra");
    let key = store
        .keys()
        .budget(umbra.partition(), "umbra", "TOKENS", "tenant:umbra");
    app.world.redis(&["HSET", &key, "debt", "some"]).await;
    let said = patch(
        &app,
        &format!("{TENANTS}/umbra"),
        json!({"status": "CLOSED"}),
    )
    .await;
    assert_eq!(said.error(), (500, "INTERNAL_ERROR"));
    assert_eq!(
        said.at("/details/failed_resources"),
        &json!(["budget:tenant:umbra:TOKENS"])
    );
    assert_eq!(
        get(&app, &format!("{TENANTS}/umbra")).await.text("/status"),
        "CLOSED"
    );
    let entries = Desk::on(store.clone()).audit(umbra.partition(), "umbra");
    let of_request: Vec<_> = entries
        .iter()
        .filter(|entry| entry.get("request_id") == said.header("x-request-id"))
        .filter(|entry| entry.get("operation") != Some("tenant_close_cascade"))
        .collect();
    assert_eq!(of_request.len(), 1, "{of_request:?}");
    assert_eq!(of_request[0].get("status"), Some("500"));
}

/// The request is answered though Redis goes away in the middle of the close: what it was for has happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_that_cannot_go_on_answers_that_it_is_in_progress() {
    let redis = tokio::task::block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&redis.url(), &["--redis-timeout-ms", "400"]).await;
    let estate = Estate::on(app.world.store.clone(), "umbra").await;
    estate.crowd(50, 30_000).await;
    let (store, key) = (
        app.world.store.clone(),
        estate.keys().closing(estate.tenant.partition(), "umbra"),
    );
    let watch = tokio::spawn(async move {
        let mut look = redis::cmd("EXISTS");
        look.arg(&key);
        loop {
            let seen = store.query(&key, &look).await;
            if seen.is_ok_and(|seen| redis::from_redis_value::<bool>(seen).expect("a flag")) {
                let mut pause = redis::cmd("CLIENT");
                pause.arg("PAUSE").arg(2_000).arg("WRITE");
                return store.query(&key, &pause).await;
            }
        }
    });
    let said = patch(
        &app,
        &format!("{TENANTS}/umbra"),
        json!({"status": "CLOSED"}),
    )
    .await;
    watch.await.expect("no panic").expect("paused");
    assert_eq!(
        (said.status.as_u16(), said.text("/status")),
        (200, "CLOSED"),
        "{said:?}"
    );
    assert_eq!(said.header("x-service-cascade-status"), Some("in_progress"));
    assert_eq!(said.header("retry-after"), Some("1"));
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    assert!(estate.active().await > 0 && estate.is_closing().await);
    eventually("another close comes to its end", || async {
        let path = format!("{TENANTS}/umbra");
        let again = patch(&app, &path, json!({"status": "CLOSED"})).await;
        assert_eq!(again.status, 200);
        again.header("retry-after").is_none().then_some(())
    })
    .await;
    assert!(!estate.is_closing().await);
}

#[tokio::test]
async fn budgets_are_changed_and_frozen_over_http() {
    let app = umbra().await;
    let target = "scope=tenant:UMBRA&unit=TOKENS";
    let of = |verb: &str| format!("{BUDGETS}{verb}?{target}");
    let said = patch(
        &app,
        &of(""),
        json!({"overdraft_limit": tokens(5), "commit_overage_policy": "REJECT"}),
    )
    .await;
    assert_eq!(
        (
            said.at("/overdraft_limit"),
            said.text("/commit_overage_policy")
        ),
        (&tokens(5), "REJECT"),
        "{said:?}"
    );
    let said = patch(
        &app,
        &of(""),
        json!({"commit_overage_policy": null, "metadata": null}),
    )
    .await;
    assert_eq!(
        (said.status.as_u16(), said.at("/commit_overage_policy")),
        (200, &Value::Null)
    );
    let credits = json!({"overdraft_limit": {"unit": "CREDITS", "amount": 5}});
    assert_eq!(
        patch(&app, &of(""), credits).await.error(),
        (400, "UNIT_MISMATCH")
    );
    assert_eq!(
        patch(&app, &of(""), json!({"status": "CLOSED"}))
            .await
            .error(),
        (400, "INVALID_REQUEST")
    );
    assert_eq!(
        patch(&app, BUDGETS, json!({})).await.error(),
        (400, "INVALID_REQUEST")
    );

    // No body at all, an empty one, and one with a reason.
    let request = app.request(reqwest::Method::POST, &of("/freeze"));
    let frozen = app
        .send(request.header("X-Admin-API-Key", crate::harness::app::ADMIN_KEY))
        .await;
    assert_eq!(
        (frozen.status.as_u16(), frozen.text("/status")),
        (200, "FROZEN"),
        "{frozen:?}"
    );
    let again = post(&app, &of("/freeze"), json!({})).await;
    assert_eq!(again.error(), (409, "INVALID_REQUEST"));
    assert!(again.text("/message").ends_with("is already frozen"));
    let unfrozen = post(
        &app,
        &of("/unfreeze"),
        json!({"reason": "over", "metadata": {}}),
    )
    .await;
    assert_eq!(unfrozen.text("/status"), "ACTIVE");
    let again = post(&app, &of("/unfreeze"), json!({})).await;
    assert!(
        again.error() == (409, "INVALID_REQUEST")
            && again.text("/message").ends_with("is not frozen")
    );
    assert_eq!(
        post(&app, &of("/freeze"), json!({"why": 1})).await.error(),
        (400, "INVALID_REQUEST")
    );
    let unknown = format!("{BUDGETS}/freeze?scope=tenant:umbra/agent:x&unit=TOKENS");
    assert_eq!(
        post(&app, &unknown, json!({})).await.error(),
        (404, "BUDGET_NOT_FOUND")
    );
    let entries = Desk::on(app.world.store.clone()).tenant_audit("umbra");
    let failed = entries
        .iter()
        .filter(|entry| entry.get("error_code").is_some());
    assert_eq!(
        failed.count(),
        4,
        "a refusal after the target was read is booked with its tenant"
    );
}
