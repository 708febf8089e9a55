//! A response with a secret is replayed to the key that made it, as long as the secret is in use, and nobody keeps a copy.

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{KEYS, umbra_on};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::redis::shared;
use crate::harness::response::Response;

const HOOKS: &str = "/v1/admin/webhooks?tenant_id=umbra";
const OTHER_KEY: &str = "another-admin-key-of-32-characters";

async fn two_operators() -> TestApp {
    let admin_keys = format!("{ADMIN_KEY},{OTHER_KEY}");
    umbra_on(TestApp::spawn_on(&shared().url(), &["--admin-keys", &admin_keys]).await).await
}

async fn create(app: &TestApp, by: &str, path: &str) -> Response {
    let body = match path {
        KEYS => json!({"tenant_id": "umbra", "name": "ci"}),
        _ => json!({"url": "https://93.184.216.34/x", "event_types": ["budget.funded"]}),
    };
    let headers = [("X-Admin-API-Key", by), ("X-Idempotency-Key", "k")];
    app.call(Method::POST, path, &headers, &body).await
}

#[tokio::test]
async fn a_replay_with_a_secret_is_only_for_the_same_key() {
    let app = two_operators().await;
    for (path, secret) in [(KEYS, "/key_secret"), (HOOKS, "/signing_secret")] {
        let first = create(&app, ADMIN_KEY, path).await.expect(201);
        assert_eq!(first.header("cache-control"), Some("no-store"), "{path}");
        let replayed = create(&app, ADMIN_KEY, path).await.expect(201);
        assert_eq!(replayed.body, first.body, "{path}");
        assert_eq!(replayed.header("cache-control"), Some("no-store"), "{path}");
        let other = create(&app, OTHER_KEY, path).await;
        let other = other.refused(409, "IDEMPOTENCY_MISMATCH");
        let secret = first.text(secret);
        assert!(!other.body.to_string().contains(secret), "{other:?}");
    }
}

#[tokio::test]
async fn the_secret_of_a_revoked_key_is_not_replayed() {
    let app = two_operators().await;
    let first = create(&app, ADMIN_KEY, KEYS).await.expect(201);
    let id = first.text("/key_id");
    app.as_admin(Method::DELETE, &format!("{KEYS}/{id}"), &Value::Null)
        .await
        .expect(200);
    let refused = create(&app, ADMIN_KEY, KEYS)
        .await
        .refused(409, "KEY_REVOKED");
    let expected = format!(
        "The API key {id} is REVOKED, so it is not shown again; use another idempotency key for a new one"
    );
    assert_eq!(refused.text("/message"), expected);
}

#[tokio::test]
async fn the_secret_of_a_webhook_is_not_replayed_after_its_rotation_or_deletion() {
    let app = two_operators().await;
    let first = create(&app, ADMIN_KEY, HOOKS).await.expect(201);
    let one = format!(
        "/v1/admin/webhooks/{}",
        first.text("/subscription/subscription_id")
    );
    let rotate = json!({"signing_secret": "another-secret-of-the-receiver"});
    app.as_admin(Method::PATCH, &one, &rotate).await.expect(200);
    let replayed = create(&app, ADMIN_KEY, HOOKS).await.expect(201);
    assert!(replayed.at("/signing_secret").is_null(), "{replayed:?}");
    assert_eq!(replayed.at("/subscription"), first.at("/subscription"));
    app.as_admin(Method::DELETE, &one, &Value::Null)
        .await
        .expect(204);
    create(&app, ADMIN_KEY, HOOKS)
        .await
        .refused(404, "WEBHOOK_NOT_FOUND");
}
