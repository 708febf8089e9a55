//! Signing secrets and headers: returned once, sealed at rest, and never anywhere else.

use std::net::IpAddr;

use budget_authority::domain::ids::TenantId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::umbra_on;
use crate::admin::webhooks::guard::open;
use crate::admin::webhooks::subscriptions::{HOOKS, OWN, URL, hook, hooked, key, made, patch};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::receiver::{Receiver, Reply, egress, public_names};
use crate::harness::response::Response;

const SECRET: &str = "xylophone-secret-0123456789";
const TOKEN: &str = "Bearer xylophone-token";
const OTHER: &str = "xylophone-rotated-0123456789";

const OLD_KEY: &str = "old:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const NEW_KEY: &str = "new:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

fn with_secrets() -> Value {
    json!({"url": URL, "event_types": ["budget.funded"], "signing_secret": SECRET, "headers": {"Authorization": TOKEN}})
}

fn record_key(app: &TestApp, id: &str) -> String {
    let partition = TenantId::parse("umbra").expect("an id").partition();
    app.store.keys().webhook(partition, id)
}

fn stored(app: &TestApp, id: &str, field: &str) -> String {
    let fixture = app.admin_fixture();
    fixture.redis().run(&["HGET", &record_key(app, id), field])
}

async fn create_under(app: &TestApp, key: &str, body: &Value) -> Response {
    let request = app
        .request(Method::POST, &format!("{HOOKS}?tenant_id=umbra"))
        .header("X-Admin-API-Key", ADMIN_KEY)
        .header("X-Idempotency-Key", key);
    app.send(request.json(body)).await
}

/// Everything that the deployment has in Redis, as text.
fn all_of_redis(app: &TestApp) -> String {
    let fixture = app.admin_fixture();
    let prefix = app.store.keys().prefix().to_owned();
    let keys: Vec<String> = fixture.redis().run(&["KEYS", &format!("{prefix}:*")]);
    let mut text = String::new();
    for key in keys {
        let kind: String = fixture.redis().run(&["TYPE", &key]);
        let content = match kind.as_str() {
            "hash" => format!(
                "{:?}",
                fixture.redis().run::<Vec<String>>(&["HGETALL", &key])
            ),
            "stream" => format!(
                "{:?}",
                fixture
                    .redis()
                    .run::<redis::Value>(&["XRANGE", &key, "-", "+"])
            ),
            "zset" => format!(
                "{:?}",
                fixture
                    .redis()
                    .run::<Vec<String>>(&["ZRANGE", &key, "0", "-1"])
            ),
            "set" => format!(
                "{:?}",
                fixture.redis().run::<Vec<String>>(&["SMEMBERS", &key])
            ),
            "string" => fixture.redis().run::<String>(&["GET", &key]),
            other => panic!("{key} is a {other}"),
        };
        text.push_str(&format!("{key} {content}\n"));
    }
    text
}

#[tokio::test]
async fn a_secret_is_only_in_the_response_of_its_create() {
    let app = hooked().await;
    let tenant_key = key(&app).await;
    let created = create_under(&app, "k", &with_secrets()).await;
    assert_eq!(created.text("/signing_secret"), SECRET);
    let id = created.text("/subscription/subscription_id").to_owned();
    let mut texts = vec![created.at("/subscription").to_string()];
    for response in [
        app.get_as_admin(&format!("{HOOKS}/{id}")).await,
        app.get_as_admin(HOOKS).await,
        app.get_with(&tenant_key, OWN).await,
        app.get_with(&tenant_key, &format!("{OWN}/{id}")).await,
        patch(
            &app,
            &id,
            json!({"signing_secret": OTHER, "headers": {"Authorization": TOKEN, "X": "xylophone"}}),
        )
        .await,
        patch(&app, &id, json!({"headers": {"Bad Name": "xylophone"}})).await,
        patch(&app, &id, json!({"signing_secret": "xylophone"})).await,
        app.get_as_admin(&format!("{HOOKS}/{id}")).await,
    ] {
        texts.push(format!("{response:?}"));
    }
    texts.push(all_of_redis(&app));
    let fixture = app.admin_fixture();
    texts.push(format!("{:?}", fixture.events("umbra")));
    for text in texts {
        assert!(!text.contains("xylophone"), "{text}");
    }
    let get = app.get_as_admin(&format!("{HOOKS}/{id}")).await;
    assert_eq!(
        get.at("/headers"),
        &json!({"Authorization": "********", "X": "********"})
    );
}

#[tokio::test]
async fn a_repeated_create_shows_the_same_secret_and_creates_nothing() {
    let app = hooked().await;
    let body = json!({"url": URL, "event_types": ["budget.funded"]});
    let first = create_under(&app, "k", &body).await;
    let again = create_under(&app, "k", &body).await;
    assert_eq!((first.status, &first.body), (201, &again.body));
    create_under(&app, "k", &hook("https://other.example/"))
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    assert_eq!(
        app.get_as_admin(HOOKS)
            .await
            .at("/subscriptions")
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    // A replay is not judged again.
    let rules = json!({"allowed_url_patterns": ["https://nothing.test/"]});
    app.as_admin(Method::PUT, "/v1/admin/config/webhook-security", &rules)
        .await;
    assert_eq!(create_under(&app, "k", &body).await.body, first.body);
    let fixture = app.admin_fixture();
    let created = fixture
        .event_types("umbra")
        .into_iter()
        .filter(|kind| kind == "webhook.created");
    assert_eq!(created.count(), 1);
}

#[tokio::test]
async fn a_repeated_update_gets_the_same_response() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let change = |key: &'static str, body: Value| {
        let (app, id) = (&app, &id);
        async move {
            let request = app
                .request(Method::PATCH, &format!("{HOOKS}/{id}"))
                .header("X-Admin-API-Key", ADMIN_KEY)
                .header("X-Idempotency-Key", key);
            app.send(request.json(&body)).await
        }
    };
    let first = change("k", json!({"name": "n"})).await;
    assert_eq!(change("l", json!({"name": "m"})).await.text("/name"), "m");
    assert_eq!(change("k", json!({"name": "n"})).await.body, first.body);
    let cleared = change("k", json!({"name": null})).await;
    assert_eq!(
        cleared.error(),
        (409, "IDEMPOTENCY_MISMATCH"),
        "null says something: {cleared:?}"
    );
    app.as_admin(Method::DELETE, &format!("{HOOKS}/{id}"), &json!({}))
        .await;
    assert_eq!(change("k", json!({"name": "n"})).await.body, first.body);
}

#[tokio::test]
async fn a_repeated_create_of_an_api_key_shows_the_same_key() {
    let app = hooked().await;
    let create = |key: &'static str, name: &'static str| {
        let request = app
            .request(Method::POST, "/v1/admin/api-keys")
            .header("X-Admin-API-Key", ADMIN_KEY)
            .header("X-Idempotency-Key", key);
        app.send(request.json(&json!({"tenant_id": "umbra", "name": name})))
    };
    let first = create("k", "ci").await.expect(201);
    assert_eq!(create("k", "ci").await.body, first.body);
    create("k", "cd").await.refused(409, "IDEMPOTENCY_MISMATCH");
    assert_ne!(
        create("l", "ci").await.text("/key_id"),
        first.text("/key_id")
    );
    let secret = first.text("/key_secret");
    assert!(!all_of_redis(&app).contains(&secret[secret.len() - 32..]));
}

#[tokio::test]
async fn stored_secrets_stay_readable_when_keys_rotate() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let way_out = || egress(|_| vec![IpAddr::from([127, 0, 0, 1])]).0;
    let prefix = format!("t{:016x}", rand::random::<u64>());
    let spawn = |keys: String, first: bool| {
        let (prefix, way_out) = (prefix.clone(), way_out());
        async move {
            let settings = ["--secret-keys", keys.as_str()];
            let app = TestApp::spawn_under(&prefix, way_out, &settings).await;
            if first { umbra_on(app).await } else { app }
        }
    };
    let app = spawn(OLD_KEY.to_owned(), true).await;
    open(&app).await;
    let mut body = with_secrets();
    body["url"] = json!(receiver.url("/"));
    let id = made(&app, body).await;
    assert!(stored(&app, &id, "signing_secret").starts_with("enc:old:"));
    async fn test(app: &TestApp, id: &str) -> Response {
        app.as_admin(Method::POST, &format!("{HOOKS}/{id}/test"), &json!({}))
            .await
    }
    let both = spawn(format!("{NEW_KEY},{OLD_KEY}"), false).await;
    assert_eq!(test(&both, &id).await.at("/success"), &json!(true));
    // Any update encrypts the secret again, which is not among the changed fields.
    patch(&both, &id, json!({"name": "n"})).await;
    for field in ["signing_secret", "headers"] {
        assert!(stored(&both, &id, field).starts_with("enc:new:"), "{field}");
    }
    assert_eq!(test(&both, &id).await.at("/success"), &json!(true));
    let arrived = receiver.arrived();
    for request in &arrived {
        let signature = budget_authority::domain::webhook::sign(SECRET, &request.body);
        assert_eq!(
            request.header("x-service-signature"),
            Some(signature.as_str())
        );
        assert_eq!(request.header("authorization"), Some(TOKEN));
    }
    // Without the key nothing is sent, least of all unsigned; the rest works, and a new secret repairs it.
    let lost = spawn(OLD_KEY.to_owned(), false).await;
    test(&lost, &id).await.refused(500, "INTERNAL_ERROR");
    assert_eq!(receiver.arrived().len(), arrived.len());
    lost.get_as_admin(&format!("{HOOKS}/{id}"))
        .await
        .expect(200);
    patch(
        &lost,
        &id,
        json!({"signing_secret": OTHER, "headers": {"A": "1"}}),
    )
    .await
    .expect(200);
    assert_eq!(test(&lost, &id).await.at("/success"), &json!(true));
}

#[tokio::test]
async fn a_sealed_secret_cannot_be_moved_to_another_record() {
    let app = hooked().await;
    let (one, two) = (
        made(&app, with_secrets()).await,
        made(&app, hook(URL)).await,
    );
    let sealed = stored(&app, &one, "signing_secret");
    let fixture = app.admin_fixture();
    fixture
        .redis()
        .run::<i64>(&["HSET", &record_key(&app, &two), "signing_secret", &sealed]);
    app.as_admin(Method::POST, &format!("{HOOKS}/{two}/test"), &json!({}))
        .await
        .refused(500, "INTERNAL_ERROR");
}

#[tokio::test]
async fn without_secret_keys_responses_with_secrets_are_not_replayed() {
    let settings = ["--allow-plaintext-secrets"];
    let app = umbra_on(TestApp::spawn_reaching(public_names(), &settings).await).await;
    create_under(&app, "k", &with_secrets())
        .await
        .refused(400, "INVALID_REQUEST");
    let id = made(&app, with_secrets()).await;
    assert_eq!(stored(&app, &id, "signing_secret"), SECRET);
    assert_eq!(
        app.get_as_admin(&format!("{HOOKS}/{id}"))
            .await
            .at("/headers/Authorization"),
        &json!("********")
    );
}
