//! What a key may do that its request does not name, and what the response and the audit log say of it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{KEYS, key, umbra_on};
use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

const ROOT: &str = "scope=tenant:umbra&unit=TOKENS";
const RUNTIME: [&str; 6] = [
    "reservations:create",
    "reservations:commit",
    "reservations:release",
    "reservations:extend",
    "reservations:list",
    "balances:read",
];

/// A service of each dialect with the tenant `umbra`.
async fn both() -> [TestApp; 2] {
    let [service, cycles] = TestApp::spawn_both().await;
    [umbra_on(service).await, umbra_on(cycles).await]
}

async fn create(app: &TestApp, members: Value) -> Response {
    let mut body = json!({"tenant_id": "umbra", "name": "n"});
    for (name, value) in members.as_object().expect("members") {
        body[name] = value.clone();
    }
    app.post_as_admin(KEYS, body).await.expect(201)
}

/// The mark in the newest audit entry about a key.
async fn mark(app: &TestApp) -> Value {
    let path = "/v1/admin/audit/logs?tenant_id=umbra&operation=createApiKey&limit=1";
    let page = app.get_as_admin(path).await.expect(200);
    page.at("/logs/0/metadata/default_permissions").clone()
}

#[tokio::test]
async fn a_key_without_permissions_cannot_fund_itself_unless_the_protocol_demands_it() {
    let [service, cycles] = both().await;
    let reads = [
        "budgets:read",
        "policies:read",
        "webhooks:read",
        "events:read",
    ];
    let writes = [
        "budgets:read",
        "budgets:write",
        "policies:read",
        "policies:write",
    ];
    for (app, more, status) in [(service, reads, 403), (cycles, writes, 200)] {
        let made = create(&app, json!({})).await;
        let default = [&RUNTIME[..], &more].concat();
        assert_eq!(made.at("/permissions"), &json!(default));
        let secret = made.text("/key_secret");
        let introspected = app.get_with(secret, "/v1/auth/introspect").await;
        assert_eq!(introspected.at("/permissions"), &json!(default));

        let fund = json!({"operation": "CREDIT", "amount": tokens(1)});
        let path = format!("/v1/admin/budgets/fund?{ROOT}");
        let funded = app.by_key(secret, Method::POST, &path, &fund).await;
        assert_eq!(funded.status, status, "{funded:?}");
    }
}

#[tokio::test]
async fn a_key_that_may_write_by_default_is_warned_of_and_marked_in_its_audit_entry() {
    let [service, cycles] = both().await;
    for (app, warns) in [(service, false), (cycles, true)] {
        let made = create(&app, json!({})).await;
        let warning = made.header("warning").unwrap_or_default();
        assert_eq!(warning.starts_with("299 - \"without permissions"), warns);
        assert_eq!(warning.is_empty(), !warns, "{warning}");
        let expected = if warns { json!(true) } else { Value::Null };
        assert_eq!(mark(&app).await, expected);

        let named = create(&app, json!({"permissions": ["budgets:write"]})).await;
        assert_eq!(named.header("warning"), None);
        assert_eq!(mark(&app).await, Value::Null);
    }
}

#[tokio::test]
async fn a_scope_filter_of_one_segment_is_warned_of_also_beside_a_path() {
    let [app, _] = both().await;
    let path = "tenant:umbra/app:chat/agent:writer";
    for (entries, index) in [
        (json!(["agent:writer"]), Some(0)),
        (json!([path, "agent:*"]), Some(1)),
        (json!([path, "tenant:*", "*"]), None),
        (json!([]), None),
    ] {
        let made = create(&app, json!({"scope_filter": entries})).await;
        let one = format!("{KEYS}/{}", key(&app, &[]).await.0);
        let changed = app
            .patch_as_admin(&one, json!({"scope_filter": entries}))
            .await;
        for response in [made, changed.expect(200)] {
            let warning = response.header("warning");
            let named = index.map(|index| format!("299 - \"scope_filter[{index}] admits"));
            assert_eq!(warning.is_some(), named.is_some(), "{entries}");
            assert!(
                warning
                    .unwrap_or_default()
                    .starts_with(&named.unwrap_or_default())
            );
        }
    }
}
