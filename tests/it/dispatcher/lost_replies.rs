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

/// A call that records outcomes, without a lease.
fn records_outcomes(request: &[u8]) -> bool {
    has(request, "35000") && has(request, ":claims") && has(request, ":failing")
}

/// Before claims lapse by themselves.
const SOON: Duration = Duration::from_secs(25);

/// Ends the claims of the lost reply, as their time would after 35 seconds. All others have ended by themselves.
async fn end_claims(app: &TestApp, proxy: &LossyProxy) {
    eventually("a reply is lost", || async { proxy.has_lost() }).await;
    // What is in flight ends by then, also if the machine stalls.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let key = app.store.keys().claims(umbra());
    let claims: Vec<String> = app.run(&["ZRANGE", &key, "0", "-1"]).await;
    for claim in claims {
        app.run::<i64>(&["ZADD", &key, "XX", "0", &claim]).await;
    }
}

#[tokio::test]
async fn a_claim_with_a_lost_reply_lapses_with_its_time() {
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
        end_claims(&app, &proxy).await;
        let all = || async {
            let rows = deliveries(&app, &id).await;
            let done = rows.iter().filter(|row| row["status"] == "SUCCESS");
            (done.count() == 3).then_some(()).ok_or(rows)
        };
        within(SOON, "all are attempted", all).await;
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
    end_claims(&app, &proxy).await;
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
    // Deliveries claimed in the lost reply were never sent, since the dispatcher does not know of them.
    assert_eq!(receiver.arrived().len(), 2 * ids.len());
}
