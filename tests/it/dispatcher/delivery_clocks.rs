//! Deliveries while Redis's clock steps by hours.

#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::block_in_place;

use super::clocks::JumpingRedis;
use super::fan_out::{fan_out, follow, fund};
use super::process_fixture::Deployment;
use crate::admin::http::umbra_on;
use crate::admin::webhooks::guard::open;
use crate::admin::webhooks::subscriptions::made;
use crate::harness::app::TestApp;
use crate::harness::deliveries::{RunningDispatcher, reached};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

const HOUR_S: i64 = 3_600;

/// All credits arrived everywhere in order, and nothing failed.
async fn all_arrive(deployment: &Deployment) {
    let last = deployment.credits().await as u64 + 100;
    let all: Vec<u64> = (101..=last).collect();
    for (number, hook) in deployment.hooks.iter().enumerate() {
        eventually(&format!("all arrive at {number}"), || async {
            let figures = hook.figures();
            (figures == all).then_some(()).ok_or(figures)
        })
        .await;
    }
    deployment.nothing_is_left().await;
    for key in deployment.app.keys_like("{???}:delivery:*").await {
        let status: String = deployment.app.run(&["HGET", &key, "status"]).await;
        assert_eq!(status, "SUCCESS", "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w9_a_clock_that_steps_by_hours_loses_and_reorders_nothing() {
    let redis = block_in_place(JumpingRedis::start);
    let deployment = Deployment::start(&redis.server.url(), 0).await;
    // Many wait while the clock steps.
    fund(&deployment.app, 60).await;
    deployment.start_dispatcher();
    let stop = AtomicBool::new(false);
    let stepping = async {
        for hours in [30, -5, 2, 0] {
            deployment.progress(0, 5).await;
            deployment.progress(2, 5).await;
            redis.jump(hours * HOUR_S);
        }
        deployment.progress(0, 5).await;
        deployment.progress(2, 5).await;
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(deployment.fund_until(&stop), stepping);
    all_arrive(&deployment).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_queued_before_the_clock_was_set_back_are_not_delayed() {
    let redis = block_in_place(JumpingRedis::start);
    let deployment = Deployment::start(&redis.server.url(), 0).await;
    fund(&deployment.app, 3).await;
    assert_eq!(follow(&fan_out(&deployment.app)).await, 9);
    redis.jump(-2 * HOUR_S);
    deployment.start_dispatcher();
    fund(&deployment.app, 3).await;
    all_arrive(&deployment).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_due_before_the_clock_was_set_back_is_made_soon() {
    let redis = block_in_place(JumpingRedis::start);
    let app = umbra_on(TestApp::spawn_on(&redis.server.url(), LONG_REDIS_TIMEOUT).await).await;
    open(&app).await;
    let receiver = Receiver::start(Reply::Status(503, "")).await;
    let policy = json!({"max_retries": 1, "initial_delay_ms": 60_000});
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"], "retry_policy": policy});
    let id = made(&app, body).await;
    let _running = RunningDispatcher::start(&app);
    fund(&app, 2).await;
    reached(&app, &id, "RETRYING", 2).await;
    redis.jump(-2 * HOUR_S);
    reached(&app, &id, "FAILED", 2).await;
    assert_eq!(receiver.arrived().len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w17_a_clock_that_steps_ahead_ends_no_claim_of_a_running_dispatcher() {
    let redis = block_in_place(JumpingRedis::start);
    let app = umbra_on(TestApp::spawn_on(&redis.server.url(), LONG_REDIS_TIMEOUT).await).await;
    open(&app).await;
    let receiver = Receiver::start(Reply::After(Duration::from_secs(14))).await;
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
    let id = made(&app, body).await;
    let _running = [
        RunningDispatcher::start(&app),
        RunningDispatcher::start(&app),
    ];
    // Both are known to be alive, and have read the clock, also if the machine stalls.
    tokio::time::sleep(Duration::from_secs(6)).await;
    fund(&app, 1).await;
    eventually("it is in flight", || async {
        receiver.arrived().len() == 1
    })
    .await;
    redis.jump(40);
    let rows = reached(&app, &id, "SUCCESS", 1).await;
    assert_eq!(rows[0]["attempts"], 1, "{rows:?}");
    assert_eq!(receiver.arrived().len(), 1);
}
