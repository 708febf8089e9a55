//! Authentication, permissions and introspection on the admin plane: its numbered rules, one test each.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, KEYS, TENANTS, key, umbra};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::http;
use crate::harness::redis::shared;
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

const INTROSPECT: &str = "/v1/auth/introspect";
pub(crate) const VALIDATE: &str = "/v1/auth/validate";
const LOOKUP: &str = "/v1/admin/budgets/lookup?scope=tenant:umbra&unit=TOKENS";
const FUND: &str = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS";
const UNAUTHORIZED: (u16, &str) = (401, "UNAUTHORIZED");
const LACKING: (u16, &str) = (403, "INSUFFICIENT_PERMISSIONS");

/// A request under a tenant's key.
async fn by(app: &TestApp, secret: &str, method: Method, path: &str, body: Value) -> Response {
    app.by_key(secret, method, path, &body).await
}

async fn get_by(app: &TestApp, secret: &str, path: &str) -> Response {
    by(app, secret, Method::GET, path, Value::Null).await
}

async fn fund(app: &TestApp, secret: &str) -> Response {
    let credit = json!({"operation": "CREDIT", "amount": tokens(1)});
    by(app, secret, Method::POST, FUND, credit).await
}

#[tokio::test]
async fn rule_1_a_valid_api_key_does_not_replace_a_wrong_admin_key() {
    let app = umbra().await;
    let (_, secret) = key(&app, &["budgets:read"]).await;
    for path in [LOOKUP, INTROSPECT] {
        let both = [
            ("X-Service-API-Key", secret.as_str()),
            ("X-Admin-API-Key", "wrong"),
        ];
        let response = app.call(Method::GET, path, &both, &Value::Null).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{path}");
        assert_eq!(get_by(&app, &secret, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn rule_2_an_operation_ignores_the_kind_of_key_that_is_not_its_own() {
    let app = umbra().await;
    let (_, secret) = key(&app, &["admin:read", "admin:write"]).await;
    for (method, path) in [
        (Method::GET, TENANTS),
        (Method::GET, KEYS),
        (Method::POST, KEYS),
        (Method::POST, VALIDATE),
        (Method::PATCH, "/v1/admin/api-keys/key_000_zzzzzzzzzzzz"),
    ] {
        let response = by(&app, &secret, method, path, json!({})).await;
        assert_eq!(response.error(), UNAUTHORIZED, "{path}");
        assert_eq!(
            response.text("/message"),
            "Missing admin key (header X-Admin-API-Key)"
        );
    }
    let response = app.post_as_admin("/v1/webhooks", json!({})).await;
    assert_eq!(response.error(), UNAUTHORIZED);
    assert_eq!(
        response.text("/message"),
        "Missing API key (header X-Service-API-Key)"
    );
}

#[tokio::test]
async fn rule_3_a_bad_key_is_refused_before_a_missing_permission_and_that_before_a_bad_body() {
    let app = umbra().await;
    let (_, good) = key(&app, &["budgets:write"]).await;
    let (_, lacking) = key(&app, &["budgets:read"]).await;
    let last = if good.ends_with('x') { 'y' } else { 'x' };
    let bad = format!("{}{last}", &good[..good.len() - 1]);
    for (secret, expected) in [
        (&bad, UNAUTHORIZED),
        (&lacking, LACKING),
        (&good, (400, "INVALID_REQUEST")),
    ] {
        let request = app.request(Method::POST, BUDGETS).body("{broken");
        let request = request.header("Content-Type", "application/json");
        let response = app.send(request.header("X-Service-API-Key", secret)).await;
        assert_eq!(response.error(), expected, "{response:?}");
    }
    let request = app.request(Method::POST, VALIDATE).body("{broken");
    let request = request.header("Content-Type", "application/json");
    let response = app.send(request.header("X-Admin-API-Key", "wrong")).await;
    assert_eq!(response.error(), UNAUTHORIZED);
}

#[tokio::test]
async fn rule_4_a_revoked_or_expired_key_is_refused_on_the_next_request() {
    let app = umbra().await;
    for (field, value, word) in [
        ("status", "REVOKED", "KEY_REVOKED"),
        ("expires_at_ms", "1", "KEY_EXPIRED"),
    ] {
        let (id, secret) = key(&app, &["budgets:read"]).await;
        for path in [LOOKUP, INTROSPECT] {
            get_by(&app, &secret, path).await.expect(200);
        }
        app.set_key_of("umbra", &id, &[field, value]).await;
        for path in [LOOKUP, INTROSPECT] {
            let response = get_by(&app, &secret, path).await;
            assert_eq!(response.error(), UNAUTHORIZED, "{path}");
            let message = response.text("/message");
            assert!(message.starts_with(word), "{message}");
            assert!(message.ends_with("(header X-Service-API-Key)"), "{message}");
        }
    }
}

#[tokio::test]
async fn rule_5_a_wildcard_grants_reads_or_writes_but_never_reservations() {
    let app = umbra().await;
    let (_, reader) = key(&app, &["admin:read"]).await;
    let (_, writer) = key(&app, &["admin:write"]).await;
    get_by(&app, &reader, LOOKUP).await.expect(200);
    get_by(&app, &reader, "/v1/admin/policies")
        .await
        .expect(200);
    assert_eq!(fund(&app, &reader).await.error(), LACKING);
    fund(&app, &writer).await.expect(200);
    assert_eq!(get_by(&app, &writer, LOOKUP).await.error(), LACKING);
    let reserve = json!({
        "idempotency_key": "k1", "subject": {"tenant": "umbra"}, "action": {"kind": "llm", "name": "m"},
        "estimate": tokens(1),
    });
    for secret in [&writer, &reader] {
        let path = "/v1/reservations";
        by(&app, secret, Method::POST, path, reserve.clone())
            .await
            .expect(403);
    }
}

#[tokio::test]
async fn rule_6_a_granular_admin_permission_grants_nothing_but_is_a_capability() {
    let app = umbra().await;
    let (_, secret) = key(&app, &["admin:budgets:read"]).await;
    assert_eq!(get_by(&app, &secret, LOOKUP).await.error(), LACKING);
    let response = get_by(&app, &secret, INTROSPECT).await;
    assert_eq!(response.at("/capabilities/view_budgets"), &json!(true));
    assert_eq!(response.at("/capabilities/manage_budgets"), &json!(false));
    assert_eq!(response.at("/permissions"), &json!(["admin:budgets:read"]));
}

#[tokio::test]
async fn rule_7_operator_only_operations_are_no_capability_of_a_tenants_key() {
    let app = umbra().await;
    let (_, secret) = key(&app, &["admin:read"]).await;
    let response = get_by(&app, &secret, INTROSPECT).await.expect(200);
    assert_eq!(response.header("x-service-tenant"), Some("umbra"));
    assert_eq!(response.at("/authenticated"), &json!(true));
    assert_eq!(response.text("/auth_type"), "tenant");
    assert_eq!(response.text("/tenant_id"), "umbra");
    let capabilities = response.at("/capabilities").as_object().expect("an object");
    assert_eq!(capabilities.len(), 15, "each is sent");
    for (name, held) in capabilities {
        let expected = [
            "view_budgets",
            "view_policies",
            "view_webhooks",
            "view_events",
            "view_reservations",
        ];
        assert_eq!(held, &json!(expected.contains(&name.as_str())), "{name}");
    }
    assert_eq!(response.body.get("scope_filter"), None, "absent when empty");
    let body = json!({"tenant_id": "umbra", "name": "n", "scope_filter": ["agent:*", "app:x"]});
    let restricted = app.post_as_admin(KEYS, body).await;
    let response = get_by(&app, restricted.text("/key_secret"), INTROSPECT).await;
    assert_eq!(response.at("/scope_filter"), &json!(["agent:*", "app:x"]));
}

#[tokio::test]
async fn rule_8_introspection_of_the_admin_key_lists_every_permission_and_no_tenant() {
    let app = umbra().await;
    let response = app.get_as_admin(INTROSPECT).await.expect(200);
    assert_eq!(response.at("/permissions"), &json!(["*"]));
    assert_eq!(response.text("/auth_type"), "admin");
    let capabilities = response.at("/capabilities").as_object().expect("an object");
    assert!(capabilities.len() == 15 && capabilities.values().all(|held| held == true));
    for absent in ["tenant_id", "scope_filter"] {
        assert_eq!(response.body.get(absent), None);
    }
    assert_eq!(response.header("x-service-tenant"), None);
    let (_, secret) = key(&app, &[]).await;
    let both = [
        ("X-Service-API-Key", secret.as_str()),
        ("X-Admin-API-Key", ADMIN_KEY),
    ];
    let response = app.call(Method::GET, INTROSPECT, &both, &Value::Null).await;
    assert_eq!(response.error(), (400, "INVALID_REQUEST"));
}

#[tokio::test]
async fn beside_an_api_key_the_admin_key_decides_in_the_cycles_dialect() {
    let app = TestApp::spawn_on(&shared().url(), &["--dialect", "cycles"]).await;
    for api_key in [app.keys[0].as_str(), "nonsense"] {
        let both = [(app.names.key, api_key), ("X-Admin-API-Key", ADMIN_KEY)];
        let response = app.call(Method::GET, INTROSPECT, &both, &Value::Null).await;
        assert_eq!(response.expect(200).text("/auth_type"), "admin");
    }
    let both = [
        (app.names.key, app.keys[0].as_str()),
        ("X-Admin-API-Key", "wrong"),
    ];
    let response = app.call(Method::GET, INTROSPECT, &both, &Value::Null).await;
    assert_eq!(response.error(), UNAUTHORIZED);
}

#[tokio::test]
async fn rule_9_an_empty_list_permits_introspection_only_and_the_default_is_ten_permissions() {
    let app = umbra().await;
    let (_, secret) = key(&app, &[]).await;
    assert_eq!(fund(&app, &secret).await.error(), LACKING);
    for path in [LOOKUP, "/v1/admin/policies", "/v1/webhooks"] {
        assert_eq!(get_by(&app, &secret, path).await.error(), LACKING, "{path}");
    }
    for path in ["/v1/reservations", "/v1/balances?tenant=umbra"] {
        assert_eq!(get_by(&app, &secret, path).await.status, 403, "{path}");
    }
    let response = get_by(&app, &secret, INTROSPECT).await;
    assert_eq!(response.at("/permissions"), &json!([]));
    let capabilities = response.at("/capabilities").as_object().expect("an object");
    assert!(capabilities.values().all(|held| held == false));
    let made = app
        .post_as_admin(KEYS, json!({"tenant_id": "umbra", "name": "n"}))
        .await;
    let response = get_by(&app, made.text("/key_secret"), INTROSPECT).await;
    let ten = json!([
        "reservations:create",
        "reservations:commit",
        "reservations:release",
        "reservations:extend",
        "reservations:list",
        "balances:read",
        "budgets:read",
        "policies:read",
        "webhooks:read",
        "events:read"
    ]);
    assert_eq!(response.at("/permissions"), &ten);
    assert_eq!(made.at("/permissions"), &ten);
}

#[tokio::test]
async fn rule_10_another_method_is_405_with_allow_and_another_path_404() {
    let app = umbra().await;
    let headers = [("X-Admin-API-Key", ADMIN_KEY)];
    for (method, path, allowed) in [
        (Method::PUT, KEYS, "GET,HEAD,POST"),
        (Method::GET, "/v1/admin/api-keys/x", "DELETE,PATCH"),
        (Method::GET, VALIDATE, "POST"),
        (Method::POST, INTROSPECT, "GET,HEAD"),
    ] {
        let response = app.call(method.clone(), path, &headers, &json!({})).await;
        assert_eq!(
            response.error(),
            (405, "INVALID_REQUEST"),
            "{method} {path}"
        );
        let mut allow: Vec<_> = response
            .header("allow")
            .expect("Allow")
            .split(',')
            .collect();
        allow.sort_unstable();
        assert_eq!(allow.join(","), allowed, "{method} {path}");
    }
    for path in [
        "/v1/auth",
        "/v1/auth/x",
        "/v1/auth/introspect/",
        "/v1/admin/api-keys/",
    ] {
        assert_eq!(
            app.get_as_admin(path).await.error(),
            (404, "NOT_FOUND"),
            "{path}"
        );
        let nobody = app.call(Method::GET, path, &[], &Value::Null).await;
        assert_eq!(nobody.error(), UNAUTHORIZED, "{path}");
    }
}

#[tokio::test]
async fn a_401_names_the_header_that_is_missing_or_wrong_in_either_dialect() {
    for app in TestApp::spawn_both().await {
        let (native, alias) = (app.names.key, app.names.other().key);
        let admin = "X-Admin-API-Key";
        let either = format!("{native} or {admin}");
        for (path, sent, wanted) in [
            (LOOKUP, None, either.as_str()),
            (INTROSPECT, None, &either),
            (INTROSPECT, Some(native), native),
            (INTROSPECT, Some(alias), alias),
            (INTROSPECT, Some(admin), admin),
            (TENANTS, None, admin),
            (TENANTS, Some(admin), admin),
            (TENANTS, Some(native), admin),
            ("/v1/auth/unknown", None, admin),
            ("/v1/balances", None, native),
            ("/v1/balances", Some(alias), alias),
            ("/v1/reservations?tenant=acme", None, &either),
            ("/v1/reservations?tenant=acme", Some(admin), admin),
        ] {
            let mut request = app.request(Method::GET, path);
            if let Some(header) = sent {
                request = request.header(header, "nonsense");
            }
            let response = app.send(request).await;
            assert_eq!(response.error(), UNAUTHORIZED, "{path}");
            let message = response.text("/message");
            let ending = format!("(header {wanted})");
            assert!(message.ends_with(&ending), "{path} {sent:?}: {message}");
        }
    }
}

#[tokio::test]
async fn introspection_is_on_both_addresses_and_validation_on_the_admin_address() {
    let settings = ["--admin-listen", "127.0.0.1:0"];
    let app = TestApp::spawn_on(&shared().url(), &settings).await;
    let admin = app.admin_address.expect("an address of its own");
    let client = http::client();
    for address in [app.address, admin] {
        for (header, value) in [
            ("X-Service-API-Key", app.keys[0].as_str()),
            ("X-Admin-API-Key", ADMIN_KEY),
        ] {
            let url = format!("http://{address}{INTROSPECT}");
            let response = client.get(url).header(header, value).send().await;
            assert_eq!(
                response.expect("an answer").status(),
                200,
                "{address} {header}"
            );
        }
    }
    for (address, expected) in [(app.address, 404), (admin, 200)] {
        let request = client.post(format!("http://{address}{VALIDATE}"));
        let request = request.header("X-Admin-API-Key", ADMIN_KEY);
        let response = request.json(&json!({"key_secret": "x"})).send().await;
        assert_eq!(response.expect("an answer").status(), expected);
    }
}

#[tokio::test]
async fn introspection_shows_a_missing_or_suspended_tenant() {
    let app = umbra().await;
    let (_, secret) = key(&app, &["budgets:read"]).await;
    let fixture = app.admin_fixture();
    fixture.set_status("umbra", "SUSPENDED");
    get_by(&app, &secret, INTROSPECT).await.expect(200);
    app.run::<()>(&["DEL", &fixture.tenant_key("umbra")]).await;
    let response = get_by(&app, &secret, INTROSPECT).await;
    assert_eq!(response.error(), UNAUTHORIZED);
    assert!(
        response
            .text("/message")
            .starts_with("KEY_NOT_OWNED_BY_TENANT")
    );
}
