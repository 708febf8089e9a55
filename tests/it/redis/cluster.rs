//! Redis Cluster: every request finds its node, also while slots move.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use budget_authority::api::probes::Probes;
use budget_authority::shutdown::Shutdown;
use budget_authority::store::deployment::META;
use budget_authority::store::{Call, Lane, Store, StoreError};
use redis::Value;
use tokio::task::block_in_place;
use tower::ServiceExt;

use crate::harness::app::TestApp;
use crate::harness::redis::{RedisCluster, RedisServer};
use crate::harness::{eventually, store};

async fn call(store: &Store, key: &str) -> Result<Value, StoreError> {
    store
        .send(
            Lane::Request,
            &Call::new(&META.script, &[key]).with(&["1", "2", "3", "4"][..]),
        )
        .await
}

#[tokio::test]
async fn each_key_is_served_by_the_node_that_owns_its_slot() {
    let cluster = RedisCluster::start();
    let store = store(&cluster.url());
    let keys: Vec<_> = (0..30).map(|n| format!("x:{{{n:03x}}}:record")).collect();
    for key in &keys {
        call(&store, key).await.expect("it runs");
    }
    let sizes: Vec<i64> = cluster
        .masters
        .iter()
        .map(|master| master.run(&["DBSIZE"]))
        .collect();
    assert_eq!(
        sizes.iter().sum::<i64>(),
        31,
        "30 records and the deployment's"
    );
    assert!(sizes.iter().all(|size| *size > 0), "{sizes:?}");

    // All nodes in one go, replies in order.
    let commands = keys.iter().map(|key| {
        let mut command = redis::cmd("HGET");
        command.arg(key).arg("dialect");
        (key.clone(), command)
    });
    let replies = store
        .send_all(&commands.collect::<Vec<_>>())
        .await
        .expect("all answer");
    assert_eq!(replies, vec![Value::BulkString(b"4".to_vec()); 30]);
    store
        .ping(std::time::Duration::from_secs(10))
        .await
        .expect("all are there");
}

#[tokio::test]
async fn no_request_fails_while_a_slot_moves() {
    let cluster = RedisCluster::start();
    let store = store(&cluster.url());
    let (old, moving) = ("x:{tag}:old", "x:{tag}:new");
    call(&store, old).await.expect("it runs");
    let (source, slot) = cluster.owner(old);
    let target = cluster
        .masters
        .iter()
        .find(|other| other.port != source.port)
        .expect("another");
    let id = |node: &RedisServer| node.run::<String>(&["CLUSTER", "MYID"]);
    let (source_id, target_id, slot) = (id(source), id(target), slot.to_string());
    target.run::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source_id]);
    source.run::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target_id]);

    // A key that is still there, and one that has to be created on the other side (ASK, script unknown there).
    call(&store, old).await.expect("the key has not moved");
    call(&store, moving)
        .await
        .expect("it is created on the target");
    assert_eq!(
        target.run::<i64>(&["DBSIZE"]),
        on(target, &store, moving).await
    );

    let port = target.port.to_string();
    source.run::<()>(&["MIGRATE", "127.0.0.1", &port, old, "0", "5000"]);
    call(&store, old).await.expect("ASK leads to it");
    for node in [target, source] {
        node.run::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &target_id]);
    }
    call(&store, old).await.expect("MOVED leads to it");
    let extra = |reason: &str| {
        store
            .metrics()
            .extra_round_trips
            .with_label_values(&[reason])
            .get()
    };
    assert!(extra("ask") >= 2, "{}", extra("ask"));
    assert_eq!(extra("moved"), 1);
    for _ in 0..5 {
        call(&store, old).await.expect("it is known now");
    }
    assert_eq!(extra("moved"), 1);
}

/// How many keys the target must hold: the new one, and the deployment's where that slot is its own.
async fn on(target: &RedisServer, store: &Store, key: &str) -> i64 {
    let held = |key: &str| {
        let mut command = redis::cmd("EXISTS");
        command.arg(key);
        command
    };
    let client = redis::Client::open(target.url()).expect("a url");
    let mut connection = client.get_connection().expect("it runs");
    redis::cmd("ASKING")
        .exec(&mut connection)
        .expect("it is asked");
    let moved: i64 = held(key).query(&mut connection).expect("it answers");
    let meta: i64 = held(&store.keys().meta())
        .query(&mut connection)
        .unwrap_or(0);
    assert_eq!(moved, 1);
    moved + meta
}

#[tokio::test]
async fn a_restarted_master_is_found_again() {
    let mut cluster = RedisCluster::start();
    let store = store(&cluster.url());
    let key = "x:{tag}:record";
    call(&store, key).await.expect("it runs");
    let port = cluster.owner(key).0.port;
    let owner = cluster
        .masters
        .iter_mut()
        .find(|master| master.port == port)
        .expect("the owner");
    owner.restart();
    eventually("the owner serves again", || async {
        call(&store, key).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_ready_while_it_reaches_one_master() {
    let mut cluster = block_in_place(RedisCluster::start);
    let app = TestApp::spawn_on(&cluster.url(), &[]).await;
    let store = app.store.clone();
    let probes = Probes::new(store.clone(), Shutdown::new()).router();
    let probe = || async {
        let request = Request::get("/ready")
            .header("host", "localhost")
            .body(Body::empty())
            .expect("a request");
        let response = probes.clone().oneshot(request).await.expect("an answer");
        (
            response.status().as_u16(),
            store.metrics().unreachable_primaries.get(),
        )
    };
    // A probe on a busy machine may miss a node that is there.
    let becomes = async |expected: (u16, i64)| {
        eventually("the masters are seen", || async {
            let found = probe().await;
            (found == expected).then_some(()).ok_or(found)
        })
        .await;
    };
    becomes((200, 0)).await;
    // A node that is silent is detected like one that is gone, both in time.
    cluster.masters[0].freeze();
    let begun = Instant::now();
    becomes((200, 1)).await;
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    block_in_place(|| cluster.masters[1].kill());
    becomes((200, 2)).await;
    block_in_place(|| cluster.masters[2].kill());
    becomes((503, 3)).await;
    cluster.masters[0].thaw();
    eventually("it is ready again", || async { probe().await == (200, 2) }).await;
}
