//! Changes of API keys: their effect on the key's next request, their events, and which are refused.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, KEYS, key, umbra};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

const FUND: &str = "/v1/admin/budgets/fund";
const INVALID: (u16, &str) = (400, "INVALID_REQUEST");

/// `PATCH` under the admin key, as one attempt.
async fn attempt(app: &TestApp, id: &str, name: Option<&str>, body: Value) -> Response {
    let request = app.request(Method::PATCH, &format!("{KEYS}/{id}"));
    let request = request.header("X-Admin-API-Key", ADMIN_KEY).json(&body);
    app.send(match name {
        Some(name) => request.header("X-Idempotency-Key", name),
        None => request,
    })
    .await
}

pub(super) async fn change(app: &TestApp, id: &str, body: Value) -> Response {
    attempt(app, id, None, body).await
}

/// A change that must succeed; the changed key.
pub(super) async fn changed(app: &TestApp, id: &str, body: Value) -> Response {
    change(app, id, body).await.expect(200)
}

pub(super) async fn revoke(app: &TestApp, id: &str) -> Response {
    let path = format!("{KEYS}/{id}");
    let headers = [("X-Admin-API-Key", ADMIN_KEY)];
    app.call(Method::DELETE, &path, &headers, &Value::Null)
        .await
}

/// How many events say that the key's permissions changed.
pub(super) fn emitted(app: &TestApp) -> usize {
    let types = app.admin_fixture().event_types("umbra").into_iter();
    types
        .filter(|name| name == "api_key.permissions_changed")
        .count()
}

/// A credit of 1 by a key; its status and error.
async fn fund(app: &TestApp, secret: &str, scope: &str) -> Response {
    let body = json!({"operation": "CREDIT", "amount": tokens(1)});
    let path = format!("{FUND}?scope={scope}&unit=TOKENS");
    let by = [("X-Service-API-Key", secret)];
    app.call(Method::POST, &path, &by, &body).await
}

#[tokio::test]
async fn changed_permissions_apply_to_the_next_request_on_every_replica() {
    let app = umbra().await;
    let replica = app.replica(&[]).await;
    let (id, secret) = key(&app, &["budgets:read"]).await;
    for service in [&app, &replica] {
        fund(service, &secret, "tenant:umbra")
            .await
            .refused(403, "INSUFFICIENT_PERMISSIONS");
    }
    let response = changed(&app, &id, json!({"permissions": ["budgets:write"]})).await;
    assert_eq!(response.at("/permissions"), &json!(["budgets:write"]));
    for service in [&app, &replica] {
        fund(service, &secret, "tenant:umbra").await.expect(200);
    }
    changed(&replica, &id, json!({"permissions": []})).await;
    for service in [&app, &replica] {
        fund(service, &secret, "tenant:umbra")
            .await
            .refused(403, "INSUFFICIENT_PERMISSIONS");
    }
}

#[tokio::test]
async fn rule_56_a_scope_filter_admits_its_scopes_and_no_others() {
    let app = umbra().await;
    let budget = json!({"tenant_id": "umbra", "scope": "tenant:umbra/agent:x", "unit": "TOKENS", "allocated": tokens(9)});
    app.post_as_admin(BUDGETS, budget).await.expect(201);
    let (id, secret) = key(&app, &["budgets:write"]).await;
    let response = changed(&app, &id, json!({"scope_filter": ["Agent:*"]})).await;
    assert_eq!(response.at("/scope_filter"), &json!(["agent:*"]));
    fund(&app, &secret, "tenant:umbra/agent:x")
        .await
        .expect(200);
    fund(&app, &secret, "tenant:umbra")
        .await
        .refused(403, "FORBIDDEN");
    let response = changed(&app, &id, json!({"scope_filter": []})).await;
    assert_eq!(
        response.body.get("scope_filter"),
        None,
        "nothing restricts it"
    );
    fund(&app, &secret, "tenant:umbra").await.expect(200);
}

#[tokio::test]
async fn a_path_in_a_scope_filter_is_lower_cased_and_within_the_keys_tenant() {
    let app = umbra().await;
    let (id, secret) = key(&app, &["budgets:write"]).await;
    for other in ["tenant:umbra-2", "tenant:bolt/app:x"] {
        let filter = json!(["agent:a", other]);
        let new = json!({"tenant_id": "umbra", "name": "n", "scope_filter": filter});
        for response in [
            app.post_as_admin(KEYS, new).await,
            change(&app, &id, json!({"scope_filter": filter})).await,
        ] {
            assert_eq!(response.error(), INVALID, "{other}");
            let reason = format!(
                "Validation failed: scope_filter[1]: {other} does not lie in the tenant umbra of the API key"
            );
            assert_eq!(response.text("/message"), reason);
        }
    }
    let response = changed(&app, &id, json!({"scope_filter": ["TENANT:Umbra/App:X"]})).await;
    assert_eq!(response.at("/scope_filter"), &json!(["tenant:umbra/app:x"]));
    fund(&app, &secret, "tenant:umbra")
        .await
        .refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn tenant_and_a_star_in_a_scope_filter_mean_the_own_tenant() {
    let app = umbra().await;
    let (id, secret) = key(&app, &["budgets:read", "budgets:write"]).await;
    let response = changed(&app, &id, json!({"scope_filter": ["Tenant:*"]})).await;
    assert_eq!(response.at("/scope_filter"), &json!(["tenant:*"]));
    fund(&app, &secret, "tenant:umbra").await.expect(200);
    let lookup = |scope: &str| format!("/v1/admin/budgets/lookup?scope={scope}&unit=TOKENS");
    app.get_with(&secret, &lookup("tenant:umbra"))
        .await
        .expect(200);
    app.get_with(&secret, &lookup("tenant:bolt"))
        .await
        .refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn a_scope_filter_has_64_entries_at_most() {
    let app = umbra().await;
    let (id, _) = key(&app, &["budgets:read"]).await;
    let entries =
        |count: usize| -> Vec<String> { (0..count).map(|n| format!("agent:{n}")).collect() };
    changed(&app, &id, json!({"scope_filter": entries(64)})).await;
    let filter = entries(65);
    let new = json!({"tenant_id": "umbra", "name": "n", "scope_filter": filter});
    for response in [
        app.post_as_admin(KEYS, new).await,
        change(&app, &id, json!({"scope_filter": filter})).await,
    ] {
        assert_eq!(response.error(), (400, "LIMIT_EXCEEDED"));
        assert_eq!(
            response.at("/details"),
            &json!({"limit": 64, "present": 65})
        );
        let reason = "Validation failed: scope_filter: must have at most 64 entries, not 65";
        assert_eq!(response.text("/message"), reason);
    }
}

#[tokio::test]
async fn a_scope_filter_entry_is_stored_unchanged_or_refused() {
    let app = umbra().await;
    let (id, secret) = key(&app, &["budgets:read"]).await;
    for entry in [
        "agent:x\nagent:y",
        "agent: x",
        "agent:\u{1}",
        "tenant:umbra/agent:*",
        "tenant:*/app:x",
        "agent:x/toolset:t",
        "tenant:umbra/agent:x/app:y",
        "tenant:umbra/agent: x",
    ] {
        let new = json!({"tenant_id": "umbra", "name": "n", "scope_filter": ["agent:a", entry]});
        let response = app.post_as_admin("/v1/admin/api-keys", new).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{entry}");
        let named = "scope_filter[1]: must be level:value or level:*";
        assert!(response.text("/message").contains(named), "{response:?}");
    }
    // These can match no segment, and are kept all the same.
    let sent = json!(["agent", "*"]);
    let response = changed(&app, &id, json!({"scope_filter": sent})).await;
    assert_eq!(response.at("/scope_filter"), &sent);
    let lookup = "/v1/admin/budgets/lookup?scope=tenant:umbra&unit=TOKENS";
    app.get_with(&secret, lookup)
        .await
        .refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn rule_54_only_a_real_change_of_permissions_emits_an_event() {
    let app = umbra().await;
    let (id, _) = key(&app, &["budgets:read", "balances:read"]).await;
    for (body, expected) in [
        (json!({}), 0),
        (
            json!({"name": "renamed", "description": "d", "metadata": {"a": 1}}),
            0,
        ),
        (json!({"permissions": ["budgets:read", "balances:read"]}), 0),
        (json!({"permissions": ["balances:read", "budgets:read"]}), 0),
        (json!({"scope_filter": []}), 0),
        (json!({"scope_filter": ["agent:x"]}), 1),
        (json!({"scope_filter": ["AGENT:x"], "name": "again"}), 1),
        (json!({"scope_filter": ["agent:x", "app:y"]}), 2),
        (json!({"permissions": ["budgets:read"]}), 3),
        (
            json!({"permissions": ["balances:read"], "scope_filter": []}),
            4,
        ),
    ] {
        changed(&app, &id, body.clone()).await;
        assert_eq!(emitted(&app), expected, "{body}");
    }
    let events = app.admin_fixture().events("umbra");
    let event = events.last().expect("an event");
    assert_eq!(event["event_type"], "api_key.permissions_changed");
    assert_eq!(event["source"], "service-admin");
    assert_eq!(event["actor"]["type"], "admin");
    assert_eq!(
        event["data"],
        json!({"key_id": id, "key_name": "again", "permissions": ["balances:read"]})
    );
}

#[tokio::test]
async fn absent_members_stay_and_null_removes_labels() {
    let app = umbra().await;
    let body = json!({"tenant_id": "umbra", "name": "ci", "description": "d", "metadata": {"a": [1]},
        "permissions": ["budgets:read"], "scope_filter": ["agent:x"]});
    let id = app
        .post_as_admin(KEYS, body)
        .await
        .text("/key_id")
        .to_owned();
    let before = changed(&app, &id, json!({})).await.body;
    assert_eq!(before["description"], "d");
    assert_eq!(before["metadata"], json!({"a": [1]}));
    let nulls = json!({"name": null, "permissions": null, "scope_filter": null});
    assert_eq!(changed(&app, &id, nulls).await.body, before);
    let response = changed(
        &app,
        &id,
        json!({"metadata": {"b": 2}, "description": null}),
    )
    .await;
    assert_eq!(response.at("/metadata"), &json!({"b": 2}), "not merged");
    assert_eq!(response.body.get("description"), None);
    let response = changed(&app, &id, json!({"metadata": null})).await;
    assert_eq!(response.body.get("metadata"), None);
    for member in [
        "name",
        "permissions",
        "scope_filter",
        "created_at",
        "expires_at",
        "key_prefix",
    ] {
        assert_eq!(response.body[member], before[member], "{member}");
    }
    let listed = app.get_as_admin(&format!("{KEYS}?search={id}")).await;
    assert_eq!(listed.at("/keys/0"), &response.body);
}

#[tokio::test]
async fn an_update_checks_in_the_documented_order() {
    let app = umbra().await;
    let (id, _) = key(&app, &[]).await;
    for (body, part) in [
        (json!({"expires_at": "2099-01-01T00:00:00Z"}), "expires_at"),
        (json!({"tenant_id": "umbra"}), "tenant_id"),
        (json!({"status": "ACTIVE"}), "status"),
        (json!({"permissions": ["root"]}), "root"),
        (json!({"name": 7}), "name"),
        (json!({"description": "x".repeat(1025)}), "description"),
        (json!([]), "object"),
    ] {
        let response = change(&app, &id, body.clone()).await;
        assert_eq!(response.error(), INVALID, "{body}");
        assert!(response.text("/message").contains(part), "{response:?}");
        // The form of a body is checked before the state of records.
        let response = change(&app, "key_000_zzzzzzzzzzzz", body).await;
        assert_eq!(response.error(), INVALID);
    }
    for unknown in ["key_000_zzzzzzzzzzzz", "nonsense", "%00"] {
        let response = change(&app, unknown, json!({})).await;
        assert_eq!(response.error(), (404, "NOT_FOUND"), "{unknown}");
    }
    revoke(&app, &id).await;
    app.admin_fixture().set_status("umbra", "CLOSED");
    let response = change(&app, &id, json!({})).await;
    assert_eq!(
        response.error(),
        (409, "TENANT_CLOSED"),
        "before the key's own state"
    );
    app.admin_fixture().set_status("umbra", "SUSPENDED");
    change(&app, &id, json!({}))
        .await
        .refused(409, "INVALID_REQUEST");
    let (method, path) = (Method::PATCH, format!("{KEYS}/{id}"));
    let by_none = app.request(method, &path).body("{broken");
    app.send(by_none).await.refused(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_repeated_update_returns_the_first_response_and_takes_effect_once() {
    let app = umbra().await;
    let (id, _) = key(&app, &["budgets:read"]).await;
    let body = json!({"permissions": ["balances:read"]});
    let first = attempt(&app, &id, Some("k"), body.clone())
        .await
        .expect(200);
    changed(&app, &id, json!({"permissions": ["policies:read"]})).await;
    let entries = app.admin_fixture().tenant_audit("umbra").len();
    let again = attempt(&app, &id, Some("k"), body.clone()).await;
    assert_eq!(again.body, first.body);
    attempt(&app, &id, Some("k"), json!({"permissions": []}))
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    let (other_id, _) = key(&app, &[]).await;
    attempt(&app, &other_id, Some("k"), body.clone())
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    assert_eq!(emitted(&app), 2);
    // The new key and two mismatches, and nothing for the repetition.
    assert_eq!(app.admin_fixture().tenant_audit("umbra").len(), entries + 3);
    app.admin_fixture().set_status("umbra", "CLOSED");
    let again = attempt(&app, &id, Some("k"), body).await;
    assert_eq!(
        again.body, first.body,
        "before the guard of a closed tenant"
    );
}

#[tokio::test]
async fn a_change_is_audited_with_the_members_of_its_request() {
    let app = umbra().await;
    let (id, _) = key(&app, &["budgets:read"]).await;
    let body = json!({"name": "n", "permissions": ["balances:read"], "scope_filter": ["agent:x", "app:y"]});
    let response = changed(&app, &id, body).await;
    let entry = app
        .admin_fixture()
        .tenant_audit("umbra")
        .pop()
        .expect("an entry");
    for (name, value) in [
        ("operation", "updateApiKey"),
        ("resource_type", "api_key"),
        ("resource_id", id.as_str()),
        ("key_id", id.as_str()),
        ("status", "200"),
        ("metadata.name", "n"),
        ("metadata.permissions", " balances:read "),
        ("metadata.scope_filter", "agent:x app:y"),
    ] {
        assert_eq!(entry.get(name), Some(value), "{name}");
    }
    let request_id = response.header("x-request-id").expect("an id");
    assert_eq!(entry.get("request_id"), Some(request_id));
    changed(&app, &id, json!({"description": "d"})).await;
    let entry = app
        .admin_fixture()
        .tenant_audit("umbra")
        .pop()
        .expect("an entry");
    assert_eq!(
        entry.get("metadata.permissions"),
        None,
        "only what was sent"
    );
    revoke(&app, &id).await;
    change(&app, &id, json!({})).await;
    let entry = app
        .admin_fixture()
        .tenant_audit("umbra")
        .pop()
        .expect("an entry");
    assert_eq!(
        entry.get("operation"),
        Some(format!("PATCH:{KEYS}/{id}").as_str())
    );
    assert_eq!(entry.get("error_code"), Some("INVALID_REQUEST"));
}
