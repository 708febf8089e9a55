//! A tenant with more deliveries than its share of a pass delays no other tenant of its partition, and loses nothing.

use std::time::Duration;

use budget_authority::dispatcher::FanOut;
use budget_authority::domain::ids::{Partition, TenantId};
use reqwest::Method;
use serde_json::json;

use super::fan_out::{fan_out, follow, fund, leases};
use crate::admin::webhooks::subscriptions::{HOOKS, URL, hooked};
use crate::harness::app::TestApp;
use crate::harness::behind::{catch_up_of, expect_in_order, umbra};
use crate::harness::event_log::EventLog;
use crate::harness::eventually;

/// A tenant in the partition of `umbra`.
pub(super) async fn quiet(app: &TestApp) -> String {
    neighbours(app, 1).await.remove(0)
}

/// Number of events.
pub(super) async fn neighbours(app: &TestApp, count: usize) -> Vec<String> {
    let names = (0..).map(|number| format!("quiet-{number}"));
    let names = names.filter(|name| TenantId::parse(name).expect("an id").partition() == umbra());
    let names: Vec<String> = names.take(count).collect();
    for name in &names {
        let body = json!({"tenant_id": name, "name": "Quiet"});
        app.post_as_admin("/v1/admin/tenants", body)
            .await
            .expect(201);
    }
    names
}

pub(super) async fn update(app: &TestApp, tenant: &str) {
    let path = format!("/v1/admin/tenants/{tenant}");
    let body = json!({"name": format!("{:x}", rand::random::<u32>())});
    app.as_admin(Method::PATCH, &path, &body).await.expect(200);
}

/// A subscription of a tenant, or of the operator.
async fn subscribe(app: &TestApp, tenant: Option<&str>, event_type: &str) -> String {
    let body = json!({"url": URL, "event_types": [event_type]});
    let path = tenant.map_or_else(
        || HOOKS.to_owned(),
        |tenant| format!("{HOOKS}?tenant_id={tenant}"),
    );
    let response = app.post_as_admin(&path, body).await.expect(201);
    response.text("/subscription/subscription_id").to_owned()
}

async fn queued(app: &TestApp, id: &str) -> usize {
    let page = app
        .get_as_admin(&format!("{HOOKS}/{id}/deliveries?limit=100"))
        .await;
    page.expect(200)
        .at("/deliveries")
        .as_array()
        .expect("rows")
        .len()
}

/// Lets subscriptions catch up until none is behind.
async fn catch_up(app: &TestApp, partition: Partition, fan_out: &FanOut) {
    let behind = app.store.keys().behind(partition);
    eventually("all have caught up", || async {
        for id in app
            .run::<Vec<String>>(&["ZRANGE", &behind, "0", "-1"])
            .await
        {
            app.run::<()>(&["ZADD", &behind, "XX", "0", &id]).await;
        }
        let (mut worker, _) = catch_up_of(app);
        worker
            .run_once(&leases(), |_| {})
            .await
            .expect("Redis answers");
        follow(fan_out).await;
        let left: i64 = app.run(&["ZCARD", &behind]).await;
        (left == 0).then_some(()).ok_or(left)
    })
    .await;
}

#[tokio::test]
async fn w14_a_noisy_tenant_delays_no_other_and_loses_nothing() {
    for (is_own, partition) in [(true, umbra()), (false, Partition::FIRST)] {
        let app = hooked().await;
        let name = quiet(&app).await;
        let fan_out = fan_out(&app);
        let mut noisy = Vec::new();
        for _ in 0..30 {
            noisy.push(subscribe(&app, is_own.then_some("umbra"), "budget.funded").await);
        }
        let quiet = subscribe(&app, is_own.then_some(name.as_str()), "tenant.updated").await;
        follow(&fan_out).await;
        // 1,200 deliveries before that of the quiet one.
        fund(&app, 40).await;
        update(&app, &name).await;
        let pass = fan_out.run_once(&leases()).await.expect("Redis answers");
        assert_eq!(pass.queued, 251, "{pass:?}");
        assert_eq!(queued(&app, &quiet).await, 1);
        let behind = app.store.keys().behind(partition);
        assert_eq!(app.run::<i64>(&["ZCARD", &behind]).await, 30);
        fund(&app, 5).await;
        update(&app, &name).await;
        follow(&fan_out).await;
        assert_eq!(queued(&app, &quiet).await, 2);
        catch_up(&app, partition, &fan_out).await;
        for id in &noisy {
            expect_in_order(&app, partition, id, 45).await;
        }
        // Nothing is behind any more.
        fund(&app, 1).await;
        assert_eq!(follow(&fan_out).await, 30);
        assert_eq!(follow(&self::fan_out(&app)).await, 0);
    }
}

/// Dispatchers that overlap and end in the middle of anything.
#[tokio::test]
async fn events_of_a_noisy_tenant_are_queued_once_and_in_order_by_any_dispatcher() {
    for (is_own, partition) in [(true, umbra()), (false, Partition::FIRST)] {
        let app = hooked().await;
        let mut noisy = Vec::new();
        for _ in 0..12 {
            noisy.push(subscribe(&app, is_own.then_some("umbra"), "budget.funded").await);
        }
        let (one, other) = (fan_out(&app), fan_out(&app));
        let leases = leases();
        for round in 0..10 {
            fund(&app, 30).await;
            one.run_once(&leases).await.expect("Redis answers");
            let (mut catching_up, _) = catch_up_of(&app);
            let passes = async {
                let _ = tokio::join!(
                    one.run_once(&leases),
                    other.run_once(&leases),
                    catching_up.run_once(&leases, |_| {}),
                );
            };
            let after = Duration::from_millis(5 + 8 * round);
            // A request that is cut off may still cause its event, after all others were counted.
            let _ = tokio::join!(tokio::time::timeout(after, passes), fund(&app, 1));
        }
        follow(&one).await;
        catch_up(&app, partition, &fan_out(&app)).await;
        let events = EventLog::on(&app.store).events().await;
        let funded = events
            .iter()
            .filter(|event| event.row.kind.as_deref() == Some("budget.funded"))
            .count();
        for id in &noisy {
            expect_in_order(&app, partition, id, funded).await;
        }
    }
}
