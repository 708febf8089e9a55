//! Bulk actions on webhook subscriptions: the outcome of each row, and what is watched afterwards.

use budget_authority::domain::ids::{Partition, TenantId};
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, URL, hook, hooked, made, patch};
use crate::harness::app::TestApp;
use crate::harness::bulk_calls::{WEBHOOKS, ids, words};

fn ask(filter: Value, action: &str, key: &str) -> Value {
    json!({"filter": filter, "action": action, "idempotency_key": key})
}

fn set(app: &TestApp, id: &str, fields: &[&str]) {
    let fixture = app.admin_fixture();
    let partition = Partition::parse(&id[6..9]).expect("a partition");
    let key = fixture.store.keys().webhook(partition, id);
    fixture
        .redis()
        .run::<()>(&[&["HSET", &key], fields].concat());
}

fn row(id: &str, word: &str) -> (String, String) {
    (id.to_owned(), word.to_owned())
}

async fn status(app: &TestApp, id: &str) -> String {
    app.get_as_admin(&format!("{HOOKS}/{id}"))
        .await
        .text("/status")
        .to_owned()
}

/// An active, a paused and a disabled one, in the order of their ids.
async fn three(app: &TestApp) -> [String; 3] {
    let mut made = [
        made(app, hook(URL)).await,
        made(app, hook(URL)).await,
        made(app, hook(URL)).await,
    ];
    made.sort();
    patch(app, &made[1], json!({"status": "PAUSED"})).await;
    set(
        app,
        &made[2],
        &["status", "DISABLED", "consecutive_failures", "10"],
    );
    made
}

#[tokio::test]
async fn rule_47_resuming_a_disabled_webhook_fails_and_pausing_it_is_skipped() {
    let app = hooked().await;
    let [active, paused, disabled] = three(&app).await;
    set(&app, &paused, &["consecutive_failures", "3"]);
    let umbra = json!({"tenant_id": "umbra"});
    let response = app
        .post_as_admin(WEBHOOKS, &ask(umbra.clone(), "RESUME", "1"))
        .await;
    assert_eq!(
        ids(&response, "succeeded"),
        [paused.as_str()],
        "{response:?}"
    );
    assert_eq!(
        words(&response, "failed"),
        [row(&disabled, "INVALID_TRANSITION")]
    );
    assert_eq!(
        words(&response, "skipped"),
        [row(&active, "ALREADY_IN_TARGET_STATE")]
    );
    assert_eq!(
        app.get_as_admin(&format!("{HOOKS}/{paused}"))
            .await
            .at("/consecutive_failures"),
        &json!(0)
    );

    let request_id = response.header("x-request-id").expect("an id").to_owned();
    let events = app.admin_fixture().events("umbra");
    let event = events.last().expect("events");
    assert_eq!(
        (&event["event_type"], &event["correlation_id"]),
        (
            &json!("webhook.resumed"),
            &json!(format!("webhook_bulk_action:resume:{request_id}"))
        )
    );
    assert_eq!(
        event["data"],
        json!({"subscription_id": paused, "tenant_id": "umbra", "previous_status": "PAUSED", "new_status": "ACTIVE", "changed_fields": []})
    );

    let response = app.post_as_admin(WEBHOOKS, &ask(umbra, "PAUSE", "2")).await;
    assert_eq!(ids(&response, "succeeded"), [active, paused]);
    assert_eq!(
        words(&response, "skipped"),
        [row(&disabled, "ALREADY_IN_TARGET_STATE")]
    );
    let recorded = app.admin_fixture().tenant_audit("umbra").into_iter();
    let recorded = recorded.filter(|entry| entry.get("operation") == Some("bulkActionWebhooks"));
    assert_eq!(recorded.count(), 2, "with the tenant of the filter");
}

#[tokio::test]
async fn a_deleted_webhook_watches_nothing() {
    let app = hooked().await;
    three(&app).await;
    let body = json!({"url": URL, "event_types": ["budget.threshold_crossed"], "thresholds": {"budget_utilization": [0.5]}});
    let watching = made(&app, body).await;
    let (fixture, key) = (app.admin_fixture(), app.admin_fixture().tenant_key("umbra"));
    let watched = || {
        fixture
            .redis()
            .run::<Option<String>>(&["HGET", &key, "thresholds"])
    };
    assert!(watched().is_some());
    let response = app
        .post_as_admin(
            WEBHOOKS,
            &ask(json!({"search": "hooks.example"}), "DELETE", "1"),
        )
        .await;
    assert_eq!(ids(&response, "succeeded").len(), 4, "{response:?}");
    assert_eq!(watched(), None);
    app.get_as_admin(&format!("{HOOKS}/{watching}"))
        .await
        .expect(404);
    assert_eq!(
        app.get_as_admin(HOOKS).await.at("/subscriptions"),
        &json!([])
    );
    let directory = fixture.store.keys().webhook_directory();
    assert_eq!(fixture.redis().run::<usize>(&["ZCARD", &directory]), 0);
    let recorded = fixture.audit(Partition::FIRST, "__admin__").into_iter();
    let recorded = recorded.filter(|entry| entry.get("operation") == Some("bulkActionWebhooks"));
    assert_eq!(recorded.count(), 1, "a filter without a tenant");
    let emitted = fixture.event_types("umbra").into_iter();
    assert_eq!(emitted.filter(|kind| kind == "webhook.deleted").count(), 4);
}

#[tokio::test]
async fn a_pause_ends_the_watch_of_thresholds_and_resuming_restores_it() {
    let app = hooked().await;
    let body = json!({"url": URL, "event_types": ["budget.threshold_crossed"], "thresholds": {"budget_utilization": [0.25]}});
    let response = app.post_as_admin(HOOKS, body).await;
    let id = response.text("/subscription/subscription_id").to_owned();
    let fixture = app.admin_fixture();
    let watched = || {
        let key = fixture.tenant_key("umbra");
        fixture
            .redis()
            .run::<Option<String>>(&["HGET", &key, "thresholds"])
    };
    let all = Some("250000 800000 950000 1000000".to_owned());
    assert_eq!(watched(), all);
    let own = json!({"tenant_id": "__system__"});
    let response = app
        .post_as_admin(WEBHOOKS, &ask(own.clone(), "PAUSE", "1"))
        .await;
    assert_eq!(ids(&response, "succeeded"), [id.as_str()]);
    assert_eq!(watched(), None, "in every partition, before the answer");
    let response = app.post_as_admin(WEBHOOKS, &ask(own, "RESUME", "2")).await;
    assert_eq!(ids(&response, "succeeded"), [id.as_str()]);
    assert_eq!(watched(), all);
    assert_eq!(status(&app, &id).await, "ACTIVE");
    let recorded = fixture.audit(Partition::FIRST, "__system__").into_iter();
    let recorded = recorded.filter(|entry| entry.get("operation") == Some("bulkActionWebhooks"));
    assert_eq!(recorded.count(), 2);
}

#[tokio::test]
async fn a_webhook_with_selectors_that_its_owner_may_not_have_is_not_resumed() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    set(&app, &id, &["event_types", "api_key.created"]);
    let response = app
        .post_as_admin(WEBHOOKS, &ask(json!({"tenant_id": "umbra"}), "RESUME", "1"))
        .await;
    assert_eq!(words(&response, "failed"), [row(&id, "INVALID_TRANSITION")]);
    assert_eq!(status(&app, &id).await, "PAUSED");
}

#[tokio::test]
async fn webhooks_of_a_closed_owner_are_not_changed() {
    let app = hooked().await;
    let [active, paused, disabled] = three(&app).await;
    app.admin_fixture().set_status("umbra", "CLOSED");
    for action in ["PAUSE", "RESUME", "DELETE"] {
        let response = app
            .post_as_admin(
                WEBHOOKS,
                &ask(json!({"tenant_id": "umbra"}), action, action),
            )
            .await;
        let failed = [&active, &paused, &disabled].map(|id| row(id, "TENANT_CLOSED"));
        assert_eq!(words(&response, "failed"), failed, "{action}");
    }
}

#[tokio::test]
async fn filters_find_status_type_and_text() {
    let app = hooked().await;
    let [_, paused, _] = three(&app).await;
    let other = made(&app, json!({"url": URL, "event_types": ["tenant.closed"]})).await;
    for (filter, expected) in [
        (json!({"status": "PAUSED"}), vec![paused.clone()]),
        (json!({"event_type": "tenant.closed"}), vec![other.clone()]),
        (json!({"search": other.to_uppercase()}), vec![other.clone()]),
        (
            json!({"tenant_id": "umbra", "status": "DISABLED", "event_type": "tenant.closed"}),
            vec![],
        ),
    ] {
        let response = app
            .post_as_admin(WEBHOOKS, &ask(filter.clone(), "PAUSE", &filter.to_string()))
            .await;
        let mut found = ids(&response, "succeeded");
        found.extend(ids(&response, "skipped"));
        assert_eq!(found, expected, "{filter}: {response:?}");
    }
    app.post_as_admin(
        WEBHOOKS,
        &ask(json!({"event_type": "no.such"}), "PAUSE", "x"),
    )
    .await
    .expect(400);
}

#[tokio::test]
async fn a_row_deleted_meanwhile_is_skipped_in_the_words_of_the_dialect() {
    use budget_authority::admin::bulk_actions::run::{BulkProgress, Runner};
    use budget_authority::domain::bulk::{Bulk, BulkAction, Row, WebhookAction};
    use budget_authority::store::admin::bulk::{BulkMode, BulkPlace, BulkState};
    use std::time::Duration;

    let app = hooked().await;
    let [one, two, _] = three(&app).await;
    let umbra = TenantId::parse("umbra").expect("an id");
    for (word, action) in [
        ("MISSING", WebhookAction::Pause),
        ("ALREADY_DELETED", WebhookAction::Resume),
    ] {
        let place = BulkPlace {
            partition: umbra.partition(),
            tenant: "umbra".to_owned(),
            digest: word.to_owned(),
        };
        let bulk = Bulk {
            action: BulkAction::Webhooks(action),
            cause: "source service-admin\nactor admin\nrequest_id req_1\ntrace_id 0af7651916cd43dd8448eb211c80319c".to_owned(),
            filter: "{}".to_owned(),
            idempotency_key: word.to_owned(),
            audit_tenant: "umbra".to_owned(),
            gone_row: word.to_owned(),
            thresholds_max: 64,
            rows: [&one, &two].map(|id| Row { id: id.clone(), place: "umbra".to_owned() }).to_vec(),
        };
        let begun = app
            .admin_fixture()
            .store
            .claim_bulk(&place, BulkMode::Begin("h", &bulk), Duration::ZERO)
            .await;
        let Ok(BulkState::Mine(claim)) = begun else {
            panic!("no claim");
        };
        app.as_admin(Method::DELETE, &format!("{HOOKS}/{one}"), &json!({}))
            .await;
        let progress = Runner::new(app.store.clone(), *claim)
            .run(Duration::from_secs(9))
            .await;
        let BulkProgress::Finished(response) = progress.expect("Redis answers") else {
            panic!("not finished");
        };
        let body: Value = serde_json::from_str(&response.body).expect("JSON");
        assert_eq!(body["skipped"][0], json!({"id": one, "reason": word}));
    }
}
