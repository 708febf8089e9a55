//! Sealing audit chains: the chain is the same after crashes and with several sealers at once.

use std::sync::Arc;

use budget_authority::dispatcher::Tail;
use budget_authority::domain::audit::{GENESIS, StoredEntry};
use budget_authority::store::dispatcher::audit_chain::Chain;
use budget_authority::store::dispatcher::views::View;

use budget_authority::tools::verify::audit::verify_audit;
use serde_json::json;
use tokio::task::block_in_place;

use crate::admin::audit::logs::{list, members};
use crate::admin::http::TENANTS;
use crate::harness::app::TestApp;
use crate::harness::audit_chain::{LEASE, seal_everything, sealer};
use crate::harness::days::days_around;
use crate::harness::redis::RedisCluster;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::tenant_fixture::TenantFixture;

/// The chain, computed from the log.
pub(super) fn expected(tenant: &TenantFixture) -> (Vec<(String, String)>, String) {
    let (mut hash, mut seals) = (GENESIS.to_owned(), Vec::new());
    for (id, fields) in tenant.audit_log() {
        let entry = StoredEntry { id, fields };
        let number = entry.get("sequence").expect("a number").to_owned();
        seals.push((number, hash.clone()));
        hash = entry.hash(tenant.name(), &hash);
    }
    (seals, hash)
}

pub(super) async fn chain(tenant: &TenantFixture) -> Chain {
    let (store, partition) = (&tenant.store, tenant.partition());
    store
        .audit_chain(partition, tenant.name())
        .await
        .expect("a chain")
}

pub(super) async fn assert_sealed(tenant: &TenantFixture) {
    let (seals, hash) = expected(tenant);
    let chain = chain(tenant).await;
    assert_eq!(chain.sealed_sequence, seals.len() as u64);
    assert_eq!(chain.sealed_hash, hash);
    for (number, seal) in seals {
        let seals = tenant.seals_with(&number);
        let stored: String = tenant.redis().run(&["HGET", &seals, &number]);
        assert_eq!(stored, seal, "{number}");
    }
    let unsealed = tenant.store.keys().unsealed(tenant.partition());
    assert_eq!(tenant.redis().run::<i64>(&["SCARD", &unsealed]), 0);
}

/// Rows of the view, and members of its index by ids.
pub(super) fn rows(tenant: &TenantFixture) -> (i64, i64) {
    let keys = tenant.store.keys();
    let of_day = |day| [keys.view("audit", None, day), keys.view_ids("audit", day)];
    let counts = days_around(&tenant.store).map(|day| {
        let count = |index: String| tenant.redis().run::<i64>(&["ZCARD", &index]);
        of_day(day).map(count)
    });
    let sum = |index: usize| counts.iter().map(|of_day| of_day[index]).sum();
    (sum(0), sum(1))
}

#[tokio::test]
async fn each_entry_is_sealed_with_the_hash_of_the_one_before_it() {
    let tenant = TenantFixture::unaudited().await;
    tenant.record_failures(3).await;
    assert_eq!(tenant.seal().await.sealed, 3);
    assert_sealed(&tenant).await;
    // More than one pass takes.
    tenant.record_failures(250).await;
    assert_eq!(tenant.seal().await.sealed, 250);
    assert_sealed(&tenant).await;
    assert_eq!(
        rows(&tenant),
        (253, 2 * 253),
        "a request id and a trace id each"
    );
    assert_eq!(tenant.seal().await, Default::default());
}

#[tokio::test]
async fn after_a_kill_at_any_step_another_dispatcher_makes_the_same_chain() {
    let tenant = TenantFixture::unaudited().await;
    let store = &tenant.store;
    for killed_after in 0..4 {
        tenant.record_failures(3).await;
        let (sealer, lease) = (sealer(store), tenant.lease("d", LEASE).await);
        let before = chain(&tenant).await;
        let tail = sealer
            .tail(tenant.partition(), tenant.name(), &before)
            .await
            .expect("a tail");
        assert_eq!(tail.entries.len(), 3);
        if killed_after > 0 {
            sealer
                .add_to_view(tenant.partition(), tenant.name(), &tail)
                .await
                .expect("rows");
        }
        if killed_after > 1 {
            // Only the first of two calls.
            let first = Tail {
                entries: tail.entries[..1].to_vec(),
                missing: 0,
            };
            sealer
                .seal(lease, tenant.name(), &before, &first)
                .await
                .expect("sealed");
        }
        if killed_after > 2 {
            let after = chain(&tenant).await;
            let rest = Tail {
                entries: tail.entries[1..].to_vec(),
                missing: 0,
            };
            sealer
                .seal(lease, tenant.name(), &after, &rest)
                .await
                .expect("sealed");
        }
        tenant.seal().await;
        assert_sealed(&tenant).await;
        let all = 3 * (killed_after + 1);
        assert_eq!(rows(&tenant), (all, 2 * all));
        assert_eq!(tenant.audit_report().await.findings, []);
    }
}

#[tokio::test]
async fn concurrent_sealers_make_the_same_chain_and_a_former_owner_seals_nothing() {
    let tenant = TenantFixture::unaudited().await;
    let (store, former) = (tenant.store.clone(), tenant.lease("d", LEASE).await);
    tenant.record_failures(20).await;
    let both = Arc::new((sealer(&store), sealer(&store)));
    let leases = [former];
    let booking = tenant.record_failures(60);
    let sealing = async {
        for _ in 0..20 {
            let (one, other) = tokio::join!(
                both.0.run_once(&leases, |_| {}),
                both.1.run_once(&leases, |_| {})
            );
            assert_eq!(
                one.expect("a pass").failed + other.expect("a pass").failed,
                0
            );
        }
    };
    tokio::join!(booking, sealing);
    tenant.seal().await;
    assert_sealed(&tenant).await;

    tenant.record_failures(1).await;
    let lease_key = store.keys().lease(tenant.partition());
    tenant
        .redis()
        .run::<i64>(&["HINCRBY", &lease_key, "token", "1"]);
    let before = chain(&tenant).await;
    let tail = both
        .0
        .tail(tenant.partition(), tenant.name(), &before)
        .await
        .expect("a tail");
    let sealed = both.0.seal(former, tenant.name(), &before, &tail).await;
    assert!(sealed.expect("an answer").is_none());
    let mut lost = Vec::new();
    both.0
        .run_once(&[former], |lease| lost.push(lease))
        .await
        .expect("a pass");
    assert_eq!((lost.len(), chain(&tenant).await), (1, before));
}

#[tokio::test]
async fn a_chain_spans_days_even_if_the_clock_goes_back_over_midnight() {
    let tenant = TenantFixture::unaudited().await;
    let today = tenant.store.today();
    tenant.write_audit_entries(today.plus(-120), 2).await;
    tenant.seal().await;
    tenant.write_audit_entries(today.plus(-3), 150).await;
    tenant.record_failures(1).await;
    // Yesterday's log once more, by a clock that was wrong.
    tenant.write_audit_entries(today.plus(-1), 2).await;
    tenant.record_failures(2).await;
    let pass = tenant.seal().await;
    assert_eq!((pass.sealed, pass.missing, pass.failed), (155, 0, 0));
    let report = tenant.audit_report().await;
    assert_eq!(report.findings, []);
    assert_eq!(
        (report.chains[0].verified, report.chains[0].unsealed),
        (157, 0)
    );
    let seals = tenant.seals_with("last");
    let head: String = tenant.redis().run(&["HGET", &seals, "last"]);
    assert_eq!(head, format!("157 {}", report.chains[0].sealed_hash));
}

#[tokio::test]
async fn the_watermark_is_the_time_at_which_all_entries_were_sealed() {
    let tenant = TenantFixture::unaudited().await;
    let store = &tenant.store;
    tenant.record_failures(2).await;
    assert_eq!(store.watermark(View::Audit).await.expect("an answer"), 0);
    tenant.seal().await;
    let key = store.keys().watermarks("audit");
    let times: Vec<String> = tenant.redis().run(&["HKEYS", &key]);
    let reached = times.iter().find_map(|time| time.parse().ok());
    let reached: i64 = reached.expect("a time");
    let now_ms = store.node_times().await.expect("times")[0].1;
    assert!(
        reached <= now_ms && reached > now_ms - 10_000,
        "{reached} {now_ms}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_the_chains_of_all_masters_are_sealed_listed_and_verified() {
    let cluster = block_in_place(RedisCluster::start);
    let app = TestApp::spawn_on(&cluster.url(), LONG_REDIS_TIMEOUT).await;
    let tenants: Vec<String> = (0..6).map(|number| format!("tenant-{number}")).collect();
    for tenant in &tenants {
        let body = json!({"tenant_id": tenant, "name": tenant});
        app.post_as_admin(TENANTS, body).await.expect(201);
    }
    let store = &app.store;
    seal_everything(store).await;
    let mut listed = members(&list(&app, "operation=createTenant").await, "tenant_id");
    listed.sort();
    assert_eq!(listed, tenants);
    let report = verify_audit(store, &[], |_| {})
        .await
        .expect("the masters answer");
    assert_eq!((report.chains.len(), report.findings), (6, vec![]));
    assert!(report.chains.iter().all(|row| row.verified == 1));
}
