//! Rare requests of the admin plane, and damaged records, which hide no others.

use budget_authority::domain::ids::Partition;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, TENANTS, umbra};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::runtime_calls::tokens;

#[tokio::test]
async fn scope_kinds_are_lower_cased_in_every_operator_request() {
    let app = umbra().await;
    let of = |scope: &str| json!({"tenant_id": "umbra", "scope": scope, "unit": "TOKENS", "allocated": tokens(5)});
    assert_eq!(
        app.post_as_admin(BUDGETS, of("tenant:umbra/agent:Bob"))
            .await
            .text("/scope"),
        "tenant:umbra/agent:bob"
    );
    let fund = json!({"operation": "CREDIT", "amount": tokens(1), "idempotency_key": "f"});
    for scope in [
        "tenant:umbra/Agent:bob",
        "tenant:umbra/AGENT:bob",
        "Tenant:umbra/agent:bob",
    ] {
        let query = format!("scope={scope}&unit=TOKENS&tenant_id=umbra");
        for response in [
            app.post_as_admin(BUDGETS, of(scope)).await,
            app.post_as_admin(&format!("/v1/admin/budgets/fund?{query}"), fund.clone())
                .await,
            app.get_as_admin(&format!("/v1/admin/budgets/lookup?{query}"))
                .await,
        ] {
            assert_eq!(
                response.error(),
                (400, "INVALID_REQUEST"),
                "{scope}: {response:?}"
            );
            assert!(
                response.text("/message").contains("scope: segment"),
                "{response:?}"
            );
        }
    }
    for scope in ["tenant:umbra/agent:Bob", "tenant:umbra/agent:bob"] {
        let path = format!("/v1/admin/budgets/lookup?scope={scope}&unit=TOKENS");
        assert_eq!(app.get_as_admin(&path).await.status, 200, "{scope}");
    }
}

#[tokio::test]
async fn an_options_request_takes_no_key_and_is_not_audited() {
    let app = umbra().await;
    for (path, status) in [(TENANTS, 405), ("/v1/admin/no-such", 404)] {
        let response = app.send(app.request(Method::OPTIONS, path)).await;
        assert_eq!(response.status, status, "{response:?}");
    }
    let fixture = app.admin_fixture();
    for chain in ["__unauth__", "__admin__"] {
        let recorded = fixture.audit(Partition::FIRST, chain);
        assert!(recorded.is_empty(), "{chain}: {recorded:?}");
    }
}

#[tokio::test]
async fn without_a_key_no_methods_are_revealed() {
    let app = TestApp::spawn().await;
    for path in ["/v1/decide", TENANTS] {
        let response = app
            .send(app.request(Method::PUT, path))
            .await
            .refused(401, "UNAUTHORIZED");
        assert_eq!(response.header("Allow"), None, "{path}");
    }
    let admin = [("X-Admin-API-Key", ADMIN_KEY)];
    let response = app
        .call(Method::PUT, TENANTS, &admin, &Value::Null)
        .await
        .refused(405, "INVALID_REQUEST");
    assert!(response.header("Allow").is_some(), "{response:?}");
}

#[tokio::test]
async fn an_admin_release_in_a_closed_tenant_names_the_tenant() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let id = app
        .reserve("k", 10)
        .await
        .text("/reservation_id")
        .to_owned();
    app.set_tenant(&[("status", "CLOSED")]).await;
    let path = format!("/v1/reservations/{id}/release");
    let by_admin = app
        .post_as_admin(&path, json!({"idempotency_key": "r"}))
        .await;
    let by_key = app.post(&path, json!({"idempotency_key": "r"})).await;
    for response in [by_admin, by_key] {
        assert_eq!(response.error(), (409, "TENANT_CLOSED"));
        assert_eq!(
            response.text("/message"),
            "The tenant acme is closed; what it owns is read-only"
        );
    }
}

#[tokio::test]
async fn a_damaged_record_does_not_hide_the_other_tenants() {
    let app = umbra().await;
    for id in ["first", "other", "second"] {
        app.post_as_admin(TENANTS, json!({"tenant_id": id, "name": id}))
            .await;
    }
    let keys = app.store.keys();
    let record = |id: &str| keys.tenant(tenant_id(id).partition(), id);
    let (first, other) = (record("first"), record("other"));
    app.run::<()>(&["HSET", &first, "created_at_ms", "never"])
        .await;
    app.run::<()>(&["SET", &other, "another type"]).await;
    for sort in ["tenant_id", "created_at", "name"] {
        let response = app
            .get_as_admin(&format!("{TENANTS}?sort_by={sort}&sort_dir=desc"))
            .await
            .expect(200);
        let rows = response.at("/tenants").as_array().expect("rows");
        let mut ids: Vec<_> = rows.iter().map(|row| row["tenant_id"].as_str()).collect();
        ids.sort();
        assert_eq!(ids, [Some("second"), Some("umbra")], "{sort}");
    }
    // A request for it by name is an error.
    app.get_as_admin(&format!("{TENANTS}/first"))
        .await
        .refused(500, "INTERNAL_ERROR");
}
