//! The admin plane over HTTP: who is let in, what comes back, what is booked.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::app::{ADMIN_KEY, Said, TestApp};

pub(crate) const TENANTS: &str = "/v1/admin/tenants";
pub(crate) const KEYS: &str = "/v1/admin/api-keys";
pub(crate) const BUDGETS: &str = "/v1/admin/budgets";
const FUND: &str = "/v1/admin/budgets/fund";

/// Sends a request with headers.
pub(crate) async fn send(
    app: &TestApp,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Said {
    let mut request = app.request(method.clone(), path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if method == Method::POST {
        request = request.json(body);
    }
    app.send(request).await
}

pub(crate) async fn post(app: &TestApp, path: &str, body: Value) -> Said {
    send(
        app,
        Method::POST,
        path,
        &[("X-Admin-API-Key", ADMIN_KEY)],
        &body,
    )
    .await
}

pub(crate) async fn get(app: &TestApp, path: &str) -> Said {
    send(
        app,
        Method::GET,
        path,
        &[("X-Admin-API-Key", ADMIN_KEY)],
        &Value::Null,
    )
    .await
}

/// A key of `umbra` with these permissions.
pub(crate) async fn key(app: &TestApp, permissions: &[&str]) -> (String, String) {
    let body = json!({"tenant_id": "umbra", "name": "ci", "permissions": permissions});
    let said = post(app, KEYS, body).await;
    assert_eq!(said.status, 201, "{said:?}");
    (
        said.text("/key_id").to_owned(),
        said.text("/key_secret").to_owned(),
    )
}

pub(crate) fn tokens(amount: i64) -> Value {
    json!({"unit": "TOKENS", "amount": amount})
}

/// A service with a tenant `umbra` and a ledger at its root.
pub(crate) async fn umbra() -> TestApp {
    umbra_on(TestApp::spawn().await).await
}

/// The same on a service of the test's choice.
pub(crate) async fn umbra_on(app: TestApp) -> TestApp {
    post(
        &app,
        TENANTS,
        json!({"tenant_id": "umbra", "name": "Umbra"}),
    )
    .await;
    let budget = json!({"tenant_id": "umbra", "scope": "tenant:umbra", "unit": "TOKENS", "allocated": tokens(100)});
    assert_eq!(post(&app, BUDGETS, budget).await.status, 201);
    app
}

#[tokio::test]
async fn a_tenant_a_key_and_a_budget_are_enough_to_spend() {
    let app = umbra().await;
    let (_, secret) = key(&app, &["reservations:create", "budgets:read"]).await;
    let body = json!({
        "idempotency_key": "k1", "subject": {"tenant": "umbra"}, "action": {"kind": "llm", "name": "m"},
        "estimate": tokens(30),
    });
    let by_key = [("X-Service-API-Key", secret.as_str())];
    let held = send(&app, Method::POST, "/v1/reservations", &by_key, &body).await;
    assert_eq!(held.status, 200, "{held:?}");
    let path = "/v1/admin/budgets/lookup?scope=tenant:UMBRA&unit=TOKENS";
    let found = send(&app, Method::GET, path, &by_key, &Value::Null).await;
    assert_eq!(found.at("/remaining"), &tokens(70));
    assert_eq!(found.at("/reserved"), &tokens(30));
    assert_eq!(found.text("/tenant_id"), "umbra");
    assert_eq!(found.headers["x-service-tenant"], "umbra");
}

#[tokio::test]
async fn tenants_are_created_once_read_and_listed() {
    let app = umbra().await;
    let again = json!({"tenant_id": "umbra", "name": "Umbra", "max_reservation_extensions": 1});
    let said = post(&app, TENANTS, again).await;
    assert_eq!(
        (said.status.as_u16(), said.at("/max_reservation_extensions")),
        (200, &json!(10))
    );
    let other = post(&app, TENANTS, json!({"tenant_id": "umbra", "name": "B"})).await;
    assert_eq!(other.error(), (409, "DUPLICATE_RESOURCE"));
    // The literal routes beside it shadow no tenant's id.
    for id in ["bulk-action", "lookup"] {
        assert_eq!(
            post(&app, TENANTS, json!({"tenant_id": id, "name": id}))
                .await
                .status,
            201
        );
        assert_eq!(
            get(&app, &format!("{TENANTS}/{id}")).await.text("/status"),
            "ACTIVE"
        );
    }
    assert_eq!(
        get(&app, "/v1/admin/tenants/nobody").await.error(),
        (404, "TENANT_NOT_FOUND")
    );

    let first = get(
        &app,
        "/v1/admin/tenants?limit=2&sort_by=tenant_id&sort_dir=asc",
    )
    .await;
    assert_eq!(first.at("/has_more"), &json!(true));
    let path = format!(
        "{TENANTS}?limit=2&sort_by=tenant_id&sort_dir=asc&cursor={}",
        first.text("/next_cursor")
    );
    let second = get(&app, &path).await;
    let ids = |said: &Said| -> Vec<String> {
        let tenants = said.at("/tenants").as_array().expect("a list");
        tenants
            .iter()
            .map(|tenant| tenant["tenant_id"].as_str().expect("an id").to_owned())
            .collect()
    };
    assert_eq!(
        [ids(&first), ids(&second)].concat(),
        ["bulk-action", "lookup", "umbra"]
    );
    assert_eq!(
        get(&app, &path.replace("asc", "desc")).await.error(),
        (400, "INVALID_REQUEST")
    );
    assert_eq!(
        ids(&get(
            &app,
            "/v1/admin/tenants?limit=2000&search=UMB&observe_mode=x"
        )
        .await),
        ["umbra"]
    );
}

#[tokio::test]
async fn the_admin_key_alone_decides_where_it_is_sent() {
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
            401,
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
        let said = send(&app, method.clone(), path, &headers, &Value::Null).await;
        assert_eq!(said.status.as_u16(), status, "{method} {path} {headers:?}");
        if status == 405 {
            assert!(said.headers.contains_key("allow"));
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
        let said = send(
            &app,
            Method::POST,
            BUDGETS,
            &[("X-Service-API-Key", secret)],
            &malformed,
        )
        .await;
        assert_eq!(said.error(), expected);
    }
    let fund = format!("{FUND}?scope=tenant:umbra&unit=TOKENS");
    let credit = json!({"operation": "CREDIT", "amount": tokens(1)});
    let by_writer = [("X-Service-API-Key", writer.as_str())];
    assert_eq!(
        send(&app, Method::POST, &fund, &by_writer, &credit)
            .await
            .status,
        200
    );
    let revoke = format!("{KEYS}/{id}?reason=leaked");
    let revoked = send(
        &app,
        Method::DELETE,
        &revoke,
        &[("X-Admin-API-Key", ADMIN_KEY)],
        &Value::Null,
    )
    .await;
    assert_eq!(
        (revoked.status.as_u16(), revoked.text("/status")),
        (200, "REVOKED")
    );
    assert_eq!(revoked.text("/revoked_reason"), "leaked");
    assert_eq!(
        send(&app, Method::POST, &fund, &by_writer, &credit)
            .await
            .error(),
        (401, "UNAUTHORIZED")
    );
    let again = send(
        &app,
        Method::DELETE,
        &revoke,
        &[("X-Admin-API-Key", ADMIN_KEY)],
        &Value::Null,
    )
    .await;
    assert_eq!(again.error(), (409, "KEY_REVOKED"));
}

#[tokio::test]
async fn funding_repeats_word_for_word_under_its_key() {
    let app = umbra().await;
    let fund = |scope: &str| format!("{FUND}?tenant_id=umbra&unit=TOKENS&scope={scope}");
    let body =
        json!({"operation": "DEBIT", "amount": tokens(40), "idempotency_key": "f1", "reason": "r"});
    let first = post(&app, &fund("tenant:umbra"), body.clone()).await;
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(first.at("/previous_remaining"), &tokens(100));
    assert_eq!(first.at("/new_remaining"), &tokens(60));
    assert_eq!(first.at("/new_debt"), &tokens(0));
    assert_eq!(
        post(&app, &fund("tenant:umbra"), body.clone()).await.body,
        first.body
    );
    let other = post(&app, &fund("tenant:umbra/app:x"), body.clone()).await;
    assert_eq!(other.error(), (409, "IDEMPOTENCY_MISMATCH"));
    let headers = [("X-Admin-API-Key", ADMIN_KEY), ("X-Idempotency-Key", "f2")];
    let differs = send(&app, Method::POST, &fund("tenant:umbra"), &headers, &body).await;
    assert_eq!(differs.error(), (400, "INVALID_REQUEST"));
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
            post(&app, &path, body.clone()).await.error(),
            expected,
            "{path} {body}"
        );
    }
}
