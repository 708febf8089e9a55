//! Webhook subscriptions on both planes: create, read, list, change, delete.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::umbra_on;
use crate::harness::app::TestApp;
use crate::harness::receiver::public_names;
use crate::harness::response::Response;

pub(crate) const HOOKS: &str = "/v1/admin/webhooks";
pub(crate) const OWN: &str = "/v1/webhooks";
pub(crate) const URL: &str = "https://hooks.example/in";

/// A service on which names end with `.example`, with a tenant `umbra`.
pub(crate) async fn hooked() -> TestApp {
    umbra_on(TestApp::spawn_reaching(public_names(), &[]).await).await
}

pub(crate) fn hook(url: &str) -> Value {
    json!({"url": url, "event_types": ["budget.funded"]})
}

/// A subscription of the tenant `umbra`; its id.
pub(crate) async fn made(app: &TestApp, body: Value) -> String {
    let response = app
        .post_as_admin(&format!("{HOOKS}?tenant_id=umbra"), body)
        .await
        .expect(201);
    response.text("/subscription/subscription_id").to_owned()
}

pub(crate) async fn patch(app: &TestApp, id: &str, body: Value) -> Response {
    app.as_admin(Method::PATCH, &format!("{HOOKS}/{id}"), &body)
        .await
}

/// A key of `umbra` that may do everything with webhooks.
pub(crate) async fn key(app: &TestApp) -> String {
    crate::admin::http::key(app, &["webhooks:read", "webhooks:write"])
        .await
        .1
}

#[tokio::test]
async fn a_subscription_is_created_read_and_listed_on_both_planes() {
    let app = hooked().await;
    let key = key(&app).await;
    let body = json!({
        "url": URL, "name": "n", "description": "d", "event_types": ["budget.funded", "budget.funded", "tenant.closed"],
        "event_categories": ["reservation"], "scope_filter": "tenant:umbra/*", "headers": {"Authorization": "Bearer t0k3n"},
        "thresholds": {"budget_utilization": [0.5]}, "retry_policy": {"max_retries": 2}, "disable_after_failures": 3,
        "metadata": {"a": null},
    });
    let own = app.by_key(&key, Method::POST, OWN, &body).await.expect(201);
    let subscription = own.at("/subscription").clone();
    let id = own.text("/subscription/subscription_id").to_owned();
    assert!(own.text("/signing_secret").starts_with("whsec_") && id.starts_with("whsub_"));
    assert_eq!(own.text("/signing_secret").len(), 6 + 43);
    for (member, expected) in [
        ("tenant_id", json!("umbra")),
        ("status", json!("ACTIVE")),
        ("event_types", json!(["budget.funded", "tenant.closed"])),
        ("event_categories", json!(["reservation"])),
        ("headers", json!({"Authorization": "********"})),
        ("consecutive_failures", json!(0)),
        ("disable_after_failures", json!(3)),
        (
            "retry_policy",
            json!({"max_retries": 2, "initial_delay_ms": 1000, "backoff_multiplier": 2.0, "max_delay_ms": 60000}),
        ),
    ] {
        assert_eq!(subscription[member], expected, "{member}");
    }
    assert!(
        subscription.get("signing_secret").is_none() && subscription.get("updated_at").is_none()
    );
    for response in [
        app.get_as_admin(&format!("{HOOKS}/{id}")).await,
        app.get_as_admin(&format!("{OWN}/{id}")).await,
        app.get_with(&key, &format!("{OWN}/{id}")).await,
    ] {
        assert_eq!((response.status, &response.body), (200, &subscription));
    }
    for response in [
        app.get_as_admin(HOOKS).await,
        app.get_as_admin(&format!(
            "{HOOKS}?tenant_id=umbra&event_type=tenant.closed&search=HOOKS.ex"
        ))
        .await,
        app.get_as_admin(&format!("{OWN}?tenant=umbra")).await,
        app.get_with(&key, &format!("{OWN}?status=ACTIVE")).await,
    ] {
        assert_eq!(
            response.body,
            json!({"subscriptions": [subscription], "has_more": false}),
            "{response:?}"
        );
    }
    for (path, why) in [
        (format!("{OWN}?tenant=umbra"), "absent with an API key"),
        (
            format!("{OWN}?status=GONE"),
            "allowed: ACTIVE, PAUSED, DISABLED",
        ),
    ] {
        let response = app.get_with(&key, &path).await;
        assert_eq!(
            response.error(),
            (400, "INVALID_REQUEST"),
            "{path}: {response:?}"
        );
        assert!(response.text("/message").contains(why), "{response:?}");
    }
    app.get_as_admin(OWN).await.refused(400, "INVALID_REQUEST");
    let none = app
        .get_as_admin(&format!("{HOOKS}?tenant_id=No%20Such"))
        .await;
    assert_eq!(none.body, json!({"subscriptions": [], "has_more": false}));
}

#[tokio::test]
async fn a_tenant_can_only_select_events_visible_to_tenants() {
    let app = hooked().await;
    let of = |types: Value, categories: Value| json!({"url": URL, "event_types": types, "event_categories": categories});
    for (query, body, expected) in [
        (
            "?tenant_id=umbra",
            of(json!(["api_key.created"]), Value::Null),
            (400, "INVALID_REQUEST"),
        ),
        (
            "?tenant_id=umbra",
            of(json!(["budget.funded"]), json!(["system"])),
            (400, "INVALID_REQUEST"),
        ),
        (
            "?tenant_id=umbra",
            of(json!(["custom.x"]), Value::Null),
            (400, "INVALID_REQUEST"),
        ),
        (
            "?tenant_id=umbra",
            of(json!([]), json!(["budget"])),
            (400, "INVALID_REQUEST"),
        ),
        (
            "?tenant_id=umbra",
            of(json!(["moon.landed"]), Value::Null),
            (400, "INVALID_REQUEST"),
        ),
        ("?tenant_id=", hook(URL), (400, "INVALID_REQUEST")),
        ("?tenant_id=nobody", hook(URL), (404, "TENANT_NOT_FOUND")),
        ("?tenant_id=No%20Such", hook(URL), (404, "TENANT_NOT_FOUND")),
        (
            "",
            of(json!(["api_key.created", "custom.x"]), json!(["system"])),
            (201, "none"),
        ),
        ("?tenant_id=system", hook(URL), (201, "none")),
        ("?tenant_id=__system__", hook(URL), (201, "none")),
        (
            "?tenant_id=umbra",
            json!({"url": URL, "event_types": ["budget.funded"], "tenant_id": "umbra"}),
            (400, "INVALID_REQUEST"),
        ),
    ] {
        let response = app
            .post_as_admin(&format!("{HOOKS}{query}"), body.clone())
            .await;
        assert_eq!(response.error(), expected, "{query} {body}: {response:?}");
        if expected.0 == 201 {
            assert_eq!(response.text("/subscription/tenant_id"), "__system__");
        }
    }
    let page = app
        .get_as_admin(&format!("{HOOKS}?tenant_id=__system__"))
        .await;
    assert_eq!(page.at("/subscriptions").as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn every_order_lists_all_subscriptions() {
    let app = hooked().await;
    let key = key(&app).await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(made(&app, hook(&format!("https://h{n}.example/"))).await);
    }
    patch(&app, &ids[3], json!({"status": "PAUSED"})).await;
    ids.sort();
    async fn walk(app: &TestApp, path: &str, key: Option<&str>) -> Vec<String> {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("{path}&limit=2{cursor}");
            let page = match key {
                Some(key) => app.get_with(key, &path).await,
                None => app.get_as_admin(&path).await,
            };
            assert_eq!(page.status, 200, "{page:?}");
            let rows = page.at("/subscriptions").as_array().expect("rows").clone();
            seen.extend(
                rows.iter()
                    .map(|row| row["subscription_id"].as_str().expect("an id").to_owned()),
            );
            match page.at("/next_cursor").as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return seen,
            }
        }
    }
    assert_eq!(walk(&app, &format!("{OWN}?a=b"), Some(&key)).await, ids);
    assert_eq!(walk(&app, &format!("{OWN}?tenant=umbra"), None).await, ids);
    for sort in ["url", "tenant_id", "status", "consecutive_failures"] {
        let up = walk(&app, &format!("{HOOKS}?sort_by={sort}&sort_dir=asc"), None).await;
        let mut down = walk(&app, &format!("{HOOKS}?sort_by={sort}"), None).await;
        down.reverse();
        assert_eq!(up, down, "{sort}");
        let mut all = up.clone();
        all.sort();
        assert_eq!(all, ids, "{sort}");
    }
    let page = app.get_as_admin(&format!("{HOOKS}?limit=2")).await;
    let cursor = page.text("/next_cursor");
    app.get_as_admin(&format!("{HOOKS}?limit=2&status=PAUSED&cursor={cursor}"))
        .await
        .refused(400, "INVALID_REQUEST");
    app.get_as_admin(&format!("{HOOKS}?search={}", "x".repeat(129)))
        .await
        .refused(400, "INVALID_REQUEST");
}
