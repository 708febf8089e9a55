//! The order in which the operations on policies check their requests.

use serde_json::{Value, json};

use super::{create, patch};
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::with;

const ROOT: &str = "tenant:acme";

/// A key of the first tenant.
async fn key(app: &TestApp, permissions: &str, filter: &str) -> String {
    app.add_key(0, &[("permissions", permissions), ("scope_filter", filter)])
        .await
}

#[tokio::test]
async fn a_create_is_checked_in_the_documented_order() {
    let app = TestApp::spawn().await;
    app.policy("taken", ROOT, json!({})).await;
    let writer = key(&app, " policies:write ", "").await;
    let restricted = key(&app, " policies:write ", "agent:*").await;
    let unusable = key(&app, " policies:write ", "*").await;
    let fenced = key(&app, " policies:write ", "tenant:acme/app:x").await;
    let reader = key(&app, " policies:read ", "").await;
    let body = |tenant: Value, pattern: &str| json!({"name": "taken", "scope_pattern": pattern, "tenant_id": tenant});
    let null = Value::Null;
    let invalid = (400, "INVALID_REQUEST");
    let checks = [
        (
            Some("sk_live_nonsense"),
            body(json!(1), "x"),
            (401, "UNAUTHORIZED"),
        ),
        (
            Some(&*reader),
            body(json!(1), "x"),
            (403, "INSUFFICIENT_PERMISSIONS"),
        ),
        (Some(&*restricted), body(json!("acme"), "agent:*"), invalid),
        (
            Some(&*restricted),
            body(json!("acme"), "tenant:acme/*"),
            (403, "FORBIDDEN"),
        ),
        (
            Some(&*restricted),
            body(json!("bolt"), "tenant:bolt/agent:*"),
            invalid,
        ),
        (
            Some(&*unusable),
            body(null.clone(), "tenant:acme/*"),
            (403, "FORBIDDEN"),
        ),
        (
            Some(&*fenced),
            body(null.clone(), "tenant:acme/app:*"),
            (403, "FORBIDDEN"),
        ),
        (
            Some(&*fenced),
            body(null.clone(), "tenant:acme/app:x/*"),
            (409, "DUPLICATE_RESOURCE"),
        ),
        (Some(&*writer), body(json!("acme"), ROOT), invalid),
        (Some(&*writer), body(null.clone(), "tenant:bolt"), invalid),
        (Some(&*writer), body(null.clone(), "tenant:ACME"), invalid),
        (
            Some(&*writer),
            body(null.clone(), "tenant:acme/*/agent:x"),
            invalid,
        ),
        (
            Some(&*writer),
            body(null.clone(), ROOT),
            (409, "DUPLICATE_RESOURCE"),
        ),
        (None, body(null.clone(), ROOT), invalid),
        (None, body(json!(" "), ROOT), invalid),
        (None, body(json!("bolt"), ROOT), invalid),
        (
            None,
            body(json!("nobody"), "tenant:nobody"),
            (400, "TENANT_NOT_FOUND"),
        ),
        (None, body(json!("no body"), "tenant:nobody"), invalid),
        (
            None,
            body(json!("NOBODY"), "tenant:NOBODY"),
            (400, "TENANT_NOT_FOUND"),
        ),
        (None, body(json!("acme"), ROOT), (409, "DUPLICATE_RESOURCE")),
    ];
    for (key, body, expected) in &checks {
        assert_eq!(create(&app, *key, body).await.error(), *expected, "{body}");
    }
    let allowed = json!({"name": "n", "scope_pattern": "tenant:acme/agent:*"});
    create(&app, Some(&restricted), &allowed).await.expect(201);

    let taken = json!({"name": "taken", "scope_pattern": ROOT});
    let by_admin = with(taken.clone(), json!({"tenant_id": "acme"}));
    for (status, own, admin) in [
        ("SUSPENDED", (403, "FORBIDDEN"), invalid),
        ("CLOSED", (409, "TENANT_CLOSED"), (409, "TENANT_CLOSED")),
        ("closed", (500, "INTERNAL_ERROR"), (500, "INTERNAL_ERROR")),
    ] {
        app.set_tenant(&[("status", status)]).await;
        assert_eq!(
            create(&app, Some(&writer), &taken).await.error(),
            own,
            "{status}"
        );
        assert_eq!(
            create(&app, None, &by_admin).await.error(),
            admin,
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_change_is_checked_in_the_documented_order() {
    let app = TestApp::spawn().await;
    let id = app.policy("p", "tenant:acme/agent:x", json!({})).await;
    app.policy("taken", ROOT, json!({})).await;
    let (writer, reader) = (
        key(&app, " policies:write ", "").await,
        key(&app, " policies:read ", "").await,
    );
    let restricted = key(&app, " policies:write ", "agent:y").await;
    let allowed = key(&app, " admin:write ", "agent:*").await;
    let rename = json!({"name": "taken"});
    app.set_tenant(&[("status", "CLOSED")]).await;
    for (key, id, expected) in [
        (Some(&*reader), "x", (403, "INSUFFICIENT_PERMISSIONS")),
        (Some(&*restricted), "x", (404, "NOT_FOUND")),
        (Some(&*restricted), &*id, (403, "FORBIDDEN")),
        (Some(&*writer), &*id, (409, "TENANT_CLOSED")),
        (None, &*id, (409, "TENANT_CLOSED")),
    ] {
        assert_eq!(
            patch(&app, key, id, &rename).await.error(),
            expected,
            "{key:?} {id}"
        );
    }
    app.set_tenant(&[("status", "SUSPENDED")]).await;
    patch(&app, Some(&writer), &id, &rename)
        .await
        .refused(403, "FORBIDDEN");
    patch(&app, None, &id, &rename)
        .await
        .refused(409, "DUPLICATE_RESOURCE");
    assert_eq!(
        patch(&app, None, &id, &json!({"priority": 1})).await.status,
        200,
        "the admin key may"
    );
    app.set_tenant(&[("status", "ACTIVE")]).await;
    patch(&app, Some(&writer), &id, &rename)
        .await
        .refused(409, "DUPLICATE_RESOURCE");
    patch(&app, Some(&allowed), &id, &json!({"priority": 2}))
        .await
        .expect(200);
    // Each refusal is recorded once with the tenant whose policy it is.
    let refused = app.admin_fixture().tenant_audit("acme").into_iter();
    let refused = refused.filter(|entry| {
        entry
            .get("operation")
            .is_some_and(|name| name.starts_with("PATCH:"))
    });
    assert_eq!(refused.count(), 8);
}
