//! The admin plane over HTTP: authentication, responses and records.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

pub(crate) const TENANTS: &str = "/v1/admin/tenants";
pub(crate) const KEYS: &str = "/v1/admin/api-keys";
pub(crate) const BUDGETS: &str = "/v1/admin/budgets";
const FUND: &str = "/v1/admin/budgets/fund";

/// A key of `umbra` with these permissions.
pub(crate) async fn key(app: &TestApp, permissions: &[&str]) -> (String, String) {
    let body = json!({"tenant_id": "umbra", "name": "ci", "permissions": permissions});
    let response = app.post_as_admin(KEYS, body).await.expect(201);
    (
        response.text("/key_id").to_owned(),
        response.text("/key_secret").to_owned(),
    )
}

/// A service with a tenant `umbra` and a ledger at its root.
pub(crate) async fn umbra() -> TestApp {
    umbra_on(TestApp::spawn().await).await
}

/// The same on a service of the test's choice.
pub(crate) async fn umbra_on(app: TestApp) -> TestApp {
    app.post_as_admin(TENANTS, json!({"tenant_id": "umbra", "name": "Umbra"}))
        .await;
    let budget = json!({"tenant_id": "umbra", "scope": "tenant:umbra", "unit": "TOKENS", "allocated": tokens(100)});
    app.post_as_admin(BUDGETS, budget).await.expect(201);
    app
}

#[tokio::test]
async fn a_tenant_a_key_and_a_budget_are_all_it_takes_to_spend() {
    let app = umbra().await;
    let (_, secret) = key(&app, &["reservations:create", "budgets:read"]).await;
    let body = json!({
        "idempotency_key": "k1", "subject": {"tenant": "umbra"}, "action": {"kind": "llm", "name": "m"},
        "estimate": tokens(30),
    });
    let by_key = [("X-Service-API-Key", secret.as_str())];
    app.call(Method::POST, "/v1/reservations", &by_key, &body)
        .await
        .expect(200);
    let path = "/v1/admin/budgets/lookup?scope=tenant:UMBRA&unit=TOKENS";
    let found = app.call(Method::GET, path, &by_key, &Value::Null).await;
    assert_eq!(found.at("/remaining"), &tokens(70));
    assert_eq!(found.at("/reserved"), &tokens(30));
    assert_eq!(found.text("/tenant_id"), "umbra");
    assert_eq!(found.headers["x-service-tenant"], "umbra");
}

#[tokio::test]
async fn tenants_are_created_once_read_and_listed() {
    let app = umbra().await;
    let again = json!({"tenant_id": "umbra", "name": "Umbra", "max_reservation_extensions": 1});
    let response = app.post_as_admin(TENANTS, again).await;
    assert_eq!(
        (response.status, response.at("/max_reservation_extensions")),
        (200, &json!(10))
    );
    app.post_as_admin(TENANTS, json!({"tenant_id": "umbra", "name": "B"}))
        .await
        .refused(409, "DUPLICATE_RESOURCE");
    // Literal routes shadow no tenant's id.
    for id in ["bulk-action", "lookup"] {
        app.post_as_admin(TENANTS, json!({"tenant_id": id, "name": id}))
            .await
            .expect(201);
        assert_eq!(
            app.get_as_admin(&format!("{TENANTS}/{id}"))
                .await
                .text("/status"),
            "ACTIVE"
        );
    }
    app.get_as_admin("/v1/admin/tenants/nobody")
        .await
        .refused(404, "TENANT_NOT_FOUND");

    let first = app
        .get_as_admin("/v1/admin/tenants?limit=2&sort_by=tenant_id&sort_dir=asc")
        .await;
    assert_eq!(first.at("/has_more"), &json!(true));
    let path = format!(
        "{TENANTS}?limit=2&sort_by=tenant_id&sort_dir=asc&cursor={}",
        first.text("/next_cursor")
    );
    let second = app.get_as_admin(&path).await;
    let ids = |response: &Response| -> Vec<String> {
        let tenants = response.at("/tenants").as_array().expect("a list");
        tenants
            .iter()
            .map(|tenant| tenant["tenant_id"].as_str().expect("an id").to_owned())
            .collect()
    };
    assert_eq!(
        [ids(&first), ids(&second)].concat(),
        ["bulk-action", "lookup", "umbra"]
    );
    app.get_as_admin(&path.replace("asc", "desc"))
        .await
        .refused(400, "INVALID_REQUEST");
    assert_eq!(
        ids(&app
            .get_as_admin("/v1/admin/tenants?limit=2000&search=UMB&observe_mode=x")
            .await),
        ["umbra"]
    );
}

#[tokio::test]
async fn a_request_with_both_keys_is_authorized_by_the_admin_key_alone() {
    let app = umbra().await;
    let (_, secret) = key(&app, &["budgets:read"]).await;
    let lookup = "/v1/admin/budgets/lookup?scope=tenant:umbra&unit=TOKENS";
    let key = ("X-Service-API-Key", secret.as_str());
    for (method, path, headers, status) in [
        (Method::GET, lookup, vec![key], 200),
        (
            Method::GET,
            lookup,
            vec![key, ("X-Admin-API-Key", "wrong")],
            400,
        ),
        (
            Method::GET,
            lookup,
            vec![key, ("X-Admin-API-Key", " ")],
            200,
        ),
        (Method::GET, lookup, vec![], 401),
        (Method::GET, TENANTS, vec![key], 401),
        (Method::GET, TENANTS, vec![], 401),
        (Method::GET, "/v1/admin/nothing", vec![], 401),
        (Method::GET, "/v1/admin/nothing", vec![key], 401),
        (
            Method::GET,
            "/v1/admin/nothing",
            vec![("X-Admin-API-Key", ADMIN_KEY)],
            404,
        ),
        (
            Method::PUT,
            TENANTS,
            vec![("X-Admin-API-Key", ADMIN_KEY)],
            405,
        ),
    ] {
        let response = app.call(method.clone(), path, &headers, &Value::Null).await;
        assert_eq!(response.status, status, "{method} {path} {headers:?}");
        if status == 405 {
            assert!(response.headers.contains_key("allow"));
        }
    }
}

#[tokio::test]
async fn a_bad_key_and_a_missing_permission_come_before_a_bad_body() {
    let app = umbra().await;
    let (_, reader) = key(&app, &["admin:read", "admin:budgets:write"]).await;
    let (id, writer) = key(&app, &["admin:write"]).await;
    let (gone, wrong) = (
        writer.replace("sk_live_", "sk_live_0"),
        format!("{}AAAA", &writer[..writer.len() - 4]),
    );
    let malformed = json!({"nonsense": true});
    for (secret, expected) in [
        (gone.as_str(), (401, "UNAUTHORIZED")),
        (wrong.as_str(), (401, "UNAUTHORIZED")),
        (reader.as_str(), (403, "INSUFFICIENT_PERMISSIONS")),
        (writer.as_str(), (400, "INVALID_REQUEST")),
    ] {
        let response = app
            .call(
                Method::POST,
                BUDGETS,
                &[("X-Service-API-Key", secret)],
                &malformed,
            )
            .await;
        assert_eq!(response.error(), expected);
    }
    let fund = format!("{FUND}?scope=tenant:umbra&unit=TOKENS");
    let credit = json!({"operation": "CREDIT", "amount": tokens(1)});
    let by_writer = [("X-Service-API-Key", writer.as_str())];
    app.call(Method::POST, &fund, &by_writer, &credit)
        .await
        .expect(200);
    let revoke = format!("{KEYS}/{id}?reason=leaked");
    let revoked = app
        .call(
            Method::DELETE,
            &revoke,
            &[("X-Admin-API-Key", ADMIN_KEY)],
            &Value::Null,
        )
        .await;
    assert_eq!((revoked.status, revoked.text("/status")), (200, "REVOKED"));
    assert_eq!(revoked.text("/revoked_reason"), "leaked");
    app.call(Method::POST, &fund, &by_writer, &credit)
        .await
        .refused(401, "UNAUTHORIZED");
    app.call(
        Method::DELETE,
        &revoke,
        &[("X-Admin-API-Key", ADMIN_KEY)],
        &Value::Null,
    )
    .await
    .refused(409, "KEY_REVOKED");
}

#[tokio::test]
async fn a_repeated_funding_gets_the_same_bytes() {
    let app = umbra().await;
    let fund = |scope: &str| format!("{FUND}?tenant_id=umbra&unit=TOKENS&scope={scope}");
    let body =
        json!({"operation": "DEBIT", "amount": tokens(40), "idempotency_key": "f1", "reason": "r"});
    let first = app
        .post_as_admin(&fund("tenant:umbra"), body.clone())
        .await
        .expect(200);
    assert_eq!(first.at("/previous_remaining"), &tokens(100));
    assert_eq!(first.at("/new_remaining"), &tokens(60));
    assert_eq!(first.at("/new_debt"), &tokens(0));
    assert_eq!(
        app.post_as_admin(&fund("tenant:umbra"), body.clone())
            .await
            .body,
        first.body
    );
    app.post_as_admin(&fund("tenant:umbra/app:x"), body.clone())
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    let headers = [("X-Admin-API-Key", ADMIN_KEY), ("X-Idempotency-Key", "f2")];
    app.call(Method::POST, &fund("tenant:umbra"), &headers, &body)
        .await
        .refused(400, "INVALID_REQUEST");
    for (path, body, expected) in [
        (
            fund("tenant:umbra"),
            json!({"operation": "DEBIT", "amount": tokens(61)}),
            (409, "BUDGET_EXCEEDED"),
        ),
        (
            fund("tenant:umbra/app:x"),
            json!({"operation": "CREDIT", "amount": tokens(1)}),
            (404, "BUDGET_NOT_FOUND"),
        ),
        (
            fund("tenant:other"),
            json!({"operation": "CREDIT", "amount": tokens(1)}),
            (403, "FORBIDDEN"),
        ),
        (
            fund("tenant:umbra/team:x"),
            json!({"operation": "CREDIT", "amount": tokens(1)}),
            (400, "INVALID_REQUEST"),
        ),
        (
            fund("tenant:umbra"),
            json!({"operation": "CREDIT", "amount": {"unit": "CREDITS", "amount": 1}}),
            (400, "UNIT_MISMATCH"),
        ),
        (
            fund("tenant:umbra").replace("tenant_id=umbra&", ""),
            json!({"operation": "CREDIT", "amount": tokens(1)}),
            (400, "INVALID_REQUEST"),
        ),
        (
            fund("tenant:umbra"),
            json!({"operation": "CREDIT", "amount": tokens(i64::MAX)}),
            (400, "INVALID_REQUEST"),
        ),
        (
            fund("tenant:umbra"),
            json!({"operation": "CREDIT", "amount": tokens(1), "spent": tokens(1)}),
            (400, "INVALID_REQUEST"),
        ),
    ] {
        assert_eq!(
            app.post_as_admin(&path, body.clone()).await.error(),
            expected,
            "{path} {body}"
        );
    }
}

#[tokio::test]
async fn null_and_absent_members_are_different_requests() {
    let app = umbra().await;
    let headers = [("X-Admin-API-Key", ADMIN_KEY), ("X-Idempotency-Key", "n1")];
    for (path, removes, leaves) in [
        (
            format!("{TENANTS}/umbra"),
            json!({"name": "Umbra", "metadata": null}),
            json!({"name": "Umbra"}),
        ),
        (
            format!("{BUDGETS}?scope=tenant:umbra&unit=TOKENS"),
            json!({"overdraft_limit": tokens(5), "metadata": null}),
            json!({"overdraft_limit": tokens(5)}),
        ),
    ] {
        let change = |body| app.call(Method::PATCH, &path, &headers, body);
        let first = change(&removes).await.expect(200);
        assert_eq!(change(&removes).await.body, first.body, "{path}");
        change(&leaves).await.refused(409, "IDEMPOTENCY_MISMATCH");
    }
}
