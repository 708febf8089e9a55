//! Real processes, killed at random moments: each key has one outcome and the ledgers are exact.

use std::net::SocketAddr;
use std::time::Duration;

use budget_authority::store::{Keys, Store, StoreMetrics};
use tokio::task::block_in_place;

use crate::harness::client_audit::check_clients;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::process::{Process, Replica};
use crate::harness::random_clients::{RandomClients, seed_ledgers};
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::{LONG_REDIS_TIMEOUT, RetryingClient};
use crate::harness::{eventually, patient};

/// Two API replicas and two dispatchers on a Redis that loses nothing it has acknowledged.
struct Deployment {
    redis: RedisServer,
    replicas: Vec<Replica>,
    dispatchers: Vec<Process>,
    fixture: LedgerFixture,
}

#[derive(Clone, Copy)]
enum KilledProcess {
    Replica,
    Dispatcher,
    Redis,
}

impl Deployment {
    /// `settings`: of the replicas.
    async fn start(settings: &[&str]) -> Self {
        let redis = block_in_place(|| RedisServer::start_with(&["--appendfsync", "always"]));
        let url = redis.url();
        let keys = Keys::new("kill").expect("a prefix");
        let metrics = StoreMetrics::register(&prometheus::Registry::new());
        let metrics = metrics.expect("a fresh registry");
        let store = Store::new(&patient(&url), keys, "service", metrics);
        let fixture = LedgerFixture::on(store.expect("a usable URL")).await;
        seed_ledgers(&fixture, 0, 1_000_000_000).await;
        let replica = |_| Replica::start(&url, "kill", settings);
        let replicas: Vec<_> = (0..2).map(replica).collect();
        for replica in &replicas {
            replica.ready().await;
        }
        let dispatchers = (0..2).map(|_| Process::dispatcher(&url, "kill")).collect();
        Self {
            redis,
            replicas,
            dispatchers,
            fixture,
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let replicas = self.replicas.iter();
        replicas.map(|replica| replica.address).collect()
    }

    fn kill(&mut self, victim: KilledProcess) {
        match victim {
            KilledProcess::Replica => {
                let n = rand::random_range(0..self.replicas.len());
                self.replicas[n].process.restart();
            }
            KilledProcess::Dispatcher => {
                let n = rand::random_range(0..self.dispatchers.len());
                self.dispatchers[n].restart();
            }
            KilledProcess::Redis => self.redis.restart(),
        }
    }
}

/// Random clients act while `times` victims are killed and started again; then everything must add up. Returns how often they
/// had to retry.
async fn survive(victims: &[KilledProcess], times: usize, pause_ms: std::ops::Range<u64>) -> usize {
    let is_harmless = |victim: &KilledProcess| matches!(victim, KilledProcess::Dispatcher);
    let undisturbed = victims.iter().all(is_harmless);
    // Where no request may be disturbed, a busy machine shall not do it.
    let settings: &[&str] = match undisturbed {
        true => LONG_REDIS_TIMEOUT,
        false => &[],
    };
    let mut deployment = Deployment::start(settings).await;
    let (addresses, key) = (deployment.addresses(), &deployment.fixture.keys[0]);
    let client = match undisturbed {
        true => RetryingClient::with_long_timeout(&addresses, key),
        false => RetryingClient::new(&addresses, key),
    };
    let clients = RandomClients::start(&client, "acme", 24);
    for _ in 0..times {
        let pause = rand::random_range(pause_ms.clone());
        // The test kills at any moment.
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let victim = victims[rand::random_range(0..victims.len())];
        let decided = client.decisions();
        block_in_place(|| deployment.kill(victim));
        // On a busy machine all could be killed before any has started.
        eventually("the clients go on", async || {
            client.decisions() > decided + 5
        })
        .await;
    }
    let clients = clients.stop().await;
    let totals = check_clients(&deployment.fixture, 0, &clients).await;
    // Less would mean that no client was disturbed.
    assert!(totals.committed > times, "{} commits", totals.committed);
    client.retries()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_replica_loses_and_repeats_nothing() {
    let repeated = survive(&[KilledProcess::Replica], 30, 20..200).await;
    assert!(repeated > 30, "{repeated} requests were disturbed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_dispatcher_expires_each_hold_once() {
    let repeated = survive(&[KilledProcess::Dispatcher], 20, 50..300).await;
    assert_eq!(repeated, 0, "no request depends on a dispatcher");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_keeps_every_acknowledged_write() {
    let repeated = survive(&[KilledProcess::Redis], 15, 50..400).await;
    assert!(repeated > 15, "{repeated} requests were disturbed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ledgers_match_what_clients_were_granted_after_any_kill() {
    let all = [
        KilledProcess::Replica,
        KilledProcess::Dispatcher,
        KilledProcess::Redis,
    ];
    let repeated = survive(&all, 30, 20..250).await;
    assert!(repeated > 15, "{repeated} requests were disturbed");
}
