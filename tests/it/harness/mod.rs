//! Shared by the tests: fixtures, clients, private Redis servers.

pub mod admin_calls;
pub mod admin_cli;
pub mod admin_fixture;
pub mod allocations;
pub mod app;
pub mod append_only;
pub mod audit_chain;
pub mod behind;
pub mod bulk_calls;
pub mod client_audit;
pub mod days;
pub mod deliveries;
pub mod due_events;
pub mod event_log;
pub mod evidence_keys;
pub mod faulty_proxy;
pub mod http;
pub mod ledger_audit;
pub mod ledger_fixture;
pub mod logged_dispatcher;
pub mod lossy_proxy;
pub mod names;
pub mod past_day;
pub mod process;
pub mod random_clients;
pub mod raw;
pub mod receiver;
pub mod redis;
pub mod redis_fixture;
pub mod replicas;
pub mod resharding;
pub mod resp_server;
pub mod response;
pub mod retrying_client;
pub mod runtime_calls;
mod shared;
pub mod signatures;
pub mod slow_proxy;
pub mod tenant_fixture;
pub mod tenant_holds;
pub mod tenant_snapshot;
pub mod terminal;
pub mod three_scopes;
pub mod wire;

use std::fmt::Debug;
use std::time::Duration;

use budget_authority::store::{BatchLimits, Keys, RedisOptions, Store, StoreMetrics};
use tokio::time::Instant;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts a log as `RUST_LOG` says, such as `info`; silent otherwise.
pub fn init_log() {
    let filter = std::env::var("RUST_LOG").ok();
    let filter = filter.and_then(|text| text.parse().ok());
    let filter: Targets = filter.unwrap_or_default();
    let lines = tracing_subscriber::fmt::layer().with_test_writer();
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init();
}

/// A store at `url` under a prefix of its own.
pub fn store(url: &str) -> Store {
    store_with(match redis::is_shared(url) {
        // No outage is meant to reach it.
        true => patient(url),
        false => RedisOptions::new(url),
    })
}

/// Options with which a busy machine does not look like an outage.
pub fn patient(url: &str) -> RedisOptions {
    let mut options = RedisOptions::new(url);
    options.timeout = Duration::from_secs(20);
    options.connect_timeout = Duration::from_secs(10);
    options.batches = batches();
    options
}

/// The limits of batches. With `TEST_BATCHES` even a lone call runs the script of a batch: `1` makes every batch one of a single
/// member, `32` makes them as large as they can be.
pub fn batches() -> BatchLimits {
    let usual = BatchLimits::default();
    let lone = BatchLimits {
        lone: true,
        ..usual
    };
    match std::env::var("TEST_BATCHES").as_deref() {
        Ok("1") => BatchLimits { members: 1, ..lone },
        Ok("32") => BatchLimits {
            in_flight: 1,
            ..lone
        },
        Ok(other) => panic!("TEST_BATCHES is 1 or 32, not {other}"),
        Err(_) => usual,
    }
}

/// A store with options of the test's choice, under a prefix of its own.
pub fn store_with(options: RedisOptions) -> Store {
    init_log();
    let prefix = format!("t{:016x}", rand::random::<u64>());
    let metrics = StoreMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    let keys = Keys::new(&prefix).expect("a valid prefix");
    Store::new(&options, keys, "service", metrics).expect("a usable URL")
}

/// The result of a condition: met, or the state that it found.
pub trait Condition {
    type Reached;

    fn reached(self) -> Result<Self::Reached, String>;
}

impl Condition for bool {
    type Reached = ();

    fn reached(self) -> Result<(), String> {
        self.then_some(()).reached()
    }
}

impl<T> Condition for Option<T> {
    type Reached = T;

    fn reached(self) -> Result<T, String> {
        self.ok_or_else(String::new)
    }
}

impl<T, State: Debug> Condition for Result<T, State> {
    type Reached = T;

    fn reached(self) -> Result<T, String> {
        self.map_err(|state| format!(": {state:?}"))
    }
}

/// Asks `condition` every 10 ms until it is reached; panics with `what` and the last state after three minutes: what takes a second
/// alone may take many on a busy machine.
pub async fn eventually<C: Condition, F>(what: &str, condition: impl FnMut() -> F) -> C::Reached
where
    F: Future<Output = C>,
{
    within(LIMIT, what, condition).await
}

/// The same with a limit of the test's choice.
pub async fn within<C: Condition, F>(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> F,
) -> C::Reached
where
    F: Future<Output = C>,
{
    let deadline = Instant::now() + limit;
    loop {
        match condition().await.reached() {
            Ok(value) => return value,
            Err(state) => assert!(
                Instant::now() < deadline,
                "not within {limit:?}: {what}{state}"
            ),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// [`eventually`] where nothing may be awaited.
pub fn eventually_blocking<C: Condition>(
    what: &str,
    mut condition: impl FnMut() -> C,
) -> C::Reached {
    let deadline = Instant::now() + LIMIT;
    loop {
        match condition().reached() {
            Ok(value) => return value,
            Err(state) => assert!(
                Instant::now() < deadline,
                "not within {LIMIT:?}: {what}{state}"
            ),
        }
        std::thread::sleep(POLL);
    }
}

/// The seed of a random history: `SEED`, or another one each time. It is printed, so that a history that fails can be repeated.
pub fn seed_of_history() -> u64 {
    let set = std::env::var("SEED").ok();
    let set = set.map(|text| text.parse().expect("SEED is a number"));
    let seed = set.unwrap_or_else(rand::random);
    println!("seed {seed}");
    seed
}

/// How long a test goes on killing: `KILL_SECONDS`, or else a short time.
pub fn kill_time(short: Duration) -> Duration {
    let set = std::env::var("KILL_SECONDS").ok();
    let set = set.map(|text| text.parse().expect("KILL_SECONDS is a number"));
    set.map_or(short, Duration::from_secs)
}

/// How long [`eventually`] asks.
const LIMIT: Duration = Duration::from_secs(180);

/// How often a condition is asked.
const POLL: Duration = Duration::from_millis(10);
