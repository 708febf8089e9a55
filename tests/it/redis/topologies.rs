//! The life of a reservation on clusters and behind Sentinel, also during moves and failovers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use budget_authority::domain::ids::TenantId;
use budget_authority::store::{Keys, Lane};
use tokio::task::{JoinHandle, block_in_place, spawn_blocking};

use crate::harness::app::TestApp;
use crate::harness::client_audit::lost_outcomes;
use crate::harness::eventually;
use crate::harness::ledger_audit::LedgerAudit;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::random_clients::{RandomClients, seed_ledgers};
use crate::harness::redis::{RedisCluster, SentinelTrio};
use crate::harness::resharding::Resharding;
use crate::harness::retrying_client::{LONG_REDIS_TIMEOUT, RetryingClient};
use crate::runtime::lifecycle::{cast, live};

/// A key in the slot of each tenant.
pub fn keys_of(keys: &Keys, tenants: &[String]) -> Vec<String> {
    let key = |name: &String| {
        let id = TenantId::parse(name).expect("a tenant id");
        keys.tenant(id.partition(), name)
    };
    tenants.iter().map(key).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_three_masters() {
    let cluster = block_in_place(RedisCluster::start);
    let app = TestApp::spawn_on(&cluster.url(), LONG_REDIS_TIMEOUT).await;
    let (store, names) = (&app.store, ["east", "west"]);
    let tenants: Vec<_> = names.iter().flat_map(|name| cast(name)).collect();
    let keys = keys_of(store.keys(), &tenants);
    let owners = block_in_place(|| {
        let owner = |key: &String| cluster.owner(key).0.port;
        keys.iter().map(owner).collect::<BTreeSet<_>>()
    });
    assert_eq!(owners.len(), 3, "the tenants live on all masters");
    for name in names {
        live(store, app.address, name).await;
    }
}

/// Moves the slots of `keys` from master to master, one after the other and key by key, until it is stopped or the test has
/// failed; returns how many it moved.
pub fn keep_moving(cluster: Arc<RedisCluster>, keys: Vec<String>, stop: Arc<AtomicBool>) -> usize {
    let mut moves = 0;
    for key in keys.iter().cycle() {
        // A test that failed has dropped its flag without setting it.
        if stop.load(Ordering::Relaxed) || Arc::strong_count(&stop) == 1 {
            break;
        }
        let resharding = Resharding::begin(&cluster, key);
        for waiting in resharding.waiting() {
            resharding.migrate(&waiting);
            // Clients find the slot half moved.
            std::thread::sleep(Duration::from_micros(rand::random_range(0..2_000)));
        }
        resharding.finish();
        moves += 1;
    }
    moves
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_slots_move_between_masters() {
    let cluster = Arc::new(block_in_place(RedisCluster::start));
    let app = TestApp::spawn_on(&cluster.url(), &[]).await;
    let store = &app.store;
    let (first, second) = (["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"]);
    let tenants: Vec<_> = first
        .iter()
        .chain(&second)
        .flat_map(|name| cast(name))
        .collect();
    let (keys, stop) = (
        keys_of(store.keys(), &tenants),
        Arc::new(AtomicBool::new(false)),
    );
    let moving: JoinHandle<usize> = spawn_blocking({
        let (cluster, stop) = (Arc::clone(&cluster), Arc::clone(&stop));
        move || keep_moving(cluster, keys, stop)
    });
    let lane = async |names: [&str; 4]| {
        for name in names {
            live(store, app.address, name).await;
        }
    };
    tokio::join!(lane(first), lane(second));
    stop.store(true, Ordering::Relaxed);
    let moves = moving.await.expect("each slot arrived");
    assert!(moves > 20, "{moves} slots moved");
    let extra = &store.metrics().extra_round_trips;
    assert!(
        extra.with_label_values(&["moved"]).get() > 0,
        "requests met moved slots"
    );
    assert!(
        extra.with_label_values(&["tryagain"]).get() > 0,
        "requests met moving slots"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_recovers_from_a_failover() {
    let mut trio = block_in_place(SentinelTrio::start);
    let app = TestApp::spawn_on(&trio.url(), &[]).await;
    let store = &app.store;
    seed_ledgers(&app, 0, 1_000_000_000).await;
    live(store, app.address, "before").await;
    let client = RetryingClient::new(&[app.address], &app.keys[0]);
    let clients = RandomClients::start_on_lossy_store(&client, "acme", 12);
    served(&app, 200).await;
    block_in_place(|| trio.master.kill());
    let before = served(&app, 1).await;
    // The former master comes back and believes that it still is one, until the Sentinels demote it.
    block_in_place(|| trio.master.restart());
    served(&app, before + 500).await;
    let clients = clients.stop().await;
    let audit = LedgerAudit::run(&app, 0).await;
    let lost = lost_outcomes(&audit, &clients);
    assert!(lost <= clients.len(), "{lost} outcomes were lost");
    live(store, app.address, "after").await;
    assert_eq!(store.metrics().primary_changes.get(), 1);
}

/// Waits until more than this has been spent in all; returns the amount.
pub async fn served(fixture: &LedgerFixture, more_than: i64) -> i64 {
    let keys = fixture.store.keys();
    let key = keys.budget(
        fixture.callers[0].partition,
        "acme",
        "TOKENS",
        "tenant:acme",
    );
    let mut command = redis::cmd("HGET");
    command.arg(&key).arg("spent");
    eventually("clients are served", || async {
        let spent = fixture
            .store
            .send(Lane::Background, (&key, &command))
            .await
            .ok()?;
        let spent: i64 = redis::from_redis_value(spent).ok()?;
        (spent > more_than).then_some(spent)
    })
    .await
}
