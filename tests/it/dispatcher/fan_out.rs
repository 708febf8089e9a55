//! Each event goes to the subscriptions that it is for: once, in order, and to nobody else.

use std::sync::Arc;

use budget_authority::dispatcher::{DeliverySignal, FanOut, Outboxes};
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::store::Lease;
use prometheus::Registry;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, URL, hooked, made, patch};
use crate::harness::app::TestApp;
use crate::harness::eventually;
use crate::harness::runtime_calls::tokens;

pub(crate) fn fan_out(app: &TestApp) -> FanOut {
    fan_out_in(app, &Registry::new())
}

pub(crate) fn fan_out_in(app: &TestApp, registry: &Registry) -> FanOut {
    let queued = Arc::new(DeliverySignal::default());
    let outboxes = Arc::new(Outboxes::new(app.store.clone()));
    let fan_out = FanOut::new(app.store.clone(), outboxes, 1, queued, registry);
    fan_out.expect("distinct names")
}

pub(crate) fn leases() -> Vec<Lease> {
    let lease = |partition| Lease {
        partition,
        token: 1,
    };
    Partition::all().map(lease).collect()
}

/// Passes until there is nothing more; how many deliveries were queued.
pub(crate) async fn follow(fan_out: &FanOut) -> i64 {
    let mut queued = 0;
    loop {
        let pass = fan_out.run_once(&leases()).await.expect("Redis answers");
        queued += pass.queued;
        if !pass.more && pass.queued == 0 {
            return queued;
        }
    }
}

pub(crate) async fn fund(app: &TestApp, times: usize) {
    for _ in 0..times {
        let path = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
        let body = json!({"operation": "CREDIT", "amount": tokens(1)});
        app.post_as_admin(path, body).await.expect(200);
    }
}

/// The types of the events that are to be delivered to a subscription, in the order in which they were queued.
pub(crate) async fn queued_to(app: &TestApp, id: &str) -> Vec<String> {
    let path = format!("{HOOKS}/{id}/deliveries?limit=100");
    let page = app.get_as_admin(&path).await.expect(200);
    let rows = page.at("/deliveries").as_array().expect("rows").clone();
    let types = rows.iter().rev().map(|row| {
        assert_eq!(
            (&row["status"], &row["attempts"]),
            (&json!("PENDING"), &json!(0))
        );
        row["event_type"].as_str().expect("a type").to_owned()
    });
    types.collect()
}

fn selecting(types: &[&str]) -> Value {
    json!({"url": URL, "event_types": types})
}

#[tokio::test]
async fn an_event_goes_once_to_the_subscriptions_that_selected_it_then() {
    let app = hooked().await;
    let fan_out = fan_out(&app);
    fund(&app, 1).await;
    let funded = made(&app, selecting(&["budget.funded"])).await;
    let tenants = made(&app, selecting(&["tenant.updated"])).await;
    let system = app
        .post_as_admin(HOOKS, selecting(&["budget.funded", "webhook.created"]))
        .await;
    let system = system.text("/subscription/subscription_id").to_owned();
    fund(&app, 2).await;
    assert_eq!(follow(&fan_out).await, 4);
    assert_eq!(follow(&fan_out).await, 0);
    assert_eq!(queued_to(&app, &funded).await, ["budget.funded"; 2]);
    assert_eq!(queued_to(&app, &tenants).await, [""; 0]);
    assert_eq!(queued_to(&app, &system).await, ["budget.funded"; 2]);
    // Another dispatcher that follows the same outboxes adds nothing.
    assert_eq!(follow(&self::fan_out(&app)).await, 0);
}

#[tokio::test]
async fn w1_a_paused_subscription_gets_no_events_of_the_pause() {
    let app = hooked().await;
    let fan_out = fan_out(&app);
    let id = made(&app, selecting(&["budget.funded"])).await;
    fund(&app, 1).await;
    follow(&fan_out).await;
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    fund(&app, 2).await;
    follow(&fan_out).await;
    patch(&app, &id, json!({"status": "ACTIVE"})).await;
    fund(&app, 1).await;
    // Paused when it happened, active when it is fanned out: not for it either.
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    fund(&app, 1).await;
    patch(&app, &id, json!({"status": "ACTIVE"})).await;
    fund(&app, 1).await;
    assert_eq!(follow(&fan_out).await, 1);
    assert_eq!(queued_to(&app, &id).await.len(), 2);
}

/// An earlier release stored neither the start of a subscription nor a mark.
#[tokio::test]
async fn w31_a_subscription_of_an_earlier_release_gets_events_once_it_was_read() {
    for gone in [true, false] {
        let app = hooked().await;
        let fan_out = fan_out(&app);
        let mut selected = selecting(&["budget.funded", "reservation.denial_rate_spike"]);
        selected["thresholds"] = json!({"denial_rate_threshold": 0.5});
        let own = made(&app, selected).await;
        let system = app
            .post_as_admin(HOOKS, selecting(&["budget.funded"]))
            .await;
        let system = system.text("/subscription/subscription_id").to_owned();
        let keys = app.store.keys();
        let umbra = TenantId::parse("umbra").expect("an id").partition();
        // Nor the limits of rates that it watches.
        let (tenant, watch) = (keys.tenant(umbra, "umbra"), keys.watch(umbra, "umbra"));
        let watched: String = app.run(&["HGET", &tenant, "watched_rates"]).await;
        app.run::<()>(&["HDEL", &tenant, "watched_rates"]).await;
        app.run::<()>(&["DEL", &watch]).await;
        for (partition, owner, id) in [
            (umbra, "umbra", &own),
            (Partition::FIRST, "__system__", &system),
        ] {
            let (webhook, mark) = (
                keys.webhook(partition, id),
                keys.webhooks_mark(partition, owner),
            );
            app.run::<()>(&["HDEL", &webhook, "since", "since_ms"])
                .await;
            if gone {
                app.run::<()>(&["DEL", &mark]).await;
            }
        }
        fund(&app, 2).await;
        assert_eq!(follow(&fan_out).await, 0);
        let again: Option<String> = app.run(&["HGET", &tenant, "watched_rates"]).await;
        assert_eq!(again.as_ref(), Some(&watched));
        // The operator's is seen with the first event anywhere, its own partition's clock decides.
        fund(&app, 3).await;
        assert_eq!(follow(&fan_out).await, 6);
        assert_eq!(follow(&self::fan_out(&app)).await, 0);
        assert_eq!(queued_to(&app, &own).await.len(), 3);
        assert_eq!(queued_to(&app, &system).await.len(), 3);
    }
}

/// A replica that ends while it creates a subscription may leave it out of the directory.
#[tokio::test]
async fn a_subscription_missing_in_the_directory_is_added_with_the_next_event() {
    let app = hooked().await;
    let own = made(&app, selecting(&["budget.funded"])).await;
    let directory = app.store.keys().webhook_directory();
    app.run::<()>(&["DEL", &directory]).await;
    assert_eq!(
        app.get_as_admin(HOOKS).await.body["subscriptions"],
        json!([])
    );
    fund(&app, 1).await;
    assert_eq!(follow(&fan_out(&app)).await, 1);
    let listed = app.get_as_admin(HOOKS).await;
    assert_eq!(listed.text("/subscriptions/0/subscription_id"), own);
}

#[tokio::test]
async fn a_partition_that_refuses_deliveries_does_not_stop_the_others() {
    let app = hooked().await;
    let fan_out = fan_out(&app);
    let partition = |name: &str| TenantId::parse(name).expect("an id").partition();
    let before = |name: &String| partition(name) < partition("umbra");
    let tenant = (0..).map(|number| format!("tenant-{number}")).find(before);
    let tenant = tenant.expect("one of many");
    app.post_as_admin(
        "/v1/admin/tenants",
        json!({"tenant_id": tenant, "name": "N"}),
    )
    .await
    .expect(201);
    let mut others = Vec::new();
    for owner in [tenant.as_str(), "umbra", ""] {
        let path = format!("{HOOKS}?tenant_id={owner}");
        let path = path.strip_suffix("?tenant_id=").unwrap_or(&path);
        let hook = selecting(&["budget.funded", "budget.created"]);
        let made = app.post_as_admin(path, hook).await.expect(201);
        others.push(made.text("/subscription/subscription_id").to_owned());
    }
    others.remove(0);
    let budget = json!({"tenant_id": tenant, "scope": format!("tenant:{tenant}"), "unit": "TOKENS", "allocated": tokens(1)});
    app.post_as_admin("/v1/admin/budgets", budget)
        .await
        .expect(201);
    fund(&app, 1).await;
    // A key of the wrong type.
    let lanes = app.store.keys().lanes(partition(&tenant));
    app.run::<()>(&["SET", &lanes, "x"]).await;
    // A pass has a limit of time, which a busy machine may reach before the last partition.
    eventually("the others get theirs", || async {
        let failed = fan_out.run_once(&leases()).await.expect_err("it shows");
        assert!(failed.to_string().contains("WRONGTYPE"), "{failed}");
        let mut queued = Vec::new();
        for id in &others {
            queued.push(queued_to(&app, id).await.len());
        }
        // The operator's gets the other tenant's event as well.
        queued == [1, 2]
    })
    .await;
    app.run::<i64>(&["DEL", &lanes]).await;
    assert_eq!(follow(&fan_out).await, 1);
}
