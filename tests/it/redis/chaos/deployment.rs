//! A deployment of real processes: two replicas, two dispatchers, and a Redis that loses nothing when it is killed.

use std::ops::Range;
use std::time::Duration;

use budget_authority::store::RedisOptions;
use serde_json::json;
use tokio::process::Command;
use tokio::task::block_in_place;

use crate::admin::http::BUDGETS;
use crate::admin::webhooks::guard::open;
use crate::admin::webhooks::subscriptions::HOOKS;
use crate::dispatcher::process_fixture::LIMIT;
use crate::harness::admin_cli::ran;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::process::{Process, Replica};
use crate::harness::random_clients::seed_ledgers;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::{RedisCluster, RedisServer};
use crate::harness::retrying_client::RetryingClient;
use crate::harness::runtime_calls::tokens;
use crate::harness::{http, store_with, within};
use crate::redis::topologies::keys_of;

/// Tenants, and how many clients each has.
pub(super) const TENANTS: [(&str, usize); 4] =
    [("acme", 4), ("bolt", 2), ("crest", 2), ("dune", 0)];
/// The tenant that stores most, above its share of the memory.
pub(super) const LARGE: usize = 0;
/// The tenant that stores little: it has only the requests of the test itself.
pub(super) const SMALL: usize = 3;
const SHARE_PERCENT: &str = "2";

const BALLAST_BYTES: usize = 20_000_000;

/// Of each ledger. No request lacks funds.
pub(super) const ALLOCATED: i64 = 1_000_000_000;

/// The types of the events that receivers get.
pub(super) const EVENTS: [&str; 7] = [
    "budget.created",
    "budget.funded",
    "budget.increase_started",
    "budget.increase_ended",
    "reservation.refunded",
    "reservation.commit_overage",
    "reservation.expired",
];

/// The processes by number.
pub(super) const REPLICAS: Range<usize> = 0..2;
pub(super) const DISPATCHERS: Range<usize> = 2..4;
pub(super) const PROCESSES: Range<usize> = 0..4;

const DURABLE: [&str; 2] = ["--appendfsync", "always"];

pub(super) enum Redis {
    Server(RedisServer),
    Cluster(RedisCluster),
}

pub(super) struct Deployment {
    pub redis: Redis,
    pub replicas: Vec<Replica>,
    pub dispatchers: Vec<Process>,
    pub app: TestApp,
    /// Of the tenants.
    pub clients: Vec<RetryingClient>,
    pub operator: RetryingClient,
    /// Of the tenants, then of the operator.
    pub receivers: Vec<Receiver>,
}

impl Redis {
    pub fn server() -> Self {
        Self::Server(block_in_place(|| RedisServer::start_with(&DURABLE)))
    }

    /// Masters that serve without each other.
    pub fn cluster() -> Self {
        let settings = ["--cluster-require-full-coverage", "no"];
        let settings = [DURABLE, settings].concat();
        Self::Cluster(block_in_place(|| RedisCluster::start_with(&settings)))
    }

    pub fn url(&self) -> String {
        match self {
            Self::Server(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    fn servers(&self) -> &[RedisServer] {
        match self {
            Self::Server(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => &cluster.masters,
        }
    }

    pub fn servers_mut(&mut self) -> &mut [RedisServer] {
        match self {
            Self::Server(server) => std::slice::from_mut(server),
            Self::Cluster(cluster) => &mut cluster.masters,
        }
    }

    /// The cluster, where this is one.
    pub fn masters(&self) -> &RedisCluster {
        match self {
            Self::Server(_) => panic!("only a cluster has slots"),
            Self::Cluster(cluster) => cluster,
        }
    }

    /// The server that has a key.
    pub fn owner(&self, key: &str) -> &RedisServer {
        match self {
            Self::Server(server) => server,
            Self::Cluster(cluster) => cluster.owner(key).0,
        }
    }

    /// Makes the buffers of connections small beside the rest of the memory.
    fn add_ballast(&self) {
        let ballast = "x".repeat(BALLAST_BYTES);
        for server in self.servers() {
            let mut keys = (0..).map(|number| format!("ballast-{number}"));
            let key = keys.find(|key| self.owner(key).port == server.port);
            server.run::<()>(&["SET", &key.expect("a key of it"), &ballast]);
        }
    }

    /// Waits until Redis serves and no file can have a torn end: before that, nobody may restart it again.
    pub async fn sound(&self) {
        within(LIMIT, "each file is rewritten", || async {
            block_in_place(|| self.servers().iter().all(RedisServer::has_rewritten))
        })
        .await;
        if let Self::Cluster(cluster) = self {
            block_in_place(|| cluster.until_whole());
        }
    }
}

impl Deployment {
    /// With tenants that have funds, and receivers of their events.
    pub async fn start(redis: Redis) -> Self {
        block_in_place(|| redis.add_ballast());
        let url = redis.url();
        let mut options = RedisOptions::new(&url);
        // The test reads much at once.
        options.timeout = Duration::from_secs(20);
        let mut fixture = LedgerFixture::on(store_with(options)).await;
        for (tenant, (name, _)) in TENANTS.iter().enumerate() {
            if tenant == fixture.keys.len() {
                fixture.add_tenant(name).await;
            }
            assert_eq!(fixture.callers[tenant].tenant.as_str(), *name);
            seed_ledgers(&fixture, tenant, ALLOCATED).await;
        }
        let prefix = fixture.store.keys().prefix();
        let settings = ["--tenant-memory-share", SHARE_PERCENT];
        let settings = [["--admin-keys", ADMIN_KEY], settings].concat();
        let replica = |_| Replica::start(&url, prefix, &settings);
        let replicas: Vec<_> = REPLICAS.map(replica).collect();
        let share = ("BUDGET_TENANT_MEMORY_SHARE", SHARE_PERCENT.to_owned());
        let dispatcher = |_| Process::delivering_dispatcher_in(vec![share.clone()], &url, prefix);
        let dispatchers = DISPATCHERS.map(dispatcher).collect();
        for replica in &replicas {
            replica.ready().await;
        }
        let addresses: Vec<_> = replicas.iter().map(|replica| replica.address).collect();
        let client = |key: &String| RetryingClient::new(&addresses, key);
        let clients = fixture.keys.iter().map(client).collect();
        let mut deployment = Self {
            redis,
            replicas,
            dispatchers,
            app: TestApp::attach(fixture, addresses[0]),
            clients,
            operator: RetryingClient::admin(&addresses),
            receivers: Vec::new(),
        };
        deployment.hook().await;
        deployment.enlarge().await;
        deployment
    }

    /// Makes a subscription of each tenant, and one of the operator.
    async fn hook(&mut self) {
        open(&self.app).await;
        let of_tenants = TENANTS.map(|(name, _)| format!("{HOOKS}?tenant_id={name}"));
        for path in of_tenants.iter().map(String::as_str).chain([HOOKS]) {
            // An attempt takes long enough to be killed in.
            let receiver = Receiver::start(Reply::After(Duration::from_millis(10))).await;
            let hook = json!({"url": receiver.url("/in"), "event_types": EVENTS});
            self.app.post_as_admin(path, hook).await.expect(201);
            self.receivers.push(receiver);
        }
    }

    /// Stores so much of the large tenant that it is above its share.
    async fn enlarge(&self) {
        let (name, _) = TENANTS[LARGE];
        for number in 0..60 {
            let scope = format!("tenant:{name}/app:a{number}");
            let note = json!({"note": "x".repeat(16_000)});
            let budget = json!({"tenant_id": name, "scope": scope, "unit": "TOKENS", "allocated": tokens(1), "metadata": note});
            self.app.post_as_admin(BUDGETS, budget).await.expect(201);
        }
    }

    /// A key in the slot of each tenant.
    pub fn keys(&self) -> Vec<String> {
        let names = TENANTS.map(|(name, _)| name.to_owned());
        keys_of(self.app.store.keys(), &names)
    }

    /// A process, which has not ended by itself.
    pub fn process(&mut self, number: usize) -> &mut Process {
        let process = match self.replicas.get_mut(number) {
            Some(replica) => &mut replica.process,
            None => &mut self.dispatchers[number - DISPATCHERS.start],
        };
        assert!(process.is_running(), "process {number} has ended");
        process
    }

    /// Waits until each replica is ready, and warns of nothing.
    pub async fn well(&self) {
        self.redis.sound().await;
        for replica in &self.replicas {
            let url = format!("http://{}/ready", replica.address);
            within(LIMIT, "the replica is well", || async {
                let body = http::get(&url).await.ok()?.text().await.ok()?;
                (body == r#"{"status":"UP"}"#).then_some(())
            })
            .await;
        }
    }

    /// Runs `ledger verify` or `audit verify` as an operator does.
    pub async fn verify(&self, what: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
        command.args([what, "verify", "--redis-url", &self.redis.url()]);
        command.args(["--key-prefix", self.app.store.keys().prefix()]);
        ran(command.output().await.expect("it is built")).done();
    }
}
