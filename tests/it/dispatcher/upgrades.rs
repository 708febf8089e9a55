//! Upgrades process by process under load, and back: no request fails, no event is lost or doubled. `BUDGET_TEST_PREVIOUS_BUILD`
//! names a folder with the binaries of an earlier build; without it, both builds are the one that is tested.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use budget_authority::store::{Keys, RedisOptions, Store, StoreMetrics};

use super::process_fixture::Deployment;
use crate::harness::client_audit::check_clients;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::process::{Process, Replica};
use crate::harness::random_clients::{RandomClients, seed_ledgers};
use crate::harness::redis::shared;
use crate::harness::retrying_client::{LONG_REDIS_TIMEOUT, RetryingClient};

/// The build that is tested, and the one before it.
fn builds() -> (PathBuf, PathBuf) {
    let present = Path::new(env!("CARGO_BIN_EXE_budget-authority"));
    let present = present.parent().expect("a folder").to_owned();
    let previous = std::env::var_os("BUDGET_TEST_PREVIOUS_BUILD");
    (
        previous.map_or_else(|| present.clone(), PathBuf::from),
        present,
    )
}

/// Lets a build serve requests, or two side by side.
async fn serve() {
    // The test covers the requests in this time.
    tokio::time::sleep(Duration::from_millis(700)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_replicas_are_upgraded_and_rolled_back() {
    let (url, prefix) = (shared().url(), "upgrades");
    let metrics = StoreMetrics::register(&prometheus::Registry::new());
    let keys = Keys::new(prefix).expect("a prefix");
    let store = Store::new(
        &RedisOptions::new(&url),
        keys,
        "service",
        metrics.expect("a fresh registry"),
    );
    let fixture = LedgerFixture::on(store.expect("a usable URL")).await;
    seed_ledgers(&fixture, 0, 1_000_000_000).await;
    let (previous, present) = builds();
    let settings = [LONG_REDIS_TIMEOUT, &["--shutdown-delay-ms", "300"]].concat();
    let start = || Replica::start(&url, prefix, &settings);
    let mut replicas = [start(), start()];
    let mut dispatcher = Process::dispatcher(&url, prefix);
    for replica in &mut replicas {
        replica.process.restart_from(&previous);
        replica.ready().await;
    }
    dispatcher.restart_from(&previous);
    let addresses = replicas.each_ref().map(|replica| replica.address);
    let client = RetryingClient::with_long_timeout(&addresses, &fixture.keys[0]);
    let clients = RandomClients::start(&client, "acme", 12);
    for build in [&present, &previous] {
        serve().await;
        for replica in &mut replicas {
            replica.process.replace(build).await;
            replica.ready().await;
            serve().await;
        }
        dispatcher.replace(build).await;
    }
    serve().await;
    let clients = clients.stop().await;
    let totals = check_clients(&fixture, 0, &clients).await;
    assert!(totals.committed > 50, "{} commits", totals.committed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost_while_dispatchers_are_upgraded_and_rolled_back() {
    let (previous, present) = builds();
    let deployment = Deployment::start(&shared().url(), 2).await;
    let stop = AtomicBool::new(false);
    let upgrading = async {
        let mut dispatchers =
            std::mem::take(&mut *deployment.dispatchers.lock().expect("no panic"));
        for dispatcher in &mut dispatchers {
            dispatcher.restart_from(&previous);
        }
        deployment.progress(0, 3).await;
        for build in [&present, &previous] {
            for dispatcher in &mut dispatchers {
                dispatcher.replace(build).await;
                deployment.progress(0, 3).await;
            }
        }
        stop.store(true, Ordering::Relaxed);
        dispatchers
    };
    let (_, _dispatchers) = tokio::join!(deployment.fund_until(&stop), upgrading);
    let events = deployment.settled().await;
    deployment.check_order(&events);
    // One each was in flight where a dispatcher was killed for the build before it.
    deployment.check_attempts(2).await;
}
