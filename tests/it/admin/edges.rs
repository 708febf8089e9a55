//! What few clients of the admin plane send, and what a damaged record takes away: nothing but itself.

use budget_authority::domain::ids::Partition;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, TENANTS, get, post, send, tokens, umbra};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::desk::{Desk, tenant_id};

#[tokio::test]
async fn the_kinds_of_a_scope_are_lower_case_wherever_an_operator_names_one() {
    let app = umbra().await;
    let of = |scope: &str| json!({"tenant_id": "umbra", "scope": scope, "unit": "TOKENS", "allocated": tokens(5)});
    assert_eq!(
        post(&app, BUDGETS, of("tenant:umbra/agent:Bob"))
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
        for said in [
            post(&app, BUDGETS, of(scope)).await,
            post(
                &app,
                &format!("/v1/admin/budgets/fund?{query}"),
                fund.clone(),
            )
            .await,
            get(&app, &format!("/v1/admin/budgets/lookup?{query}")).await,
        ] {
            assert_eq!(said.error(), (400, "INVALID_REQUEST"), "{scope}: {said:?}");
            assert!(said.text("/message").contains("scope: segment"), "{said:?}");
        }
    }
    for scope in ["tenant:umbra/agent:Bob", "tenant:umbra/agent:bob"] {
        let path = format!("/v1/admin/budgets/lookup?scope={scope}&unit=TOKENS");
        assert_eq!(get(&app, &path).await.status, 200, "{scope}");
    }
}

#[tokio::test]
async fn asking_for_options_takes_no_key_and_is_not_booked() {
    let app = umbra().await;
    for (path, status) in [(TENANTS, 405), ("/v1/admin/no-such", 404)] {
        let said = app.send(app.request(Method::OPTIONS, path)).await;
        assert_eq!(said.status, status, "{said:?}");
    }
    let desk = Desk::on(app.world.store.clone());
    for chain in ["__unauth__", "__admin__"] {
        let booked = desk.audit(Partition::FIRST, chain);
        assert!(booked.is_empty(), "{chain}: {booked:?}");
    }
}

#[tokio::test]
async fn a_stranger_learns_no_methods() {
    let app = TestApp::spawn().await;
    for path in ["/v1/decide", TENANTS] {
        let said = app.send(app.request(Method::PUT, path)).await;
        assert_eq!(said.error(), (401, "UNAUTHORIZED"));
        assert_eq!(said.header("Allow"), None, "{path}");
    }
    let admin = [("X-Admin-API-Key", ADMIN_KEY)];
    let said = send(&app, Method::PUT, TENANTS, &admin, &Value::Null).await;
    assert_eq!(said.error(), (405, "INVALID_REQUEST"));
    assert!(said.header("Allow").is_some(), "{said:?}");
}

#[tokio::test]
async fn a_closed_tenant_is_named_to_the_admin_who_releases() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let id = app
        .reserve("k", 10)
        .await
        .text("/reservation_id")
        .to_owned();
    app.set_tenant(&[("status", "CLOSED")]).await;
    let path = format!("/v1/reservations/{id}/release");
    let by_admin = post(&app, &path, json!({"idempotency_key": "r"})).await;
    let by_key = app.post(&path, json!({"idempotency_key": "r"})).await;
    for said in [by_admin, by_key] {
        assert_eq!(said.error(), (409, "TENANT_CLOSED"));
        assert_eq!(
            said.text("/message"),
            "The tenant acme is closed; what it owns is read-only"
        );
    }
}

#[tokio::test]
async fn a_damaged_record_does_not_hide_the_other_tenants() {
    let app = umbra().await;
    for id in ["first", "other", "second"] {
        post(&app, TENANTS, json!({"tenant_id": id, "name": id})).await;
    }
    let keys = app.world.store.keys();
    let record = |id: &str| keys.tenant(tenant_id(id).partition(), id);
    let (first, other) = (record("first"), record("other"));
    app.world
        .redis(&["HSET", &first, "created_at_ms", "never"])
        .await;
    app.world.redis(&["SET", &other, "another type"]).await;
    for sort in ["tenant_id", "created_at", "name"] {
        let said = get(&app, &format!("{TENANTS}?sort_by={sort}&sort_dir=desc")).await;
        assert_eq!(said.status, 200, "{said:?}");
        let rows = said.at("/tenants").as_array().expect("rows");
        let mut ids: Vec<_> = rows.iter().map(|row| row["tenant_id"].as_str()).collect();
        ids.sort();
        assert_eq!(ids, [Some("second"), Some("umbra")], "{sort}");
    }
    // Asked for by name, it is not passed over in silence.
    let said = get(&app, &format!("{TENANTS}/first")).await;
    assert_eq!(said.error(), (500, "INTERNAL_ERROR"));
}
