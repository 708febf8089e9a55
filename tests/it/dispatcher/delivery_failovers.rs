//! Deliveries on a Cluster.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::block_in_place;

use super::bad_luck::Deployment;
use crate::harness::redis::RedisCluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_tenants_and_the_operator_get_their_events() {
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
