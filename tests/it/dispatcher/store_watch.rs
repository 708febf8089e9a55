//! Events about the store: one pair per outage, from whichever dispatcher, and none for a short one.

use std::time::{Duration, Instant};

use budget_authority::dispatcher::{DetectorMetrics, LatencyLimit, StoreWatch};
use budget_authority::domain::ids::Partition;
use budget_authority::store::{Keys, RedisOptions, Store, StoreMetrics};
use prometheus::Registry;
use serde_json::Value;
use tokio::task::block_in_place;

use crate::harness::admin_fixture::envelopes;
use crate::harness::redis::RedisServer;
use crate::harness::redis_fixture::RedisFixture;
use crate::harness::store;

const SYSTEM: &str = "__system__";

const NEVER_SLOW: LatencyLimit = LatencyLimit {
    above: Duration::MAX,
    window: Duration::from_secs(60),
};

fn watch(store: &Store, limit: LatencyLimit) -> StoreWatch {
    let metrics = DetectorMetrics::register(&Registry::new()).expect("a fresh registry");
    StoreWatch::new(store.clone(), "service-events", limit, metrics)
}

/// A store of another process of the same deployment.
fn other(redis: &RedisServer, store: &Store) -> Store {
    let metrics = StoreMetrics::register(&Registry::new()).expect("a fresh registry");
    let keys = Keys::new(store.keys().prefix()).expect("a prefix");
    Store::new(&RedisOptions::new(redis.url()), keys, "service", metrics).expect("a usable URL")
}

async fn emitted(redis: &RedisFixture) -> Vec<Value> {
    let keys = redis.store.keys();
    let log = |day| keys.events(Partition::FIRST, SYSTEM, day);
    envelopes(Partition::FIRST, SYSTEM, redis.log_entries(log).await)
}

/// Probes by all watches, one after the other, so often.
async fn probe(watches: &mut [StoreWatch], times: usize) {
    for _ in 0..times {
        for watch in &mut *watches {
            watch.run_once().await.expect("it is reported");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_that_ends_with_another_master_is_reported_as_such() {
    let mut server = block_in_place(RedisServer::start);
    let redis = RedisFixture::on(store(&server.url()));
    let mut watches = [watch(&redis.store, NEVER_SLOW)];
    let look = || redis.store.look_at_memory(Duration::from_secs(1));
    look().await.expect("it responds");
    probe(&mut watches, 1).await;
    server.freeze();
    probe(&mut watches, 2).await;
    block_in_place(|| server.restart());
    crate::harness::eventually("it responds", || async { look().await.is_some() }).await;
    probe(&mut watches, 2).await;
    let events = emitted(&redis).await;
    assert_eq!(events[1]["data"]["details"]["primary_changed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn w32_an_outage_is_reported_once_when_it_ends_with_its_start() {
    let server = block_in_place(RedisServer::start);
    let redis = RedisFixture::on(store(&server.url()));
    let mut watches = [
        watch(&redis.store, NEVER_SLOW),
        watch(&other(&server, &redis.store), NEVER_SLOW),
    ];
    probe(&mut watches, 2).await;
    let before_ms = redis.now_ms().await;
    server.freeze();
    probe(&mut watches, 2).await;
    server.thaw();
    probe(&mut watches, 3).await;
    let events = emitted(&redis).await;
    let types: Vec<&Value> = events.iter().map(|event| &event["event_type"]).collect();
    assert_eq!(
        types,
        [
            "system.store_connection_lost",
            "system.store_connection_restored"
        ]
    );
    let [lost, restored] = &events[..] else {
        panic!("two events")
    };
    for event in [lost, restored] {
        assert_eq!(event["tenant_id"], SYSTEM);
        assert_eq!(event["data"]["component"], "store");
        assert_eq!(
            (&event["source"], &event["actor"]["type"]),
            (&"service-events".into(), &"system".into())
        );
        assert!(event.get("scope").is_none() && event.get("correlation_id").is_none());
    }
    assert_eq!(lost["data"]["severity"], "critical");
    let since = lost["data"]["details"]["since"].as_str().expect("a time");
    let since = budget_authority::domain::moment::Moment::parse(since).expect("a time");
    assert!((since.as_ms() - before_ms).abs() < 1_000, "{lost}");
    let lasted = restored["data"]["details"]["duration_ms"]
        .as_u64()
        .expect("a time");
    assert!(lasted > 1_000, "{restored}");
    assert_eq!(restored["data"]["details"]["primary_changed"], false);
    // Another one within the minute is not.
    server.freeze();
    probe(&mut watches, 2).await;
    server.thaw();
    probe(&mut watches, 2).await;
    assert_eq!(emitted(&redis).await.len(), 2);
    // When the minute is over, or the clock has stepped back since, it is.
    let reports = redis.store.keys().store_reports(Partition::FIRST);
    for at_ms in [before_ms - 60_000, before_ms + 3_600_000] {
        redis.set(&reports, &[("outage", &at_ms.to_string())]).await;
        server.freeze();
        probe(&mut watches[..1], 2).await;
        server.thaw();
        probe(&mut watches[..1], 2).await;
    }
    assert_eq!(emitted(&redis).await.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn w32_a_pause_of_less_than_a_second_is_no_outage() {
    // A busy machine may stall, which makes a pause longer than it is meant to be.
    for _ in 0..10 {
        let server = block_in_place(RedisServer::start);
        let redis = RedisFixture::on(store(&server.url()));
        let mut watches = [watch(&redis.store, NEVER_SLOW)];
        probe(&mut watches, 1).await;
        let begun = Instant::now();
        server.freeze();
        let thaw = async {
            // Real time: less than an outage lasts.
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.thaw();
        };
        tokio::join!(probe(&mut watches, 2), thaw);
        if begun.elapsed() < Duration::from_millis(900) {
            assert!(emitted(&redis).await.is_empty());
            return;
        }
    }
    panic!("no pause was short");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_store_is_reported_once_per_window() {
    let server = block_in_place(RedisServer::start);
    let redis = RedisFixture::on(store(&server.url()));
    let limit = LatencyLimit {
        above: Duration::from_nanos(1),
        window: Duration::from_millis(200),
    };
    let mut watches = [watch(&redis.store, limit)];
    while emitted(&redis).await.is_empty() {
        probe(&mut watches, 30).await;
    }
    let events = emitted(&redis).await;
    assert_eq!(events[0]["event_type"], "system.high_latency");
    let details = &events[0]["data"]["details"];
    assert_eq!(
        (&details["operation"], &details["threshold_ms"]),
        (&"PING".into(), &0.into())
    );
    assert!(details["p99_ms"].is_u64() && details["window_seconds"].is_u64());
    // A slow store that nobody calls slow.
    let calm = RedisFixture::on(store(&server.url()));
    let limit = LatencyLimit {
        above: Duration::from_secs(10),
        ..limit
    };
    let mut watches = [watch(&calm.store, limit)];
    for _ in 0..5 {
        probe(&mut watches, 30).await;
        // Real time: a window passes.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(emitted(&calm).await.is_empty());
}
