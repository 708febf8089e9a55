//! Webhook subscriptions: their states, their events, and the close of their tenant.

use std::net::IpAddr;

use reqwest::Method;
use serde_json::{Value, json};

use super::INVALID;
use crate::admin::http::{BUDGETS, KEYS, umbra_on};
use crate::admin::webhooks::guard::open;
use crate::admin::webhooks::subscriptions::{HOOKS, OWN, URL, hook, hooked, made, patch};
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::receiver::{Receiver, Reply, egress};
use crate::harness::runtime_calls::tokens;

const CLOSED: (u16, &str) = (409, "TENANT_CLOSED");

/// The webhook events of the tenant so far: type and changed fields.
fn emitted(app: &TestApp) -> Vec<(String, Value)> {
    let events = app.admin_fixture().events("umbra");
    let of_webhooks = events.iter().filter(|event| event["category"] == "webhook");
    of_webhooks
        .map(|event| {
            (
                event["event_type"].as_str().expect("a text").to_owned(),
                event["data"]["changed_fields"].clone(),
            )
        })
        .collect()
}

#[tokio::test]
async fn rule_61_an_update_to_the_stored_values_emits_nothing() {
    let app = hooked().await;
    let mut body = hook(URL);
    body["name"] = json!("n");
    let id = made(&app, body).await;
    let before = emitted(&app).len();
    let same =
        json!({"name": "n", "url": URL, "event_types": ["budget.funded"], "status": "ACTIVE"});
    patch(&app, &id, same).await.expect(200);
    assert_eq!(emitted(&app).len(), before);
    patch(
        &app,
        &id,
        json!({"name": "n", "signing_secret": "a secret of that length, at least"}),
    )
    .await;
    assert_eq!(
        emitted(&app)[before..],
        [("webhook.updated".to_owned(), json!(["signing_secret"]))]
    );
}

#[tokio::test]
async fn rule_62_a_pause_with_a_change_is_one_event_that_names_it() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let before = emitted(&app).len();
    patch(&app, &id, json!({"status": "PAUSED", "name": "new"})).await;
    assert_eq!(
        emitted(&app)[before..],
        [("webhook.paused".to_owned(), json!(["name"]))]
    );
}

#[tokio::test]
async fn rule_63_no_request_disables_and_resuming_resets_the_failures() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    assert_eq!(
        patch(&app, &id, json!({"status": "DISABLED"}))
            .await
            .error(),
        INVALID
    );
    // As the delivery leaves it that gave up.
    let record = app
        .store
        .keys()
        .webhook(tenant_id("umbra").partition(), &id);
    let fields = [
        "HSET",
        &record,
        "status",
        "DISABLED",
        "consecutive_failures",
        "10",
    ];
    app.run::<()>(&fields).await;
    assert_eq!(
        app.get_as_admin(&format!("{HOOKS}/{id}"))
            .await
            .text("/status"),
        "DISABLED"
    );
    let before = emitted(&app).len();
    let resumed = patch(&app, &id, json!({"status": "ACTIVE"})).await;
    assert_eq!(
        (resumed.text("/status"), resumed.at("/consecutive_failures")),
        ("ACTIVE", &json!(0))
    );
    assert_eq!(
        emitted(&app)[before..],
        [("webhook.resumed".to_owned(), json!([]))]
    );
}

#[tokio::test]
async fn rule_64_a_test_reaches_a_paused_subscription_and_changes_nothing() {
    let (way_out, _) = egress(|_| vec![IpAddr::from([127, 0, 0, 1])]);
    let app = umbra_on(TestApp::spawn_reaching(way_out, &[]).await).await;
    open(&app).await;
    let receiver = Receiver::start(Reply::Status(500, "")).await;
    let id = made(&app, hook(&receiver.url("/in"))).await;
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    let before = app.get_as_admin(&format!("{HOOKS}/{id}")).await.body;
    let events = app.admin_fixture().event_types("umbra");
    let response = app
        .as_admin(Method::POST, &format!("{HOOKS}/{id}/test"), &json!({}))
        .await;
    assert_eq!(
        (response.status, response.at("/success")),
        (200, &json!(false)),
        "{response:?}"
    );
    let arrived = receiver.arrived();
    assert_eq!(arrived.len(), 1);
    assert!(
        arrived[0]
            .header("x-service-signature")
            .is_some_and(|value| value.starts_with("sha256="))
    );
    assert_eq!(
        app.get_as_admin(&format!("{HOOKS}/{id}")).await.body,
        before
    );
    assert_eq!(app.admin_fixture().event_types("umbra"), events);
}

/// A service with a subscription of the tenant's and one of the operator's, and the tenant closed.
async fn closed() -> (TestApp, String, String) {
    let app = hooked().await;
    let own = made(&app, hook(URL)).await;
    let all = json!({
        "url": URL, "event_types": ["tenant.closed", "budget.closed_via_tenant_cascade", "webhook.disabled_via_tenant_cascade"],
    });
    let made = app.post_as_admin(HOOKS, all).await;
    let operators = made.text("/subscription/subscription_id").to_owned();
    app.as_admin(
        Method::PATCH,
        "/v1/admin/tenants/umbra",
        &json!({"status": "CLOSED"}),
    )
    .await
    .expect(200);
    (app, own, operators)
}

#[tokio::test]
async fn rule_81_a_subscription_disabled_by_a_close_can_be_read_but_not_resumed() {
    let (app, own, _) = closed().await;
    for path in [format!("{HOOKS}/{own}"), format!("{OWN}/{own}")] {
        let resumed = app
            .as_admin(Method::PATCH, &path, &json!({"status": "ACTIVE"}))
            .await;
        assert_eq!(resumed.error(), CLOSED, "{resumed:?}");
        assert_eq!(app.get_as_admin(&path).await.text("/status"), "DISABLED");
    }
}

#[tokio::test]
async fn rule_82_nothing_is_created_under_a_closed_or_unknown_tenant() {
    let (app, ..) = closed().await;
    for (tenant, refused, webhook) in [
        ("umbra", CLOSED, CLOSED),
        (
            "nobody",
            (400, "TENANT_NOT_FOUND"),
            (404, "TENANT_NOT_FOUND"),
        ),
    ] {
        let scope = format!("tenant:{tenant}/agent:new");
        let budget =
            json!({"tenant_id": tenant, "scope": scope, "unit": "TOKENS", "allocated": tokens(1)});
        assert_eq!(
            app.post_as_admin(BUDGETS, budget).await.error(),
            refused,
            "budget of {tenant}"
        );
        let policy = json!({"tenant_id": tenant, "name": "p", "scope_pattern": scope});
        assert_eq!(
            app.post_as_admin("/v1/admin/policies", policy)
                .await
                .error(),
            refused,
            "policy of {tenant}"
        );
        let key = json!({"tenant_id": tenant, "name": "k"});
        assert_eq!(
            app.post_as_admin(KEYS, key).await.error(),
            refused,
            "key of {tenant}"
        );
        let response = app
            .post_as_admin(&format!("{HOOKS}?tenant_id={tenant}"), hook(URL))
            .await;
        assert_eq!(response.error(), webhook, "webhook of {tenant}");
    }
}

/// As far as it can be seen before anything is delivered: what a delivery would ask is that the subscription is not active.
#[tokio::test]
async fn invariant_8_the_events_of_a_close_are_for_the_operators_subscriptions_alone() {
    let (app, own, operators) = closed().await;
    let record = app
        .store
        .keys()
        .webhook(tenant_id("umbra").partition(), &own);
    let status: String = app.run(&["HGET", &record, "status"]).await;
    assert_eq!(status, "DISABLED");
    let replay = async |id: &str| {
        app.as_admin(Method::POST, &format!("{HOOKS}/{id}/replay"), &json!({}))
            .await
    };
    assert_eq!(replay(&own).await.error(), CLOSED);
    let theirs = replay(&operators).await;
    assert_eq!(
        theirs.at("/events_queued"),
        &json!(3),
        "budget, webhook, tenant: {theirs:?}"
    );
    // Nothing watches the tenant's ledgers any more.
    let watch = app
        .store
        .keys()
        .watch(tenant_id("umbra").partition(), "umbra");
    let watched: std::collections::BTreeMap<String, String> = app.run(&["HGETALL", &watch]).await;
    assert!(
        !watched.values().any(|value| value.contains(&own)) && !watched.contains_key(&own),
        "{watched:?}"
    );
    // A test gets the same refusal as a delivery that was queued before.
    let test = app
        .as_admin(Method::POST, &format!("{HOOKS}/{own}/test"), &json!({}))
        .await;
    assert_eq!(test.error(), CLOSED);
}
