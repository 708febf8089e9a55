//! Deliveries while the slot of their partition moves to another node of a cluster.

use std::time::Duration;

use serde_json::json;
use tokio::task::block_in_place;

use crate::admin::webhooks::subscriptions::made;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, fund, here_on, reached};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::RedisCluster;
use crate::harness::resharding::Resharding;

/// The value of a counter; 0 where it has none yet.
fn count(running: &RunningDispatcher, name: &str) -> u64 {
    let metrics = running.telemetry.render().expect("metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |value| value.trim().parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_waits_for_a_moving_slot_and_no_key_counts_as_damaged() {
    for moved in [":delivery:", ":webhook:"] {
        let cluster = block_in_place(RedisCluster::start);
        let app = here_on(&cluster.url()).await;
        let slow = Receiver::start(Reply::After(Duration::from_secs(4))).await;
        let refusing = Receiver::start(Reply::Status(503, "")).await;
        let hook = |receiver: &Receiver| {
            json!({"url": receiver.url("/in"), "event_types": ["budget.funded"],
                "retry_policy": {"initial_delay_ms": 60_000}})
        };
        let other = made(&app, hook(&refusing)).await;
        let running = RunningDispatcher::start(&app);
        fund(&app, 1).await;
        reached(&app, &other, "RETRYING", 1).await;
        let id = made(&app, hook(&slow)).await;
        // All keys in KEYS are there, so nothing but the moved ones can stop it.
        let keys = app.store.keys();
        let failing = keys.failing(umbra());
        app.run::<()>(&["ZADD", &failing, "1", "other"]).await;
        fund(&app, 1).await;
        eventually("its attempt is under way", || async {
            slow.arrived().len() == 1
        })
        .await;

        let again = r#"budget_extra_round_trips_total{reason="tryagain"}"#;
        let before = count(&running, again);
        let webhook = keys.webhook(umbra(), &id);
        let resharding = block_in_place(|| {
            let resharding = Resharding::begin(&cluster, &webhook);
            let waiting = resharding.waiting().into_iter();
            let first = waiting.filter(|key| key.contains(moved));
            first.for_each(|key| resharding.migrate(&key));
            resharding
        });
        eventually("its outcome waits", || async {
            count(&running, again) > before
        })
        .await;
        block_in_place(|| resharding.finish());
        reached(&app, &id, "SUCCESS", 1).await;
        assert_eq!(slow.arrived().len(), 1, "{moved}");
        let damaged = count(&running, "budget_webhook_damaged_lanes_total");
        assert_eq!(damaged, 0, "{moved}");
    }
}
