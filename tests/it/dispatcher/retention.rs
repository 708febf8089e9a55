//! Retention deletes what is old enough, and nothing else; the ledgers can still be recomputed.

use std::time::Duration;

use budget_authority::config::RetentionConfig;
use budget_authority::dispatcher::retention::{Retention, RetentionMetrics, RetentionPass};
use budget_authority::dispatcher::sweep::{ClockMetrics, ClockWatch};
use budget_authority::domain::ids::Partition;
use budget_authority::store::{Day, Lease, Store};
use budget_authority::tools::verify::verify;

use crate::harness::past_day::{End, PastDay};
use crate::harness::redis::shared;
use crate::harness::store;

const DAY: Duration = Duration::from_secs(86_400);
const DAY_MS: i64 = 86_400_000;

pub fn retention(store: &Store) -> Retention {
    retention_after(store, DAY * 30)
}

pub(crate) fn retention_after(store: &Store, records: Duration) -> Retention {
    let registry = prometheus::Registry::new();
    let clock = ClockWatch::new(ClockMetrics::register(&registry).expect("a fresh registry"));
    let metrics = RetentionMetrics::register(&registry).expect("a fresh registry");
    let periods = RetentionConfig {
        reservations: records,
        events: DAY * 90,
        audit: DAY * 400,
        usage_days: 40,
        usage_months: 24,
    };
    Retention::new(store.clone(), clock, periods, metrics)
}

/// Passes until nothing due is left; returns the sum.
pub async fn run(retention: &Retention, lease: Lease) -> RetentionPass {
    let mut sum = RetentionPass::default();
    loop {
        let pass = retention
            .run_once(&[lease], |_| {})
            .await
            .expect("Redis answers");
        sum.processed += pass.processed;
        sum.reservations += pass.reservations;
        sum.usage_events += pass.usage_events;
        sum.events += pass.events;
        sum.audit += pass.audit;
        sum.outbox += pass.outbox;
        sum.idempotency += pass.idempotency;
        sum.days += pass.days;
        sum.failed += pass.failed;
        if !pass.more {
            return sum;
        }
    }
}

#[tokio::test]
async fn old_records_are_purged_and_their_charges_stay_in_the_ledgers_base() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 40).await;
    let long_ago = past.day.start_ms() + 3_600_000;
    let mut gone = Vec::new();
    for number in 0..120 {
        let end = match number % 4 {
            0 => End::Committed {
                charged: 100 + number,
                debt: 0,
            },
            1 => End::Committed {
                charged: 50,
                debt: 20,
            },
            2 => End::Released,
            _ => End::Expired,
        };
        gone.push(past.record(end, long_ago).await);
    }
    let recent_ms = past.now_ms - 10 * DAY_MS;
    let recent = past
        .record(
            End::Committed {
                charged: 7,
                debt: 0,
            },
            recent_ms,
        )
        .await;
    let active = past.record(End::Active, 0).await;

    let pass = run(&retention(&store), past.lease).await;
    assert_eq!((pass.reservations, pass.days, pass.failed), (120, 0, 0));
    let sum: i64 = (0..120).step_by(4).map(|number| 100 + number).sum();
    assert_eq!(past.base().await, (sum + 30 * 30, 30 * 20));
    assert!(!past.exists(&past.tenant.reservation_key(&gone[0])).await);
    for kept in [&recent, &active] {
        assert!(past.exists(&past.tenant.reservation_key(kept)).await);
    }
    let rows: i64 = past.tenant.run(&["ZCARD", &past.index()]).await;
    assert_eq!(rows, 2);
    // Whatever was deleted, the ledgers still add up.
    let ledger = past.tenant.ledger_key();
    past.tenant
        .run::<i64>(&[
            "HSET",
            &ledger,
            "reserved",
            "10",
            "allocated",
            "0",
            "overdraft_limit",
            "0",
        ])
        .await;
    let [_, reserved, spent, debt, _] = past.figures().await;
    past.tenant
        .run::<i64>(&[
            "HSET",
            &ledger,
            "remaining",
            &(-reserved - spent - debt).to_string(),
        ])
        .await;
    let entry = "tenant:acme 1 TOKENS";
    past.tenant
        .run::<i64>(&[
            "ZADD",
            &store.keys().budgets(past.lease.partition, "acme"),
            "0",
            entry,
        ])
        .await;
    let report = verify(&store, None, |_| {}).await.expect("Redis answers");
    let ledgers: Vec<_> = report
        .differences
        .iter()
        .filter(|found| found.what == "ledger")
        .collect();
    assert!(ledgers.is_empty(), "{ledgers:?}");
    // The active one is examined daily; the other is due only in 20 days.
    let again = past.look_again_at().await.expect("still registered");
    assert!(
        (again - past.now_ms - DAY_MS).abs() < 60_000,
        "{}",
        again - past.now_ms
    );
    assert_eq!(run(&retention(&store), past.lease).await.processed, 0);
}

#[tokio::test]
async fn what_was_refunded_is_not_in_the_base() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 40).await;
    let ended_ms = past.day.start_ms() + 3_600_000;
    let charged = End::Committed {
        charged: 50,
        debt: 20,
    };
    let id = past.record(charged, ended_ms).await;
    let key = past.tenant.reservation_key(&id);
    let refunds = format!("{ended_ms} 15 1:0:15\n{ended_ms} 9 1:4:5");
    past.tenant
        .run::<i64>(&["HSET", &key, "refunded", "24", "refunds", &refunds])
        .await;
    run(&retention(&store), past.lease).await;
    assert!(!past.exists(&key).await);
    assert_eq!(past.base().await, (26, 0));
}

#[tokio::test]
async fn a_usage_event_is_idempotent_for_at_least_a_week() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 5).await;
    past.record(End::Released, past.day.start_ms() + 1).await;
    let post = past.post().await;
    let retention = retention_after(&store, DAY);
    let pass = run(&retention, past.lease).await;
    assert_eq!(
        (pass.reservations, pass.usage_events, pass.failed),
        (1, 0, 0)
    );
    assert!(past.exists(&post).await);
    let again = past.look_again_at().await.expect("still registered");
    let over = past.day.start_ms() + 7 * DAY_MS;
    assert!((again - over).abs() < DAY_MS / 2, "{}", again - over);

    let mut past = PastDay::new(&store, 9).await;
    let post = past.post().await;
    assert_eq!(run(&retention, past.lease).await.usage_events, 1);
    assert!(!past.exists(&post).await);
}

#[tokio::test]
async fn an_empty_day_is_unregistered() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 40).await;
    past.record(End::Released, past.day.start_ms() + 1).await;
    let pass = run(&retention(&store), past.lease).await;
    assert_eq!((pass.reservations, pass.days), (1, 1));
    assert_eq!(past.look_again_at().await, None);
    assert!(!past.exists(&past.index()).await);
}

#[tokio::test]
async fn logs_are_retired_by_age_and_the_audit_chain_keeps_its_anchor() {
    let store = store(&shared().url());
    for (days_ago, events_gone, audit_gone) in [(89, 0, 0), (92, 3, 0), (402, 3, 2)] {
        let mut past = PastDay::new(&store, days_ago).await;
        let keys = store.keys().clone();
        let (events, audit) = (
            keys.events(past.lease.partition, "acme", past.day),
            keys.audit(past.lease.partition, "acme", past.day),
        );
        for _ in 0..3 {
            past.tenant
                .queue(&["XADD", &events, "*", "type", "reservation.expired"]);
        }
        for sequence in ["41", "42"] {
            past.tenant
                .queue(&["XADD", &audit, "*", "sequence", sequence, "at_ms", "1"]);
        }
        let chain = keys.chain(past.lease.partition, "acme");
        let seals = keys.seals(past.lease.partition, "acme", past.day);
        past.tenant
            .queue(&["HSET", &chain, "anchor_sequence", "40", "sequence", "50"]);
        past.tenant.queue(&["HSET", &seals, "last", "42 abc"]);
        let days = keys.days(past.lease.partition);
        let member = past.member();
        past.tenant.queue(&["ZADD", &days, "1", &member]);
        past.tenant.write().await;

        let pass = run(&retention(&store), past.lease).await;
        assert_eq!(
            (pass.events, pass.audit),
            (events_gone, audit_gone),
            "{days_ago} days ago"
        );
        assert_eq!(past.exists(&events).await, events_gone == 0);
        assert_eq!(past.exists(&audit).await, audit_gone == 0);
        assert_eq!(past.exists(&seals).await, audit_gone == 0);
        let fields = ["anchor_sequence", "anchor_hash", "anchor_dropped"];
        let mut read = vec!["HMGET", &chain];
        read.extend(fields);
        let anchor: Vec<Option<String>> = past.tenant.run(&read).await;
        let some = |text: &str| Some(text.to_owned());
        match audit_gone {
            0 => assert_eq!(anchor, [some("40"), None, None]),
            _ => assert_eq!(anchor, [some("42"), some("abc"), some("42")]),
        }
        assert_eq!(past.look_again_at().await.is_none(), audit_gone > 0);
    }
}

#[tokio::test]
async fn the_current_day_stays_registered_while_it_is_empty() {
    let store = store(&shared().url());
    let past = PastDay::new(&store, 0).await;
    let days = store.keys().days(past.lease.partition);
    past.tenant
        .run::<i64>(&["ZADD", &days, "1", &past.member()])
        .await;
    let pass = run(&retention(&store), past.lease).await;
    assert_eq!((pass.processed, pass.days), (1, 0));
    assert_eq!(
        past.look_again_at().await,
        Some(past.day.plus(2).start_ms())
    );
}

#[tokio::test]
async fn damaged_records_are_kept_and_postponed() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 40).await;
    let long_ago = past.day.start_ms() + 1;
    let corrupt = past
        .record(
            End::Committed {
                charged: 5,
                debt: 0,
            },
            long_ago,
        )
        .await;
    let key = past.tenant.reservation_key(&corrupt);
    past.tenant
        .run::<i64>(&["HSET", &key, "charged", "5x"])
        .await;
    past.record(
        End::Committed {
            charged: 6,
            debt: 0,
        },
        long_ago,
    )
    .await;
    let other = past.record(End::Released, long_ago).await;
    let other_key = past.tenant.reservation_key(&other);
    past.tenant.run::<i64>(&["DEL", &other_key]).await;
    past.tenant.run::<()>(&["SET", &other_key, "x"]).await;
    // A registered day that is not a day, and a key of the wrong type in place of an index.
    let days = store.keys().days(past.lease.partition);
    past.tenant
        .run::<i64>(&["ZADD", &days, "1", "acme:20269999"])
        .await;
    let odd = Day::of_ms(past.day.start_ms() - DAY_MS);
    let odd_index = store.keys().reservations(past.lease.partition, "acme", odd);
    past.tenant.run::<()>(&["SET", &odd_index, "x"]).await;
    past.tenant
        .run::<i64>(&["ZADD", &days, "1", &format!("acme:{odd}")])
        .await;

    let pass = run(&retention(&store), past.lease).await;
    assert_eq!((pass.reservations, pass.failed), (1, 2));
    assert_eq!(past.base().await, (6, 0));
    assert!(past.exists(&key).await && past.exists(&other_key).await);
    assert_eq!(
        run(&retention(&store), past.lease).await,
        RetentionPass::default(),
        "not again at once"
    );
}

#[tokio::test]
async fn a_former_owner_removes_nothing() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 40).await;
    let id = past.record(End::Released, past.day.start_ms() + 1).await;
    let stale = Lease {
        token: past.lease.token - 1,
        ..past.lease
    };
    let mut lost = Vec::new();
    let pass = retention(&store)
        .run_once(&[stale], |lease| lost.push(lease))
        .await;
    assert_eq!(pass.expect("Redis answers").reservations, 0);
    assert_eq!(lost, [stale]);
    assert!(past.exists(&past.tenant.reservation_key(&id)).await);
}

#[tokio::test]
async fn the_outbox_is_trimmed_by_age_in_steps() {
    let store = store(&shared().url());
    let mut past = PastDay::new(&store, 0).await;
    let outbox = store.keys().outbox(past.lease.partition);
    let old_ms = past.now_ms - 8 * DAY_MS;
    for number in 0..5_000 {
        past.tenant.queue(&[
            "XADD",
            &outbox,
            &format!("{old_ms}-{}", number + 1),
            "tenant",
            "acme",
        ]);
    }
    past.tenant.queue(&["XADD", &outbox, "*", "tenant", "acme"]);
    past.tenant.write().await;
    let retention = retention(&store);

    // Entries that the view over all tenants has not followed stay, however old, even before any follower has run.
    assert_eq!(run(&retention, past.lease).await.outbox, 0);
    let (cursors, partition) = (store.keys().view_cursors(), past.lease.partition);
    let set = [&cursors, &partition.to_string(), &format!("{old_ms}-2500")];
    past.tenant
        .run::<()>(&["HSET", set[0], set[1], set[2]])
        .await;
    // The same for webhooks: of the partition's tenants, and of the operator.
    let (own, system) = (
        store.keys().fanned(partition),
        store.keys().fanned(Partition::FIRST),
    );
    let end = format!("{}-0", past.now_ms);
    for (key, field, entry) in [(&own, "own", &end), (&system, set[1], &end)] {
        assert_eq!(run(&retention, past.lease).await.outbox, 0, "{key}");
        past.tenant.run::<()>(&["HSET", key, field, entry]).await;
    }
    let trimmed = run(&retention, past.lease).await.outbox;
    assert!((2_300..2_500).contains(&trimmed), "{trimmed}");
    let next: Vec<(String, Vec<String>)> = past
        .tenant
        .run(&["XRANGE", &outbox, set[2], "+", "COUNT", "1"])
        .await;
    assert_eq!(&next[0].0, set[2], "the entry of the cursor is still there");
    past.tenant
        .run::<()>(&["HSET", set[0], set[1], &format!("{}-0", past.now_ms)])
        .await;
    let first = retention
        .run_once(&[past.lease], |_| {})
        .await
        .expect("Redis answers");
    assert!(first.more && first.outbox <= 2_000, "{first:?}");
    run(&retention, past.lease).await;
    let left: i64 = past.tenant.run(&["XLEN", &outbox]).await;
    assert!(
        (1..=101).contains(&left),
        "at most a block of the stream stays too long: {left}"
    );
}
