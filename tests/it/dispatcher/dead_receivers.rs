//! W13: the cost of a dead receiver is bounded by the limits of its window, and no other receiver is affected.

use std::time::Duration;

use serde_json::{Value, json};

use super::noisy_tenants::{quiet, update};
use crate::admin::webhooks::subscriptions::{HOOKS, made};
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, fund, here, webhook};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::free_port;

const MEGABYTE: i64 = 1_000_000;

/// The most that may be open of a subscription.
const OPEN_MAX: i64 = 1_000;

/// Clients that cause events.
const CLIENTS: usize = 8;

/// Causes this many events, as fast as the service accepts them.
async fn flood(app: &TestApp, events: usize) {
    let some = || fund(app, events / CLIENTS);
    tokio::join!(
        some(),
        some(),
        some(),
        some(),
        some(),
        some(),
        some(),
        some()
    );
}

/// A subscription whose receiver is dead.
struct DeadReceiver {
    app: TestApp,
    id: String,
}

impl DeadReceiver {
    async fn new(url: &str, settings: &Value) -> Self {
        let app = here().await;
        let mut body = json!({"url": url, "event_types": ["budget.funded"]});
        for (name, value) in settings.as_object().expect("members") {
            body[name] = value.clone();
        }
        let id = made(&app, body).await;
        Self { app, id }
    }

    async fn count(&self, field: &str) -> i64 {
        let window = self.app.store.keys().window(umbra(), &self.id);
        let count: Option<i64> = self.app.run(&["HGET", &window, field]).await;
        count.unwrap_or(0)
    }

    /// Records of its deliveries, and bytes of these and of all other keys that it has.
    async fn cost(&self) -> (i64, i64) {
        let (mut records, mut bytes) = (0, 0);
        for pattern in ["delivery:*", "lane:*", "window:*", "deliveries:*"] {
            for key in self.app.keys_like(&format!("{{???}}:{pattern}")).await {
                let words = ["MEMORY", "USAGE", &key, "SAMPLES", "0"];
                let usage: Option<i64> = self.app.run(&words).await;
                records += i64::from(pattern == "delivery:*" && usage.is_some());
                bytes += usage.unwrap_or(0);
            }
        }
        (records, bytes)
    }

    /// The same when each of its first attempts has ended, or gets no response.
    async fn cost_at_rest(&self) -> (i64, i64) {
        eventually("the attempts have ended", || async {
            let before = self.cost().await;
            // An attempt that is refused takes less, also if the machine stalls.
            tokio::time::sleep(Duration::from_secs(4)).await;
            let cost = self.cost().await;
            (before == cost).then_some(cost)
        })
        .await
    }

    async fn is_full(&self) {
        eventually("as many are open as may be", || async {
            let open = self.count("open").await;
            (open == OPEN_MAX).then_some(()).ok_or(open)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w13_a_dead_receiver_costs_at_most_a_megabyte_and_more_events_nothing_timed() {
    let silent = Receiver::start(Reply::Silence).await;
    let refused = format!("http://127.0.0.1:{}/in", free_port());
    // No delivery fails for good while the test runs: only the limit ends the growth.
    let lasting = json!({"disable_after_failures": 10_000,
        "retry_policy": {"max_retries": 10, "initial_delay_ms": 60_000}});
    for (url, settings) in [(silent.url("/in"), json!({})), (refused, lasting)] {
        let dead = DeadReceiver::new(&url, &settings).await;
        let good = Receiver::start(Reply::Status(200, "")).await;
        let tenant = quiet(&dead.app).await;
        let body = json!({"url": good.url("/in"), "event_types": ["tenant.updated"]});
        let path = format!("{HOOKS}?tenant_id={tenant}");
        dead.app.post_as_admin(&path, body).await.expect(201);
        let _running = RunningDispatcher::start(&dead.app);
        flood(&dead.app, 1_104).await;
        dead.is_full().await;
        let (records, bytes) = dead.cost_at_rest().await;
        assert!(
            records <= OPEN_MAX && bytes < MEGABYTE,
            "{records} records, {bytes} bytes"
        );
        let missed = async || -> i64 {
            let window = dead.app.store.keys().window(umbra(), &dead.id);
            let missed: String = dead.app.run(&["HGET", &window, "missed"]).await;
            let hours = missed.split(' ').filter_map(|hour| hour.split_once(':'));
            hours
                .map(|(_, count)| count.parse::<i64>().expect("a number"))
                .sum()
        };
        flood(&dead.app, 400).await;
        update(&dead.app, &tenant).await;
        // Less than the 30 seconds of an attempt.
        eventually("another gets its event", || async {
            good.arrived().len() == 1
        })
        .await;
        eventually("the others are counted", || async {
            let missed = missed().await;
            (missed == 504).then_some(()).ok_or(missed)
        })
        .await;
        let (more_records, more_bytes) = dead.cost().await;
        println!("{url}: {records} records, {bytes} bytes; after 400 more events {more_bytes}");
        // The event of the other tenant, and its subscription.
        assert!(more_records <= records + 1, "{more_records} records");
        assert!(more_bytes < bytes + 4_096, "{more_bytes} bytes");
        assert_eq!(webhook(&dead.app, &dead.id).await["status"], "ACTIVE");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w13_failed_deliveries_are_bounded_by_the_limit_that_disables_the_webhook_timed() {
    const FAILURES: i64 = 300;
    let refused = format!("http://127.0.0.1:{}/in", free_port());
    let settings = json!({"disable_after_failures": FAILURES, "retry_policy": {"max_retries": 0}});
    let dead = DeadReceiver::new(&refused, &settings).await;
    let running = RunningDispatcher::start(&dead.app);
    flood(&dead.app, 800).await;
    eventually("it is disabled", || async {
        webhook(&dead.app, &dead.id).await["status"] == "DISABLED"
    })
    .await;
    eventually("nothing is open", || async {
        let open = dead.count("open").await;
        (open == 0).then_some(()).ok_or(open)
    })
    .await;
    let (records, bytes) = dead.cost().await;
    flood(&dead.app, 160).await;
    // A pass of the fan-out.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (more_records, more_bytes) = dead.cost().await;
    println!("{records} records of failures, {bytes} bytes");
    assert!(records <= FAILURES + OPEN_MAX, "{records} records");
    assert_eq!((records, bytes), (more_records, more_bytes));
    drop(running);
}
