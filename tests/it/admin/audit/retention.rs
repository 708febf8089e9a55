//! Retention deletes old audit logs, and their chain still verifies.

use budget_authority::store::Day;

use crate::dispatcher::retention::{retention, run};
use crate::harness::audit_chain::LEASE;
use crate::harness::past_day::PastDay;
use crate::harness::redis::shared;
use crate::harness::store;
use crate::harness::tenant_fixture::TenantFixture;

const DAY_MS: i64 = 86_400_000;

/// Not sealed; sealed in part; an older entry is still there; and the same much later, when it is missing.
#[tokio::test]
async fn audit_logs_are_deleted_only_when_sealed_and_oldest_first() {
    let store = store(&shared().url());
    for (days_ago, last_sealed, anchor, gone) in [
        (403, None, 40, 0),
        (403, Some(41), 40, 0),
        (403, Some(42), 39, 0),
        (403, Some(42), 40, 2),
        (410, Some(42), 39, 2),
        (410, None, 40, 0),
    ] {
        let mut past = PastDay::new(&store, days_ago).await;
        let (keys, partition) = (store.keys().clone(), past.lease.partition);
        let audit = keys.audit(partition, "acme", past.day);
        let (chain, seals) = (
            keys.chain(partition, "acme"),
            keys.seals(partition, "acme", past.day),
        );
        past.tenant
            .run::<i64>(&["DEL", &audit, &chain, &seals])
            .await;
        for sequence in ["41", "42"] {
            past.tenant
                .queue(&["XADD", &audit, "*", "sequence", sequence, "at_ms", "1"]);
        }
        past.tenant
            .queue(&["HSET", &chain, "anchor_sequence", &anchor.to_string()]);
        if let Some(sequence) = last_sealed {
            let last = format!("{sequence} abc");
            past.tenant.queue(&["HSET", &seals, "last", &last]);
        }
        let (days, member) = (keys.days(partition), past.member());
        past.tenant.queue(&["ZADD", &days, "1", &member]);
        past.tenant.write().await;
        let pass = run(&retention(&store), past.lease).await;
        let what = format!("{days_ago} days ago, sealed {last_sealed:?}, anchor {anchor}");
        assert_eq!(pass.audit, gone, "{what}");
        let again_ms = past.look_again_at().await;
        let in_an_hour =
            again_ms.is_some_and(|at| at > past.now_ms && at < past.now_ms + 4_000_000);
        assert_eq!(in_an_hour, gone == 0, "{what}: {again_ms:?}");
    }
}

#[tokio::test]
async fn audit_entries_of_unknown_callers_are_deleted_after_thirty_days_with_their_rows_in_the_view()
 {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 32).await;
    let (keys, partition) = (store.keys(), past.lease.partition);
    let days = keys.days(partition);
    for name in ["__unauth__", "__admin__"] {
        let log = keys.audit(partition, name, past.day);
        past.tenant
            .run::<String>(&["XADD", &log, "*", "sequence", "1"])
            .await;
        let seals = keys.seals(partition, name, past.day);
        past.tenant
            .run::<i64>(&["HSET", &seals, "last", "1 abc"])
            .await;
        past.tenant
            .run::<i64>(&["ZADD", &days, "1", &format!("{name}:{}", past.day)])
            .await;
    }
    let (rows, ids) = (
        keys.view_rows("audit", past.day),
        keys.view_ids("audit", past.day),
    );
    let of_kind = keys.view_rows_of_kind("audit", "__unauth__", past.day);
    // More than one command looks at.
    for number in 0..500 {
        for name in ["__unauth__", "__admin__"] {
            let row = format!("000 {number:013}-00000 {name}");
            past.tenant.queue(&["ZADD", &rows, "1", &row]);
            let of_id = format!("r{number} 0000000000001 {row}");
            past.tenant.queue(&["ZADD", &ids, "0", &of_id]);
        }
    }
    past.tenant.queue(&["ZADD", &of_kind, "1", "a row"]);
    past.tenant.write().await;
    let pass = run(&retention(&store), past.lease).await;
    assert_eq!((pass.processed, pass.audit, pass.days), (2, 1, 1));
    for key in [&rows, &ids] {
        let left: Vec<String> = past.tenant.run(&["ZRANGE", key, "0", "-1"]).await;
        assert_eq!(left.len(), 500);
        assert!(
            left.iter().all(|row| row.ends_with(" __admin__")),
            "{left:?}"
        );
    }
    assert!(!past.exists(&of_kind).await);
    assert!(
        !past
            .exists(&keys.audit(partition, "__unauth__", past.day))
            .await
    );
    assert!(
        past.exists(&keys.audit(partition, "__admin__", past.day))
            .await
    );
}

#[tokio::test]
async fn a_chain_is_verified_from_its_anchor() {
    let tenant = TenantFixture::unaudited().await;
    let now_ms = tenant.store.clock().now_ms();
    // Two days that are over, and one that is not.
    for (days_ago, entries) in [(450, 3), (402, 2), (1, 2)] {
        let day = Day::of_ms(now_ms - days_ago * DAY_MS);
        tenant.write_audit_entries(day, entries).await;
    }
    tenant.record_failures(2).await;
    tenant.seal().await;
    let before = tenant.audit_report().await;
    assert_eq!((before.findings.len(), before.chains[0].verified), (0, 9));

    let pass = run(&retention(&tenant.store), tenant.lease("d", LEASE).await).await;
    assert_eq!(pass.audit, 5);
    let after = tenant.audit_report().await;
    assert_eq!(after.findings, []);
    let row = &after.chains[0];
    assert_eq!((row.anchor_sequence, row.verified), (5, 4));
    assert_eq!(row.sealed_hash, before.chains[0].sealed_hash);

    // An anchor that was moved, or whose hash was changed, is found.
    let chain = tenant.chain_key();
    for (field, value, kind) in [
        ("anchor_hash", "00", "seal"),
        ("anchor_sequence", "6", "seal"),
        ("anchor_sequence", "4", "dropped"),
        ("anchor_dropped", "4", "seal"),
    ] {
        let kept: String = tenant.redis().run(&["HGET", &chain, field]);
        tenant.redis().run::<i64>(&["HSET", &chain, field, value]);
        let found = tenant.audit_report().await.findings;
        let kinds: Vec<_> = found.iter().map(|found| found.kind).collect();
        assert!(kinds.contains(&kind), "{field}: {found:?}");
        tenant.redis().run::<i64>(&["HSET", &chain, field, &kept]);
    }
    assert_eq!(tenant.audit_report().await.findings, []);
}
