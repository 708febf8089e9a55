//! Records and events when failures disable a webhook.

use budget_authority::dispatcher as dispatch;
use budget_authority::domain::ids::Partition;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, made, patch};
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, fund, here, here_with, reached, webhook};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::shared;

/// A subscription of the operator.
async fn of_operator(app: &TestApp, body: Value) -> String {
    let made = app.post_as_admin(HOOKS, body).await.expect(201);
    made.text("/subscription/subscription_id").to_owned()
}

/// The arrived events, once there are this many, sorted by type.
async fn events(receiver: &Receiver, count: usize) -> Vec<Value> {
    eventually("all arrive", || async {
        (receiver.arrived().len() == count).then_some(())
    })
    .await;
    let read = |body: &[u8]| serde_json::from_slice::<Value>(body).expect("JSON");
    let mut events: Vec<_> = receiver.arrived().iter().map(|it| read(&it.body)).collect();
    events.sort_by_key(|event| event["event_type"].to_string());
    events
}

#[tokio::test]
async fn w7_tenant_and_operator_webhooks_are_disabled_with_events_in_their_own_partitions() {
    let failing = json!({"retry_policy": {"max_retries": 0}, "disable_after_failures": 2});
    for (owner, home) in [("__system__", Partition::FIRST), ("umbra", umbra())] {
        let app = here().await;
        let (dead, well) = (
            Receiver::start(Reply::HangUp).await,
            Receiver::start(Reply::Status(200, "")).await,
        );
        let mut body = failing.clone();
        body["url"] = json!(dead.url("/in"));
        body["event_types"] = json!(["budget.funded"]);
        let id = match owner {
            "umbra" => made(&app, body).await,
            _ => of_operator(&app, body).await,
        };
        let types = ["webhook.disabled", "system.webhook_delivery_failed"];
        let watcher = json!({"url": well.url("/in"), "event_types": types});
        of_operator(&app, watcher).await;
        fund(&app, 3).await;
        let _running = RunningDispatcher::start(&app);
        let rows = reached(&app, &id, "FAILED", 3).await;
        let attempts: Vec<_> = rows.iter().map(|row| row["attempts"].clone()).collect();
        assert_eq!(attempts, [json!(1), json!(1), json!(0)], "{rows:?}");
        let record = webhook(&app, &id).await;
        assert_eq!(
            (&record["status"], &record["consecutive_failures"]),
            (&json!("DISABLED"), &json!(2))
        );
        let events = events(&well, 3).await;
        for event in &events {
            let place = event["event_id"].as_str().expect("an id");
            assert!(place.starts_with(&format!("evt_{home}_")), "{event}");
        }
        for event in &events[..2] {
            assert_eq!(event["event_type"], "system.webhook_delivery_failed");
            assert_eq!(event["tenant_id"], "__system__");
            assert_eq!(event["data"]["details"]["tenant_id"], owner, "{event}");
            assert_eq!(event["data"]["details"]["subscription_id"], id);
        }
        assert_eq!(events[2]["event_type"], "webhook.disabled");
        assert_eq!(events[2]["tenant_id"], owner);
        assert_eq!(events[2]["data"]["subscription_id"], id);
    }
}

#[tokio::test]
async fn events_of_dispatchers_name_them_as_their_source_in_either_dialect() {
    for dialect in ["service", "cycles"] {
        let settings = ["--dialect", dialect];
        let app = here_with(&shared().url(), &settings).await;
        let dead = Receiver::start(Reply::HangUp).await;
        let body = json!({
            "url": dead.url("/in"), "event_types": ["budget.funded"],
            "retry_policy": {"max_retries": 0}, "disable_after_failures": 1,
        });
        let id = made(&app, body).await;
        fund(&app, 1).await;
        let (url, room) = (&app.redis_url, dispatch::IN_FLIGHT_MAX);
        let _running = RunningDispatcher::over_with(url, &app, 1, room, &settings);
        reached(&app, &id, "FAILED", 1).await;
        for (tenant, event_type) in [
            ("umbra", "webhook.disabled"),
            ("__system__", "system.webhook_delivery_failed"),
        ] {
            let path = format!("/v1/admin/events?tenant_id={tenant}&event_type={event_type}");
            // A list of events of no tenant is about a second behind.
            let source = eventually("it is listed", || async {
                let page = app.get_as_admin(&path).await.expect(200);
                page.at("/events/0/source").as_str().map(str::to_owned)
            })
            .await;
            assert_eq!(source, format!("{dialect}-events"), "{event_type}");
        }
    }
}

#[tokio::test]
async fn w19_deliveries_change_the_webhooks_version_only_when_they_disable_it() {
    let app = here().await;
    let (dead, well) = (
        Receiver::start(Reply::HangUp).await,
        Receiver::start(Reply::Status(200, "")).await,
    );
    let body = json!({
        "url": well.url("/in"), "event_types": ["budget.funded"],
        "retry_policy": {"max_retries": 0}, "disable_after_failures": 2,
    });
    let id = made(&app, body).await;
    let record = app.store.keys().webhook(umbra(), &id);
    let version = async || -> i64 {
        let version: Option<i64> = app.run(&["HGET", &record, "version"]).await;
        version.unwrap_or(0)
    };
    let audited = || app.admin_fixture().tenant_audit("umbra").len();
    let _running = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    reached(&app, &id, "SUCCESS", 1).await;
    patch(&app, &id, json!({"url": dead.url("/in")}))
        .await
        .expect(200);
    let (changed, patched) = (webhook(&app, &id).await, version().await);
    fund(&app, 1).await;
    reached(&app, &id, "FAILED", 1).await;
    let failed = webhook(&app, &id).await;
    assert_eq!(failed["consecutive_failures"], 1);
    assert_eq!(failed["updated_at"], changed["updated_at"]);
    assert_eq!(version().await, patched);
    fund(&app, 1).await;
    let before = audited();
    reached(&app, &id, "FAILED", 2).await;
    let disabled = webhook(&app, &id).await;
    assert_eq!(disabled["status"], "DISABLED");
    assert_ne!(disabled["updated_at"], changed["updated_at"]);
    assert_eq!(version().await, patched + 1);
    assert_eq!(audited(), before, "disabling writes no audit entry");
}

#[tokio::test]
async fn w25_a_failure_to_report_a_failure_is_not_reported() {
    let app = here().await;
    let dead = Receiver::start(Reply::HangUp).await;
    let failing = |event_type: &str| {
        let once = json!({"max_retries": 0});
        json!({"url": dead.url("/in"), "event_types": [event_type], "retry_policy": once})
    };
    let id = made(&app, failing("budget.funded")).await;
    // Each would get events of the other's failures.
    let mut watchers = Vec::new();
    for _ in 0..2 {
        watchers.push(of_operator(&app, failing("system.webhook_delivery_failed")).await);
    }
    let _running = RunningDispatcher::start(&app);
    for count in 1..4 {
        fund(&app, 1).await;
        reached(&app, &id, "FAILED", count).await;
        for watcher in &watchers {
            let rows = reached(&app, watcher, "FAILED", count).await;
            assert_eq!(rows.len(), count, "{rows:?}");
        }
    }
}
