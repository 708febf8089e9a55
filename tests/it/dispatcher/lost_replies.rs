//! Replies of Redis to claims that get lost.

use std::time::Duration;

use serde_json::json;

use crate::admin::webhooks::subscriptions::made;
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, deliveries, fund, here, reached};
use crate::harness::lossy_proxy::LossyProxy;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::shared;
use crate::harness::redis_fixture::now_ms;
use crate::harness::slow_proxy::SlowProxy;
use crate::harness::{eventually, within};

fn has(request: &[u8], word: &str) -> bool {
    request
        .windows(word.len())
        .any(|some| some == word.as_bytes())
}

/// A call that takes deliveries: it names the claims, how long they last, and the lease.
fn takes(request: &[u8]) -> bool {
    has(request, "35000") && has(request, ":claims") && has(request, ":lease")
}

/// A call that scans claims: it does not name their duration.
fn looks_through(request: &[u8]) -> bool {
    has(request, ":claims") && has(request, ":lease") && !has(request, "35000")
}

/// A call that records outcomes, without a lease.
fn records_outcomes(request: &[u8]) -> bool {
    has(request, "35000") && has(request, ":claims") && has(request, ":failing")
}

/// Claims last for 35 seconds.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_claim_with_a_lost_reply_lapses_within_seconds() {
    for loses in [takes, records_outcomes] {
        let app = here().await;
        let receiver = Receiver::start(Reply::Status(200, "")).await;
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        let id = made(&app, body).await;
        let proxy = LossyProxy::to(shared().port, loses).await;
        fund(&app, 1).await;
        let _running = RunningDispatcher::over(&proxy.url(), &app, 1, 100);
        reached(&app, &id, "SUCCESS", 1).await;
        proxy.lose_one();
        fund(&app, 2).await;
        let all = || async {
            let rows = deliveries(&app, &id).await;
            let done = rows.iter().filter(|row| row["status"] == "SUCCESS");
            (done.count() == 3).then_some(()).ok_or(rows)
        };
        within(SOON, "all are attempted", all).await;
        assert!(proxy.has_lost());
        let count = receiver.arrived().len();
        assert!((3..5).contains(&count), "{count}");
    }
}

#[tokio::test]
async fn outcomes_with_a_lost_reply_are_recorded_once_and_their_lanes_continue() {
    let app = here().await;
    let receiver = Receiver::start(Reply::After(Duration::from_millis(500))).await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        ids.push(made(&app, body).await);
    }
    let proxy = LossyProxy::to(shared().port, records_outcomes).await;
    let _running = RunningDispatcher::over(&proxy.url(), &app, 1, 100);
    proxy.lose_one();
    fund(&app, 2).await;
    let all = || async {
        for id in &ids {
            let rows = deliveries(&app, id).await;
            let done = rows.iter().filter(|row| row["status"] == "SUCCESS");
            if done.count() != 2 {
                return Err(rows);
            }
        }
        Ok(())
    };
    within(SOON, "all are attempted", all).await;
    assert!(proxy.has_lost());
    // Deliveries claimed in the lost reply were never sent, since the dispatcher does not know of them.
    assert_eq!(receiver.arrived().len(), 2 * ids.len());
}

/// Claims that end before any later one, and are scanned before it.
const CLAIMS: &str = "for n = 1, 4000 do
  redis.call('HSET', KEYS[2] .. n, 'subscription', ARGV[1], 'at_ms', ARGV[2], 'place', ARGV[3], 'claim', ARGV[4])
  redis.call('ZADD', KEYS[1], ARGV[2] + 34000, ARGV[5] .. n)
end";

/// Gives the dispatcher that has the claim of a delivery many others, which are so young that they stay.
async fn add_claims(app: &TestApp, webhook: &str, delivery: &str) {
    let keys = app.store.keys();
    let record = keys.delivery(umbra(), delivery);
    let claim: String = app.run(&["HGET", &record, "claim"]).await;
    let (holder, _) = claim.split_once(':').expect("a claim");
    let now = now_ms(&app.store).await;
    let words = [
        "EVAL",
        CLAIMS,
        "2",
        &keys.claims(umbra()),
        &keys.delivery(umbra(), "many-"),
        webhook,
        &now.to_string(),
        &format!("{} umbra 20261123 1-1", umbra()),
        &format!("{holder}:1:{}", now + 600_000),
        "many-",
    ];
    app.run::<Option<i64>>(&words).await;
}

#[tokio::test]
async fn a_claim_made_during_a_paged_scan_stays() {
    const EVENTS: usize = 40;
    let app = here().await;
    // They stay in flight.
    let receiver = Receiver::start(Reply::Silence).await;
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
    let id = made(&app, body).await;
    let lossy = LossyProxy::to(shared().port, takes).await;
    let slow = SlowProxy::of(lossy.port, looks_through).await;
    // Claims that are older than twice that end, if no task has them.
    let settings = ["--redis-timeout-ms", "1000"];
    let _running = RunningDispatcher::over_with(&slow.url(), &app, 64, 100, &settings);
    fund(&app, 1).await;
    let arrived = async |count: usize| {
        within(SOON, "they arrive", || async {
            let arrived = receiver.arrived().len();
            (arrived >= count).then_some(()).ok_or(arrived)
        })
        .await;
    };
    arrived(1).await;
    let rows = deliveries(&app, &id).await;
    let first = rows[0]["delivery_id"].as_str().expect("an id");
    lossy.lose_one();
    fund(&app, 1).await;
    eventually("a reply is lost", || async { lossy.has_lost() }).await;
    add_claims(&app, &id, first).await;
    slow.delay(Duration::from_millis(100));
    for _ in 0..EVENTS {
        fund(&app, 1).await;
        // So that some are claimed at each moment.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    arrived(EVENTS + 2).await;
    // All claims are looked through every two seconds.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(receiver.arrived().len(), EVENTS + 2, "each once");
}
