//! Durability of acknowledged requests, by the settings of Redis: each row of `docs/durability.md`.

use tokio::task::block_in_place;

use crate::harness::app::TestApp;
use crate::harness::eventually;
use crate::harness::redis::{RedisCluster, RedisServer, SentinelTrio};
use crate::harness::replicas::{cluster_replica, cut_off};
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

/// How many reservations are made before something ends.
const MADE: usize = 30;

/// A service on this Redis, with a budget.
pub async fn service(url: &str, settings: &[&str]) -> TestApp {
    let app = TestApp::spawn_on(url, &[LONG_REDIS_TIMEOUT, settings].concat()).await;
    app.budget("tenant:acme", 1_000_000, 0).await;
    app
}

/// Makes reservations one after the other; their ids.
async fn reserve_some(app: &TestApp) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..MADE {
        let made = app.reserve(&format!("key-{n}"), 1).await.expect(200);
        ids.push(made.text("reservation_id").to_owned());
    }
    ids
}

/// That every reservation is there, and its request gets it again.
async fn all_are_there(app: &TestApp, ids: &[String]) {
    for (n, id) in ids.iter().enumerate() {
        app.found(id).await.expect(200);
        let again = app.reserve(&format!("key-{n}"), 1).await.expect(200);
        assert_eq!(again.text("reservation_id"), id);
    }
    let (_, reserved, _, _) = app.figures("tenant:acme").await;
    assert_eq!(reserved, ids.len() as i64, "no hold is charged twice");
}

async fn survives_a_killed_process(appendfsync: &str) {
    let settings = ["--appendonly", "yes", "--appendfsync", appendfsync];
    let mut redis = block_in_place(|| RedisServer::start_with(&settings));
    let app = service(&redis.url(), &[]).await;
    let ids = reserve_some(&app).await;
    block_in_place(|| redis.restart());
    all_are_there(&app, &ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appendfsync_always_survives_the_end_of_redis() {
    survives_a_killed_process("always").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appendfsync_everysec_survives_the_end_of_redis() {
    survives_a_killed_process("everysec").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appendfsync_no_survives_the_end_of_redis() {
    survives_a_killed_process("no").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_alone_keep_the_state_of_the_last_one() {
    let mut redis = block_in_place(|| RedisServer::start_with(&["--appendonly", "no"]));
    let app = service(&redis.url(), &[]).await;
    let saved = app.reserve("saved", 1).await.expect(200);
    block_in_place(|| redis.run::<()>(&["SAVE"]));
    let lost = app.reserve("lost", 1).await.expect(200);
    block_in_place(|| redis.restart());
    app.found(saved.text("reservation_id")).await.expect(200);
    let id = lost.text("reservation_id");
    app.commit(id, "commit", 1).await.refused(404, "NOT_FOUND");
    // The retry is decided again, and derives the same id.
    let again = app.reserve("lost", 1).await.expect(200);
    assert_eq!(again.text("reservation_id"), id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_persistence_all_data_is_lost_and_nothing_is_served() {
    let mut redis = block_in_place(|| RedisServer::start_with(&["--appendonly", "no"]));
    let app = TestApp::spawn_on(&redis.url(), &[]).await;
    app.budget("tenant:acme", 1_000, 0).await;
    app.reserve("key", 1).await.expect(200);
    block_in_place(|| redis.restart());
    let lost = app.reserve("key", 1).await;
    lost.refused(503, "INTERNAL_ERROR");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_unreplicated_writes_and_a_retry_is_decided_again() {
    let mut trio = block_in_place(SentinelTrio::start);
    let app = service(&trio.url(), &[]).await;
    let kept = app.reserve("kept", 1).await.expect(200);
    block_in_place(|| {
        eventually_replicated(&trio.master);
        cut_off(&trio.master, &trio.replica);
    });
    let lost = app.reserve("lost", 2).await.expect(200);
    block_in_place(|| {
        trio.master.kill();
        trio.replica.thaw();
    });
    let id = lost.text("reservation_id");
    eventually("the replica has taken over", || async {
        app.found(id).await.status == 404
    })
    .await;
    app.commit(id, "commit", 2).await.refused(404, "NOT_FOUND");
    app.found(kept.text("reservation_id")).await.expect(200);
    app.reserve("lost", 2).await.expect(200);
    let (_, reserved, _, _) = app.figures("tenant:acme").await;
    assert_eq!(reserved, 3, "each hold once");
    assert!(app.store.metrics().primary_changes.get() >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_a_cluster_keeps_replicated_writes() {
    let mut cluster = block_in_place(RedisCluster::start);
    let app = service(&cluster.url(), &[]).await;
    let keys = app.store.keys();
    let record = keys.tenant(app.callers[0].partition, "acme");
    let owner = block_in_place(|| {
        let port = cluster.owner(&record).0.port;
        let is_owner = |master: &RedisServer| master.port == port;
        cluster.masters.iter().position(is_owner).expect("an owner")
    });
    let replica = block_in_place(|| cluster_replica(&cluster.masters[owner]));
    let ids = reserve_some(&app).await;
    block_in_place(|| {
        eventually_replicated(&cluster.masters[owner]);
        cluster.masters[owner].kill();
    });
    eventually("the replica has taken over", || async {
        app.found(&ids[0]).await.status == 200
    })
    .await;
    all_are_there(&app, &ids).await;
    assert!(app.store.metrics().primary_changes.get() >= 1);
    drop(replica);
}

/// Waits until the replica has all that its master has.
pub fn eventually_replicated(master: &RedisServer) {
    crate::harness::eventually_blocking("the replica has it all", || {
        let info: String = master.run(&["INFO", "replication"]);
        let number = |after: &str| {
            let rest = info.split(after).nth(1)?;
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u64>().ok()
        };
        number("master_repl_offset:").is_some_and(|all| number(",offset=") == Some(all))
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn min_replicas_to_write_refuses_before_the_first_write() {
    let redis = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&redis.url(), &[]).await;
    app.budget("tenant:acme", 1_000, 0).await;
    let least = |count| {
        block_in_place(|| redis.run::<()>(&["CONFIG", "SET", "min-replicas-to-write", count]))
    };
    least("1");
    let refused = app.reserve("key", 5).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.refused(503, "INTERNAL_ERROR");
    assert_eq!(app.figures("tenant:acme").await, (1_000, 0, 0, 0));
    least("0");
    app.reserve("key", 5).await.expect(200);
    assert_eq!(app.figures("tenant:acme").await, (995, 5, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_redis_at_the_same_address_counts_as_a_new_primary() {
    let mut redis = block_in_place(RedisServer::start);
    let app = service(&redis.url(), &[]).await;
    let changes = || app.store.metrics().primary_changes.get();
    let look = || app.store.look_at_memory(std::time::Duration::from_secs(10));
    look().await.expect("it responds");
    look().await.expect("it responds");
    assert_eq!(changes(), 0);
    block_in_place(|| redis.restart());
    eventually("it responds", || async { look().await.is_some() }).await;
    assert_eq!(changes(), 1);
}
