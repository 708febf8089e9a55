//! Everything at once: replicas, dispatchers and Redis are killed, append-only files cut, memory filled and slots moved, while
//! clients retry under their keys. Afterwards every sum is exact, and every event has arrived.
//!
//! `KILL_SECONDS` says how long; `SEED` repeats the order of the strikes.

mod checks;
mod deployment;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use budget_authority::domain::ids::Partition;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Method;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use super::memory::fill;
use crate::dispatcher::process_fixture::LIMIT;
use crate::harness::client_audit::check_clients;
use crate::harness::random_clients::{RESERVATIONS, RandomClient, RandomClients};
use crate::harness::resharding::Resharding;
use crate::harness::retrying_client::RetryingClient;
use crate::harness::runtime_calls::{ask_body, tokens, with};
use crate::harness::{kill_time, seed_of_history, within};
use checks::{arrived, check_balances, ended, events_of};
use deployment::{DISPATCHERS, Deployment, LARGE, PROCESSES, REPLICAS, Redis, SMALL, TENANTS};

const SECOND_MS: i64 = 1_000;
const HOUR_MS: i64 = 3_600_000;

/// The longest pause of a client: without it, ten minutes would leave more than one machine can check.
const PAUSE_MS: u64 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strike {
    KillReplica,
    KillDispatcher,
    KillRedis,
    FillMemory,
    CutFile,
    MoveSlot,
}

/// A deployment that is struck.
struct Chaos {
    deployment: Deployment,
    clients: Vec<RandomClients>,
    /// The client of the small tenant.
    probe: RandomClient,
    /// Held while the operator changes something.
    funding: Arc<Mutex<()>>,
    random: StdRng,
    strikes: BTreeMap<Strike, usize>,
}

impl Chaos {
    async fn start(redis: Redis) -> Self {
        let deployment = Deployment::start(redis).await;
        let clients = deployment.clients.iter().zip(TENANTS);
        let clients = clients.map(|(client, (name, count))| {
            RandomClients::start_pausing(client, name, count, PAUSE_MS)
        });
        Self {
            clients: clients.collect(),
            probe: RandomClient::new(&deployment.clients[SMALL], TENANTS[SMALL].0, 0),
            funding: Arc::default(),
            random: StdRng::seed_from_u64(seed_of_history()),
            strikes: BTreeMap::new(),
            deployment,
        }
    }

    /// Strikes in each way, and again until the time is over; in the end everything must be right.
    async fn run(mut self) {
        let (time, begun) = (kill_time(Duration::ZERO), Instant::now());
        let (stop, funding) = (Arc::new(AtomicBool::new(false)), Arc::clone(&self.funding));
        let operator = self.deployment.operator.clone();
        let funding = tokio::spawn(fund_until(Arc::clone(&stop), operator, funding));
        let special = match self.deployment.redis {
            Redis::Server(_) => Strike::CutFile,
            Redis::Cluster(_) => Strike::MoveSlot,
        };
        loop {
            let mut strikes = [
                Strike::KillReplica,
                Strike::KillDispatcher,
                Strike::KillRedis,
                Strike::FillMemory,
                special,
            ];
            strikes.shuffle(&mut self.random);
            for strike in strikes {
                let pause = self.random.random_range(100..600);
                // The test strikes at any moment.
                tokio::time::sleep(Duration::from_millis(pause)).await;
                self.strike(strike).await;
            }
            if begun.elapsed() >= time {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let funded = funding.await.expect("every change is granted");
        self.check(funded).await;
    }

    async fn strike(&mut self, strike: Strike) {
        match strike {
            Strike::KillReplica => self.kill(REPLICAS),
            Strike::KillDispatcher => self.kill(DISPATCHERS),
            Strike::KillRedis => self.kill_redis().await,
            Strike::FillMemory => self.fill_memory().await,
            Strike::CutFile => self.cut_file().await,
            Strike::MoveSlot => self.move_slot().await,
        }
        *self.strikes.entry(strike).or_default() += 1;
    }

    /// Kills one of these processes and starts it again.
    fn kill(&mut self, processes: Range<usize>) {
        let number = self.random.random_range(processes);
        block_in_place(|| self.deployment.process(number).restart());
    }

    async fn kill_redis(&mut self) {
        self.deployment.redis.sound().await;
        let servers = self.deployment.redis.servers_mut();
        let number = self.random.random_range(0..servers.len());
        block_in_place(|| servers[number].kill());
        let pause = self.random.random_range(0..2_000);
        // A killed Redis is away for a while.
        tokio::time::sleep(Duration::from_millis(pause)).await;
        block_in_place(|| servers[number].restart());
    }

    /// Fills the memory until new data is refused; meanwhile holds end.
    async fn fill_memory(&mut self) {
        let redis = &self.deployment.redis;
        redis.sound().await;
        let mut held = Vec::new();
        for _ in 0..3 {
            let id = self.probe.reserve(10, HOUR_MS).await;
            held.push(id.expect("funds"));
        }
        let ways = [(80, LARGE, 429), (93, SMALL, 503), (110, SMALL, 503)];
        let (percent, tenant, status) = *ways.choose(&mut self.random).expect("three");
        let key = self.deployment.keys().swap_remove(tenant);
        block_in_place(|| fill(redis.owner(&key), percent));
        let (client, scope) = (
            &self.deployment.clients[tenant],
            format!("tenant:{}", TENANTS[tenant].0),
        );
        within(LIMIT / 4, "new data is refused", || async {
            let body = ask_body(&format!("{:016x}", rand::random::<u64>()), &scope, 1);
            let response = client.ask(Method::POST, "/v1/decide", Some(&body)).await;
            let found = response.map(|response| response.status);
            (found == Some(status)).then_some(()).ok_or(found)
        })
        .await;
        // It may be refused now; below it is sent again.
        let create = self.probe.create_body(5, SECOND_MS);
        let client = &self.deployment.clients[SMALL];
        client.ask(Method::POST, RESERVATIONS, Some(&create)).await;
        if self.random.random_bool(0.5) {
            self.kill(PROCESSES);
        }
        self.probe.commit(&held[0], 15).await.expect(200);
        self.probe.release(&held[1]).await.expect(200);
        self.probe.extend(&held[2]).await.expect(200);
        self.probe.commit(&held[2], 10).await.expect(200);
        let unlimited = ["CONFIG", "SET", "maxmemory", "0"];
        block_in_place(|| self.deployment.redis.owner(&key).run::<()>(&unlimited));
        self.probe.create(create).await.expect(200);
    }

    /// Cuts the file of Redis within a write whose response nobody has, as a loss of power does, and restarts Redis twice.
    async fn cut_file(&mut self) {
        let funding = Arc::clone(&self.funding);
        let paused = funding.lock().await;
        let clients = stop(std::mem::take(&mut self.clients)).await;
        self.deployment.redis.sound().await;
        let create = self.probe.create_body(5, SECOND_MS);
        // The probe does not get this response, and asks again.
        let lost = self.deployment.clients[SMALL].post(RESERVATIONS, &create);
        let lost = lost.await.expect(200);
        let server = &mut self.deployment.redis.servers_mut()[0];
        block_in_place(|| {
            server.kill();
            let cut = server.cut_within(lost.text("reservation_id"), &mut self.random);
            println!("{} bytes are cut off", cut.unwrap_or(0));
            server.restart();
        });
        // What is left of the lost request must not become a part of this one.
        self.probe.reserve(7, SECOND_MS).await.expect("funds");
        self.deployment.redis.sound().await;
        let server = &mut self.deployment.redis.servers_mut()[0];
        block_in_place(|| {
            server.restart();
            server.run::<()>(&["PING"]);
        });
        self.deployment.verify("ledger").await;
        self.probe.create(create).await.expect(200);
        self.clients = clients.into_iter().map(RandomClients::resume).collect();
        drop(paused);
    }

    /// Moves a slot to another master. Half-way, a master or a process may be killed.
    async fn move_slot(&mut self) {
        self.deployment.redis.sound().await;
        let mut keys = self.deployment.keys();
        let all = self.deployment.app.store.keys();
        keys.extend([all.outbox(Partition::FIRST), all.meta(), all.dispatchers()]);
        let key = keys.choose(&mut self.random).expect("several");
        let half_moved = block_in_place(|| {
            let moving = Resharding::begin(self.deployment.redis.masters(), key);
            let waiting = moving.waiting();
            let count = self.random.random_range(0..=waiting.len());
            waiting[..count].iter().for_each(|key| moving.migrate(key));
            moving.suspend()
        });
        match self.random.random_range(0..3) {
            0 => self.kill_redis().await,
            1 => self.kill(PROCESSES),
            _ => {}
        }
        self.deployment.redis.sound().await;
        block_in_place(|| Resharding::resume(self.deployment.redis.masters(), half_moved).finish());
    }

    /// Everything is well again, and what clients, operator and receivers know is what is recorded.
    async fn check(mut self, (credits, increases): ([i64; 4], [usize; 4])) {
        let mut clients = stop(self.clients).await;
        clients[SMALL].push(self.probe);
        self.deployment.well().await;
        let deployment = &self.deployment;
        let (app, receivers) = (&deployment.app, &deployment.receivers);
        let (mut granted, mut events) = (0, BTreeSet::new());
        for (tenant, clients) in clients.iter().enumerate() {
            ended(app, tenant, increases[tenant]).await;
            let totals = check_clients(app, tenant, clients).await;
            check_balances(app, tenant, &totals, credits[tenant]).await;
            granted += totals.reservations.len() + totals.posts.len();
            granted += totals.committed + totals.released + totals.refunds;
            let own = events_of(app, tenant).await;
            arrived(&receivers[tenant], &own).await;
            events.extend(own);
        }
        arrived(&receivers[TENANTS.len()], &events).await;
        deployment.verify("ledger").await;
        deployment.verify("audit").await;
        let retries = deployment.clients.iter().map(RetryingClient::retries);
        let retries: usize = retries.sum();
        let (strikes, events) = (&self.strikes, events.len());
        println!(
            "{strikes:?}: {granted} requests, {retries} retries, {credits:?} credits, {events} events"
        );
        for number in PROCESSES {
            self.deployment.process(number);
        }
        assert!(retries > 0, "clients notice the strikes");
    }
}

/// Lets the clients of all tenants finish what they are doing.
async fn stop(tenants: Vec<RandomClients>) -> Vec<Vec<RandomClient>> {
    let mut stopped = Vec::new();
    for clients in tenants {
        stopped.push(clients.stop().await);
    }
    stopped
}

/// Credits all tenants but the small one in turn, or increases what they are allocated for some seconds, until it is stopped; returns how
/// often each was credited, and how often increased.
async fn fund_until(
    stop: Arc<AtomicBool>,
    operator: RetryingClient,
    funding: Arc<Mutex<()>>,
) -> ([i64; 4], [usize; 4]) {
    let (mut credits, mut increases) = ([0; 4], [0; 4]);
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let tenant = number % SMALL;
        let (name, _) = TENANTS[tenant];
        let key = format!("change-{number}");
        let body = json!({"amount": tokens(1), "idempotency_key": key});
        let is_credit = (number / SMALL).is_multiple_of(2);
        let (change, status, more) = match is_credit {
            true => ("fund", 200, json!({"operation": "CREDIT"})),
            // Longer than a request waits for Redis.
            false => ("increases", 201, json!({"for": "PT5S", "reason": "a peak"})),
        };
        let path =
            format!("/v1/admin/budgets/{change}?scope=tenant:{name}&unit=TOKENS&tenant_id={name}");
        let changing = funding.lock().await;
        operator.post(&path, &with(body, more)).await.expect(status);
        drop(changing);
        match is_credit {
            true => credits[tenant] += 1,
            false => increases[tenant] += 1,
        }
        // The operator funds now and then.
        tokio::time::sleep(Duration::from_millis(rand::random_range(100..300))).await;
    }
    (credits, increases)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_figure_is_right_after_kills_cut_files_and_full_memory() {
    Chaos::start(Redis::server()).await.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_figure_is_right_after_kills_moved_slots_and_full_masters() {
    Chaos::start(Redis::cluster()).await.run().await;
}
