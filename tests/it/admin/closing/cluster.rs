//! Tenants on all masters of a Redis Cluster are closed: by the request, and by dispatchers after a crash, while
//! slots move and one of the dispatchers is killed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{block_in_place, spawn_blocking};

use crate::harness::process::Process;
use crate::harness::redis::RedisCluster;
use crate::harness::tenant_fixture::TenantFixture;
use crate::harness::{eventually, patient, store_with};
use crate::redis::topologies::keep_moving;

const NAMES: [&str; 6] = ["acme", "bolt", "cargo", "delta", "ember", "flint"];

/// Tenants with something of everything, on a store of their own; all masters have some.
async fn tenants(cluster: &RedisCluster) -> Vec<TenantFixture> {
    let store = store_with(patient(&cluster.url()));
    let mut tenants = Vec::new();
    for name in NAMES {
        let tenant = TenantFixture::on(store.clone(), name).await;
        tenant.populate().await;
        tenants.push(tenant);
    }
    let owners: BTreeSet<_> = block_in_place(|| {
        tenants
            .iter()
            .map(|tenant| cluster.owner(&record(tenant)).0.port)
            .collect()
    });
    assert_eq!(owners.len(), 3, "the tenants live on all masters");
    tenants
}

fn record(tenant: &TenantFixture) -> String {
    tenant.keys().tenant(tenant.id.partition(), tenant.name())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_request_closes_tenants_on_every_master() {
    let cluster = block_in_place(RedisCluster::start);
    for tenant in tenants(&cluster).await {
        let before = tenant.account().await;
        tenant.close().await;
        tenant.check_closed(&before).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dispatchers_finish_interrupted_closes_while_slots_move() {
    let cluster = Arc::new(block_in_place(RedisCluster::start));
    let mut tenants = tenants(&cluster).await;
    for tenant in &mut tenants {
        tenant.crowd(20, 1_500).await;
    }
    let mut before = Vec::new();
    for tenant in &tenants {
        before.push(tenant.account().await);
        tenant.flip().await;
    }
    let (url, prefix) = (cluster.url(), tenants[0].keys().prefix().to_owned());
    let stop = Arc::new(AtomicBool::new(false));
    let moving = spawn_blocking({
        let (cluster, stop, keys) = (
            Arc::clone(&cluster),
            Arc::clone(&stop),
            tenants.iter().map(record).collect(),
        );
        move || keep_moving(cluster, keys, stop)
    });
    let mut dispatchers = [
        Process::dispatcher(&url, &prefix),
        Process::dispatcher(&url, &prefix),
    ];
    let held = async || {
        let mut held = 0;
        for tenant in &tenants {
            held += tenant.active().await;
        }
        held
    };
    let begun = held().await;
    eventually("a dispatcher resumes the close", || async {
        held().await < begun
    })
    .await;
    block_in_place(|| dispatchers[0].restart());
    for (tenant, before) in tenants.iter().zip(&before) {
        let is_over = || async { (!tenant.is_closing().await).then_some(()) };
        eventually("the close is over", is_over).await;
        tenant.check_closed(before).await;
    }
    stop.store(true, Ordering::Relaxed);
    let moves = moving.await.expect("each slot arrived");
    assert!(moves > 3, "{moves} slots moved");
}
