//! Audit chains that cannot be sealed: the fault is counted, and delays no other chain.

use crate::harness::audit_chain::{LEASE, every_lease, sealer, sealer_counting};
use crate::harness::days::days_around;
use crate::harness::tenant_fixture::TenantFixture;
use budget_authority::store::dispatcher::views::View;
use prometheus::{Registry, TextEncoder};

use super::seals::{assert_sealed, rows};

#[tokio::test]
async fn a_gap_is_reported_and_does_not_stop_the_chain() {
    let tenant = TenantFixture::unaudited().await;
    tenant.record_failures(3).await;
    tenant.drop_entry(&tenant.audit_log()[1].0);
    let pass = tenant.seal().await;
    assert_eq!((pass.sealed, pass.missing), (2, 1));
    let found = tenant.audit_report().await.findings;
    assert_eq!(
        (found.len(), found[0].kind, found[0].sequence),
        (1, "dropped", Some(2))
    );
    // The last entries are gone before they were sealed: nothing can be sealed, and other chains are not delayed.
    tenant.record_failures(1).await;
    let last = tenant.audit_log().pop().expect("an entry");
    tenant.drop_entry(&last.0);
    assert_eq!(tenant.seal().await.sealed, 0);
    tenant.record_failures(1).await;
    assert_eq!(tenant.seal().await.sealed, 1);
    assert_eq!(tenant.audit_report().await.findings.len(), 2);
}

#[tokio::test]
async fn an_unsealable_chain_is_reported_and_delays_no_other() {
    let tenant = TenantFixture::unaudited().await;
    let (store, partition) = (&tenant.store, tenant.partition());
    tenant.record_failures(1).await;
    let seals = tenant.seals_keys();
    for of_day in &seals {
        tenant.redis().run::<()>(&["SET", of_day, "no hash"]);
    }
    let other = "__admin__";
    let log = store.keys().audit(partition, other, store.today());
    let now = store.clock().now_ms().to_string();
    tenant.redis().run::<i64>(&[
        "HSET",
        &store.keys().chain(partition, other),
        "sequence",
        "1",
    ]);
    tenant
        .redis()
        .run::<String>(&["XADD", &log, "*", "sequence", "1", "at_ms", &now]);
    tenant
        .redis()
        .run::<i64>(&["SADD", &store.keys().unsealed(partition), other]);
    let pass = tenant.seal().await;
    assert_eq!((pass.sealed, pass.failed), (1, 1));
    let members: Vec<String> = tenant
        .redis()
        .run(&["SMEMBERS", &store.keys().unsealed(partition)]);
    assert_eq!(members, [tenant.name()]);
    for of_day in &seals {
        tenant.redis().run::<i64>(&["DEL", of_day]);
    }
    tenant.seal().await;
    assert_sealed(&tenant).await;
}

#[tokio::test]
async fn a_failing_index_holds_the_watermark_back_until_it_is_repaired() {
    let tenant = TenantFixture::unaudited().await;
    let store = &tenant.store;
    let (sealer, leases) = (sealer(store), every_lease(store).await);
    let pass = async || {
        let pass = sealer.run_once(&leases, |_| {}).await;
        pass.expect("Redis answers")
    };
    pass().await;
    let whole = store.watermark(View::Audit).await.expect("an answer");
    assert!(whole > 0);
    let indexes = days_around(store).map(|day| store.keys().view("audit", None, day));
    for index in &indexes {
        tenant.redis().run::<()>(&["SET", index, "x"]);
    }
    tenant.record_failures(1).await;
    for _ in 0..2 {
        pass().await;
        let still = store.watermark(View::Audit).await.expect("an answer");
        assert_eq!(still, whole, "an entry is missing before it");
    }
    for index in &indexes {
        tenant.redis().run::<i64>(&["DEL", index]);
    }
    tenant.seal().await;
    assert_sealed(&tenant).await;
    assert_eq!(rows(&tenant).0, 1);
}

#[tokio::test]
async fn a_postponed_chain_stays_in_the_lag() {
    let tenant = TenantFixture::unaudited().await;
    tenant.record_failures(1).await;
    for seals in tenant.seals_keys() {
        tenant.redis().run::<()>(&["SET", &seals, "no hash"]);
    }
    let registry = Registry::new();
    let sealer = sealer_counting(&tenant.store, &registry);
    let lease = tenant.lease("d", LEASE).await;
    for failed in [1, 0, 0] {
        tenant.until_ms(tenant.now_ms().await + 30).await;
        let pass = sealer.run_once(&[lease], |_| {}).await;
        assert_eq!(pass.expect("Redis answers").failed, failed);
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.expect("metrics");
        let mut lines = text.lines();
        let lag = lines.find_map(|line| line.strip_prefix("budget_audit_seal_lag_seconds "));
        let lag: f64 = lag.expect("a metric").parse().expect("a number");
        assert!(lag >= 0.03, "{lag}");
    }
}

#[tokio::test]
async fn a_chain_with_an_unreadable_state_is_postponed() {
    let tenant = TenantFixture::unaudited().await;
    tenant.record_failures(1).await;
    for damage in ["some", "-1"] {
        tenant
            .redis()
            .run::<i64>(&["HSET", &tenant.chain_key(), "sealed_sequence", damage]);
        let store = &tenant.store;
        let pass = sealer(store)
            .run_once(&[tenant.lease("d", LEASE).await], |_| {})
            .await
            .expect("Redis answers");
        assert_eq!((pass.failed, pass.more), (1, false), "{damage}");
    }
}

#[tokio::test]
async fn a_chain_with_an_unreadable_sequence_is_postponed_unsealed() {
    let tenant = TenantFixture::unaudited().await;
    tenant.record_failures(2).await;
    tenant
        .redis()
        .run::<i64>(&["HSET", &tenant.chain_key(), "sequence", "some"]);
    let store = &tenant.store;
    let pass = sealer(store)
        .run_once(&[tenant.lease("d", LEASE).await], |_| {})
        .await
        .expect("Redis answers");
    assert_eq!((pass.failed, pass.more), (1, false));
    let sealed: Option<String> =
        tenant
            .redis()
            .run(&["HGET", &tenant.chain_key(), "sealed_sequence"]);
    assert_eq!(sealed, None);
    for seals in tenant.seals_keys() {
        assert_eq!(tenant.redis().run::<i64>(&["EXISTS", &seals]), 0);
    }
}

#[tokio::test]
async fn a_chain_that_was_reset_is_not_sealed_again() {
    let tenant = TenantFixture::unaudited().await;
    tenant.record_failures(3).await;
    tenant.seal().await;
    let seals = tenant.seals_with("2");
    let seal: String = tenant.redis().run(&["HGET", &seals, "2"]);
    tenant.redis().run::<i64>(&[
        "HSET",
        &tenant.chain_key(),
        "sealed_sequence",
        "1",
        "sealed_hash",
        &seal,
    ]);
    let unsealed = tenant.store.keys().unsealed(tenant.partition());
    tenant
        .redis()
        .run::<i64>(&["SADD", &unsealed, tenant.name()]);
    assert_eq!(tenant.seal().await.failed, 1);
    let found = tenant.audit_report().await.findings;
    assert!(
        found
            .iter()
            .any(|found| found.detail.contains("it has a seal")),
        "{found:?}"
    );
}
