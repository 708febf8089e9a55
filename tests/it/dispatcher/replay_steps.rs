//! One step of a replay at a time: how much it queues, and the room that it leaves.

use std::collections::BTreeSet;
use std::time::Duration;

use budget_authority::dispatcher::{Backfill, BackfillPass};
use budget_authority::store::Lease;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::events::view::killed_after;
use crate::admin::webhooks::replay::{replay, umbra_partition};
use crate::admin::webhooks::subscriptions::{HOOKS, hook, hooked, made};
use crate::harness::app::TestApp;
use crate::harness::behind::catch_up_of;
use crate::harness::event_log::EventLog;
use crate::redis::memory::{filled, service};

/// An address that any service may send to; nothing is sent there.
const PUBLIC: &str = "https://93.184.216.34/in";
const LEASE: Duration = Duration::from_secs(60);

fn replays(app: &TestApp) -> Backfill {
    catch_up_of(app).0
}

/// A pass over the tenant's partition.
async fn pass(replays: &mut Backfill, lease: Lease) -> BackfillPass {
    let lost = |lost| panic!("{lost:?} is lost");
    replays
        .run_once(&[lease], lost)
        .await
        .expect("Redis answers")
}

/// Lets the next pass look at each replay, as it would a while later.
async fn look_again(app: &TestApp) {
    let replays = app.store.keys().replays(umbra_partition());
    for id in app
        .run::<Vec<String>>(&["ZRANGE", &replays, "0", "-1"])
        .await
    {
        app.run::<i64>(&["ZADD", &replays, "1", &id]).await;
    }
}

/// A replay of this many events, and a lease of its partition.
async fn begun(app: &TestApp, count: usize) -> (String, Lease) {
    let mut log = EventLog::on(&app.store);
    let at_ms = log.now_ms().await;
    for _ in 0..count {
        log.append("umbra", at_ms, &[("type", "budget.funded")])
            .await;
    }
    let id = made(app, hook(PUBLIC)).await;
    let response = replay(app, &id, json!({"max_events": 1000}))
        .await
        .expect(202);
    assert_eq!(response.at("/events_queued"), &json!(count));
    let lease = log.lease_of(umbra_partition(), "d", LEASE).await;
    (id, lease)
}

/// Open deliveries of the subscription, those of replays, and the ones to be queued.
async fn figures(app: &TestApp, id: &str) -> (i64, i64, i64) {
    let (keys, partition) = (app.store.keys(), umbra_partition());
    let window: Vec<Option<i64>> = app
        .run(&["HMGET", &keys.window(partition, id), "open", "replaying"])
        .await;
    let mut left = 0;
    for kept in app.keys_like("*:replayevents:*").await {
        left += app.run::<i64>(&["LLEN", &kept]).await;
    }
    (window[0].unwrap_or(0), window[1].unwrap_or(0), left)
}

#[tokio::test]
async fn a_replay_takes_a_quarter_of_the_open_deliveries_of_its_subscription() {
    let app = hooked().await;
    let (id, lease) = begun(&app, 1_000).await;
    let mut replays = replays(&app);
    let queued = pass(&mut replays, lease).await;
    assert_eq!((queued.replayed, queued.replays), (250, 1));
    assert_eq!(figures(&app, &id).await, (250, 250, 750));
    look_again(&app).await;
    assert_eq!(pass(&mut replays, lease).await.replayed, 0);
    let open: i64 = app
        .run(&[
            "HGET",
            &app.store.keys().open_deliveries(lease.partition),
            "umbra",
        ])
        .await;
    assert_eq!(open, 250);
    // Nothing while live events have all of it.
    let window = app.store.keys().window(lease.partition, &id);
    app.run::<i64>(&["HSET", &window, "open", "1000", "replaying", "0"])
        .await;
    look_again(&app).await;
    assert_eq!(pass(&mut replays, lease).await.replayed, 0);
    app.run::<i64>(&["HSET", &window, "open", "990"]).await;
    look_again(&app).await;
    assert_eq!(pass(&mut replays, lease).await.replayed, 10);
}

#[tokio::test]
async fn a_step_of_a_replay_is_short() {
    let app = hooked().await;
    let (_, lease) = begun(&app, 1_000).await;
    let keys = app.store.keys();
    let before: Vec<String> = app.keys_like("*:delivery:*").await;
    assert_eq!(before.len(), 0);
    // A call queues fifty at most, so another process comes between.
    let lane = pass(&mut replays(&app), lease).await;
    assert_eq!(lane.replayed % 50, 0);
    let kept = app.keys_like("*:replayevents:*").await;
    assert_eq!(app.run::<i64>(&["LLEN", &kept[0]]).await, 1_000 - 250);
    assert!(app.run::<i64>(&["PTTL", &kept[0]]).await > 0);
    assert_eq!(
        app.run::<i64>(&["ZCARD", &keys.replays(lease.partition)])
            .await,
        1
    );
}

#[tokio::test]
async fn deliveries_queued_twice_after_a_failover_exist_once() {
    let app = hooked().await;
    let (id, lease) = begun(&app, 3).await;
    let kept = app.keys_like("*:replayevents:*").await.remove(0);
    let rows: Vec<String> = app.run(&["LRANGE", &kept, "0", "-1"]).await;
    let mut replays = replays(&app);
    assert_eq!(pass(&mut replays, lease).await.replayed, 3);
    // As a replica that took over without the last step has it.
    let words = ["RPUSH", &kept]
        .into_iter()
        .chain(rows.iter().map(String::as_str));
    app.run::<i64>(&words.collect::<Vec<_>>()).await;
    look_again(&app).await;
    assert_eq!(pass(&mut replays, lease).await.replayed, 0);
    let page = app.get_as_admin(&format!("{HOOKS}/{id}/deliveries")).await;
    assert_eq!(page.at("/deliveries").as_array().expect("rows").len(), 3);
}

#[tokio::test]
async fn a_pass_that_is_killed_at_any_step_queues_each_delivery_once() {
    let app = hooked().await;
    let (id, lease) = begun(&app, 200).await;
    let mut replays = replays(&app);
    for wakes in 0..60 {
        let lost = |lost| panic!("{lost:?} is lost");
        killed_after(wakes, replays.run_once(&[lease], lost)).await;
        look_again(&app).await;
    }
    pass(&mut replays, lease).await;
    assert_eq!(figures(&app, &id).await, (200, 200, 0));
    let lane = app.keys_like("*:lane:*").await.remove(0);
    let queued: Vec<String> = app.run(&["LRANGE", &lane, "0", "-1"]).await;
    let distinct: BTreeSet<&String> = queued.iter().collect();
    assert_eq!((queued.len(), distinct.len()), (200, 200));
}

#[tokio::test]
async fn a_replay_stored_by_an_earlier_release_ends() {
    let app = hooked().await;
    let (keys, partition) = (app.store.keys(), umbra_partition());
    let id = "replay_05f_0123456789abcdef01234567";
    app.run::<i64>(&[
        "HSET",
        &keys.replay(partition, id),
        "subscription_id",
        "whsub_x",
        "count",
        "1",
    ])
    .await;
    app.run::<i64>(&["RPUSH", &keys.replay_events(partition, id), "evt_x"])
        .await;
    app.run::<i64>(&["ZADD", &keys.replays(partition), "1", id])
        .await;
    let lease = EventLog::on(&app.store)
        .lease_of(partition, "d", LEASE)
        .await;
    assert_eq!(pass(&mut replays(&app), lease).await.ended, 1);
    for pattern in ["*:replay:*", "*:replayevents:*", "*:replays"] {
        assert_eq!(app.keys_like(pattern).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_dispatcher_without_the_lease_queues_nothing() {
    let app = hooked().await;
    let (id, lease) = begun(&app, 3).await;
    let old = Lease {
        token: lease.token - 1,
        ..lease
    };
    let mut lost = Vec::new();
    let pass = replays(&app)
        .run_once(&[old], |lease| lost.push(lease))
        .await;
    assert_eq!(pass.expect("Redis answers").replayed, 0);
    assert_eq!(lost, [old]);
    assert_eq!(figures(&app, &id).await, (0, 0, 3));
}

#[tokio::test]
async fn a_replay_waits_while_redis_is_full() {
    let (server, app) = service(&[]).await;
    let tenant = json!({"tenant_id": "umbra", "name": "Umbra"});
    app.post_as_admin("/v1/admin/tenants", tenant)
        .await
        .expect(201);
    let (id, lease) = begun(&app, 60).await;
    let mut replays = replays(&app);
    filled(&server, &app, 95).await;
    let waits = pass(&mut replays, lease).await;
    assert_eq!((waits.replayed, waits.ended, waits.replays), (0, 0, 1));
    // Operations that free memory continue.
    app.as_admin(Method::DELETE, &format!("{HOOKS}/{id}"), &Value::Null)
        .await
        .expect(204);
    look_again(&app).await;
    assert_eq!(pass(&mut replays, lease).await.ended, 1);
    assert_eq!(figures(&app, &id).await, (0, 0, 0));
}

#[tokio::test]
async fn a_replay_resumes_once_redis_has_memory() {
    let (server, app) = service(&[]).await;
    let tenant = json!({"tenant_id": "umbra", "name": "Umbra"});
    app.post_as_admin("/v1/admin/tenants", tenant)
        .await
        .expect(201);
    let (id, lease) = begun(&app, 60).await;
    let mut replays = replays(&app);
    filled(&server, &app, 95).await;
    assert_eq!(pass(&mut replays, lease).await.replayed, 0);
    replay(&app, &id, json!({"max_events": 1000}))
        .await
        .refused(409, "REPLAY_IN_PROGRESS");
    filled(&server, &app, 50).await;
    look_again(&app).await;
    assert_eq!(pass(&mut replays, lease).await.replayed, 60);
}
