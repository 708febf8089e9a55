//! W33: a record that cannot be read loses its own delivery at most, and nothing that can be repaired.

use std::time::Duration;

use prometheus::{Registry, TextEncoder};
use serde_json::json;

use super::fan_out::{fan_out, fan_out_in, follow, leases};
use super::noisy_tenants::{neighbours, quiet, update};
use crate::admin::http::umbra_on;
use crate::admin::webhooks::subscriptions::{HOOKS, URL, made};
use crate::harness::app::TestApp;
use crate::harness::behind::{SubscriptionFixture, catch_up_of, umbra};
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};
use crate::redis::memory::service;

async fn hook(app: &TestApp, receiver: &Receiver) -> String {
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
    made(app, body).await
}

async fn arrive(receiver: &Receiver, count: usize) {
    eventually("the events arrive", || async {
        let arrived = receiver.arrived().len();
        (arrived == count).then_some(()).ok_or(arrived)
    })
    .await;
}

#[tokio::test]
async fn w33_a_delivery_with_an_unreadable_place_fails_and_its_lane_continues() {
    for (at, place) in [("0", "x"), ("1", ""), ("2", "000 other 20261123 1-1")] {
        let app = here().await;
        let receiver = Receiver::start(Reply::Status(200, "")).await;
        let id = hook(&app, &receiver).await;
        fund(&app, 3).await;
        assert_eq!(follow(&fan_out(&app)).await, 3);
        let keys = app.store.keys();
        let lane = keys.lane(umbra(), format!("{id}:{}:umbra", umbra()));
        let sick: String = app.run(&["LINDEX", &lane, at]).await;
        let record = keys.delivery(umbra(), &sick);
        app.run::<()>(&["HSET", &record, "place", place]).await;
        let _running = RunningDispatcher::start(&app);
        arrive(&receiver, 2).await;
        reached(&app, &id, "SUCCESS", 2).await;
        eventually("it fails", || async {
            let status: Option<String> = app.run(&["HGET", &record, "status"]).await;
            (status.as_deref() == Some("FAILED"))
                .then_some(())
                .ok_or(status)
        })
        .await;
        let why: String = app.run(&["HGET", &record, "error_message"]).await;
        assert_eq!(why, "The delivery is damaged");
        eventually("the lane is empty", || async {
            app.run::<i64>(&["EXISTS", &lane]).await == 0
        })
        .await;
        let window = keys.window(umbra(), &id);
        let open: String = app.run(&["HGET", &window, "open"]).await;
        assert_eq!(open, "0", "it does not count any more");
        assert_eq!(receiver.arrived().len(), 2);
    }
}

#[tokio::test]
async fn w33_events_during_a_damaged_window_are_fetched_after_it_is_recreated() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = hook(&app, &receiver).await;
    fund(&app, 2).await;
    assert_eq!(follow(&fan_out(&app)).await, 2);
    let window = app.store.keys().window(umbra(), &id);
    app.run::<()>(&["SET", &window, "something else"]).await;
    fund(&app, 2).await;
    assert_eq!(follow(&fan_out(&app)).await, 0);
    let sources: String = app.run(&["HGET", &window, "sources"]).await;
    assert_eq!(sources, "1");
    let _running = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    arrive(&receiver, 5).await;
    reached(&app, &id, "SUCCESS", 5).await;
    // Earlier open deliveries are not counted in it.
    let open: String = app.run(&["HGET", &window, "open"]).await;
    assert_eq!(open, "0");
}

#[tokio::test]
async fn w33_missed_events_of_a_damaged_window_are_fetched() {
    for mut hooked in [
        SubscriptionFixture::own().await,
        SubscriptionFixture::system().await,
    ] {
        fund(&hooked.app, 1).await;
        assert_eq!(follow(&hooked.fan_out).await, 1);
        hooked.let_open(1_000).await;
        fund(&hooked.app, 3).await;
        assert_eq!(follow(&hooked.fan_out).await, 0);
        assert!(hooked.is_behind().await);
        let window = hooked.window();
        hooked.app.run::<()>(&["SET", &window, "x"]).await;
        fund(&hooked.app, 1).await;
        assert_eq!(follow(&hooked.fan_out).await, 0);
        hooked.look_now().await;
        assert_eq!(hooked.catch_up().await, 4);
        hooked.expect_in_order(5).await;
        assert!(!hooked.is_behind().await);
    }
}

#[tokio::test]
async fn w33_missed_events_are_fetched_despite_damaged_fields_of_the_window() {
    for field in ["sources", "epoch", "missed", "open", "behind own"] {
        let mut hooked = SubscriptionFixture::own().await;
        hooked.let_open(1_000).await;
        fund(&hooked.app, 3).await;
        assert_eq!(follow(&hooked.fan_out).await, 0);
        let window = hooked.window();
        hooked.let_open(0).await;
        hooked.app.run::<()>(&["HSET", &window, field, "x"]).await;
        fund(&hooked.app, 1).await;
        assert_eq!(follow(&hooked.fan_out).await, 0, "{field}");
        hooked.look_now().await;
        assert_eq!(hooked.catch_up().await, 4, "{field}");
        hooked.expect_in_order(4).await;
        assert!(!hooked.is_behind().await, "{field}");
    }
}

#[tokio::test]
async fn w33_a_damaged_mark_or_tenant_delays_no_other_tenant_and_loses_nothing() {
    for is_mark in [true, false] {
        let mut hooked = SubscriptionFixture::own().await;
        let other = quiet(&hooked.app).await;
        let body = json!({"url": URL, "event_types": ["tenant.updated"]});
        let path = format!("{HOOKS}?tenant_id={other}");
        let made = hooked.app.post_as_admin(&path, body).await.expect(201);
        let other_id = made.text("/subscription/subscription_id").to_owned();
        fund(&hooked.app, 2).await;
        update(&hooked.app, &other).await;
        let keys = hooked.app.store.keys();
        let key = match is_mark {
            true => keys.webhooks_mark(umbra(), "umbra"),
            false => keys.tenant(umbra(), "umbra"),
        };
        let kept = format!("{key}:kept");
        hooked.app.run::<()>(&["RENAME", &key, &kept]).await;
        hooked.app.run::<i64>(&["LPUSH", &key, "x"]).await;
        let lane = keys.lane(umbra(), format!("{other_id}:{}:{other}", umbra()));
        let queued = follow(&hooked.fan_out).await;
        assert_eq!(hooked.app.run::<i64>(&["LLEN", &lane]).await, 1);
        // A mark is rewritten; an operator repairs a record.
        assert_eq!(queued, if is_mark { 3 } else { 1 });
        if !is_mark {
            hooked.app.run::<()>(&["RENAME", &kept, &key]).await;
            hooked.look_now().await;
            assert_eq!(hooked.catch_up().await, 2);
        }
        hooked.expect_in_order(2).await;
    }
}

#[tokio::test]
async fn w33_a_damaged_list_of_subscriptions_is_counted_and_delays_no_other_tenant() {
    for is_marked in [true, false] {
        let mut hooked = SubscriptionFixture::own().await;
        let other = quiet(&hooked.app).await;
        let body = json!({"url": URL, "event_types": ["tenant.updated"]});
        let path = format!("{HOOKS}?tenant_id={other}");
        hooked.app.post_as_admin(&path, body).await.expect(201);
        follow(&hooked.fan_out).await;
        let keys = hooked.app.store.keys();
        let list = keys.webhooks(umbra(), "umbra");
        let (kept, mark) = (format!("{list}:kept"), keys.webhooks_mark(umbra(), "umbra"));
        hooked.app.run::<()>(&["RENAME", &list, &kept]).await;
        hooked.app.run::<()>(&["SET", &list, "x"]).await;
        if !is_marked {
            hooked.app.run::<i64>(&["DEL", &mark]).await;
        }
        let registry = Registry::new();
        hooked.fan_out = fan_out_in(&hooked.app, &registry);
        fund(&hooked.app, 2).await;
        update(&hooked.app, &other).await;
        assert_eq!(follow(&hooked.fan_out).await, 1);
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.expect("text");
        assert!(
            text.contains("budget_webhook_events_skipped_total 2\n"),
            "{text}"
        );
        hooked.app.run::<()>(&["RENAME", &kept, &list]).await;
        // It is read again after five seconds, or by another dispatcher.
        hooked.fan_out = fan_out(&hooked.app);
        fund(&hooked.app, 1).await;
        assert_eq!(follow(&hooked.fan_out).await, 1);
        hooked.expect_in_order(1).await;
    }
}

#[tokio::test]
async fn w33_events_wait_while_redis_refuses_to_read_the_list_of_subscriptions() {
    let (_server, app) = service(&[]).await;
    let mut hooked = SubscriptionFixture::both_on(umbra_on(app).await).await;
    fund(&hooked.app, 2).await;
    let registry = Registry::new();
    hooked.fan_out = fan_out_in(&hooked.app, &registry);
    let allow = async |right: &str| {
        let user = ["ACL", "SETUSER", "default", right];
        hooked.app.run::<String>(&user).await;
    };
    for command in ["zrange", "get"] {
        allow(&format!("-{command}")).await;
        let pass = hooked.fan_out.run_once(&leases()).await;
        let error = pass.expect_err(command).to_string();
        assert!(error.contains("NOPERM"), "{error}");
        allow(&format!("+{command}")).await;
    }
    let text = TextEncoder::new().encode_to_string(&registry.gather());
    let text = text.expect("text");
    assert!(
        text.contains("budget_webhook_events_skipped_total 0\n"),
        "{text}"
    );
    assert_eq!(follow(&hooked.fan_out).await, 4);
    hooked.expect_in_order(2).await;
}

#[tokio::test]
async fn w33_damaged_lists_of_subscriptions_do_not_delay_a_noisy_tenant() {
    let hooked = SubscriptionFixture::own().await;
    let app = &hooked.app;
    for tenant in neighbours(app, 3).await {
        let body = json!({"url": URL, "event_types": ["tenant.updated"]});
        let path = format!("{HOOKS}?tenant_id={tenant}");
        app.post_as_admin(&path, body).await.expect(201);
        let list = app.store.keys().webhooks(umbra(), &tenant);
        app.run::<()>(&["SET", &list, "x"]).await;
        update(app, &tenant).await;
    }
    assert_eq!(follow(&hooked.fan_out).await, 0);
    // More than its share of a pass.
    fund(app, 260).await;
    assert_eq!(follow(&hooked.fan_out).await, 260);
    hooked.expect_in_order(260).await;
}

#[tokio::test]
async fn w33_missed_events_are_fetched_after_the_list_of_subscriptions_is_repaired() {
    let mut hooked = SubscriptionFixture::own().await;
    hooked.let_open(1_000).await;
    fund(&hooked.app, 3).await;
    assert_eq!(follow(&hooked.fan_out).await, 0);
    let list = hooked.app.store.keys().webhooks(umbra(), "umbra");
    let kept = format!("{list}:kept");
    hooked.app.run::<()>(&["RENAME", &list, &kept]).await;
    hooked.app.run::<()>(&["SET", &list, "x"]).await;
    hooked.let_open(0).await;
    assert_eq!(hooked.catch_up().await, 0);
    assert!(hooked.is_behind().await);
    hooked.app.run::<()>(&["RENAME", &kept, &list]).await;
    hooked.catch_up = catch_up_of(&hooked.app).0;
    hooked.look_now().await;
    assert_eq!(hooked.catch_up().await, 3);
    hooked.expect_in_order(3).await;
}

#[tokio::test]
async fn w33_an_unreadable_cursor_restarts_without_queueing_twice() {
    for mut hooked in [
        SubscriptionFixture::own().await,
        SubscriptionFixture::system().await,
    ] {
        fund(&hooked.app, 2).await;
        assert_eq!(follow(&hooked.fan_out).await, 2);
        for damaged in ["x", "5-1 x y", "5-1 2"] {
            let cursors = hooked.app.store.keys().fanned(hooked.partition);
            let words = ["HSET", &cursors, &hooked.source, damaged];
            hooked.app.run::<()>(&words).await;
            fund(&hooked.app, 1).await;
            hooked.fan_out = fan_out(&hooked.app);
            assert_eq!(follow(&hooked.fan_out).await, 1, "{damaged}");
        }
        hooked.expect_in_order(5).await;
    }
}

#[tokio::test]
async fn w33_events_wait_until_an_unreadable_subscription_is_repaired() {
    let (own, system) = (format!("{HOOKS}?tenant_id=umbra"), HOOKS.to_owned());
    for (path, damage) in [(&own, "key"), (&system, "tenant"), (&own, "url")] {
        let app = here().await;
        let [sick, well] = [
            Receiver::start(Reply::Status(200, "")).await,
            Receiver::start(Reply::Status(200, "")).await,
        ];
        let mut ids = Vec::new();
        for receiver in [&sick, &well] {
            let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
            let made = app.post_as_admin(path, body).await.expect(201);
            ids.push(made.text("/subscription/subscription_id").to_owned());
        }
        fund(&app, 1).await;
        assert_eq!(follow(&fan_out(&app)).await, 2);
        let home = match path == &own {
            true => umbra(),
            false => budget_authority::domain::ids::Partition::FIRST,
        };
        let record = app.store.keys().webhook(home, &ids[0]);
        let kept = format!("{record}:kept");
        app.run::<i64>(&["COPY", &record, &kept]).await;
        match damage {
            "key" => app.run::<()>(&["SET", &record, "x"]).await,
            field => app.run::<()>(&["HDEL", &record, field]).await,
        }
        let running = RunningDispatcher::start(&app);
        fund(&app, 2).await;
        arrive(&well, 3).await;
        eventually("it is counted", || async {
            let metrics = running.telemetry.render().expect("metrics");
            let name = "budget_webhook_unreadable_records_total ";
            let mut lines = metrics.lines();
            lines.any(|line| line.strip_prefix(name).is_some_and(|count| count != "0"))
        })
        .await;
        // No event was dropped.
        tokio::time::sleep(Duration::from_secs(1)).await;
        app.run::<i64>(&["COPY", &kept, &record, "REPLACE"]).await;
        let lane = format!("{}:{}:umbra", ids[0], umbra());
        let lanes = app.store.keys().lanes(home);
        app.run::<()>(&["ZADD", &lanes, "XX", "0", &lane]).await;
        arrive(&sick, 3).await;
        arrive(&well, 3).await;
        for key in app.keys_like("{???}:delivery:*").await {
            let ends = || async {
                let status: String = app.run(&["HGET", &key, "status"]).await;
                (status == "SUCCESS").then_some(()).ok_or(status)
            };
            eventually(&format!("{damage}: {key} ends"), ends).await;
        }
    }
}
