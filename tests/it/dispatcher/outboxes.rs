//! Outboxes are read once for all that follow them, and none of these waits for another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use budget_authority::dispatcher::{DeliverySignal, EventFollower, FanOut, Outboxes, ViewMetrics};
use budget_authority::store::Store;
use prometheus::Registry;
use tokio::time::sleep;

use crate::harness::event_log::{EventLog, KEEP, everywhere, partition_of};
use crate::harness::redis::RedisServer;
use crate::harness::store;

/// Maximal age of cached entries.
const AGE: Duration = Duration::from_secs(60);

/// Both followers over the same outboxes; and their metrics.
fn followers(store: &Store) -> (EventFollower, FanOut, Registry) {
    let registry = Registry::new();
    let outboxes = Arc::new(Outboxes::new(store.clone()));
    let metrics = ViewMetrics::register(&registry).expect("a fresh registry");
    let views = EventFollower::new(store.clone(), Arc::clone(&outboxes), KEEP, metrics);
    let queued = Arc::new(DeliverySignal::default());
    let fan_out = FanOut::new(store.clone(), outboxes, 1, queued, &registry);
    (views, fan_out.expect("distinct names"), registry)
}

async fn reads(store: &Store) -> u64 {
    let statistics = store.statistics().await.expect("Redis answers");
    statistics.command("xrange").calls
}

#[tokio::test]
async fn the_view_reuses_entries_that_the_fan_out_has_read() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let (views, fan_out, _) = followers(&store);
    let mut event_log = EventLog::on(&store);
    for _ in 0..5 {
        let now = event_log.now_ms().await;
        for tenant in ["acme", "umbra", "acme"] {
            event_log.emit(tenant, now, &[]).await;
        }
        fan_out.run_once(&everywhere()).await.expect("a pass");
        let before = reads(&store).await;
        let pass = views.follow(&everywhere(), AGE).await.expect("a pass");
        assert_eq!(pass.added, 3);
        assert!(pass.watermark_ms >= now, "{pass:?}");
        assert_eq!(reads(&store).await, before);
    }
    event_log.check().await;
}

#[tokio::test]
async fn the_view_reads_entries_that_the_fan_out_has_not_cached() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let (views, fan_out, _) = followers(&store);
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await;
    let follow = async || {
        let mut added = 0;
        loop {
            let pass = views.follow(&everywhere(), AGE).await.expect("a pass");
            added += pass.added;
            if !pass.more {
                return added;
            }
        }
    };
    for _ in 0..7 {
        event_log.emit("acme", now, &[]).await;
    }
    assert_eq!(follow().await, 7);
    for _ in 0..450 {
        event_log.emit("acme", now, &[]).await;
    }
    let mut passes = 0;
    while fan_out.run_once(&everywhere()).await.expect("a pass").more {
        passes += 1;
    }
    assert!(passes > 3, "{passes}");
    assert_eq!(follow().await, 450);
    event_log.check().await;
}

#[tokio::test]
async fn the_lag_of_a_partition_is_exposed_while_it_is_more_than_a_second() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let (_, fan_out, registry) = followers(&store);
    let mut event_log = EventLog::on(&store);
    let exposed = || {
        let families = registry.gather();
        let lags = families
            .iter()
            .filter(|family| family.name() == "budget_webhook_partition_lag_seconds");
        let lags = lags.flat_map(|family| family.get_metric());
        let partition = |metric: &prometheus::proto::Metric| {
            assert!(metric.get_gauge().get_value() > 1.0);
            metric.get_label()[0].value().to_owned()
        };
        lags.map(partition).collect::<Vec<_>>()
    };
    let now = event_log.now_ms().await;
    // A busy machine may stall, so that the second event is old as well.
    for _ in 0..10 {
        event_log.emit("acme", now, &[]).await;
        // It is exposed from a second on.
        sleep(Duration::from_millis(1_100)).await;
        let begun = Instant::now();
        event_log.emit("umbra", now, &[]).await;
        fan_out.run_once(&everywhere()).await.expect("a pass");
        let exposed_first = exposed();
        let is_young = begun.elapsed() < Duration::from_millis(900);
        fan_out.run_once(&everywhere()).await.expect("a pass");
        assert_eq!(exposed(), Vec::<String>::new());
        if is_young {
            assert_eq!(exposed_first, [partition_of("acme").to_string()]);
            return;
        }
    }
    panic!("no pass came in time");
}
