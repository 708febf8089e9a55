//! Changing and deleting webhook subscriptions.

use budget_authority::domain::ids::TenantId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, URL, hook, hooked, made, patch};
use crate::harness::admin_fixture::AdminFixture;
use crate::harness::app::{ADMIN_KEY, TestApp};

/// The owner's webhook events of today: type and data.
fn emitted(app: &TestApp) -> Vec<Value> {
    let fixture = app.admin_fixture();
    let events = fixture.events("umbra").into_iter();
    events
        .filter(|event| event["category"] == "webhook")
        .collect()
}

#[tokio::test]
async fn a_change_emits_one_event_with_the_changed_fields() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let steps = [
        (
            json!({"name": "n", "url": URL}),
            Some(("webhook.updated", vec!["name"])),
        ),
        (json!({"name": "n"}), None),
        (json!({}), None),
        (
            json!({"signing_secret": "0123456789abcdef"}),
            Some(("webhook.updated", vec!["signing_secret"])),
        ),
        (
            json!({"headers": {"A": "1"}}),
            Some(("webhook.updated", vec!["headers"])),
        ),
        (json!({"headers": {"A": "********"}}), None),
        (json!({"headers": {"A": "1"}}), None),
        (
            json!({"headers": {"A": "********", "B": "2"}}),
            Some(("webhook.updated", vec!["headers"])),
        ),
        (
            json!({"status": "PAUSED", "name": "m"}),
            Some(("webhook.paused", vec!["name"])),
        ),
        (json!({"status": "PAUSED"}), None),
        (
            json!({"status": "ACTIVE"}),
            Some(("webhook.resumed", vec![])),
        ),
        (
            json!({"event_categories": ["budget"], "event_types": []}),
            Some(("webhook.updated", vec!["event_types", "event_categories"])),
        ),
        (
            json!({"name": null, "headers": null, "retry_policy": {"max_retries": 1}, "scope_filter": "", "description": null}),
            Some(("webhook.updated", vec!["name", "retry_policy", "headers"])),
        ),
        (
            json!({"retry_policy": null, "disable_after_failures": null}),
            Some(("webhook.updated", vec!["retry_policy"])),
        ),
    ];
    for (body, expected) in steps {
        let before = emitted(&app).len();
        let response = patch(&app, &id, body.clone()).await;
        assert_eq!(response.status, 200, "{body}: {response:?}");
        assert!(response.at("/signing_secret").is_null() && response.at("/updated_at").is_string());
        let news = emitted(&app).split_off(before);
        let Some((event_type, changed)) = expected else {
            assert!(news.is_empty(), "{body}: {news:?}");
            continue;
        };
        assert_eq!(news.len(), 1, "{body}: {news:?}");
        assert_eq!(news[0]["event_type"], event_type, "{body}");
        assert_eq!(news[0]["data"]["changed_fields"], json!(changed), "{body}");
        let request_id = response.header("x-request-id").expect("an id");
        assert_eq!(
            news[0]["correlation_id"],
            format!("webhook_update:{id}:{request_id}")
        );
        assert_eq!(news[0]["actor"]["type"], "admin");
    }
    let response = app.get_as_admin(&format!("{HOOKS}/{id}")).await;
    assert!(
        response.at("/name").is_null() && response.at("/headers").is_null(),
        "{response:?}"
    );
    assert_eq!(response.at("/retry_policy/max_retries"), &json!(5));
}

#[tokio::test]
async fn an_update_is_refused_if_its_result_would_be_invalid() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    for (body, code, part) in [
        (
            json!({"event_types": []}),
            "INVALID_REQUEST",
            "at least one",
        ),
        (
            json!({"event_types": ["policy.created"]}),
            "INVALID_REQUEST",
            "policy.created",
        ),
        (
            json!({"event_types": ["policy.created"], "url": "http://x"}),
            "INVALID_REQUEST",
            "policy.created",
        ),
        (
            json!({"event_types": [], "url": "http://x"}),
            "WEBHOOK_URL_INVALID",
            "https",
        ),
        (
            json!({"url": "https://missing.test/"}),
            "WEBHOOK_URL_INVALID",
            "resolve",
        ),
        (json!({"status": "DISABLED"}), "INVALID_REQUEST", "status"),
        (
            json!({"signing_secret": ""}),
            "INVALID_REQUEST",
            "signing_secret",
        ),
        (
            json!({"signing_secret": "short"}),
            "INVALID_REQUEST",
            "signing_secret",
        ),
        (
            json!({"headers": {"Host": "x"}}),
            "INVALID_REQUEST",
            "headers",
        ),
        (
            json!({"headers": {"New": "********"}}),
            "INVALID_REQUEST",
            "headers.New",
        ),
        (
            json!({"tenant_id": "umbra"}),
            "INVALID_REQUEST",
            "tenant_id",
        ),
        (
            json!({"disable_after_failures": 10_001}),
            "INVALID_REQUEST",
            "disable_after_failures",
        ),
    ] {
        let response = patch(&app, &id, body.clone()).await;
        assert_eq!(response.error(), (400, code), "{body}: {response:?}");
        assert!(response.text("/message").contains(part), "{response:?}");
        if code == "WEBHOOK_URL_INVALID" {
            assert_eq!(response.text("/details/field"), "url");
        }
    }
    let store = &app.store;
    let fixture = AdminFixture::on(store.clone());
    let partition = TenantId::parse("umbra").expect("an id").partition();
    let record = store.keys().webhook(partition, &id);
    fixture.redis().run::<i64>(&[
        "HSET",
        &record,
        "status",
        "DISABLED",
        "consecutive_failures",
        "7",
    ]);
    patch(&app, &id, json!({"status": "PAUSED"}))
        .await
        .refused(400, "INVALID_REQUEST");
    let resumed = patch(&app, &id, json!({"status": "ACTIVE"})).await;
    assert_eq!(
        resumed.at("/consecutive_failures"),
        &json!(0),
        "{resumed:?}"
    );
    let news = emitted(&app).pop().expect("an event");
    assert_eq!(
        (&news["event_type"], &news["data"]["previous_status"]),
        (&json!("webhook.resumed"), &json!("DISABLED"))
    );
    // Values that only older records have are refused even if only the status changes.
    fixture.redis().run::<i64>(&[
        "HSET",
        &record,
        "event_types",
        "api_key.created",
        "status",
        "PAUSED",
    ]);
    patch(&app, &id, json!({"status": "ACTIVE"}))
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_deleted_webhook_is_removed_from_every_index() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let path = format!("{HOOKS}/{id}");
    let remove = || async {
        let request = app
            .request(Method::DELETE, &path)
            .header("X-Admin-API-Key", ADMIN_KEY);
        app.send(request.header("X-Idempotency-Key", "d")).await
    };
    let removed = remove().await;
    assert_eq!((removed.status, &removed.body), (204, &Value::Null));
    let event = emitted(&app).pop().expect("an event");
    assert_eq!(event["correlation_id"], format!("webhook_delete:{id}"));
    assert_eq!(
        event["data"],
        json!({"subscription_id": id, "tenant_id": "umbra", "previous_status": "ACTIVE", "changed_fields": []})
    );
    // The key of the first attempt gets its response; any other is 404.
    remove().await.expect(204);
    app.get_as_admin(&path)
        .await
        .refused(404, "WEBHOOK_NOT_FOUND");
    app.as_admin(Method::DELETE, &path, &json!({}))
        .await
        .refused(404, "WEBHOOK_NOT_FOUND");
    assert_eq!(
        app.get_as_admin(HOOKS).await.at("/subscriptions"),
        &json!([])
    );
    let fixture = app.admin_fixture();
    let keys: Vec<String> = fixture.redis().run(&["KEYS", &format!("*{id}*")]);
    let left: Vec<&String> = keys.iter().filter(|key| !key.contains(":idem:")).collect();
    assert!(left.is_empty(), "{left:?}");
    let entry = fixture
        .tenant_audit("umbra")
        .into_iter()
        .find(|entry| entry.get("operation") == Some("deleteWebhookSubscription"));
    let entry = entry.expect("one entry");
    assert_eq!(
        (entry.get("status"), entry.get("metadata.url")),
        (Some("204"), Some(URL))
    );
}

#[tokio::test]
async fn concurrent_updates_all_take_effect() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let (a, b, c, d, e) = tokio::join!(
        patch(&app, &id, json!({"name": "n"})),
        patch(&app, &id, json!({"description": "d"})),
        patch(&app, &id, json!({"event_categories": ["budget"]})),
        patch(&app, &id, json!({"headers": {"A": "1"}})),
        patch(&app, &id, json!({"scope_filter": "tenant:umbra"})),
    );
    for response in [a, b, c, d, e] {
        assert_eq!(response.status, 200, "{response:?}");
    }
    let response = app.get_as_admin(&format!("{HOOKS}/{id}")).await;
    for member in [
        "name",
        "description",
        "event_categories",
        "headers",
        "scope_filter",
    ] {
        assert!(!response.body[member].is_null(), "{member}: {response:?}");
    }
    assert_eq!(emitted(&app).len(), 6);
}
