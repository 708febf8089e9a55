//! Subscriptions under a key that is restricted to some scopes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::KEYS;
use crate::harness::app::TestApp;
use crate::harness::receiver::public_names;
use crate::harness::response::Response;

const HOOKS: &str = "/v1/webhooks";
const OUTSIDE: (u16, &str) = (403, "FORBIDDEN");

/// A tenant, and a key of it with this filter.
struct RestrictedKey {
    app: TestApp,
    key: String,
    all: String,
}

fn hook(filter: Option<&str>) -> Value {
    json!({"url": "https://hooks.example/in", "event_types": ["budget.funded"], "scope_filter": filter})
}

impl RestrictedKey {
    async fn new(entry: &str) -> Self {
        let app = TestApp::spawn_reaching(public_names(), &[]).await;
        let tenant = json!({"tenant_id": "umbra", "name": "umbra"});
        app.post_as_admin("/v1/admin/tenants", tenant).await;
        let key = async |filter: Value| {
            let permissions = ["webhooks:read", "webhooks:write"];
            let new = json!({"tenant_id": "umbra", "name": "k", "permissions": permissions, "scope_filter": filter});
            let made = app.post_as_admin(KEYS, new).await.expect(201);
            made.text("/key_secret").to_owned()
        };
        let (all, key) = (key(json!([])).await, key(json!([entry])).await);
        Self { app, key, all }
    }

    async fn create(&self, key: &str, filter: Option<&str>) -> Response {
        let body = hook(filter);
        self.app.by_key(key, Method::POST, HOOKS, &body).await
    }

    /// A subscription that the key without a filter makes.
    async fn made(&self, filter: Option<&str>) -> String {
        let made = self.create(&self.all, filter).await.expect(201);
        let id = made.text("/subscription/subscription_id");
        format!("{HOOKS}/{id}")
    }

    async fn patch(&self, path: &str, body: Value) -> Response {
        self.app.by_key(&self.key, Method::PATCH, path, &body).await
    }
}

#[tokio::test]
async fn a_subscription_is_created_or_moved_only_within_the_scope_filter() {
    let path = "tenant:umbra/app:chat";
    for (entry, filter, is_within) in [
        (path, Some("tenant:umbra/app:chat"), true),
        (path, Some("tenant:umbra/app:chat/*"), true),
        (path, Some("tenant:umbra/app:chat/agent:a*"), true),
        (path, Some("tenant:umbra/app:Chat/agent:*"), true),
        (path, Some("tenant:umbra/app:chat*"), false),
        (path, Some("tenant:umbra/app:secret/*"), false),
        (path, Some("tenant:umbra/*"), false),
        (path, Some("tenant:umbra"), false),
        (path, Some("*"), false),
        (path, Some(" "), false),
        (path, None, false),
        ("app:chat", Some("tenant:umbra/app:chat/*"), true),
        ("app:chat", Some("tenant:umbra/app:chatter/*"), false),
        ("agent:*", Some("tenant:umbra/agent:w*"), false),
        ("*", Some("tenant:umbra/*"), false),
    ] {
        let fenced = RestrictedKey::new(entry).await;
        let own = fenced.made(Some(entry)).await;
        let moved = fenced.patch(&own, json!({"scope_filter": filter})).await;
        let created = fenced.create(&fenced.key, filter).await;
        let expected = match is_within {
            true => [(200, "none"), (201, "none")],
            false => [OUTSIDE; 2],
        };
        let case = format!("{entry} {filter:?}: {moved:?} {created:?}");
        assert_eq!([moved.error(), created.error()], expected, "{case}");
        let unrestricted = fenced.create(&fenced.all, filter).await;
        assert_eq!(unrestricted.error(), (201, "none"), "{case}");
    }
}

#[tokio::test]
async fn a_subscription_outside_the_scope_filter_is_not_found() {
    let fenced = RestrictedKey::new("tenant:umbra/app:chat").await;
    let own = fenced.made(Some("tenant:umbra/app:chat/*")).await;
    let secret = fenced.made(Some("tenant:umbra/app:secret/*")).await;
    let everything = fenced.made(None).await;
    let by_key = async |method: Method, path: &str| {
        let body = json!({"scope_filter": "tenant:umbra/app:chat", "signing_secret": "0123456789abcdef0123456789abcdef"});
        fenced.app.by_key(&fenced.key, method, path, &body).await
    };
    let replay = async |path: &str| {
        let path = format!("{path}/replay");
        let body = json!({});
        fenced
            .app
            .by_key(&fenced.key, Method::POST, &path, &body)
            .await
    };
    for path in [&secret, &everything] {
        for (method, path) in [
            (Method::GET, path.clone()),
            (Method::PATCH, path.clone()),
            (Method::DELETE, path.clone()),
            (Method::POST, format!("{path}/test")),
            (Method::GET, format!("{path}/deliveries")),
        ] {
            let response = by_key(method.clone(), &path).await;
            assert_eq!(response.error(), OUTSIDE, "{method} {path}");
            let reason =
                "The API key is restricted to other scopes; it may act in tenant:umbra/app:chat";
            assert_eq!(response.text("/message"), reason);
        }
        assert_eq!(replay(path).await.error(), OUTSIDE, "{path}");
    }
    replay(&own).await.expect(202);
    let listed = by_key(Method::GET, HOOKS).await;
    let rows = listed
        .at("/subscriptions")
        .as_array()
        .expect("rows")
        .clone();
    let ids: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "{HOOKS}/{}",
                row["subscription_id"].as_str().expect("an id")
            )
        })
        .collect();
    assert_eq!(ids, [own.as_str()]);
    for path in [own.clone(), format!("{own}/deliveries")] {
        by_key(Method::GET, &path).await.expect(200);
    }
    let deleted = by_key(Method::DELETE, &own).await;
    assert_eq!(deleted.status, 204);
}
