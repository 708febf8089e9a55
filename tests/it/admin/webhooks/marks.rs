//! The marks on which dispatchers rely: since when a subscription gets events, its epoch, and the mark of each change.

use budget_authority::domain::ids::{Partition, TenantId};
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, URL, hooked, made, patch};
use crate::harness::app::TestApp;

fn partition() -> Partition {
    TenantId::parse("umbra").expect("an id").partition()
}

/// `since`, `since_ms` and `epoch` of a subscription.
fn places(app: &TestApp, id: &str) -> (String, i64, i64) {
    let fixture = app.admin_fixture();
    let key = fixture.store.keys().webhook(partition(), id);
    let (since, since_ms, epoch): (String, i64, Option<i64>) = fixture
        .redis()
        .run(&["HMGET", &key, "since", "since_ms", "epoch"]);
    (since, since_ms, epoch.unwrap_or(0))
}

/// The last entry of the outbox.
fn last_entry(app: &TestApp) -> String {
    let fixture = app.admin_fixture();
    let outbox = fixture.store.keys().outbox(partition());
    let entries: Vec<(String, Vec<String>)> =
        fixture
            .redis()
            .run(&["XREVRANGE", &outbox, "+", "-", "COUNT", "1"]);
    entries.into_iter().next().expect("an entry").0
}

fn mark(app: &TestApp) -> Option<String> {
    let fixture = app.admin_fixture();
    let key = fixture.store.keys().webhooks_mark(partition(), "umbra");
    fixture.redis().run(&["GET", &key])
}

fn any() -> Value {
    json!({"url": URL, "event_types": ["budget.funded"]})
}

async fn bulk(app: &TestApp, action: &str) {
    let body =
        json!({"action": action, "filter": {"tenant_id": "umbra"}, "idempotency_key": action});
    let path = format!("{HOOKS}/bulk-action");
    app.post_as_admin(&path, body).await.expect(200);
}

#[tokio::test]
async fn w1_a_subscription_gets_events_after_its_own_entry() {
    let app = hooked().await;
    let id = made(&app, any()).await;
    let (since, created_ms, epoch) = places(&app, &id);
    assert_eq!((since, epoch), (last_entry(&app), 0));
    // A change that leaves it active moves nothing.
    patch(&app, &id, json!({"name": "other"})).await;
    let (since, _, epoch) = places(&app, &id);
    assert_ne!(since, last_entry(&app));
    assert_eq!(epoch, 0);
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    assert_eq!(places(&app, &id), (since, created_ms, 1));
    patch(&app, &id, json!({"status": "ACTIVE"})).await;
    let (since, resumed_ms, epoch) = places(&app, &id);
    assert_eq!((since, epoch), (last_entry(&app), 1));
    assert!(resumed_ms >= created_ms);
    bulk(&app, "PAUSE").await;
    assert_eq!(places(&app, &id).2, 2);
    bulk(&app, "RESUME").await;
    let (since, _, epoch) = places(&app, &id);
    assert_eq!((since, epoch), (last_entry(&app), 2));
    let close = json!({"status": "CLOSED"});
    app.as_admin(Method::PATCH, "/v1/admin/tenants/umbra", &close)
        .await
        .expect(200);
    assert_eq!(places(&app, &id).2, 3);
}

#[tokio::test]
async fn every_change_of_an_owners_subscriptions_changes_their_mark() {
    let app = hooked().await;
    assert_eq!(mark(&app), None);
    let mut seen = Vec::new();
    let mut changed = |what: &str| {
        let mark = mark(&app);
        assert!(mark.is_some() && !seen.contains(&mark), "{what}");
        seen.push(mark);
    };
    let id = made(&app, any()).await;
    changed("created");
    patch(&app, &id, json!({"name": "other"})).await;
    changed("updated");
    bulk(&app, "PAUSE").await;
    changed("paused in bulk");
    bulk(&app, "RESUME").await;
    changed("resumed in bulk");
    let other = made(
        &app,
        json!({"url": URL, "event_categories": ["budget"], "event_types": ["budget.funded"]}),
    )
    .await;
    changed("another created");
    let delete = |id: String| {
        let app = &app;
        async move {
            let path = format!("{HOOKS}/{id}");
            app.as_admin(Method::DELETE, &path, &json!({}))
                .await
                .expect(204)
        }
    };
    delete(other).await;
    changed("another deleted");
    delete(id).await;
    assert_eq!(mark(&app), None);
}
