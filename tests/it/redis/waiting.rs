//! `BUDGET_REDIS_WAIT`: a response waits until replicas have what its request wrote.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use budget_authority::store::ExtraRoundTrip;
use reqwest::Method;
use serde_json::json;
use tokio::task::{JoinSet, block_in_place, spawn_blocking};

use super::durability::service;
use super::topologies::{keep_moving, keys_of, served};
use crate::harness::app::{ADMIN_KEY, TestApp, reserve_body};
use crate::harness::client_audit::lost_outcomes;
use crate::harness::ledger_audit::LedgerAudit;
use crate::harness::random_clients::{RandomClients, seed_ledgers};
use crate::harness::redis::{RedisCluster, RedisServer, SentinelTrio, shared};
use crate::harness::replicas::{RedisPair, cluster_replica, cut_off};
use crate::harness::retrying_client::{LONG_REDIS_TIMEOUT, RetryingClient};
use crate::harness::{batches, eventually, eventually_blocking};
use crate::runtime::lifecycle::{cast, live};

const WAIT: &[&str] = &["--redis-wait", "1"];

/// The same on a busy machine: a request waits for replicas for a quarter of its time.
const WAIT_LONG: &[&str] = &["--redis-wait", "1", "--redis-timeout-ms", "12000"];

/// How often Redis has run a command.
fn calls(redis: &RedisServer, command: &str) -> u64 {
    let info: String = block_in_place(|| redis.run(&["INFO", "commandstats"]));
    let line = info.split(&format!("cmdstat_{command}:calls=")).nth(1);
    let count = line.and_then(|rest| rest.split(',').next());
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_setting_no_command_is_added() {
    let redis = block_in_place(RedisServer::start);
    let app = service(&redis.url(), &[]).await;
    let made = app.reserve("key", 5).await.expect(200);
    app.commit(made.text("reservation_id"), "commit", 4)
        .await
        .expect(200);
    assert_eq!((calls(&redis, "wait"), calls(&redis, "set")), (0, 0));
}

/// Makes a request of each kind that writes, under this key; returns the id of the reservation, which is committed.
async fn each_write(app: &TestApp, key: &str) -> String {
    let made = app.reserve(key, 5).await.expect(200);
    let id = made.text("reservation_id");
    app.extend(id, key, 1_000).await.expect(200);
    app.commit(id, key, 4).await.expect(200);
    let event = app.post_event(key, "tenant:acme", 3, json!({})).await;
    event.expect(201);
    app.decide(key, "tenant:acme", 3).await.expect(200);
    id.to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_waits_in_its_own_round_trip_and_reads_do_not() {
    let pair = block_in_place(RedisPair::start);
    let app = service(&pair.master.url(), WAIT).await;
    // Redis learns a script with its first call, which takes more of them.
    let first = each_write(&app, "first").await;
    let before = calls(&pair.master, "wait");
    let id = each_write(&app, "second").await;
    assert_eq!(calls(&pair.master, "wait"), before + 5);
    app.commit(&first, "first", 4).await.expect(200);
    app.reserve("second", 5).await.expect(200);
    assert_eq!(calls(&pair.master, "wait"), before + 7, "replays too");
    for reason in ExtraRoundTrip::ALL {
        let extra = &app.store.metrics().extra_round_trips;
        let learned = matches!(
            reason,
            ExtraRoundTrip::NoScript | ExtraRoundTrip::FirstUse | ExtraRoundTrip::Stale
        );
        let counted = extra.with_label_values(&[reason.as_str()]).get();
        assert!(learned || counted == 0, "{reason:?}: {counted}");
    }
    app.found(&id).await.expect(200);
    app.get("/v1/balances?tenant=acme").await.expect(200);
    assert_eq!(calls(&pair.master, "wait"), before + 7, "reads do not wait");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_at_the_same_time_share_one_wait() {
    let pair = block_in_place(RedisPair::start);
    let app = service(&pair.master.url(), WAIT).await;
    app.reserve("first", 1).await.expect(200);
    let before = calls(&pair.master, "wait");
    let client = RetryingClient::new(&[app.address], &app.keys[0]);
    let mut running = JoinSet::new();
    for n in 0..200 {
        let client = client.clone();
        running.spawn(async move {
            let body = reserve_body(&format!("key-{n}"), 1);
            client.post("/v1/reservations", &body).await.expect(200);
        });
    }
    running.join_all().await;
    assert_eq!(client.retries(), 0);
    let waits = calls(&pair.master, "wait") - before;
    // A batch has one WAIT; batches of one member share less.
    let most = if batches().members == 1 { 201 } else { 150 };
    assert!((1..most).contains(&waits), "{waits} for 200 requests");
    assert_eq!(app.figures("tenant:acme").await.1, 201);
}

/// Panics unless a request is refused in time since replicas are missing.
async fn too_few(app: &TestApp, key: &str) {
    let begun = Instant::now();
    let refused = app.reserve(key, 5).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.refused(503, "INTERNAL_ERROR");
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_too_few_replicas_a_write_is_503_and_a_retry_gets_its_outcome() {
    let pair = block_in_place(RedisPair::start);
    let app = TestApp::spawn_on(&pair.master.url(), WAIT_LONG).await;
    app.budget("tenant:acme", 1_000, 0).await;
    app.reserve("before", 1).await.expect(200);
    pair.replica.freeze();
    too_few(&app, "key").await;
    too_few(&app, "key").await;
    // A refusal writes nothing, so it need not wait.
    app.reserve("much", 5_000)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    // Neither reads nor probes stand behind those that wait.
    app.get("/v1/balances?tenant=acme").await.expect(200);
    let counted = app.store.metrics().too_few_replicas.get();
    assert_eq!(counted, 2);
    pair.replica.thaw();
    block_in_place(|| pair.until_in_step());
    let resolved = eventually("the same key gets its response", || async {
        let response = app.reserve("key", 5).await;
        (response.status == 200).then_some(response)
    })
    .await;
    app.found(resolved.text("reservation_id")).await.expect(200);
    assert_eq!(
        app.figures("tenant:acme").await,
        (994, 6, 0, 0),
        "held once"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_and_an_admin_change_wait_as_well() {
    let pair = block_in_place(RedisPair::start);
    let app = TestApp::spawn_on(&pair.master.url(), WAIT_LONG).await;
    app.budget("tenant:acme", 1_000, 0).await;
    let made = app.reserve("key", 5).await.expect(200);
    let id = made.text("reservation_id");
    pair.replica.freeze();
    app.commit(id, "commit", 4)
        .await
        .refused(503, "INTERNAL_ERROR");
    let fund = || {
        let request = app.request(
            Method::POST,
            "/v1/admin/budgets/fund?scope=tenant:acme&unit=TOKENS&tenant_id=acme",
        );
        let request = request
            .header("X-Admin-API-Key", ADMIN_KEY)
            .header("X-Idempotency-Key", "once");
        request.json(&json!({"operation": "CREDIT", "amount": {"unit": "TOKENS", "amount": 7}}))
    };
    app.send(fund()).await.refused(503, "INTERNAL_ERROR");
    pair.replica.thaw();
    block_in_place(|| pair.until_in_step());
    eventually("both are resolved", || async {
        let committed = app.commit(id, "commit", 4).await;
        committed.status == 200 && app.send(fund()).await.status == 200
    })
    .await;
    assert_eq!(
        app.figures("tenant:acme").await,
        (1_003, 0, 4, 0),
        "each once"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_failover() {
    let mut trio = block_in_place(SentinelTrio::start);
    let app = TestApp::spawn_on(&trio.url(), WAIT_LONG).await;
    app.budget("tenant:acme", 1_000_000, 0).await;
    let mut answered = Vec::new();
    for n in 0..50 {
        let made = app.reserve(&format!("key-{n}"), 1).await.expect(200);
        answered.push(made.text("reservation_id").to_owned());
    }
    // Without a pause: the last response had waited.
    block_in_place(|| trio.master.kill());
    // The new master has no replica, so its writes stay refused; reads show what it has.
    eventually("the replica has taken over", || async {
        app.found(&answered[0]).await.status == 200
    })
    .await;
    for id in &answered {
        app.found(id).await.expect(200);
    }
    assert_eq!(app.reserve("later", 1).await.status, 503);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_outcome_is_lost_in_a_failover_under_load() {
    let mut trio = block_in_place(SentinelTrio::start);
    let app = TestApp::spawn_on(&trio.url(), WAIT).await;
    seed_ledgers(&app, 0, 1_000_000_000).await;
    let client = RetryingClient::new(&[app.address], &app.keys[0]);
    let clients = RandomClients::start_on_lossy_store(&client, "acme", 12);
    served(&app, 200).await;
    block_in_place(|| {
        trio.master.kill();
        eventually_blocking("the replica has taken over", || {
            // The Sentinels close all connections to a replica that takes over.
            let role = trio.replica.try_run::<Vec<redis::Value>>(&["ROLE"]);
            role.is_ok_and(|role| role[0] == redis::Value::BulkString(b"master".to_vec()))
        });
        // The Sentinels would do the same, but take their time.
        let delay = ["CONFIG", "SET", "repl-diskless-sync-delay", "0"];
        trio.replica.run::<()>(&delay);
        trio.master.restart();
        let port = trio.replica.port.to_string();
        trio.master.run::<()>(&["REPLICAOF", "127.0.0.1", &port]);
    });
    let before = served(&app, 1).await;
    served(&app, before + 500).await;
    let clients = clients.stop().await;
    let audit = LedgerAudit::run(&app, 0).await;
    assert_eq!(lost_outcomes(&audit, &clients), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_waiting_request_fails_while_slots_move() {
    let cluster = Arc::new(block_in_place(RedisCluster::start));
    let replicas: Vec<_> = block_in_place(|| cluster.masters.iter().map(cluster_replica).collect());
    let app = TestApp::spawn_on(&cluster.url(), &[LONG_REDIS_TIMEOUT, WAIT].concat()).await;
    let names = ["a0", "a1", "a2"];
    let tenants: Vec<_> = names.iter().flat_map(|name| cast(name)).collect();
    let keys = keys_of(app.store.keys(), &tenants);
    let stop = Arc::new(AtomicBool::new(false));
    let moving = spawn_blocking({
        let (cluster, stop) = (Arc::clone(&cluster), Arc::clone(&stop));
        move || keep_moving(cluster, keys, stop)
    });
    for name in names {
        live(&app.store, app.address, name).await;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(moving.await.expect("each slot arrived") > 0);
    assert_eq!(app.store.metrics().too_few_replicas.get(), 0);
    let waits: u64 = cluster
        .masters
        .iter()
        .map(|master| calls(master, "wait"))
        .sum();
    assert!(waits > 0);
    drop(replicas);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_without_a_replica_is_not_acknowledged_when_the_master_dies() {
    let mut pair = block_in_place(RedisPair::start);
    let app = TestApp::spawn_on(&pair.master.url(), WAIT_LONG).await;
    app.budget("tenant:acme", 1_000, 0).await;
    app.reserve("before", 1).await.expect(200);
    block_in_place(|| cut_off(&pair.master, &pair.replica));
    too_few(&app, "key").await;
    block_in_place(|| {
        pair.master.kill();
        pair.replica.thaw();
        pair.replica.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    });
    let stored: String = block_in_place(|| {
        let key = app.ledger_key(0, "tenant:acme");
        pair.replica.run(&["HGET", &key, "reserved"])
    });
    assert_eq!(stored, "1", "lost, and never acknowledged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_start_warns_of_missing_replicas() {
    let app = TestApp::spawn_on(&shared().url(), WAIT).await;
    let findings = app.store.inspect().await.expect("it responds");
    let text: String = findings
        .iter()
        .map(|finding| finding.message.as_str())
        .collect();
    assert!(
        text.contains("it has 0 replicas in step, and BUDGET_REDIS_WAIT demands 1"),
        "{text}"
    );
    assert!(text.contains("min-replicas-to-write is 0"), "{text}");
    let pair = block_in_place(RedisPair::start);
    let app = TestApp::spawn_on(&pair.master.url(), WAIT).await;
    let findings = app.store.inspect().await.expect("it responds");
    assert!(
        !findings
            .iter()
            .any(|finding| finding.message.contains("in step"))
    );
}
