//! Tenants.

use reqwest::Method;
use serde_json::json;
use tokio::join;

use super::{INVALID, events};
use crate::admin::http::TENANTS;
use crate::harness::app::TestApp;

#[tokio::test]
async fn rule_11_the_same_id_and_name_create_a_tenant_once() {
    let app = TestApp::spawn().await;
    let first = json!({"tenant_id": "umbra", "name": "Umbra", "max_reservation_extensions": 3});
    let made = app.post_as_admin(TENANTS, first).await;
    let again = json!({"tenant_id": "umbra", "name": "Umbra", "max_reservation_extensions": 7});
    let found = app.post_as_admin(TENANTS, again).await;
    assert_eq!((made.status, found.status), (201, 200));
    assert_eq!(found.body, made.body);
    assert_eq!(events(&app, "tenant.created").len(), 1);
}

#[tokio::test]
async fn rule_12_another_name_is_refused_and_one_of_two_concurrent_creates_wins() {
    let app = TestApp::spawn().await;
    for round in 0..10 {
        let id = format!("umbra-{round}");
        let body = |name: &str| json!({"tenant_id": id, "name": name});
        let (one, other) = join!(
            app.post_as_admin(TENANTS, body("Umbra")),
            app.post_as_admin(TENANTS, body("Umbra"))
        );
        let mut statuses = [one.status, other.status];
        statuses.sort();
        assert_eq!(statuses, [200, 201], "{one:?} {other:?}");
        app.post_as_admin(TENANTS, body("Penumbra"))
            .await
            .refused(409, "DUPLICATE_RESOURCE");
        assert_eq!(app.admin_fixture().event_types(&id), ["tenant.created"]);
    }
}

#[tokio::test]
async fn rule_13_a_tenant_id_has_a_length_and_characters() {
    let app = TestApp::spawn().await;
    for (id, status) in [
        ("ab", 400),
        ("abc", 201),
        (&*"a".repeat(64), 201),
        (&*"a".repeat(65), 400),
        ("Umbra", 400),
        ("um_bra", 400),
        ("um.bra", 400),
        ("um bra", 400),
        ("ümbra", 400),
        ("system", 400),
        ("-0-", 201),
    ] {
        let response = app
            .post_as_admin(TENANTS, json!({"tenant_id": id, "name": "n"}))
            .await;
        assert_eq!(response.status, status, "{id}: {response:?}");
    }
}

#[tokio::test]
async fn rule_14_fixed_members_of_a_tenant_cannot_be_updated() {
    let app = TestApp::spawn().await;
    app.post_as_admin(TENANTS, json!({"tenant_id": "umbra", "name": "Umbra"}))
        .await;
    for member in [
        "reservation_expiry_policy",
        "tenant_id",
        "parent_tenant_id",
        "closed_at",
    ] {
        let response = app
            .as_admin(
                Method::PATCH,
                "/v1/admin/tenants/umbra",
                &json!({member: "MANUAL_CLEANUP"}),
            )
            .await;
        assert_eq!(response.error(), INVALID, "{response:?}");
        assert!(
            response
                .text("/message")
                .contains(&format!("unknown member `{member}`")),
            "{response:?}"
        );
    }
}

#[tokio::test]
async fn rule_18_a_tenant_may_be_named_like_a_literal_route() {
    let app = TestApp::spawn().await;
    app.post_as_admin(TENANTS, json!({"tenant_id": "bulk-action", "name": "B"}))
        .await
        .expect(201);
    let path = "/v1/admin/tenants/bulk-action";
    assert_eq!(
        app.get_as_admin(path).await.text("/tenant_id"),
        "bulk-action"
    );
    let changed = app
        .as_admin(Method::PATCH, path, &json!({"name": "C"}))
        .await;
    assert_eq!((changed.status, changed.text("/name")), (200, "C"));
}
