//! A tenant with more deliveries than its share of a pass holds up no other of its partition, and loses nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use budget_authority::domain::ids::{Partition, TenantId};
use reqwest::Method;
use serde_json::json;

use super::fan_out::{fan_out, follow, fund, leases};
use crate::admin::webhooks::subscriptions::{HOOKS, URL, hooked, patch};
use crate::harness::app::TestApp;
use crate::harness::behind::{Hooked, catch_up_of, expect_in_order, umbra};
use crate::harness::event_log::EventLog;
use crate::harness::eventually;

/// A tenant in the partition of `umbra`.
pub(super) async fn quiet(app: &TestApp) -> String {
    neighbours(app, 1).await.remove(0)
}

/// So many of them.
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

async fn cursors(app: &TestApp, partition: Partition) -> BTreeMap<String, String> {
    app.run(&["HGETALL", &app.store.keys().fanned(partition)])
        .await
}

/// The field of the cursor, and where the subscriptions lie.
fn of(is_own: bool) -> (String, Partition) {
    match is_own {
        true => ("own".to_owned(), umbra()),
        false => (umbra().to_string(), Partition::FIRST),
    }
}

#[tokio::test]
async fn w14_a_noisy_tenant_holds_up_no_other_and_loses_nothing() {
    for is_own in [true, false] {
        let (app, (source, partition)) = (hooked().await, of(is_own));
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
        assert!(pass.more && pass.queued < 600, "{pass:?}");
        assert_eq!(queued(&app, &quiet).await, 1);
        let apart = format!("{source} umbra");
        assert!(cursors(&app, partition).await.contains_key(&apart));
        fund(&app, 5).await;
        update(&app, &name).await;
        follow(&fan_out).await;
        for id in &noisy {
            expect_in_order(&app, partition, id, 45).await;
        }
        assert_eq!(queued(&app, &quiet).await, 2);
        // It is followed with the others again.
        assert!(!cursors(&app, partition).await.contains_key(&apart));
        fund(&app, 1).await;
        assert_eq!(follow(&fan_out).await, 30);
        assert_eq!(follow(&self::fan_out(&app)).await, 0);
    }
}

/// Dispatchers that overlap and end in the middle of anything.
#[tokio::test]
async fn what_is_followed_apart_is_queued_once_and_in_order_whoever_does_it() {
    for is_own in [true, false] {
        let (app, (source, partition)) = (hooked().await, of(is_own));
        let mut noisy = Vec::new();
        for _ in 0..12 {
            noisy.push(subscribe(&app, is_own.then_some("umbra"), "budget.funded").await);
        }
        let (one, other) = (fan_out(&app), fan_out(&app));
        let leases = leases();
        for round in 0..10 {
            follow(&one).await;
            fund(&app, 30).await;
            one.run_once(&leases).await.expect("Redis answers");
            let apart = format!("{source} umbra");
            assert!(cursors(&app, partition).await.contains_key(&apart));
            let passes = async {
                let _ = tokio::join!(
                    one.run_once(&leases),
                    other.run_once(&leases),
                    fund(&app, 1)
                );
            };
            let _ = tokio::time::timeout(Duration::from_millis(5 + 8 * round), passes).await;
        }
        follow(&one).await;
        // One ends following it apart while the other leaves it out.
        let fanned = app.store.keys().fanned(partition);
        for round in 0..60 {
            let main = &cursors(&app, partition).await[&source];
            let apart = format!("{source} umbra");
            app.run::<()>(&["HSET", &fanned, &apart, main]).await;
            let later = async {
                // Somewhere in the middle of the other's pass.
                tokio::time::sleep(Duration::from_micros(50 * round)).await;
                other.run_once(&leases).await.expect("Redis answers");
            };
            let (pass, ..) = tokio::join!(one.run_once(&leases), later, fund(&app, 1));
            pass.expect("Redis answers");
        }
        follow(&fan_out(&app)).await;
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

#[tokio::test]
async fn a_subscription_that_falls_behind_where_a_tenant_is_followed_apart_gets_all() {
    for mut hooked in [Hooked::own().await, Hooked::system().await] {
        let app = &hooked.app;
        let is_own = hooked.source == "own";
        let quiet = quiet(app).await;
        let both = json!({"event_types": ["budget.funded", "tenant.updated"]});
        patch(app, &hooked.id, both).await;
        for _ in 0..20 {
            subscribe(app, is_own.then_some("umbra"), "budget.funded").await;
        }
        follow(&hooked.fan_out).await;
        fund(app, 40).await;
        hooked
            .fan_out
            .run_once(&leases())
            .await
            .expect("Redis answers");
        // The operator's falls behind with the quiet tenant's event, before the noisy one's cursor is there.
        hooked.let_open(1_000).await;
        update(app, &quiet).await;
        fund(app, 40).await;
        hooked
            .fan_out
            .run_once(&leases())
            .await
            .expect("Redis answers");
        assert!(hooked.is_behind().await);
        hooked.let_open(0).await;
        hooked.catch_up().await;
        fund(&hooked.app, 3).await;
        follow(&hooked.fan_out).await;
        eventually("it has caught up", || async {
            hooked.look_now().await;
            follow(&hooked.fan_out).await;
            let (mut worker, _) = catch_up_of(&hooked.app);
            worker.run_once(&leases()).await.expect("Redis answers");
            (!hooked.is_behind().await).then_some(())
        })
        .await;
        hooked.expect_in_order(83).await;
        let all = if is_own { "83" } else { "84" };
        assert_eq!(hooked.field("queued").await.as_deref(), Some(all));
    }
}

/// One pass in which the cursor of `umbra` does not move, because two others are followed apart as well.
async fn pass_without_umbra(hooked: &Hooked) {
    let fanned = hooked.app.store.keys().fanned(Partition::FIRST);
    let umbra = format!("{} umbra", hooked.source);
    let umbra = &cursors(&hooked.app, Partition::FIRST).await[&umbra];
    for other in ["a", "b"] {
        let apart = format!("{} {other}", hooked.source);
        hooked
            .app
            .run::<()>(&["HSET", &fanned, &apart, umbra])
            .await;
    }
    let pass = hooked.fan_out.run_once(&leases()).await;
    pass.expect("Redis answers");
}

#[tokio::test]
async fn one_that_falls_behind_through_another_tenant_gets_what_is_followed_apart_in_order() {
    let mut hooked = Hooked::system().await;
    let quiet = quiet(&hooked.app).await;
    let both = json!({"event_types": ["budget.funded", "tenant.updated"]});
    patch(&hooked.app, &hooked.id, both).await;
    fund(&hooked.app, 1).await;
    follow(&hooked.fan_out).await;
    let fanned = hooked.app.store.keys().fanned(Partition::FIRST);
    let main = &cursors(&hooked.app, Partition::FIRST).await[&hooked.source];
    let apart = format!("{} umbra", hooked.source);
    hooked.app.run::<()>(&["HSET", &fanned, &apart, main]).await;
    fund(&hooked.app, 3).await;
    pass_without_umbra(&hooked).await;
    hooked.let_open(1_000).await;
    fund(&hooked.app, 3).await;
    update(&hooked.app, &quiet).await;
    pass_without_umbra(&hooked).await;
    assert!(hooked.is_behind().await);
    hooked.let_open(1).await;
    assert_eq!(hooked.catch_up().await, 7);
    assert!(!hooked.is_behind().await);
    assert_eq!(follow(&hooked.fan_out).await, 0);
    hooked.expect_in_order(7).await;
}
