//! Tenants on all masters of a Redis Cluster are closed: by the request, and by dispatchers where the request died, while
//! slots move and one of the dispatchers is killed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{block_in_place, spawn_blocking};

use crate::harness::estate::Estate;
use crate::harness::process::Process;
use crate::harness::redis::RedisCluster;
use crate::harness::{store, within};
use crate::redis::topologies::keep_moving;

const NAMES: [&str; 6] = ["acme", "bolt", "cargo", "delta", "ember", "flint"];

/// Tenants with something of everything, on a store of their own; all masters have some.
async fn estates(cluster: &RedisCluster) -> Vec<Estate> {
    let store = store(&cluster.url());
    let mut estates = Vec::new();
    for name in NAMES {
        let estate = Estate::on(store.clone(), name).await;
        estate.furnish().await;
        estates.push(estate);
    }
    let owners: BTreeSet<_> = block_in_place(|| {
        estates
            .iter()
            .map(|estate| cluster.owner(&record(estate)).0.port)
            .collect()
    });
    assert_eq!(owners.len(), 3, "the tenants live on all masters");
    estates
}

fn record(estate: &Estate) -> String {
    estate
        .keys()
        .tenant(estate.tenant.partition(), estate.name())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_request_closes_tenants_on_every_master() {
    let cluster = block_in_place(RedisCluster::start);
    for estate in estates(&cluster).await {
        let before = estate.account().await;
        estate.close().await;
        estate.check_closed(&before).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dispatchers_finish_what_died_while_slots_move() {
    let cluster = Arc::new(block_in_place(RedisCluster::start));
    let mut estates = estates(&cluster).await;
    for estate in &mut estates {
        estate.crowd(20, 1_500).await;
    }
    let (url, prefix) = (cluster.url(), estates[0].keys().prefix().to_owned());
    let stop = Arc::new(AtomicBool::new(false));
    let moving = spawn_blocking({
        let (cluster, stop, keys) = (
            Arc::clone(&cluster),
            Arc::clone(&stop),
            estates.iter().map(record).collect(),
        );
        move || keep_moving(cluster, keys, stop)
    });
    let mut before = Vec::new();
    for estate in &estates {
        before.push(estate.account().await);
        estate.flip().await;
    }
    let mut dispatchers = [
        Process::dispatcher(&url, &prefix),
        Process::dispatcher(&url, &prefix),
    ];
    let held = async || {
        let mut held = 0;
        for estate in &estates {
            held += estate.active().await;
        }
        held
    };
    let begun = held().await;
    within(Duration::from_secs(60), "a dispatcher goes on", || async {
        (held().await < begun).then_some(())
    })
    .await;
    block_in_place(|| dispatchers[0].restart());
    for (estate, before) in estates.iter().zip(&before) {
        let is_over = || async { (!estate.is_closing().await).then_some(()) };
        within(Duration::from_secs(60), "the close is over", is_over).await;
        estate.check_closed(before).await;
    }
    stop.store(true, Ordering::Relaxed);
    let moves = moving.await.expect("each slot arrived");
    assert!(moves > 3, "{moves} slots moved");
}
