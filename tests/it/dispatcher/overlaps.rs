//! W36: first attempts of a lane that overlap start in order, also where one is put off; a retry holds nobody up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use budget_authority::egress::{Egress, Resolver, TrustedRoots};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::deleted_keys::credits;
use crate::admin::webhooks::subscriptions::{HOOKS, made};
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached};
use crate::harness::eventually;
use crate::harness::logged_dispatcher::LoggedDispatcher;
use crate::harness::receiver::{Receiver, Reply};

/// An egress that resolves one name only when the test allows it, with one look-up per owner at a time.
fn with_a_slow_name(may: &Arc<Semaphore>) -> Egress {
    let may = Arc::clone(may);
    let resolver = Resolver::of(move |host| {
        let may = Arc::clone(&may);
        async move {
            if host == "slow.example" {
                may.acquire().await.expect("open").forget();
            }
            Ok(vec![IpAddr::from([127, 0, 0, 1])])
        }
    });
    Egress::new(resolver.limited(4), &TrustedRoots::public())
}

async fn hook(app: &TestApp, url: &str, event_type: &str) -> String {
    made(app, json!({"url": url, "event_types": [event_type]})).await
}

/// Waits until attempts with these labels were counted.
async fn counted(running: &RunningDispatcher, labels: &str) {
    eventually(labels, || async {
        let metrics = running.telemetry.render().expect("metrics");
        let name = format!("budget_webhook_attempts_total{{{labels}}}");
        metrics.contains(&name)
    })
    .await;
}

#[tokio::test]
async fn w36_a_first_attempt_waits_for_a_postponed_one_of_its_lane() {
    let (app, may) = (here().await, Arc::new(Semaphore::new(0)));
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let port = receiver.address.port();
    let slow = format!("http://slow.example:{port}/slow");
    hook(&app, &slow, "tenant.updated").await;
    let url = format!("http://fast.example:{port}/in");
    let id = hook(&app, &url, "budget.funded").await;
    let running = RunningDispatcher::reaching(&app, 3, with_a_slow_name(&may));
    let path = "/v1/admin/tenants/umbra";
    app.as_admin(
        reqwest::Method::PATCH,
        path,
        &json!({"name": "Umbra again"}),
    )
    .await
    .expect(200);
    eventually("the slow name is looked up", || async {
        let metrics = running.telemetry.render().expect("metrics");
        metrics.contains("budget_webhook_in_flight 1")
    })
    .await;
    // The first one waits for the look-up until it is put off, the second one half a second longer.
    fund(&app, 1).await;
    // The time between the two is what the test is about.
    tokio::time::sleep(Duration::from_millis(700)).await;
    fund(&app, 2).await;
    counted(&running, r#"outcome="later",reason="look_ups_busy""#).await;
    may.add_permits(1);
    reached(&app, &id, "SUCCESS", 3).await;
    let mut arrived = BTreeMap::new();
    for request in receiver.arrived() {
        let path = request
            .line
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .to_owned();
        *arrived.entry(path).or_insert(0) += 1;
    }
    assert_eq!(arrived.get("/in"), Some(&3), "{arrived:?}");
    let credits = credits(&receiver);
    assert!(credits.is_sorted(), "{credits:?}");
}

#[tokio::test]
async fn w36_a_postponed_lane_stays_postponed_when_another_of_its_attempts_ends() {
    let app = here().await;
    let receiver = Receiver::start(Reply::After(Duration::from_secs(2))).await;
    let id = hook(&app, &receiver.url("/in"), "budget.funded").await;
    let running = RunningDispatcher::with_lanes(&app, 3);
    for count in 1..4 {
        fund(&app, 1).await;
        eventually("it is in flight", || async {
            receiver.arrived().len() == count
        })
        .await;
    }
    let keys = app.store.keys();
    let security = keys.webhook_security(budget_authority::domain::ids::Partition::FIRST);
    let kept = format!("{security}:kept");
    app.run::<()>(&["RENAME", &security, &kept]).await;
    app.run::<()>(&["SET", &security, "x"]).await;
    fund(&app, 2).await;
    counted(&running, r#"outcome="later",reason="security_unreadable""#).await;
    reached(&app, &id, "SUCCESS", 3).await;
    app.run::<()>(&["RENAME", &kept, &security]).await;
    // Unsent for half a minute.
    let lanes = keys.lanes(umbra());
    let lane = format!("{id}:{}:umbra", umbra());
    let due_ms: i64 = app.run(&["ZSCORE", &lanes, &lane]).await;
    let now_ms = crate::harness::redis_fixture::now_ms(&app.store).await;
    assert!(due_ms > now_ms + 5_000, "{due_ms} {now_ms}");
    assert_eq!(receiver.arrived().len(), 3);
    let record = keys.lane(umbra(), &lane);
    let first: String = app.run(&["LINDEX", &record, "0"]).await;
    for waiting in app
        .run::<Vec<String>>(&["LRANGE", &record, "0", "-1"])
        .await
    {
        let key = keys.delivery(umbra(), &waiting);
        app.run::<()>(&["HDEL", &key, "not_before_ms"]).await;
    }
    assert!(!first.is_empty());
    app.run::<()>(&["ZADD", &lanes, "XX", "0", &lane]).await;
    reached(&app, &id, "SUCCESS", 5).await;
    assert!(credits(&receiver).is_sorted(), "{:?}", credits(&receiver));
}

#[tokio::test]
async fn w3_postponed_deliveries_end_among_many_lanes_due_in_one_millisecond() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let path = format!("{HOOKS}?tenant_id=umbra");
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
    let made = app.post_as_admin(&path, body).await.expect(201);
    let id = made.text("/subscription/subscription_id").to_owned();
    fund(&app, 2).await;
    assert_eq!(
        super::fan_out::follow(&super::fan_out::fan_out(&app)).await,
        2
    );
    let lanes = app.store.keys().lanes(umbra());
    let at_ms = crate::harness::redis_fixture::now_ms(&app.store).await + 100_000;
    let at_ms = at_ms.to_string();
    // Of no subscription, and before it in the order of names.
    for number in 0..50 {
        let lane = format!("{number:04}:{}:umbra", umbra());
        app.run::<()>(&["ZADD", &lanes, &at_ms, &lane]).await;
    }
    let lane = format!("{id}:{}:umbra", umbra());
    app.run::<()>(&["ZADD", &lanes, &at_ms, &lane]).await;
    let path = format!("{HOOKS}/{id}");
    let pause = json!({"status": "PAUSED"});
    app.as_admin(reqwest::Method::PATCH, &path, &pause)
        .await
        .expect(200);
    let running = RunningDispatcher::start(&app);
    reached(&app, &id, "FAILED", 2).await;
    counted(
        &running,
        r#"outcome="dropped",reason="subscription_inactive""#,
    )
    .await;
    assert_eq!(receiver.arrived().len(), 0);
}

#[tokio::test]
async fn w36_first_attempts_that_overlap_start_in_order_among_retries() {
    const EVENTS: usize = 60;
    let app = here().await;
    let receiver = Receiver::start(Reply::Fitful {
        failing: 30,
        silent: 0,
    });
    let receiver = receiver.await;
    let policy = json!({"max_retries": 10, "initial_delay_ms": 100, "max_delay_ms": 1_000});
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"],
        "disable_after_failures": 10_000, "retry_policy": policy});
    let id = made(&app, body).await;
    fund(&app, EVENTS).await;
    let dispatcher = LoggedDispatcher::start(&app, &["--webhook-lane-concurrency", "8"]);
    reached(&app, &id, "SUCCESS", EVENTS).await;

    let mut events = BTreeMap::new();
    for request in receiver.arrived() {
        let event: Value = serde_json::from_slice(&request.body).expect("JSON");
        let credit = &event["data"]["new_state"]["allocated"];
        events.insert(event["event_id"].to_string(), credit.as_i64());
    }
    let (mut first, mut open, mut most) = (Vec::new(), BTreeSet::new(), 0);
    for line in dispatcher.lines() {
        let starts = line["message"]
            .as_str()
            .is_some_and(|text| text.ends_with("starts"));
        match (line["attempt"].as_i64(), line["outcome"].as_str()) {
            (Some(1), None) if starts => {
                first.push(events[&line["event.id"].to_string()]);
                open.insert(line["delivery.id"].to_string());
                most = most.max(open.len());
            }
            (Some(1), Some(_)) => {
                open.remove(&line["delivery.id"].to_string());
            }
            _ => (),
        }
    }
    assert_eq!(first.len(), EVENTS);
    assert!(first.is_sorted(), "{first:?}");
    assert!((2..=8).contains(&most), "{most} overlap");
    let attempts = receiver.arrived().len();
    assert!(attempts > EVENTS, "no attempt failed");
}
