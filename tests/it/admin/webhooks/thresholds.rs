//! Thresholds that subscriptions watch: a tenant's own at once, the operator's in every partition before the answer.

use budget_authority::dispatcher::ThresholdCopies;
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::store::Lease;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, URL, hooked, made, patch};
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::tokens;

fn watching(shares: &[f64]) -> Value {
    json!({"url": URL, "event_types": ["budget.threshold_crossed"], "thresholds": {"budget_utilization": shares}})
}

fn in_force(app: &TestApp, tenant: &str) -> Option<String> {
    let fixture = app.admin_fixture();
    fixture
        .redis()
        .run(&["HGET", &fixture.tenant_key(tenant), "thresholds"])
}

async fn tenant(app: &TestApp, id: &str) {
    let body = json!({"tenant_id": id, "name": id});
    app.post_as_admin("/v1/admin/tenants", body)
        .await
        .expect(201);
}

#[tokio::test]
async fn a_tenants_thresholds_apply_while_its_subscription_is_active() {
    let app = hooked().await;
    assert_eq!(in_force(&app, "umbra"), None);
    let one = made(&app, watching(&[0.5, 0.95])).await;
    let usual_and = |more: &str| Some(format!("{more} 800000 950000 1000000"));
    assert_eq!(in_force(&app, "umbra"), usual_and("500000"));
    let two = made(&app, watching(&[0.25])).await;
    assert_eq!(in_force(&app, "umbra"), usual_and("250000 500000"));
    patch(&app, &one, json!({"status": "PAUSED"})).await;
    assert_eq!(in_force(&app, "umbra"), usual_and("250000"));
    patch(&app, &one, json!({"status": "ACTIVE"})).await;
    assert_eq!(in_force(&app, "umbra"), usual_and("250000 500000"));
    patch(&app, &one, json!({"event_types": ["budget.funded"]})).await;
    assert_eq!(in_force(&app, "umbra"), usual_and("250000"));
    patch(&app, &one, json!({"event_categories": ["budget"]})).await;
    assert_eq!(in_force(&app, "umbra"), usual_and("250000 500000"));
    patch(&app, &one, json!({"thresholds": null})).await;
    assert_eq!(in_force(&app, "umbra"), usual_and("250000"));
    app.as_admin(Method::DELETE, &format!("{HOOKS}/{two}"), &json!({}))
        .await;
    assert_eq!(in_force(&app, "umbra"), None);
}

#[tokio::test]
async fn the_next_operation_emits_a_subscribed_threshold() {
    let app = hooked().await;
    let crossed = |app: &TestApp| {
        let fixture = app.admin_fixture();
        let events = fixture.events("umbra").into_iter();
        let shares = events.filter(|event| event["event_type"] == "budget.threshold_crossed");
        shares
            .map(|event| event["data"]["threshold"].as_f64())
            .collect::<Vec<_>>()
    };
    made(&app, watching(&[0.5])).await;
    app.post_as_admin(HOOKS, watching(&[0.6])).await;
    let path = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
    let body = json!({"operation": "RESET_SPENT", "amount": tokens(100), "spent": tokens(70)});
    app.post_as_admin(path, body).await.expect(200);
    assert_eq!(crossed(&app), [Some(0.5), Some(0.6)]);
}

#[tokio::test]
async fn the_operators_thresholds_reach_every_partition_before_the_response() {
    let app = hooked().await;
    for name in ["one-1", "two-2", "three-3"] {
        tenant(&app, name).await;
    }
    let made = app.post_as_admin(HOOKS, watching(&[0.7])).await;
    let id = made.text("/subscription/subscription_id").to_owned();
    for name in ["umbra", "one-1", "two-2", "three-3"] {
        assert_eq!(
            in_force(&app, name).as_deref(),
            Some("700000 800000 950000 1000000"),
            "{name}"
        );
    }
    let (fixture, keys) = (app.admin_fixture(), app.store.keys());
    for partition in Partition::all() {
        let union: Option<String> =
            fixture
                .redis()
                .run(&["HGET", &keys.thresholds(partition), "union"]);
        assert_eq!(union.as_deref(), Some("700000"), "{partition}");
    }
    tenant(&app, "later").await;
    assert_eq!(
        in_force(&app, "later").as_deref(),
        Some("700000 800000 950000 1000000")
    );
    crate::admin::webhooks::subscriptions::made(&app, watching(&[0.1])).await;
    assert_eq!(
        in_force(&app, "umbra").as_deref(),
        Some("100000 700000 800000 950000 1000000")
    );
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    assert_eq!(
        in_force(&app, "umbra").as_deref(),
        Some("100000 800000 950000 1000000")
    );
    assert_eq!(in_force(&app, "one-1"), None);
    assert_eq!(
        app.get_as_admin(&format!("{HOOKS}/{id}"))
            .await
            .text("/status"),
        "PAUSED"
    );
}

/// Makes it look as if the replica had died before it wrote to the partition of `umbra`; returns a lease on that.
fn missed(app: &TestApp) -> Lease {
    let partition = TenantId::parse("umbra").expect("an id").partition();
    let (fixture, keys) = (app.admin_fixture(), app.store.keys());
    fixture
        .redis()
        .run::<i64>(&["DEL", &keys.thresholds(partition)]);
    fixture
        .redis()
        .run::<i64>(&["HDEL", &fixture.tenant_key("umbra"), "thresholds"]);
    Lease {
        partition,
        token: 1,
    }
}

#[tokio::test]
async fn a_dispatcher_copies_thresholds_that_a_killed_replica_did_not() {
    let app = hooked().await;
    app.post_as_admin(HOOKS, watching(&[0.7])).await;
    let lease = missed(&app);
    let copies = ThresholdCopies::new(app.store.clone());
    assert_eq!(copies.run_once(&[lease]).await.expect("it answers"), 1);
    assert_eq!(
        in_force(&app, "umbra").as_deref(),
        Some("700000 800000 950000 1000000")
    );
    assert_eq!(copies.run_once(&[lease]).await.expect("it answers"), 0);
}

#[tokio::test]
async fn damaged_records_withhold_thresholds_from_no_other_tenant_of_the_partition() {
    let app = hooked().await;
    app.post_as_admin(HOOKS, watching(&[0.7])).await;
    let lease = missed(&app);
    let (fixture, keys) = (app.admin_fixture(), app.store.keys());
    let tenants = keys.tenants(lease.partition);
    for (tenant, damaged) in [
        ("another", keys.tenant(lease.partition, "another")),
        ("first", keys.watch(lease.partition, "first")),
    ] {
        let redis = fixture.redis();
        redis.run::<i64>(&["ZADD", &tenants, "0", tenant]);
        redis.run::<()>(&["SET", &damaged, "no hash"]);
    }
    let first = keys.tenant(lease.partition, "first");
    fixture
        .redis()
        .run::<i64>(&["HSET", &first, "status", "ACTIVE"]);
    let copies = ThresholdCopies::new(app.store.clone());
    assert_eq!(copies.run_once(&[lease]).await.expect("it answers"), 1);
    assert_eq!(
        in_force(&app, "umbra").as_deref(),
        Some("700000 800000 950000 1000000")
    );
    // Passes begin again until the records are repaired; then the tenants have the thresholds too.
    assert_eq!(copies.run_once(&[lease]).await.expect("it answers"), 1);
    for damaged in [
        keys.tenant(lease.partition, "another"),
        keys.watch(lease.partition, "first"),
    ] {
        fixture.redis().run::<i64>(&["DEL", &damaged]);
    }
    fixture.redis().run::<i64>(&["ZREM", &tenants, "another"]);
    assert_eq!(copies.run_once(&[lease]).await.expect("it answers"), 1);
    let of_first: Option<String> = fixture.redis().run(&["HGET", &first, "thresholds"]);
    assert_eq!(of_first.as_deref(), Some("700000 800000 950000 1000000"));
    assert_eq!(copies.run_once(&[lease]).await.expect("it answers"), 0);
}
