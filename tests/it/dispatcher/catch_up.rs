//! Subscriptions that are behind: missed events are queued later, once and in order.

use std::time::Duration;

use budget_authority::domain::ids::Partition;
use budget_authority::store::Lane;
use reqwest::Method;
use serde_json::{Value, json};

use super::fan_out::{follow, fund, leases};
use crate::admin::http::umbra_on;
use crate::admin::webhooks::subscriptions::{HOOKS, patch};
use crate::harness::behind::{SubscriptionFixture, catch_up_of, umbra};
use crate::harness::event_log::EventLog;
use crate::harness::eventually;
use crate::harness::redis_fixture::{command, now_ms};
use crate::redis::memory::{filled, service};

const HOUR_MS: i64 = 3_600_000;

#[tokio::test]
async fn w13_missed_events_are_queued_once_and_in_order() {
    for mut hooked in [
        SubscriptionFixture::own().await,
        SubscriptionFixture::system().await,
    ] {
        hooked.let_open(998).await;
        fund(&hooked.app, 130).await;
        assert_eq!(follow(&hooked.fan_out).await, 2);
        assert!(hooked.is_behind().await && hooked.place().await.is_some());
        let missed = hooked.field("missed").await.expect("it is counted");
        assert!(missed.ends_with(":128") || missed.contains(' '), "{missed}");
        // Half of its room must be free.
        hooked.let_open(500).await;
        assert_eq!(hooked.catch_up().await, 0);
        hooked.measures("budget_webhooks_behind 1");
        hooked.measures("budget_webhook_deliveries_open 2");
        // As far as there is room; and nothing passes what waits.
        hooked.let_open(499).await;
        hooked.look_now().await;
        assert_eq!(hooked.catch_up().await, 128);
        fund(&hooked.app, 1).await;
        assert_eq!(follow(&hooked.fan_out).await, 1);
        hooked.expect_in_order(131).await;
        assert!(!hooked.is_behind().await && hooked.place().await.is_none());
        assert_eq!(hooked.field("missed").await, None);
        assert_eq!(hooked.field("skipped").await, None);
    }
}

#[tokio::test]
async fn while_a_subscription_is_behind_new_events_wait_for_missed_ones() {
    let mut hooked = SubscriptionFixture::own().await;
    hooked.let_open(1_000).await;
    fund(&hooked.app, 60).await;
    assert_eq!(follow(&hooked.fan_out).await, 0);
    // There is room again, but not all was fetched.
    hooked.let_open(0).await;
    fund(&hooked.app, 3).await;
    assert_eq!(follow(&hooked.fan_out).await, 0);
    assert_eq!(hooked.catch_up().await, 63);
    hooked.expect_in_order(63).await;
}

#[tokio::test]
async fn missed_events_are_queued_up_to_the_owners_limit() {
    let mut hooked = SubscriptionFixture::own().await;
    hooked.let_open(1_000).await;
    fund(&hooked.app, 120).await;
    follow(&hooked.fan_out).await;
    let owners = hooked.app.store.keys().open_deliveries(umbra());
    // Of the owner there may be 50,000.
    let owner = ["HSET", &owners, "umbra", "49930"];
    hooked.app.run::<()>(&owner).await;
    hooked.let_open(0).await;
    assert_eq!(hooked.catch_up().await, 70);
    let open: String = hooked.app.run(&["HGET", &owners, "umbra"]).await;
    assert_eq!(
        (open.as_str(), hooked.field("open").await.as_deref()),
        ("50000", Some("70"))
    );
    assert!(hooked.is_behind().await);
    let owner = ["HSET", &owners, "umbra", "70"];
    hooked.app.run::<()>(&owner).await;
    hooked.look_now().await;
    assert_eq!(hooked.catch_up().await, 50);
    hooked.expect_in_order(120).await;
    assert!(!hooked.is_behind().await);
}

#[tokio::test]
async fn while_redis_is_full_cursors_advance_and_events_are_queued_later() {
    for percent in [95, 110] {
        let (server, app) = service(&[]).await;
        let app = umbra_on(app).await;
        let mut hooked = SubscriptionFixture::both_on(app).await;
        fund(&hooked.app, 3).await;
        filled(&server, &hooked.app, percent).await;
        assert_eq!(follow(&hooked.fan_out).await, 0);
        let keys = hooked.app.store.keys();
        let outbox = keys.outbox(umbra());
        let last: Vec<(String, Vec<String>)> = hooked
            .app
            .run(&["XREVRANGE", &outbox, "+", "-", "COUNT", "1"])
            .await;
        for (home, field) in [
            (umbra(), "own".to_owned()),
            (Partition::FIRST, umbra().to_string()),
        ] {
            let cursor: String = hooked.app.run(&["HGET", &keys.fanned(home), &field]).await;
            assert_eq!(cursor, last[0].0, "{field} at {percent} %");
        }
        assert_eq!(hooked.catch_up().await, 0);
        filled(&server, &hooked.app, 50).await;
        // One without room is looked at again after a second.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        assert_eq!(hooked.catch_up().await, 6);
        hooked.expect_in_order(3).await;
    }
}

#[tokio::test]
async fn w13_an_owner_with_too_many_open_falls_behind() {
    let mut hooked = SubscriptionFixture::own().await;
    let owners = hooked.app.store.keys().open_deliveries(umbra());
    hooked
        .app
        .run::<()>(&["HSET", &owners, "umbra", "49998"])
        .await;
    fund(&hooked.app, 5).await;
    assert_eq!(follow(&hooked.fan_out).await, 2);
    assert_eq!(hooked.catch_up().await, 0);
    hooked.app.run::<()>(&["HSET", &owners, "umbra", "2"]).await;
    hooked.look_now().await;
    assert_eq!(hooked.catch_up().await, 3);
    hooked.expect_in_order(5).await;
}

#[tokio::test]
async fn events_missed_before_a_pause_are_not_sent() {
    for resumes in [true, false] {
        let mut hooked = SubscriptionFixture::own().await;
        hooked.let_open(1_000).await;
        fund(&hooked.app, 3).await;
        follow(&hooked.fan_out).await;
        let id = hooked.id.clone();
        patch(&hooked.app, &id, json!({"status": "PAUSED"})).await;
        fund(&hooked.app, 1).await;
        if resumes {
            patch(&hooked.app, &id, json!({"status": "ACTIVE"})).await;
            fund(&hooked.app, 2).await;
            hooked.let_open(0).await;
            assert_eq!(follow(&hooked.fan_out).await, 2);
            assert_eq!(hooked.catch_up().await, 0);
            hooked.expect_in_order(2).await;
        } else {
            hooked.let_open(0).await;
            follow(&hooked.fan_out).await;
            assert_eq!(hooked.catch_up().await, 0);
        }
        assert!(!hooked.is_behind().await && hooked.place().await.is_none());
        assert_eq!(hooked.field("missed").await, None);
    }
}

#[tokio::test]
async fn a_deleted_subscription_is_no_longer_behind() {
    for open in [0, 3] {
        let mut hooked = SubscriptionFixture::own().await;
        hooked.let_open(1_000).await;
        fund(&hooked.app, 3).await;
        follow(&hooked.fan_out).await;
        hooked.let_open(open).await;
        let path = format!("{HOOKS}/{}", hooked.id);
        let deleted = hooked
            .app
            .as_admin(Method::DELETE, &path, &Value::Null)
            .await;
        deleted.expect(204);
        assert_eq!(hooked.catch_up().await, 0);
        assert!(!hooked.is_behind().await && hooked.place().await.is_none());
    }
}

#[tokio::test]
async fn events_that_a_closed_tenant_missed_are_not_sent() {
    let mut hooked = SubscriptionFixture::own().await;
    hooked.let_open(1_000).await;
    fund(&hooked.app, 3).await;
    follow(&hooked.fan_out).await;
    let path = "/v1/admin/tenants/umbra";
    let closed = json!({"status": "CLOSED"});
    let closed = hooked.app.as_admin(Method::PATCH, path, &closed).await;
    closed.expect(200);
    hooked.let_open(0).await;
    assert_eq!(hooked.catch_up().await, 0);
    assert!(!hooked.is_behind().await && hooked.place().await.is_none());
    hooked.expect_in_order(0).await;
}

#[tokio::test]
async fn w13_events_missed_for_a_day_are_counted_and_not_sent() {
    let mut hooked = SubscriptionFixture::own().await;
    hooked.let_open(1_000).await;
    fund(&hooked.app, 2).await;
    follow(&hooked.fan_out).await;
    let now_ms = now_ms(&hooked.app.store).await;
    let hour = now_ms / HOUR_MS;
    let missed = hooked.field("missed").await.expect("it is counted");
    // As if it had begun two days ago: seven events on the first of them, and eight the hour after.
    let (place, old) = (
        format!("{}-5", now_ms - 48 * HOUR_MS),
        format!("{missed} {}:7 {}:8", hour - 48, hour - 47),
    );
    let window = hooked.window();
    let stored = ["HSET", &window, "behind own", &place, "missed", &old];
    hooked.app.run::<()>(&stored).await;
    // Without room, too.
    hooked.look_now().await;
    assert_eq!(hooked.catch_up().await, 0);
    assert_eq!(hooked.field("skipped").await.as_deref(), Some("15"));
    assert!(hooked.is_behind().await);
    hooked.let_open(0).await;
    assert_eq!(hooked.catch_up().await, 2);
    assert!(!hooked.is_behind().await);
    hooked.measures("budget_webhook_events_expired_total 15");
    assert_eq!(hooked.field("skipped").await.as_deref(), Some("15"));
}

#[tokio::test]
async fn a_missed_event_older_than_a_day_is_counted_and_not_sent() {
    let mut hooked = SubscriptionFixture::own().await;
    hooked.let_open(1_000).await;
    let mut log = EventLog::on(&hooked.app.store);
    let now_ms = now_ms(&hooked.app.store).await;
    for at_ms in [
        now_ms - 24 * HOUR_MS - 20,
        now_ms - 24 * HOUR_MS + 60_000,
        now_ms,
    ] {
        log.emit("umbra", at_ms, &[("type", "budget.funded")]).await;
    }
    assert_eq!(follow(&hooked.fan_out).await, 0);
    hooked.let_open(0).await;
    assert_eq!(hooked.catch_up().await, 2);
    hooked.expect_in_order(2).await;
    assert_eq!(hooked.field("skipped").await.as_deref(), Some("1"));
    hooked.measures("budget_webhook_events_expired_total 1");
    assert!(!hooked.is_behind().await);
}

#[tokio::test]
async fn a_dead_receiver_costs_less_than_a_megabyte() {
    let hooked = SubscriptionFixture::own().await;
    let mut log = EventLog::on(&hooked.app.store);
    let now_ms = now_ms(&hooked.app.store).await;
    let mut bytes = Vec::new();
    for events in [1_000, 10, 500] {
        for _ in 0..events {
            log.emit("umbra", now_ms, &[("type", "budget.funded")])
                .await;
        }
        follow(&hooked.fan_out).await;
        let mut sum = 0;
        for kind in [
            "delivery:*",
            "deliveries:*",
            "lane*",
            "window:*",
            "behind",
            "open",
        ] {
            for key in log.keys_like(&format!("{{{}}}:{kind}", umbra())).await {
                let used = command(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).1;
                let used = hooked
                    .app
                    .store
                    .send(Lane::Background, (&key, &used))
                    .await
                    .expect("a key");
                sum += redis::from_redis_value::<i64>(used).expect("bytes");
            }
        }
        bytes.push(sum);
    }
    assert!(bytes[1] < 1_000_000, "{bytes:?}");
    // Only counts change.
    assert!((bytes[2] - bytes[1]).abs() < 100, "{bytes:?}");
}

/// Two dispatchers, which end in the middle of anything, while more happens.
#[tokio::test]
async fn dispatchers_that_overlap_and_die_queue_each_event_once_and_in_order() {
    for mut hooked in [
        SubscriptionFixture::own().await,
        SubscriptionFixture::system().await,
    ] {
        hooked.let_open(1_000).await;
        fund(&hooked.app, 200).await;
        follow(&hooked.fan_out).await;
        hooked.let_open(0).await;
        for round in 0..40 {
            hooked.look_now().await;
            let (mut other, _) = catch_up_of(&hooked.app);
            let leases = leases();
            let SubscriptionFixture {
                app,
                fan_out,
                catch_up,
                ..
            } = &mut hooked;
            let workers = async {
                let _ = tokio::join!(
                    other.run_once(&leases, |_| {}),
                    catch_up.run_once(&leases, |_| {}),
                    fan_out.run_once(&leases),
                );
            };
            let after = std::time::Duration::from_millis(round);
            // A request that is cut off may still cause its event, after all others were counted.
            let _ = tokio::join!(tokio::time::timeout(after, workers), fund(app, 1));
        }
        eventually("it has caught up", || async {
            hooked.look_now().await;
            let (mut worker, _) = catch_up_of(&hooked.app);
            worker
                .run_once(&leases(), |_| {})
                .await
                .expect("Redis answers");
            follow(&hooked.fan_out).await;
            (!hooked.is_behind().await).then_some(())
        })
        .await;
        let events = EventLog::on(&hooked.app.store).events().await;
        let funded = events
            .iter()
            .filter(|event| event.row.kind.as_deref() == Some("budget.funded"))
            .count();
        hooked.expect_in_order(funded).await;
        assert_eq!(hooked.field("open").await, Some(funded.to_string()));
    }
}
