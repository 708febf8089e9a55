//! Sealing audit chains: however often whoever does it dies, and however many do it at once, the chain is the same.

use std::sync::Arc;
use std::time::Duration;

use budget_authority::dispatcher::Tail;
use budget_authority::domain::audit::{GENESIS, StoredEntry};
use budget_authority::store::Day;
use budget_authority::store::dispatcher::audit_chain::{Chain, Sealed};
use budget_authority::store::dispatcher::views::View;

use budget_authority::tools::verify::audit::verify_audit;
use prometheus::{Registry, TextEncoder};
use serde_json::json;
use tokio::task::block_in_place;

use crate::admin::audit::logs::{list, members};
use crate::admin::http::{TENANTS, post};
use crate::harness::app::TestApp;
use crate::harness::redis::RedisCluster;
use crate::harness::trail::{Trail, every_lease, seal_everything, sealer, sealer_counting};

/// The chain as anybody can compute it from the log.
fn expected(trail: &Trail) -> (Vec<(String, String)>, String) {
    let log: Vec<(String, Vec<String>)> = trail.redis(&["XRANGE", &trail.log_key(), "-", "+"]);
    let (mut hash, mut seals) = (GENESIS.to_owned(), Vec::new());
    for (id, fields) in log {
        let entry = StoredEntry { id, fields };
        let number = entry.get("sequence").expect("a number").to_owned();
        seals.push((number, hash.clone()));
        hash = entry.hash(trail.tenant, &hash);
    }
    (seals, hash)
}

async fn chain(trail: &Trail) -> Chain {
    let (store, partition) = (&trail.desk.store, trail.partition());
    store
        .audit_chain(partition, trail.tenant)
        .await
        .expect("a chain")
}

async fn assert_sealed(trail: &Trail) {
    let (seals, hash) = expected(trail);
    let chain = chain(trail).await;
    assert_eq!(chain.sealed_sequence, seals.len() as u64);
    assert_eq!(chain.sealed_hash, hash);
    for (number, seal) in seals {
        let stored: String = trail.redis(&["HGET", &trail.seals_key(), &number]);
        assert_eq!(stored, seal, "{number}");
    }
    let unsealed = trail.desk.store.keys().unsealed(trail.partition());
    assert_eq!(trail.redis::<i64>(&["SCARD", &unsealed]), 0);
}

/// Rows of the view of today, and members of its index by ids.
fn rows(trail: &Trail) -> (i64, i64) {
    let (store, today) = (&trail.desk.store, trail.desk.store.today());
    let (view, ids) = (
        store.keys().view("audit", None, today),
        store.keys().view_ids("audit", today),
    );
    (
        trail.redis(&["ZCARD", &view]),
        trail.redis(&["ZCARD", &ids]),
    )
}

#[tokio::test]
async fn each_entry_is_sealed_with_the_hash_of_the_one_before_it() {
    let trail = Trail::new().await;
    trail.book(3).await;
    assert_eq!(trail.seal().await.sealed, 3);
    assert_sealed(&trail).await;
    // More than a turn takes.
    trail.book(250).await;
    assert_eq!(trail.seal().await.sealed, 250);
    assert_sealed(&trail).await;
    assert_eq!(
        rows(&trail),
        (253, 2 * 253),
        "a request id and a trace id each"
    );
    assert_eq!(trail.seal().await, Default::default());
}

#[tokio::test]
async fn killed_after_any_step_another_comes_to_the_same_chain() {
    let trail = Trail::new().await;
    let store = &trail.desk.store;
    for killed_after in 0..4 {
        trail.book(3).await;
        let (sealer, lease) = (sealer(store), trail.lease().await);
        let before = chain(&trail).await;
        let tail = sealer
            .tail(trail.partition(), trail.tenant, &before)
            .await
            .expect("a tail");
        assert_eq!(tail.entries.len(), 3);
        if killed_after > 0 {
            sealer
                .add_to_view(trail.partition(), trail.tenant, &tail)
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
                .seal(lease, trail.tenant, &before, &first)
                .await
                .expect("sealed");
        }
        if killed_after > 2 {
            let after = chain(&trail).await;
            let rest = Tail {
                entries: tail.entries[1..].to_vec(),
                missing: 0,
            };
            sealer
                .seal(lease, trail.tenant, &after, &rest)
                .await
                .expect("sealed");
        }
        trail.seal().await;
        assert_sealed(&trail).await;
        let all = 3 * (killed_after + 1);
        assert_eq!(rows(&trail), (all, 2 * all));
        assert_eq!(trail.report().await.findings, []);
    }
}

#[tokio::test]
async fn two_at_once_come_to_the_same_chain_and_a_former_owner_seals_nothing() {
    let trail = Trail::new().await;
    let (store, former) = (trail.desk.store.clone(), trail.lease().await);
    trail.book(20).await;
    let both = Arc::new((sealer(&store), sealer(&store)));
    let leases = [former];
    let booking = trail.book(60);
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
    trail.seal().await;
    assert_sealed(&trail).await;

    trail.book(1).await;
    let lease_key = store.keys().lease(trail.partition());
    trail.redis::<i64>(&["HINCRBY", &lease_key, "token", "1"]);
    let before = chain(&trail).await;
    let tail = both
        .0
        .tail(trail.partition(), trail.tenant, &before)
        .await
        .expect("a tail");
    let sealed = both.0.seal(former, trail.tenant, &before, &tail).await;
    assert_eq!(sealed.expect("an answer"), Sealed::Fenced);
    let mut lost = Vec::new();
    both.0
        .run_once(&[former], |lease| lost.push(lease))
        .await
        .expect("a pass");
    assert_eq!((lost.len(), chain(&trail).await), (1, before));
}

#[tokio::test]
async fn entries_of_several_days_are_one_chain_also_where_the_clock_went_back_over_midnight() {
    let trail = Trail::new().await;
    let today = trail.desk.store.today();
    trail.entries_of(today.plus(-120), 2).await;
    trail.seal().await;
    trail.entries_of(today.plus(-3), 150).await;
    trail.book(1).await;
    // Yesterday's log once more, by a clock that was wrong.
    trail.entries_of(today.plus(-1), 2).await;
    trail.book(2).await;
    let pass = trail.seal().await;
    assert_eq!((pass.sealed, pass.missing, pass.failed), (155, 0, 0));
    let report = trail.report().await;
    assert_eq!(report.findings, []);
    assert_eq!(
        (report.chains[0].verified, report.chains[0].unsealed),
        (157, 0)
    );
    let head: String = trail.redis(&["HGET", &trail.seals_key(), "last"]);
    assert_eq!(head, format!("157 {}", report.chains[0].sealed_hash));
}

#[tokio::test]
async fn a_gap_is_told_and_does_not_stop_the_chain() {
    let trail = Trail::new().await;
    trail.book(3).await;
    let log: Vec<(String, Vec<String>)> = trail.redis(&["XRANGE", &trail.log_key(), "-", "+"]);
    trail.redis::<i64>(&["XDEL", &trail.log_key(), &log[1].0]);
    let pass = trail.seal().await;
    assert_eq!((pass.sealed, pass.missing), (2, 1));
    let found = trail.report().await.findings;
    assert_eq!(
        (found.len(), found[0].kind, found[0].sequence),
        (1, "dropped", Some(2))
    );
    // The last ones gone before they were sealed: nothing can be sealed, and others are not kept waiting.
    trail.book(1).await;
    let last: Vec<(String, Vec<String>)> =
        trail.redis(&["XREVRANGE", &trail.log_key(), "+", "-", "COUNT", "1"]);
    trail.redis::<i64>(&["XDEL", &trail.log_key(), &last[0].0]);
    assert_eq!(trail.seal().await.sealed, 0);
    trail.book(1).await;
    assert_eq!(trail.seal().await.sealed, 1);
    assert_eq!(trail.report().await.findings.len(), 2);
}

#[tokio::test]
async fn what_cannot_be_sealed_keeps_no_other_waiting_and_is_told() {
    let trail = Trail::new().await;
    let (store, partition) = (&trail.desk.store, trail.partition());
    trail.book(1).await;
    let seals = store.keys().seals(partition, trail.tenant, store.today());
    trail.redis::<()>(&["SET", &seals, "no hash"]);
    let other = "__admin__";
    let log = store.keys().audit(partition, other, store.today());
    let now = store.clock().now_ms().to_string();
    trail.redis::<i64>(&[
        "HSET",
        &store.keys().chain(partition, other),
        "sequence",
        "1",
    ]);
    trail.redis::<String>(&["XADD", &log, "*", "sequence", "1", "at_ms", &now]);
    trail.redis::<i64>(&["SADD", &store.keys().unsealed(partition), other]);
    let pass = trail.seal().await;
    assert_eq!((pass.sealed, pass.failed), (1, 1));
    let members: Vec<String> = trail.redis(&["SMEMBERS", &store.keys().unsealed(partition)]);
    assert_eq!(members, [trail.tenant]);
    trail.redis::<i64>(&["DEL", &seals]);
    trail.seal().await;
    assert_sealed(&trail).await;
}

#[tokio::test]
async fn what_the_view_cannot_take_holds_it_back_until_it_can() {
    let trail = Trail::new().await;
    let store = &trail.desk.store;
    let (sealer, leases) = (sealer(store), every_lease(store).await);
    let pass = async || {
        let pass = sealer.run_once(&leases, |_| {}).await;
        pass.expect("Redis answers")
    };
    pass().await;
    let whole = store.watermark(View::Audit).await.expect("an answer");
    assert!(whole > 0);
    let now_ms = store.node_times().await.expect("times")[0].1;
    let index = store.keys().view("audit", None, Day::of_ms(now_ms));
    trail.redis::<()>(&["SET", &index, "x"]);
    trail.book(1).await;
    for _ in 0..2 {
        pass().await;
        let still = store.watermark(View::Audit).await.expect("an answer");
        assert_eq!(still, whole, "an entry is missing before it");
    }
    trail.redis::<i64>(&["DEL", &index]);
    trail.seal().await;
    assert_sealed(&trail).await;
    assert_eq!(trail.redis::<usize>(&["ZCARD", &index]), 1);
}

#[tokio::test]
async fn a_chain_that_is_put_off_stays_in_the_lag() {
    let trail = Trail::new().await;
    trail.book(1).await;
    trail.redis::<()>(&["SET", &trail.seals_key(), "no hash"]);
    let registry = Registry::new();
    let sealer = sealer_counting(&trail.desk.store, &registry);
    let lease = trail.lease().await;
    for failed in [1, 0, 0] {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let pass = sealer.run_once(&[lease], |_| {}).await;
        assert_eq!(pass.expect("Redis answers").failed, failed);
        let told = TextEncoder::new().encode_to_string(&registry.gather());
        let told = told.expect("metrics");
        let mut lines = told.lines();
        let lag = lines.find_map(|line| line.strip_prefix("budget_audit_seal_lag_seconds "));
        let lag: f64 = lag.expect("a metric").parse().expect("a number");
        assert!(lag >= 0.03, "{lag}");
    }
}

#[tokio::test]
async fn a_chain_whose_state_cannot_be_read_is_put_off() {
    let trail = Trail::new().await;
    trail.book(1).await;
    for damage in ["some", "-1"] {
        trail.redis::<i64>(&["HSET", &trail.chain_key(), "sealed_sequence", damage]);
        let store = &trail.desk.store;
        let pass = sealer(store)
            .run_once(&[trail.lease().await], |_| {})
            .await
            .expect("Redis answers");
        assert_eq!((pass.failed, pass.more), (1, false), "{damage}");
    }
}

#[tokio::test]
async fn a_chain_whose_number_cannot_be_read_is_put_off_and_nothing_of_it_sealed() {
    let trail = Trail::new().await;
    trail.book(2).await;
    trail.redis::<i64>(&["HSET", &trail.chain_key(), "sequence", "some"]);
    let store = &trail.desk.store;
    let pass = sealer(store)
        .run_once(&[trail.lease().await], |_| {})
        .await
        .expect("Redis answers");
    assert_eq!((pass.failed, pass.more), (1, false));
    let sealed: Option<String> = trail.redis(&["HGET", &trail.chain_key(), "sealed_sequence"]);
    assert_eq!(sealed, None);
    assert_eq!(trail.redis::<i64>(&["EXISTS", &trail.seals_key()]), 0);
}

#[tokio::test]
async fn a_chain_that_was_turned_back_is_not_sealed_anew() {
    let trail = Trail::new().await;
    trail.book(3).await;
    trail.seal().await;
    let seal: String = trail.redis(&["HGET", &trail.seals_key(), "2"]);
    trail.redis::<i64>(&[
        "HSET",
        &trail.chain_key(),
        "sealed_sequence",
        "1",
        "sealed_hash",
        &seal,
    ]);
    let unsealed = trail.desk.store.keys().unsealed(trail.partition());
    trail.redis::<i64>(&["SADD", &unsealed, trail.tenant]);
    assert_eq!(trail.seal().await.failed, 1);
    let found = trail.report().await.findings;
    assert!(
        found
            .iter()
            .any(|found| found.detail.contains("it has a seal")),
        "{found:?}"
    );
}

#[tokio::test]
async fn the_view_is_whole_up_to_the_clock_at_which_nothing_more_was_found() {
    let trail = Trail::new().await;
    let store = &trail.desk.store;
    trail.book(2).await;
    assert_eq!(store.watermark(View::Audit).await.expect("an answer"), 0);
    trail.seal().await;
    let key = store.keys().watermarks("audit");
    let times: Vec<String> = trail.redis(&["HKEYS", &key]);
    let reached = times.iter().find_map(|time| time.parse().ok());
    let reached: i64 = reached.expect("a time");
    let now_ms = store.node_times().await.expect("times")[0].1;
    assert!(
        reached <= now_ms && reached > now_ms - 10_000,
        "{reached} {now_ms}"
    );
    assert_eq!(Day::of_ms(reached), store.today());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_the_chains_of_all_masters_are_sealed_shown_and_proved() {
    let cluster = block_in_place(RedisCluster::start);
    let app = TestApp::spawn_on(&cluster.url(), &[]).await;
    let tenants: Vec<String> = (0..6).map(|number| format!("tenant-{number}")).collect();
    for tenant in &tenants {
        let body = json!({"tenant_id": tenant, "name": tenant});
        assert_eq!(post(&app, TENANTS, body).await.status, 201);
    }
    let store = &app.world.store;
    seal_everything(store).await;
    let mut shown = members(&list(&app, "operation=createTenant").await, "tenant_id");
    shown.sort();
    assert_eq!(shown, tenants);
    let report = verify_audit(store, &[], |_| {})
        .await
        .expect("the masters answer");
    assert_eq!((report.chains.len(), report.findings), (6, vec![]));
    assert!(report.chains.iter().all(|row| row.verified == 1));
}
