//! Changes and states of tenants and budgets over HTTP.

use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, TENANTS, umbra};
use crate::harness::admin_fixture::{AdminFixture, tenant_id};
use crate::harness::app::TestApp;
use crate::harness::eventually;
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::tokens;
use crate::harness::tenant_fixture::TenantFixture;
use budget_authority::store::Lane;

#[tokio::test]
async fn tenants_are_changed_over_http() {
    let app = umbra().await;
    let path = &format!("{TENANTS}/umbra");
    let response = app
        .patch_as_admin(
            path,
            json!({"name": "Umbra two", "metadata": {"team": "x"}, "status": null}),
        )
        .await
        .expect(200);
    assert_eq!(
        (response.text("/name"), response.text("/metadata/team")),
        ("Umbra two", "x")
    );
    assert!(
        response.at("/updated_at").is_string()
            && response.header("x-service-cascade-status").is_none()
    );
    let cleared = app.patch_as_admin(path, json!({"metadata": null})).await;
    assert_eq!(cleared.at("/metadata"), &Value::Null);
    // Rule 14.
    app.patch_as_admin(path, json!({"reservation_expiry_policy": "GRACE_ONLY"}))
        .await
        .refused(400, "INVALID_REQUEST");
    app.patch_as_admin("/v1/admin/tenants/NOBODY", json!({}))
        .await
        .refused(404, "TENANT_NOT_FOUND");
    // Rule 18: the name of a literal route is a tenant's like any other.
    let bulk = json!({"tenant_id": "bulk-action", "name": "b"});
    app.post_as_admin(TENANTS, bulk).await.expect(201);
    let path = &format!("{TENANTS}/bulk-action");
    assert_eq!(
        app.patch_as_admin(path, json!({"status": "SUSPENDED"}))
            .await
            .text("/status"),
        "SUSPENDED"
    );
    assert_eq!(app.get_as_admin(path).await.text("/status"), "SUSPENDED");
    app.patch_as_admin(path, json!({"status": "CLOSED"}))
        .await
        .expect(200);
    app.patch_as_admin(path, json!({"status": "ACTIVE"}))
        .await
        .refused(400, "INVALID_REQUEST");
    let budget = json!({"tenant_id": "bulk-action", "scope": "tenant:bulk-action", "unit": "TOKENS", "allocated": tokens(1)});
    app.post_as_admin(BUDGETS, budget)
        .await
        .refused(409, "TENANT_CLOSED");
}

#[tokio::test]
async fn a_blocked_close_emits_one_event_and_one_audit_entry() {
    let app = umbra().await;
    let store = &app.store;
    let umbra = tenant_id("umbra");
    let key = store
        .keys()
        .budget(umbra.partition(), "umbra", "TOKENS", "tenant:umbra");
    app.run::<()>(&["HSET", &key, "debt", "some"]).await;
    let response = app
        .patch_as_admin(&format!("{TENANTS}/umbra"), json!({"status": "CLOSED"}))
        .await
        .refused(500, "INTERNAL_ERROR");
    assert_eq!(
        response.at("/details/failed_resources"),
        &json!(["budget:tenant:umbra:TOKENS"])
    );
    assert_eq!(
        app.get_as_admin(&format!("{TENANTS}/umbra"))
            .await
            .text("/status"),
        "CLOSED"
    );
    let entries = AdminFixture::on(store.clone()).audit(umbra.partition(), "umbra");
    let of_request: Vec<_> = entries
        .iter()
        .filter(|entry| entry.get("request_id") == response.header("x-request-id"))
        .filter(|entry| entry.get("operation") != Some("tenant_close_cascade"))
        .collect();
    assert_eq!(of_request.len(), 1, "{of_request:?}");
    assert_eq!(of_request[0].get("status"), Some("500"));
}

/// The request succeeds although Redis goes away in the middle of the close: the status has changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_close_responds_that_it_is_in_progress() {
    let redis = tokio::task::block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    // Its requests end before the pause of Redis does.
    let hasty = app.replica(&["--redis-timeout-ms", "1000"]).await;
    let tenant = TenantFixture::on(app.store.clone(), "umbra").await;
    tenant.crowd(50, 30_000).await;
    let (store, key) = (
        app.store.clone(),
        tenant.keys().closing(tenant.id.partition(), "umbra"),
    );
    let watch = tokio::spawn(async move {
        let mut look = redis::cmd("EXISTS");
        look.arg(&key);
        loop {
            let seen = store.send(Lane::Background, (&key, &look)).await;
            if seen.is_ok_and(|seen| redis::from_redis_value::<bool>(seen).expect("a flag")) {
                let mut pause = redis::cmd("CLIENT");
                pause.arg("PAUSE").arg(3_000).arg("WRITE");
                return store.send(Lane::Background, (&key, &pause)).await;
            }
        }
    });
    let response = hasty
        .patch_as_admin(&format!("{TENANTS}/umbra"), json!({"status": "CLOSED"}))
        .await;
    watch.await.expect("no panic").expect("paused");
    assert_eq!(
        (response.status, response.text("/status")),
        (200, "CLOSED"),
        "{response:?}"
    );
    assert_eq!(
        response.header("x-service-cascade-status"),
        Some("in_progress")
    );
    assert_eq!(response.header("retry-after"), Some("1"));
    // Real time, in which the close must not continue: there is no dispatcher.
    tokio::time::sleep(std::time::Duration::from_millis(3_100)).await;
    assert!(tenant.active().await > 0 && tenant.is_closing().await);
    eventually("another close ends", || async {
        let path = format!("{TENANTS}/umbra");
        let again = app
            .patch_as_admin(&path, json!({"status": "CLOSED"}))
            .await
            .expect(200);
        again.header("retry-after").is_none().then_some(())
    })
    .await;
    assert!(!tenant.is_closing().await);
}

#[tokio::test]
async fn budgets_are_changed_and_frozen_over_http() {
    let app = umbra().await;
    let target = "scope=tenant:UMBRA&unit=TOKENS";
    let of = |operation: &str| format!("{BUDGETS}{operation}?{target}");
    let response = app
        .patch_as_admin(
            &of(""),
            json!({"overdraft_limit": tokens(5), "commit_overage_policy": "REJECT"}),
        )
        .await;
    assert_eq!(
        (
            response.at("/overdraft_limit"),
            response.text("/commit_overage_policy")
        ),
        (&tokens(5), "REJECT"),
        "{response:?}"
    );
    let response = app
        .patch_as_admin(
            &of(""),
            json!({"commit_overage_policy": null, "metadata": null}),
        )
        .await;
    assert_eq!(
        (response.status, response.at("/commit_overage_policy")),
        (200, &Value::Null)
    );
    let credits = json!({"overdraft_limit": {"unit": "CREDITS", "amount": 5}});
    app.patch_as_admin(&of(""), credits)
        .await
        .refused(400, "UNIT_MISMATCH");
    app.patch_as_admin(&of(""), json!({"status": "CLOSED"}))
        .await
        .refused(400, "INVALID_REQUEST");
    app.patch_as_admin(BUDGETS, json!({}))
        .await
        .refused(400, "INVALID_REQUEST");

    // No body at all, an empty one, and one with a reason.
    let request = app.request(reqwest::Method::POST, &of("/freeze"));
    let frozen = app
        .send(request.header("X-Admin-API-Key", crate::harness::app::ADMIN_KEY))
        .await;
    assert_eq!(
        (frozen.status, frozen.text("/status")),
        (200, "FROZEN"),
        "{frozen:?}"
    );
    let again = app
        .post_as_admin(&of("/freeze"), json!({}))
        .await
        .refused(409, "INVALID_REQUEST");
    assert!(again.text("/message").ends_with("is already frozen"));
    let unfrozen = app
        .post_as_admin(&of("/unfreeze"), json!({"reason": "over", "metadata": {}}))
        .await;
    assert_eq!(unfrozen.text("/status"), "ACTIVE");
    let again = app.post_as_admin(&of("/unfreeze"), json!({})).await;
    assert!(
        again.error() == (409, "INVALID_REQUEST")
            && again.text("/message").ends_with("is not frozen")
    );
    app.post_as_admin(&of("/freeze"), json!({"why": 1}))
        .await
        .refused(400, "INVALID_REQUEST");
    let unknown = format!("{BUDGETS}/freeze?scope=tenant:umbra/agent:x&unit=TOKENS");
    app.post_as_admin(&unknown, json!({}))
        .await
        .refused(404, "BUDGET_NOT_FOUND");
    let entries = app.admin_fixture().tenant_audit("umbra");
    let failed = entries
        .iter()
        .filter(|entry| entry.get("error_code").is_some());
    assert_eq!(
        failed.count(),
        4,
        "a refusal after the target was read is recorded with its tenant"
    );
}
