//! Replies of Redis that get lost behind a claim.

use std::time::Duration;

use serde_json::json;

use crate::admin::webhooks::subscriptions::made;
use crate::harness::deliveries::{Running, deliveries, fund, here, reached};
use crate::harness::lossy_proxy::LossyProxy;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::shared;
use crate::harness::within;

fn has(request: &[u8], word: &str) -> bool {
    request
        .windows(word.len())
        .any(|some| some == word.as_bytes())
}

/// A call that takes deliveries: it names the claims, how long they last, and the lease.
fn takes(request: &[u8]) -> bool {
    has(request, "35000") && has(request, ":claims") && has(request, ":lease")
}

/// A call that books an outcome, without a lease.
fn books(request: &[u8]) -> bool {
    has(request, "35000") && has(request, ":claims") && has(request, ":failing")
}

/// Claims last for 35 seconds.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_claim_whose_reply_was_lost_lapses_within_seconds() {
    for loses in [takes, books] {
        let app = here().await;
        let receiver = Receiver::start(Reply::Status(200, "")).await;
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        let id = made(&app, body).await;
        let proxy = LossyProxy::to(shared().port, loses).await;
        fund(&app, 1).await;
        let _running = Running::over(&proxy.url(), &app, 1, 100);
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
async fn attempts_whose_ends_share_a_lost_reply_are_not_repeated_and_their_lanes_continue() {
    let app = here().await;
    let receiver = Receiver::start(Reply::After(Duration::from_millis(500))).await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        ids.push(made(&app, body).await);
    }
    let proxy = LossyProxy::to(shared().port, books).await;
    let _running = Running::over(&proxy.url(), &app, 1, 100);
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
    // What was claimed behind the lost reply was never sent by the dispatcher that did not hear of it.
    assert_eq!(receiver.arrived().len(), 2 * ids.len());
}
