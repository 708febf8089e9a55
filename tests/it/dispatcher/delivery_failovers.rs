//! Deliveries on a Cluster, and over a failover.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::block_in_place;

use super::process_fixture::Deployment;
use crate::harness::redis::{RedisCluster, SentinelTrio};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w6_on_a_cluster_tenants_and_the_operator_get_their_events() {
    let cluster = block_in_place(RedisCluster::start);
    let deployment = Deployment::start(&cluster.url(), 2).await;
    let stop = AtomicBool::new(false);
    let until_some_arrived = async {
        for hook in 0..deployment.hooks.len() {
            deployment.progress(hook, 20).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(deployment.fund_until(&stop), until_some_arrived);
    let events = deployment.settled().await;
    deployment.check_order(&events);
    deployment.check_attempts(0).await;
}

/// Events that the new master lacks are lost; the others arrive under their former ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w34_deliveries_continue_after_a_failover_and_repeat_only_the_same_events() {
    let mut trio = block_in_place(SentinelTrio::start);
    let deployment = Deployment::start(&trio.url(), 2).await;
    let stop = AtomicBool::new(false);
    let failing_over = async {
        deployment.progress(0, 10).await;
        block_in_place(|| trio.master.kill());
        for hook in 0..deployment.hooks.len() {
            deployment.progress(hook, 10).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(deployment.fund_until(&stop), failing_over);
    let events = deployment.settled().await;
    deployment.check_order(&events);
    assert_eq!(deployment.app.store.metrics().primary_changes.get(), 1);
    for hook in &deployment.hooks {
        let mut bodies = BTreeMap::new();
        for one in hook.receiver.arrived() {
            let id = one.header("x-service-event-id").expect("an id").to_owned();
            let first = bodies.entry(id).or_insert_with(|| one.body.clone());
            assert_eq!(*first, one.body, "a repeat has the same bytes");
        }
    }
}
