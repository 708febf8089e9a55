//! Real processes, killed at random moments: each key has one outcome and the ledgers are exact.

use std::time::Duration;

use budget_authority::store::{Keys, RedisOptions, Store, StoreMetrics};
use tokio::task::block_in_place;

use crate::harness::client_audit::check_clients;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::process::{Process, Replica};
use crate::harness::random_clients::{RandomClients, seed_ledgers};
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::{LONG_REDIS_TIMEOUT, RetryingClient};

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
    async fn start(settings: &[&str]) -> Self {
        let redis = block_in_place(|| RedisServer::start_with(&["--appendfsync", "always"]));
        let url = redis.url();
        let keys = Keys::new("kill").expect("a prefix");
        let metrics = StoreMetrics::register(&prometheus::Registry::new());
        let metrics = metrics.expect("a fresh registry");
        let mut options = RedisOptions::new(&url);
        // The test reads while nothing is killed.
        options.timeout = Duration::from_secs(20);
        let store = Store::new(&options, keys, "service", metrics);
        let fixture = LedgerFixture::on(store.expect("a usable URL")).await;
        seed_ledgers(&fixture, 0, 1_000_000_000).await;
        let replicas: Vec<_> = (0..2)
            .map(|_| Replica::start(&url, "kill", settings))
            .collect();
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

    fn client(&self) -> RetryingClient {
        let addresses: Vec<_> = self
            .replicas
            .iter()
            .map(|replica| replica.address)
            .collect();
        RetryingClient::new(&addresses, &self.fixture.keys[0])
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
    // Where neither a replica nor Redis is killed, a busy machine shall not look like an outage.
    let settings: &[&str] = match victims {
        [KilledProcess::Dispatcher] => LONG_REDIS_TIMEOUT,
        _ => &[],
    };
    let mut deployment = Deployment::start(settings).await;
    let client = deployment.client();
    let clients = RandomClients::start(&client, "acme", 24);
    for _ in 0..times {
        let pause = rand::random_range(pause_ms.clone());
        // The test kills at any moment.
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let victim = victims[rand::random_range(0..victims.len())];
        block_in_place(|| deployment.kill(victim));
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
