//! One master of a cluster has no memory left: tenants of the others are not affected, and on it everything continues that
//! frees memory.

use std::collections::BTreeSet;
use std::time::Duration;

use budget_authority::dispatcher::IN_FLIGHT_MAX;
use budget_authority::domain::ids::{EvidenceId, Partition};
use budget_authority::evidence::signing::Signer;
use budget_authority::store::MemoryStep;
use serde_json::json;
use tokio::task::block_in_place;

use super::memory::fill;
use super::node_down::{cluster, fund, names, place_of};
use crate::admin::webhooks::guard::open;
use crate::admin::webhooks::subscriptions::HOOKS;
use crate::dispatcher::fan_out::leases;
use crate::evidence::fixture::{ON, signer};
use crate::harness::app::TestApp;
use crate::harness::deliveries::RunningDispatcher;
use crate::harness::eventually;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

const LONG_MS: i64 = 600_000;

/// A tenant with a key, a ledger, and a receiver of its events.
struct Tenant {
    client: TestApp,
    name: String,
    receiver: Receiver,
}

impl Tenant {
    async fn new(app: &TestApp, name: &str) -> Self {
        let fixture = LedgerFixture::of_tenant(app.store.clone(), name).await;
        fixture.budget_of(0, &format!("tenant:{name}"), 1_000).await;
        let receiver = Receiver::start(Reply::After(Duration::from_millis(800))).await;
        let types = ["budget.funded", "reservation.expired"];
        let hook = json!({"url": receiver.url("/"), "event_types": types});
        let path = format!("{HOOKS}?tenant_id={name}");
        app.post_as_admin(&path, hook).await.expect(201);
        Self {
            client: TestApp::attach(fixture, app.address),
            name: name.to_owned(),
            receiver,
        }
    }

    fn scope(&self) -> String {
        format!("tenant:{}", self.name)
    }

    /// Holds an amount until the reservation ends, or for this time.
    async fn hold(&self, key: &str, ttl_ms: i64) -> String {
        let life = json!({"ttl_ms": ttl_ms, "grace_period_ms": 0});
        let held = self.client.create(key, &self.scope(), 10, life).await;
        let held = held.expect(200);
        held.text("/reservation_id").to_owned()
    }

    /// Waits until at least this many events have arrived.
    async fn gets(&self, count: usize) {
        eventually("its events arrive", || async {
            let arrived = self.receiver.arrived().len();
            (arrived >= count).then_some(()).ok_or(arrived)
        })
        .await;
    }

    /// The holds of its ledger.
    async fn reserved(&self) -> i64 {
        let ledger = self.client.ledger_key(0, &self.scope());
        self.client.run(&["HGET", &ledger, "reserved"]).await
    }

    /// Waits until the sweeper has expired all holds.
    async fn wait_until_all_expired(&self) {
        eventually("its holds return", || async {
            let reserved = self.reserved().await;
            (reserved == 0).then_some(()).ok_or(reserved)
        })
        .await;
    }

    /// Makes this many decisions; their references.
    async fn decide(&self, count: usize) -> Vec<EvidenceId> {
        let mut ids = Vec::new();
        for number in 0..count {
            let key = format!("decide-{number}");
            let decided = self.client.decide(&key, &self.scope(), 1).await;
            let id = decided.expect(200).text("/evidence/evidence_id").to_owned();
            ids.push(EvidenceId::parse(&id).expect("an id"));
        }
        ids
    }
}

/// Waits until the service has seen how full the master of a tenant is.
async fn sees(app: &TestApp, tenant: &Tenant, step: MemoryStep) {
    let partition = tenant.client.callers[0].partition;
    eventually("it is seen", || async {
        app.store.memory_step(partition) == step
    })
    .await;
}

/// The runtime plane, events and expiry of a tenant whose master has room.
async fn notices_nothing(app: &TestApp, tenant: &Tenant) {
    let (client, scope) = (&tenant.client, tenant.scope());
    let [one, two] = [
        tenant.hold("a", LONG_MS).await,
        tenant.hold("b", LONG_MS).await,
    ];
    tenant.hold("c", 1_000).await;
    client.commit(&one, "commit", 4).await.expect(200);
    client.release(&two, "release").await.expect(200);
    let event = client.post_event("event", &scope, 1, json!({})).await;
    event.expect(201);
    fund(app, &vec![tenant.name.clone(); 2]).await;
    tenant.wait_until_all_expired().await;
    tenant.gets(3).await;
}

/// Those of these envelopes that are not stored.
async fn lacking(app: &TestApp, ids: &[EvidenceId]) -> BTreeSet<String> {
    let found = app.store.envelopes_found(ids).await.expect("a reply");
    let found = ids
        .iter()
        .zip(found)
        .filter(|(_, found)| *found != Some(true));
    found.map(|(id, _)| id.as_str().to_owned()).collect()
}

/// Signs until all of these envelopes are stored.
async fn sign_all(app: &TestApp, signer: &mut Signer, ids: &[EvidenceId]) {
    for pass in 0.. {
        drop(signer.run_once(&leases()).await);
        let left = lacking(app, ids).await;
        if left.is_empty() {
            break;
        }
        assert!(pass < 300, "{left:?}");
        // Until it is time to sign again.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The operations that work on both masters while one of them is full.
async fn continues(is_first_full: bool) {
    let cluster = cluster();
    let app = TestApp::spawn_on(&cluster.url(), &[ON, LONG_REDIS_TIMEOUT].concat()).await;
    open(&app).await;
    // It has the rules for receivers, and the keys of all tenants.
    let first = place_of(&cluster, &app.store.keys().outbox(Partition::FIRST));
    let (full, other) = match is_first_full {
        true => (first, (first + 1) % 3),
        false => ((first + 1) % 3, first),
    };
    let names = names(&cluster, &app.store, 1).concat();
    let sick = Tenant::new(&app, &names[full]).await;
    let well = Tenant::new(&app, &names[other]).await;
    let (url, room) = (&app.redis_url, IN_FLIGHT_MAX);
    let running = RunningDispatcher::over_with(url, &app, 1, room, LONG_REDIS_TIMEOUT);
    let committed = sick.hold("a", LONG_MS).await;
    // It expires when there is no memory any more.
    sick.hold("b", 12_000).await;
    fund(&app, &vec![sick.name.clone(); 4]).await;
    sick.gets(1).await;

    block_in_place(|| fill(&cluster.masters[full], 150));
    sees(&app, &sick, MemoryStep::Refuse).await;
    let scope = sick.scope();
    let refused = sick.client.create("c", &scope, 1, json!({})).await;
    let refused = refused.refused(503, "INTERNAL_ERROR");
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(sick.reserved().await, 20, "none has expired yet");

    // Earlier events are delivered there, and holds can be committed or released.
    sick.gets(4).await;
    let commit = sick.client.commit(&committed, "commit", 4).await;
    commit.expect(200);
    sick.wait_until_all_expired().await;
    notices_nothing(&app, &well).await;

    // Envelopes lie anywhere: those whose master is full are stored when it has room.
    let (ids, mut signer) = (well.decide(24).await, signer(&app, ON));
    for _ in 0..3 {
        signer.run_once(&leases()).await.expect("two take it");
    }
    let is_on_full = |id: &&EvidenceId| {
        let key = app.store.keys().evidence(id.partition(), id.as_str());
        place_of(&cluster, &key) == full
    };
    let waiting = ids.iter().filter(is_on_full);
    let waiting: BTreeSet<String> = waiting.map(|id| id.as_str().to_owned()).collect();
    assert!(!waiting.is_empty() && waiting.len() < ids.len());
    assert_eq!(lacking(&app, &ids).await, waiting);
    let metrics = running.telemetry.render().expect("metrics");
    let has_failed = |line: &&str| line.contains(r#"passes_total{result="failed""#);
    let failed: Vec<_> = metrics.lines().filter(has_failed).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(sick.receiver.arrived().len(), 4, "its expiry waits");

    let unlimited = ["CONFIG", "SET", "maxmemory", "0"];
    block_in_place(|| cluster.masters[full].run::<()>(&unlimited));
    sees(&app, &sick, MemoryStep::Enough).await;
    sick.gets(5).await;
    sick.hold("c", LONG_MS).await;
    sign_all(&app, &mut signer, &ids).await;
    let arrived = [&sick, &well].map(|tenant| tenant.receiver.arrived().len());
    assert_eq!(arrived, [5, 3], "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_master_does_not_affect_tenants_of_the_others() {
    continues(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_master_of_the_first_partition_does_not_affect_tenants_of_the_others() {
    continues(true).await;
}
