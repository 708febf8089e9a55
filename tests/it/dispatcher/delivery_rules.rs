//! Deliveries while the owner, the subscription or the address rules change.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, made, patch};
use crate::harness::app::TestApp;
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached, webhook};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};

async fn hooked(app: &TestApp, receiver: &Receiver, event_type: &str) -> String {
    let body = json!({"url": receiver.url("/in"), "event_types": [event_type]});
    made(app, body).await
}

fn types(receiver: &Receiver) -> Vec<String> {
    let name = |request: &crate::harness::receiver::ReceivedRequest| {
        request
            .header("x-service-event-type")
            .expect("a type")
            .to_owned()
    };
    receiver.arrived().iter().map(name).collect()
}

#[tokio::test]
async fn w16_a_blocked_address_is_no_attempt_and_does_not_count() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = hooked(&app, &receiver, "budget.funded").await;
    let rules = json!({"blocked_cidr_ranges": ["127.0.0.0/8"], "allow_http": true});
    let path = "/v1/admin/config/webhook-security";
    app.as_admin(Method::PUT, path, &rules).await.expect(200);
    fund(&app, 1).await;
    let _running = RunningDispatcher::start(&app);
    let rows = reached(&app, &id, "FAILED", 1).await;
    assert_eq!(rows[0]["attempts"], 0, "{}", rows[0]);
    assert_eq!(
        rows[0]["error_message"],
        "Webhook URL rejected by current security policy"
    );
    assert_eq!(webhook(&app, &id).await["consecutive_failures"], 0);
    assert_eq!(receiver.accepted(), 0);
}

#[tokio::test]
async fn w2_a_suspended_tenant_gets_the_event_of_its_suspension() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = hooked(&app, &receiver, "tenant.suspended").await;
    let _running = RunningDispatcher::start(&app);
    let suspended = json!({"status": "SUSPENDED"});
    app.as_admin(Method::PATCH, "/v1/admin/tenants/umbra", &suspended)
        .await
        .expect(200);
    reached(&app, &id, "SUCCESS", 1).await;
    assert_eq!(types(&receiver), ["tenant.suspended"]);
}

#[tokio::test]
async fn w25_a_webhook_gets_the_event_of_its_own_change() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let body = json!({"url": receiver.url("/in"), "event_types": ["webhook.updated"]});
    let id = app.post_as_admin(HOOKS, body).await.expect(201);
    let id = id.text("/subscription/subscription_id").to_owned();
    let _running = RunningDispatcher::start(&app);
    patch(&app, &id, json!({"name": "renamed"}))
        .await
        .expect(200);
    reached(&app, &id, "SUCCESS", 1).await;
    let event: Value = serde_json::from_slice(&receiver.arrived()[0].body).expect("JSON");
    assert_eq!(event["data"]["subscription_id"], id);
}

#[tokio::test]
async fn w4_deliveries_in_flight_at_a_pause_end_uncounted() {
    let app = here().await;
    let _running = RunningDispatcher::start(&app);
    let slow_good = Receiver::start(Reply::Held).await;
    let hanging_up = Receiver::start(Reply::Silence).await;
    let good = hooked(&app, &slow_good, "budget.funded").await;
    let bad = hooked(&app, &hanging_up, "budget.funded").await;
    fund(&app, 1).await;
    eventually("both are in flight", || async {
        let both = slow_good.arrived().len() == 1 && hanging_up.arrived().len() == 1;
        both.then_some(())
    })
    .await;
    for id in [&good, &bad] {
        patch(&app, id, json!({"status": "PAUSED"}))
            .await
            .expect(200);
    }
    slow_good.reply(Reply::Status(200, ""));
    reached(&app, &good, "SUCCESS", 1).await;
    assert_eq!(webhook(&app, &good).await["status"], "PAUSED");
    assert_eq!(webhook(&app, &bad).await["consecutive_failures"], 0);
}

#[tokio::test]
async fn w18_waiting_deliveries_go_to_the_new_url() {
    let app = here().await;
    let (old, new) = (
        Receiver::start(Reply::Status(200, "")).await,
        Receiver::start(Reply::Status(200, "")).await,
    );
    let id = hooked(&app, &old, "budget.funded").await;
    fund(&app, 3).await;
    patch(&app, &id, json!({"url": new.url("/in")}))
        .await
        .expect(200);
    let _running = RunningDispatcher::start(&app);
    reached(&app, &id, "SUCCESS", 3).await;
    assert_eq!((old.accepted(), new.arrived().len()), (0, 3));
}

#[tokio::test]
async fn w18_after_a_lower_limit_of_retries_the_next_failure_is_the_last_and_counts() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(500, "")).await;
    let policy = |retries: i64| json!({"max_retries": retries, "initial_delay_ms": 7_000, "backoff_multiplier": 1.0});
    let body = json!({
        "url": receiver.url("/in"), "event_types": ["budget.funded"], "retry_policy": policy(5),
    });
    let id = made(&app, body).await;
    let _running = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    eventually("it was retried once", || async {
        (receiver.arrived().len() == 2).then_some(())
    })
    .await;
    patch(&app, &id, json!({"retry_policy": policy(0)}))
        .await
        .expect(200);
    let rows = reached(&app, &id, "FAILED", 1).await;
    assert_eq!(rows[0]["attempts"], 3, "{rows:?}");
    assert_eq!(webhook(&app, &id).await["consecutive_failures"], 1);
}

#[tokio::test]
async fn w36_overlapping_lanes_start_in_order_with_at_most_64_in_flight() {
    const EVENTS: usize = 90;
    let app = here().await;
    let receiver = Receiver::start(Reply::Held).await;
    let id = hooked(&app, &receiver, "budget.funded").await;
    fund(&app, EVENTS).await;
    let _running = RunningDispatcher::with_lanes(&app, 64);
    eventually("the maximum is in flight", || async {
        (receiver.arrived().len() >= 64).then_some(())
    })
    .await;
    assert!(receiver.open() <= 64, "{}", receiver.open());
    receiver.reply(Reply::After(Duration::from_millis(500)));
    reached_all(&receiver, EVENTS).await;
    let allocated = |request: &crate::harness::receiver::ReceivedRequest| -> i64 {
        let event: Value = serde_json::from_slice(&request.body).expect("JSON");
        event["data"]["new_state"]["allocated"]
            .as_i64()
            .expect("a figure")
    };
    let arrived: Vec<i64> = receiver.arrived().iter().map(allocated).collect();
    let (first, later) = arrived.split_at(64);
    let (first, later): (BTreeSet<_>, BTreeSet<_>) = (
        first.iter().copied().collect(),
        later.iter().copied().collect(),
    );
    assert!(first.last() < later.first(), "{arrived:?}");
    assert_eq!(first.len() + later.len(), EVENTS);
    assert!(!id.is_empty());
}

async fn reached_all(receiver: &Receiver, count: usize) {
    eventually("all arrive", || async {
        (receiver.arrived().len() == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn w3_deliveries_behind_one_in_flight_fail_within_seconds_of_a_pause() {
    for path in [format!("{HOOKS}?tenant_id=umbra"), HOOKS.to_owned()] {
        let app = here().await;
        // An attempt takes 30 seconds.
        let receiver = Receiver::start(Reply::Silence).await;
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        let made = app.post_as_admin(&path, body).await.expect(201);
        let id = made.text("/subscription/subscription_id").to_owned();
        fund(&app, 12).await;
        let _running = RunningDispatcher::start(&app);
        reached_all(&receiver, 1).await;
        let status = json!({"status": "PAUSED"});
        let path = format!("{HOOKS}/{id}");
        app.as_admin(reqwest::Method::PATCH, &path, &status)
            .await
            .expect(200);
        let begun = std::time::Instant::now();
        let rows = reached(&app, &id, "FAILED", 11).await;
        assert!(begun.elapsed() < Duration::from_secs(25));
        assert_eq!(
            (&rows[0]["status"], &rows[0]["attempts"]),
            (&json!("PENDING"), &json!(1))
        );
        assert_eq!(rows[1]["error_message"], "The subscription is not active");
        assert_eq!(receiver.arrived().len(), 1);
    }
}

#[tokio::test]
async fn deliveries_of_a_tenant_to_one_host_keep_its_rate_under_any_name_and_none_is_lost_timed() {
    const EVENTS: usize = 30;
    for lane_concurrency in [1, 4] {
        let app = here().await;
        let (flooded, other) = (
            Receiver::start(Reply::Status(200, "")).await,
            Receiver::start_everywhere(Reply::Status(200, "")).await,
        );
        let to = async |host: &str, receiver: &Receiver| {
            let url = format!("http://{host}:{}/in", receiver.address.port());
            made(&app, json!({"url": url, "event_types": ["budget.funded"]})).await
        };
        for name in ["a.flooded.test", "b.flooded.test", "127.0.0.1", "127.0.0.1"] {
            to(name, &flooded).await;
        }
        to("other.test", &other).await;
        fund(&app, EVENTS).await;
        // Not at the first arrival, which a busy machine may show too late.
        let begun = std::time::Instant::now();
        let _running = RunningDispatcher::with_host_rate(&app, lane_concurrency, 20);
        eventually("all arrive", || async {
            let arrived = (flooded.arrived().len(), other.arrived().len());
            match arrived == (4 * EVENTS, EVENTS) {
                true => Ok(()),
                false => Err(arrived),
            }
        })
        .await;
        // As many as in a second at once, then 20 a second.
        let least = Duration::from_millis(4_500);
        assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
        let last = |receiver: &Receiver| receiver.arrived().last().map(|last| last.place);
        assert!(
            last(&other) < last(&flooded),
            "the other host does not wait"
        );
        // Each subscription has a secret of its own.
        let arrived = flooded.arrived();
        let distinct: BTreeSet<_> = arrived
            .iter()
            .map(|request| request.header("x-service-signature"))
            .collect();
        assert_eq!(distinct.len(), 4 * EVENTS, "none arrives twice");
    }
}
