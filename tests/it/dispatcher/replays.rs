//! Replays run: in their own lane and order, beside live deliveries, to their end.

use std::time::{Duration, Instant};

use budget_authority::domain::event::tenant_digest;
use budget_authority::domain::webhook::{DeliveryId, ReplayId, SubscriptionId};
use budget_authority::store::{Day, Store};
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::webhooks::replay::replay;
use crate::admin::webhooks::subscriptions::{HOOKS, made, patch};
use crate::harness::app::TestApp;
use crate::harness::deliveries::{RunningDispatcher, deliveries, fund, here, reached, webhook};
use crate::harness::event_log::{EventLog, partition_of};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};

pub(crate) fn hook(receiver: &Receiver, more: Value) -> Value {
    let mut body =
        json!({"url": receiver.url("/in"), "event_types": ["tenant.updated", "budget.funded"]});
    for (name, value) in more.as_object().expect("members") {
        body[name] = value.clone();
    }
    body
}

/// Events of the past that a subscription made now does not get by itself.
pub(crate) async fn past(app: &TestApp, count: usize) {
    let mut log = EventLog::on(&app.store);
    let at_ms = log.now_ms().await - 2 * 86_400_000;
    for n in 0..count {
        let ms = at_ms + i64::try_from(n).expect("few");
        log.emit("umbra", ms, &[]).await;
    }
}

pub(crate) async fn replayed(app: &TestApp, id: &str, count: usize) -> ReplayId {
    let response = replay(
        app,
        id,
        json!({"max_events": 1000, "event_types": ["tenant.updated"]}),
    )
    .await
    .expect(202);
    assert_eq!(response.at("/events_queued"), &json!(count), "{response:?}");
    ReplayId::parse(response.text("/replay_id")).expect("an id")
}

fn lock_of(store: &Store, id: &str) -> String {
    let partition = SubscriptionId::parse(id).expect("an id").partition();
    store.keys().replay_lock(partition, id)
}

/// Waits until the replay of a subscription has ended.
pub(crate) async fn over(app: &TestApp, id: &str) {
    let lock = lock_of(&app.store, id);
    eventually("the replay has ended", || async {
        app.run::<i64>(&["EXISTS", &lock]).await == 0
    })
    .await;
    for pattern in ["*:replay:*", "*:replayevents:*", "*:replays"] {
        assert_eq!(app.keys_like(pattern).await, Vec::<String>::new());
    }
}

fn ids(rows: &[Value]) -> Vec<&str> {
    rows.iter()
        .map(|row| row["event_id"].as_str().expect("an id"))
        .collect()
}

pub(crate) fn arrived(receiver: &Receiver) -> Vec<String> {
    let ids = receiver.arrived();
    ids.iter()
        .map(|request| {
            request
                .header("x-service-event-id")
                .expect("an id")
                .to_owned()
        })
        .collect()
}

#[tokio::test]
async fn replayed_events_of_all_tenants_arrive_in_order_as_new_deliveries() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let mut log = EventLog::on(&app.store);
    let at_ms = log.now_ms().await - 86_400_000;
    let mut expected = Vec::new();
    for n in 0..30 {
        let tenant = ["umbra", "second", "third"][n % 3];
        let ms = at_ms + i64::try_from(n / 6).expect("few");
        let entry = log.emit(tenant, ms, &[]).await;
        expected.push((ms, partition_of(tenant), tenant_digest(tenant), entry));
    }
    expected.sort();
    let event_id = |(_, partition, digest, entry): &(_, _, String, _)| {
        format!("evt_{partition}_{digest}_{entry}")
    };
    let expected: Vec<String> = expected.iter().map(event_id).collect();
    let body = json!({"url": receiver.url("/in"), "event_types": ["tenant.updated"]});
    let id = app.post_as_admin(HOOKS, body).await.expect(201);
    let id = id.text("/subscription/subscription_id").to_owned();
    let replay = replayed(&app, &id, 30).await;
    let _running = RunningDispatcher::start(&app);
    let rows = reached(&app, &id, "SUCCESS", 30).await;
    assert_eq!(arrived(&receiver), expected);
    assert_eq!(ids(&rows), expected);
    let subscription = SubscriptionId::parse(&id).expect("an id");
    for row in &rows {
        let event = row["event_id"].as_str().expect("an id");
        let named = DeliveryId::of(
            subscription.partition(),
            event,
            &subscription,
            Some(&replay),
        );
        assert_eq!(row["delivery_id"], named.as_str());
        assert_eq!(
            row["attempted_at"], rows[0]["attempted_at"],
            "when the replay was asked for"
        );
    }
    over(&app, &id).await;
    // A further one delivers them once more.
    replayed(&app, &id, 30).await;
    reached(&app, &id, "SUCCESS", 60).await;
    assert_eq!(arrived(&receiver), [&expected[..], &expected].concat());
}

#[tokio::test]
async fn live_events_arrive_beside_a_replay_timed() {
    let app = here().await;
    let receiver = Receiver::start(Reply::After(Duration::from_millis(500))).await;
    past(&app, 60).await;
    let id = made(&app, hook(&receiver, json!({}))).await;
    replayed(&app, &id, 60).await;
    let _running = RunningDispatcher::start(&app);
    eventually("the replay has begun", || async {
        receiver.arrived().len() > 2
    })
    .await;
    let begun = Instant::now();
    fund(&app, 2).await;
    let live = || async {
        let rows = deliveries(&app, &id).await;
        let live = rows
            .iter()
            .skip(60)
            .filter(|row| row["status"] == "SUCCESS");
        live.count() == 2
    };
    eventually("they arrive", live).await;
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    assert!(receiver.arrived().len() < 60, "the replay continues");
}

#[tokio::test]
async fn a_replay_takes_a_quarter_of_the_deliveries_in_flight() {
    let app = here().await;
    let (id, receiver) = stuck(&app).await;
    let _running = RunningDispatcher::with_lanes(&app, 64);
    eventually("it is in flight", || async {
        receiver.arrived().len() == 16
    })
    .await;
    fund(&app, 2).await;
    eventually("live events are in flight as well", || async {
        receiver.arrived().len() == 18
    })
    .await;
    let window = app.store.keys().window(partition_of("umbra"), &id);
    let flying: i64 = app.run(&["HGET", &window, "flying"]).await;
    assert_eq!(flying, 18);
}

#[tokio::test]
async fn w11_a_replay_ends_with_its_last_first_attempt_and_retries_continue_timed() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(500, "")).await;
    past(&app, 20).await;
    let policy = json!({"retry_policy": {"max_retries": 3, "initial_delay_ms": 15_000}, "disable_after_failures": 100});
    let id = made(&app, hook(&receiver, policy)).await;
    replayed(&app, &id, 20).await;
    replay(&app, &id, json!({}))
        .await
        .refused(409, "REPLAY_IN_PROGRESS");
    let _running = RunningDispatcher::start(&app);
    over(&app, &id).await;
    let rows = deliveries(&app, &id).await;
    let waiting = rows.iter().filter(|row| row["status"] == "RETRYING");
    assert_eq!(waiting.count(), 20, "{rows:?}");
    replayed(&app, &id, 20).await;
    let well = Receiver::start(Reply::Status(200, "")).await;
    patch(&app, &id, json!({"url": well.url("/in")})).await;
    let rows = reached(&app, &id, "SUCCESS", 40).await;
    assert!(
        rows[..20].iter().all(|row| row["attempts"] == 2),
        "{rows:?}"
    );
}

#[tokio::test]
async fn failures_of_a_replay_count_and_disabling_the_webhook_ends_it() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(500, "")).await;
    past(&app, 8).await;
    let settings = json!({"retry_policy": {"max_retries": 0}, "disable_after_failures": 3});
    let id = made(&app, hook(&receiver, settings)).await;
    replayed(&app, &id, 8).await;
    let _running = RunningDispatcher::start(&app);
    let rows = reached(&app, &id, "FAILED", 8).await;
    let attempts: Vec<_> = rows
        .iter()
        .map(|row| row["attempts"].as_i64().expect("a number"))
        .collect();
    assert_eq!(attempts, [1, 1, 1, 0, 0, 0, 0, 0]);
    let record = webhook(&app, &id).await;
    assert_eq!(
        (&record["status"], &record["consecutive_failures"]),
        (&json!("DISABLED"), &json!(3))
    );
    over(&app, &id).await;
}

/// A replay of 300 events to a silent receiver, in progress.
async fn stuck(app: &TestApp) -> (String, Receiver) {
    let receiver = Receiver::start(Reply::Silence).await;
    past(app, 300).await;
    let id = made(app, hook(&receiver, json!({}))).await;
    replayed(app, &id, 300).await;
    (id, receiver)
}

/// How many of all deliveries to a subscription have a status.
pub(crate) async fn having(app: &TestApp, id: &str, status: &str) -> usize {
    let (mut count, mut cursor) = (0, String::new());
    loop {
        let path = format!("{HOOKS}/{id}/deliveries?limit=100&status={status}{cursor}");
        let page = app.get_as_admin(&path).await.expect(200);
        count += page.at("/deliveries").as_array().expect("rows").len();
        match page.at("/next_cursor").as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return count,
        }
    }
}

#[tokio::test]
async fn pausing_ends_a_replay_within_seconds() {
    let app = here().await;
    let (id, receiver) = stuck(&app).await;
    let _running = RunningDispatcher::start(&app);
    eventually("it is in flight", || async {
        receiver.arrived().len() == 1
    })
    .await;
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    let begun = Instant::now();
    eventually("all but the one in flight have failed", || async {
        having(&app, &id, "FAILED").await == 299
    })
    .await;
    // The attempt lasts 30 seconds.
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    // Active again, it is another epoch: nothing of the old replay is sent.
    patch(&app, &id, json!({"status": "ACTIVE"})).await;
    assert_eq!(receiver.arrived().len(), 1);
}

#[tokio::test]
async fn pausing_ends_all_retries_of_a_replay_at_once() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(503, "")).await;
    past(&app, 40).await;
    let policy = json!({"retry_policy": {"initial_delay_ms": 60_000}});
    let id = made(&app, hook(&receiver, policy)).await;
    replayed(&app, &id, 40).await;
    let _running = RunningDispatcher::start(&app);
    reached(&app, &id, "RETRYING", 40).await;
    let begun = Instant::now();
    for status in ["PAUSED", "ACTIVE"] {
        patch(&app, &id, json!({"status": status})).await;
    }
    let rows = reached(&app, &id, "FAILED", 40).await;
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(rows[0]["error_message"], "The subscription is not active");
    // Those of the new epoch wait for their time.
    replayed(&app, &id, 40).await;
    over(&app, &id).await;
    assert_eq!(having(&app, &id, "RETRYING").await, 40);
}

#[tokio::test]
async fn closing_the_tenant_ends_a_replay_that_has_not_started() {
    let app = here().await;
    let (id, receiver) = stuck(&app).await;
    let close = json!({"status": "CLOSED"});
    app.patch_as_admin("/v1/admin/tenants/umbra", close)
        .await
        .expect(200);
    let _running = RunningDispatcher::start(&app);
    over(&app, &id).await;
    assert_eq!(having(&app, &id, "FAILED").await, 300);
    assert!(receiver.arrived().is_empty());
}

#[tokio::test]
async fn deleting_the_webhook_ends_a_replay_and_leaves_no_keys() {
    let app = here().await;
    let (id, receiver) = stuck(&app).await;
    let running = RunningDispatcher::start(&app);
    eventually("it is in flight", || async {
        receiver.arrived().len() == 1
    })
    .await;
    app.as_admin(Method::DELETE, &format!("{HOOKS}/{id}"), &json!({}))
        .await
        .expect(204);
    eventually("only the one in flight is left", || async {
        let lanes = app.keys_like("*:lane:*").await;
        match &lanes[..] {
            [lane] => app.run::<i64>(&["LLEN", lane]).await == 1,
            _ => false,
        }
    })
    .await;
    assert_eq!(
        app.keys_like("*:replayevents:*").await,
        Vec::<String>::new()
    );
    running.stop().await;
    let _second = RunningDispatcher::start(&app);
    over(&app, &id).await;
}

#[tokio::test]
async fn another_dispatcher_continues_a_replay_under_the_same_ids() {
    let app = here().await;
    let receiver = Receiver::start(Reply::After(Duration::from_millis(100))).await;
    past(&app, 90).await;
    let id = made(&app, hook(&receiver, json!({}))).await;
    replayed(&app, &id, 90).await;
    let first = RunningDispatcher::start(&app);
    eventually("it has begun", || async { receiver.arrived().len() > 10 }).await;
    first.stop().await;
    assert!(receiver.arrived().len() < 90);
    receiver.reply(Reply::After(Duration::from_millis(20)));
    let (_second, _third) = (
        RunningDispatcher::start(&app),
        RunningDispatcher::start(&app),
    );
    let rows = reached(&app, &id, "SUCCESS", 90).await;
    let mut seen = arrived(&receiver);
    seen.dedup();
    assert_eq!(seen, ids(&rows), "in order, one of them perhaps twice");
    over(&app, &id).await;
}

#[tokio::test]
async fn w12_deliveries_of_a_replay_fail_a_day_after_its_request() {
    let app = here().await;
    let (id, receiver) = stuck(&app).await;
    let kept = app.keys_like("*:replay:*").await.remove(0);
    let created: i64 = app.run(&["HGET", &kept, "created_at_ms"]).await;
    let (day_ago, day) = (created - 86_401_000, Day::of_ms(created - 86_401_000));
    let words = [
        "HSET",
        &kept,
        "created_at_ms",
        &day_ago.to_string(),
        "day",
        &day.to_string(),
    ];
    app.run::<i64>(&words).await;
    let _running = RunningDispatcher::start(&app);
    over(&app, &id).await;
    assert_eq!(having(&app, &id, "FAILED").await, 300);
    let rows = deliveries(&app, &id).await;
    assert_eq!(rows[0]["error_message"], "The delivery is too old");
    assert!(receiver.arrived().is_empty());
}
