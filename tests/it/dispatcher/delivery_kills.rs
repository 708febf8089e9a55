//! Deliveries while dispatchers, and Redis, are killed at random moments: every event arrives everywhere, in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::block_in_place;

use super::fan_out::{fan_out, follow};
use super::process_fixture::{Deployment, LIMIT};
use crate::harness::redis::{RedisServer, shared};
use crate::harness::within;

/// Kills of dispatchers in one test.
const KILLS: usize = 6;

/// Kills one of the dispatchers now and then, and starts it again; before the kill of this number also Redis.
async fn strike(deployment: &Deployment, mut redis: Option<&mut RedisServer>) {
    for kill in 0..KILLS {
        // The tests kill at any moment.
        tokio::time::sleep(Duration::from_millis(rand::random_range(400..1_300))).await;
        if kill == KILLS / 2
            && let Some(redis) = redis.take()
        {
            block_in_place(|| redis.restart());
        }
        let mut dispatchers = deployment.dispatchers.lock().expect("no panic");
        let victim = rand::random_range(0..dispatchers.len());
        block_in_place(|| dispatchers[victim].restart());
    }
}

/// Emits events meanwhile; then all must have arrived. `more`: how many attempts of a lane may be lost besides.
async fn survive(url: &str, redis: Option<&mut RedisServer>, more: i64) {
    let deployment = Deployment::start(url, 2).await;
    let stop = AtomicBool::new(false);
    let striking = async {
        deployment.progress(0, 3).await;
        strike(&deployment, redis).await;
        within(LIMIT, "there are enough events", || async {
            deployment.credits().await > 2 * KILLS
        })
        .await;
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(deployment.fund_until(&stop), striking);
    let events = deployment.settled().await;
    assert!(events.len() > 2 * KILLS, "{} events", events.len());
    let lost = i64::try_from(KILLS).expect("few") + more;
    deployment.check_order(&events);
    deployment.check_attempts(lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_arrives_while_dispatchers_are_killed() {
    survive(&shared().url(), None, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_arrives_while_redis_is_killed_too() {
    let mut redis = block_in_place(|| RedisServer::start_with(&["--appendfsync", "always"]));
    let url = redis.url();
    // The outcome of an attempt that Redis did not take in time is one more.
    survive(&url, Some(&mut redis), 1).await;
}

/// How many deliveries to all subscriptions were queued.
async fn queued(deployment: &Deployment) -> i64 {
    let mut queued = 0;
    for hook in &deployment.hooks {
        let window = deployment.app.store.keys().window(hook.partition, &hook.id);
        let count: Option<i64> = deployment.app.run(&["HGET", &window, "queued"]).await;
        queued += count.unwrap_or(0);
    }
    queued
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_events_arrive_once_while_the_fetching_dispatchers_are_killed() {
    const EVENTS: usize = 300;
    let deployment = Deployment::start(&shared().url(), 0).await;
    let (app, keys) = (&deployment.app, deployment.app.store.keys());
    // As if as many as may be were open: all subscriptions fall behind.
    let open = async |count: &str| {
        for hook in &deployment.hooks {
            let window = keys.window(hook.partition, &hook.id);
            app.run::<()>(&["HSET", &window, "open", count]).await;
            let behind = keys.behind(hook.partition);
            app.run::<()>(&["ZADD", &behind, "XX", "0", &hook.id]).await;
        }
    };
    open("1000").await;
    deployment.fund(EVENTS).await;
    assert_eq!(follow(&fan_out(app)).await, 0);
    open("0").await;
    let total = i64::try_from(3 * EVENTS).expect("few");
    for _ in 0..2 {
        let before = queued(&deployment).await;
        deployment.start_dispatcher();
        within(LIMIT, "it fetches", || async {
            let queued = queued(&deployment).await;
            // The one before may have fetched all when its turn to be killed came late.
            queued > before || queued == total
        })
        .await;
        // The test kills at any moment of it.
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..30))).await;
        block_in_place(|| deployment.dispatchers.lock().expect("no panic").clear());
    }
    deployment.start_dispatcher();
    let events = deployment.settled().await;
    assert_eq!(events.len(), EVENTS);
    deployment.check_order(&events);
    // One of each lane was in flight when its dispatcher died.
    deployment.check_attempts(2).await;
    assert_eq!(queued(&deployment).await, total, "each is queued once");
}
