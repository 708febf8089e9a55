//! Deliveries to receivers that fail, while dispatchers and Redis are killed: afterwards each count is exact.
//!
//! `KILL_SECONDS` says how long they are killed; 300 is the long run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use budget_authority::domain::moment::Moment;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::process_fixture::{Deployment, Hook, LIMIT, text};
use crate::admin::webhooks::subscriptions::HOOKS;
use crate::harness::deliveries::webhook;
use crate::harness::receiver::Reply;
use crate::harness::redis::RedisServer;
use crate::harness::{kill_time, within};

/// Every kill of this number is of Redis.
const REDIS: i64 = 4;

/// A Redis that loses nothing when it is killed.
fn durable() -> RedisServer {
    block_in_place(|| RedisServer::start_with(&["--appendfsync", "always"]))
}

/// Kills one of the dispatchers now and then, or Redis, until it is over, and starts it again. Returns how often.
async fn strike(
    deployment: &Deployment,
    redis: &mut RedisServer,
    mut is_over: impl AsyncFnMut() -> bool,
) -> i64 {
    let mut kills = 0;
    while !is_over().await {
        // The tests kill at any moment.
        tokio::time::sleep(Duration::from_millis(rand::random_range(400..1_300))).await;
        if kills % REDIS == REDIS / 2 {
            block_in_place(|| redis.restart());
        }
        let mut dispatchers = deployment.dispatchers.lock().expect("no panic");
        let victim = rand::random_range(0..dispatchers.len());
        block_in_place(|| dispatchers[victim].restart());
        kills += 1;
    }
    kills
}

fn at(row: &Value) -> i64 {
    let at = Moment::parse(&text(row, "completed_at"));
    at.expect("a time").as_ms()
}

/// Failures in a row are those behind the last success; more than one may have ended in its millisecond.
fn check_failures(record: &Value, rows: &[Value]) {
    let of = |status: &'static str| rows.iter().filter(move |row| row["status"] == status);
    let last = of("SUCCESS").map(at).max().unwrap_or(0);
    let least = of("FAILED").filter(|row| at(row) > last).count();
    let most = of("FAILED").filter(|row| at(row) >= last).count();
    let count = record["consecutive_failures"].as_u64().expect("a number");
    let count = usize::try_from(count).expect("few");
    assert!(
        (least..=most).contains(&count),
        "{count} of {least} to {most}"
    );
}

/// Waits until this many events of a type, about a subscription, are listed.
async fn emitted(deployment: &Deployment, hook: &Hook, event_type: &str, times: usize) {
    let path = format!("/v1/admin/events?event_type={event_type}&");
    let is_of_hook = |event: &&Value| {
        let data = &event["data"];
        [
            &data["subscription_id"],
            &data["details"]["subscription_id"],
        ]
        .contains(&&json!(hook.id))
    };
    // The list of events follows a moment later.
    within(LIMIT, event_type, || async {
        let listed = deployment.app.all_as_admin(&path, "/events").await;
        let count = listed.iter().filter(is_of_hook).count();
        (count == times).then_some(()).ok_or((count, times))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_after_kills_with_failing_receivers() {
    let time = kill_time(Duration::from_secs(6));
    // In the long run some requests get no response for half a minute.
    let fitful = Reply::Fitful {
        failing: 20,
        silent: u32::from(time > Duration::from_secs(60)),
    };
    let patient = json!({"max_retries": 10, "initial_delay_ms": 100, "max_delay_ms": 1_000});
    let settings = [
        (true, patient.clone()),
        (true, json!({"max_retries": 0})),
        (false, patient),
    ];
    let settings = settings.map(|(is_own, policy)| {
        let more = json!({"retry_policy": policy, "disable_after_failures": 10_000});
        (is_own, fitful.clone(), more)
    });
    let mut redis = durable();
    let deployment = Deployment::with(&redis.url(), 2, settings.to_vec()).await;
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let striking = async {
        let is_over = async || begun.elapsed() >= time;
        let kills = strike(&deployment, &mut redis, is_over).await;
        stop.store(true, Ordering::Relaxed);
        kills
    };
    let ((), kills) = tokio::join!(deployment.fund_until(&stop), striking);
    let events = deployment.events().await;
    let (mut ends, mut failed) = (Vec::new(), 0);
    for hook in &deployment.hooks {
        let rows = within(LIMIT + time, "all deliveries end", || async {
            let rows = deployment.rows(hook, "").await;
            let is_open = |row: &&Value| row["completed_at"].is_null();
            let open = rows.iter().filter(is_open).count();
            (open == 0 && rows.len() == events.len())
                .then_some(rows)
                .ok_or(open)
        })
        .await;
        let listed: Vec<_> = rows.iter().map(|row| text(row, "event_id")).collect();
        assert_eq!(listed, events, "each is listed once, in order");
        let window = deployment.app.store.keys().window(hook.partition, &hook.id);
        let queued: usize = deployment.app.run(&["HGET", &window, "queued"]).await;
        assert_eq!(queued, rows.len(), "each is counted once");
        check_failures(&webhook(&deployment.app, &hook.id).await, &rows);
        let failures = rows.iter().filter(|row| row["status"] == "FAILED").count();
        emitted(
            &deployment,
            hook,
            "system.webhook_delivery_failed",
            failures,
        )
        .await;
        failed += failures;
        ends.push((rows.len(), failures));
        let arrived: std::collections::BTreeSet<_> = hook.arrived().into_iter().collect();
        assert!(
            events.iter().all(|event| arrived.contains(event)),
            "each was sent"
        );
    }
    deployment.nothing_is_left().await;
    deployment.check_order(&events);
    println!("{kills} kills in {time:?}; deliveries and failures of each: {ends:?}");
    assert!(failed > 0 && kills > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_disabled_once_at_its_limit_of_failures() {
    const FAILURES: usize = 60;
    let dead = json!({"retry_policy": {"max_retries": 0}, "disable_after_failures": FAILURES});
    let settings = [true, false].map(|is_own| (is_own, Reply::HangUp, dead.clone()));
    let mut redis = durable();
    let deployment = Deployment::with(&redis.url(), 2, settings.to_vec()).await;
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let are_disabled = async || {
        for hook in &deployment.hooks {
            // Redis may not answer yet.
            let path = format!("{HOOKS}/{}", hook.id);
            let response = deployment.app.get_as_admin(&path).await;
            if response.body["status"] != "DISABLED" {
                return false;
            }
        }
        true
    };
    let striking = async {
        // Each kill costs the time until its claims are taken over: kills without an end leave no time for failures.
        let is_over = async || begun.elapsed() >= Duration::from_secs(10) || are_disabled().await;
        let kills = strike(&deployment, &mut redis, is_over).await;
        within(LIMIT, "both are disabled", are_disabled).await;
        stop.store(true, Ordering::Relaxed);
        kills
    };
    let ((), kills) = tokio::join!(deployment.fund_until(&stop), striking);
    assert!(kills > 0);
    for hook in &deployment.hooks {
        let record = webhook(&deployment.app, &hook.id).await;
        assert_eq!(record["status"], "DISABLED");
        assert_eq!(record["consecutive_failures"], FAILURES, "{record}");
        emitted(&deployment, hook, "webhook.disabled", 1).await;
        emitted(
            &deployment,
            hook,
            "system.webhook_delivery_failed",
            FAILURES,
        )
        .await;
    }
}
