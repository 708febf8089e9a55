//! Retention removes what is over, and nothing else; the ledgers can still be recomputed afterwards.

use std::time::Duration;

use budget_authority::dispatch::DenialSums;
use budget_authority::retention::{Pass, Periods, Retention, RetentionMetrics};
use budget_authority::store::{Day, Lease, Store};
use budget_authority::sweep::{ClockMetrics, ClockWatch};
use budget_authority::verify::verify;

use crate::harness::holds::{Tenant, now_ms};
use crate::harness::redis::shared;
use crate::harness::store;

const DAY: Duration = Duration::from_secs(86_400);
const DAY_MS: i64 = 86_400_000;
const LEASE: Duration = Duration::from_secs(60);

fn retention(store: &Store) -> Retention {
    let registry = prometheus::Registry::new();
    let clock = ClockWatch::new(ClockMetrics::register(&registry).expect("a fresh registry"));
    let metrics = RetentionMetrics::register(&registry).expect("a fresh registry");
    let periods = Periods {
        records: DAY * 30,
        events: DAY * 90,
        audit: DAY * 400,
        outbox: DAY * 7,
    };
    Retention::new(store.clone(), clock, periods, metrics)
}

/// Passes until nothing due is left; answers the sum.
async fn run(retention: &Retention, lease: Lease) -> Pass {
    let mut sum = Pass::default();
    loop {
        let pass = retention
            .run_once(&[lease], |_| {})
            .await
            .expect("Redis answers");
        sum.looks += pass.looks;
        sum.reservations += pass.reservations;
        sum.posts += pass.posts;
        sum.events += pass.events;
        sum.audit += pass.audit;
        sum.outbox += pass.outbox;
        sum.days += pass.days;
        sum.failed += pass.failed;
        if !pass.more {
            return sum;
        }
    }
}

/// How a record of the past ended.
#[derive(Clone, Copy)]
enum End {
    Committed { charged: i64, debt: i64 },
    Released,
    Expired,
    Active,
}

/// A tenant with records of one past day, and the ledger that they leave.
struct Past {
    tenant: Tenant,
    day: Day,
    lease: Lease,
    now_ms: i64,
}

impl Past {
    async fn new(store: &Store, days_ago: i64) -> Self {
        let tenant = Tenant::new(store, "acme").await;
        let now_ms = now_ms(store).await;
        let lease = tenant.lease("d", LEASE).await;
        let day = Day::of_ms(now_ms - days_ago * DAY_MS);
        Self {
            tenant,
            day,
            lease,
            now_ms,
        }
    }

    fn index(&self) -> String {
        self.tenant
            .store
            .keys()
            .reservations(self.lease.partition, "acme", self.day)
    }

    fn member(&self) -> String {
        format!("acme:{}", self.day)
    }

    async fn look_again_at(&self) -> Option<i64> {
        let days = self.tenant.store.keys().days(self.lease.partition);
        self.tenant.run(&["ZSCORE", &days, &self.member()]).await
    }

    /// A reservation created at the day's start and ended at a time.
    async fn record(&mut self, end: End, ended_ms: i64) -> String {
        let id = format!("r{}_{:024x}", self.lease.partition, rand::random::<u64>());
        let key = self.tenant.reservation_key(&id);
        let (created, ended) = (self.day.start_ms().to_string(), ended_ms.to_string());
        let ledger = self.tenant.ledger_key();
        let common = [
            "HSET",
            &key,
            "create_hash",
            "h",
            "tenant",
            "acme",
            "unit",
            "TOKENS",
            "estimate",
            "10",
            "scope_path",
            "tenant:acme",
            "budgeted",
            "1",
            "created_at_ms",
            &created,
            "expires_at_ms",
            &created,
            "grace_ms",
            "0",
        ];
        self.tenant.queue(&common);
        match end {
            End::Committed { charged, debt } => {
                let (charged, debt, spent) = (
                    charged.to_string(),
                    debt.to_string(),
                    (charged - debt).to_string(),
                );
                self.tenant.queue(&[
                    "HSET",
                    &key,
                    "status",
                    "COMMITTED",
                    "charged",
                    &charged,
                    "finalized_at_ms",
                    &ended,
                ]);
                if debt != "0" {
                    self.tenant.queue(&["HSET", &key, "debt.1", &debt]);
                }
                self.tenant.queue(&["HINCRBY", &ledger, "spent", &spent]);
                self.tenant.queue(&["HINCRBY", &ledger, "debt", &debt]);
            }
            End::Released => self.tenant.queue(&[
                "HSET",
                &key,
                "status",
                "RELEASED",
                "finalized_at_ms",
                &ended,
            ]),
            End::Expired => {
                self.tenant
                    .queue(&["HSET", &key, "status", "EXPIRED", "expired_at_ms", &ended])
            }
            End::Active => self.tenant.queue(&["HSET", &key, "status", "ACTIVE"]),
        }
        let (index, member) = (self.index(), self.member());
        self.tenant.queue(&["ZADD", &index, &created, &id]);
        let days = self.tenant.store.keys().days(self.lease.partition);
        self.tenant.queue(&["ZADD", &days, "NX", &created, &member]);
        self.tenant.queue(&["HSET", &ledger, "status", "ACTIVE"]);
        self.tenant.write().await;
        id
    }

    async fn base(&self) -> (i64, i64) {
        let base: (Option<i64>, Option<i64>) = self
            .tenant
            .run(&[
                "HMGET",
                &self.tenant.ledger_key(),
                "base_spent",
                "base_debt",
            ])
            .await;
        (base.0.unwrap_or(0), base.1.unwrap_or(0))
    }

    async fn figures(&self) -> [i64; 5] {
        self.tenant
            .run::<i64>(&["HSETNX", &self.tenant.ledger_key(), "remaining", "0"])
            .await;
        self.tenant.figures().await
    }

    async fn exists(&self, key: &str) -> bool {
        self.tenant.run(&["EXISTS", key]).await
    }
}

#[tokio::test]
async fn what_ended_long_ago_goes_and_its_charges_stay_in_the_base_of_the_ledger() {
    let store = store(&shared().url());
    let mut past = Past::new(&store, 40).await;
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
    // Whatever went, the books still add up.
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
    // The active one is looked at daily; the other is due only in 20 days.
    let again = past.look_again_at().await.expect("still registered");
    assert!(
        (again - past.now_ms - DAY_MS).abs() < 60_000,
        "{}",
        again - past.now_ms
    );
    assert_eq!(run(&retention(&store), past.lease).await.looks, 0);
}

#[tokio::test]
async fn a_day_of_which_nothing_is_left_leaves_the_registry() {
    let store = store(&shared().url());
    let mut past = Past::new(&store, 40).await;
    past.record(End::Released, past.day.start_ms() + 1).await;
    let pass = run(&retention(&store), past.lease).await;
    assert_eq!((pass.reservations, pass.days), (1, 1));
    assert_eq!(past.look_again_at().await, None);
    assert!(!past.exists(&past.index()).await);
}

#[tokio::test]
async fn logs_go_by_the_age_of_their_day_and_the_audit_chain_keeps_its_anchor() {
    let store = store(&shared().url());
    for (days_ago, events_gone, audit_gone) in [(89, 0, 0), (92, 3, 0), (402, 3, 2)] {
        let mut past = Past::new(&store, days_ago).await;
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
        let chain = keys.chain(past.lease.partition, "acme");
        let anchor: Option<i64> = past.tenant.run(&["HGET", &chain, "anchor_sequence"]).await;
        assert_eq!(anchor, (audit_gone > 0).then_some(42));
        assert_eq!(past.look_again_at().await.is_none(), audit_gone > 0);
    }
}

#[tokio::test]
async fn a_present_day_stays_registered_even_while_it_has_nothing() {
    let store = store(&shared().url());
    let past = Past::new(&store, 0).await;
    let days = store.keys().days(past.lease.partition);
    past.tenant
        .run::<i64>(&["ZADD", &days, "1", &past.member()])
        .await;
    let pass = run(&retention(&store), past.lease).await;
    assert_eq!((pass.looks, pass.days), (1, 0));
    assert_eq!(
        past.look_again_at().await,
        Some(past.day.plus(2).start_ms())
    );
}

#[tokio::test]
async fn what_cannot_be_believed_is_kept_and_put_off() {
    let store = store(&shared().url());
    let mut past = Past::new(&store, 40).await;
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
    // A registered day that is none, and a key of another type where an index belongs.
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
        Pass::default(),
        "not again at once"
    );
}

#[tokio::test]
async fn a_former_owner_removes_nothing() {
    let store = store(&shared().url());
    let mut past = Past::new(&store, 40).await;
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
    let mut past = Past::new(&store, 0).await;
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

#[tokio::test]
async fn uncounted_denials_are_told_once_when_their_minute_is_over() {
    let store = store(&shared().url());
    let past = Past::new(&store, 0).await;
    let keys = store.keys().clone();
    let (hash, index) = (
        keys.denials(past.lease.partition, "acme"),
        keys.denials_due(past.lease.partition),
    );
    let minute_ms = (past.now_ms - 60_000).to_string();
    let fields = [
        "HSET",
        &hash,
        "minute_ms",
        &minute_ms,
        "count",
        "642",
        "suppressed",
        "42",
        "scope",
        "tenant:acme",
        "data.reason_code",
        "BUDGET_EXCEEDED",
    ];
    past.tenant.run::<i64>(&fields).await;
    past.tenant
        .run::<i64>(&["ZADD", &index, &past.now_ms.to_string(), "acme"])
        .await;
    past.tenant
        .run::<i64>(&["ZADD", &index, &(past.now_ms + 60_000).to_string(), "later"])
        .await;

    let sums = DenialSums::new(
        store.clone(),
        "service-server",
        &prometheus::Registry::new(),
    );
    let sums = sums.expect("a fresh registry");
    let flush = sums
        .run_once(&[past.lease], |_| {})
        .await
        .expect("Redis answers");
    assert_eq!((flush.events, flush.failed, flush.more), (1, 0, false));
    let again = sums
        .run_once(&[past.lease], |_| {})
        .await
        .expect("Redis answers");
    assert_eq!(again.events, 0);

    let log = keys.events(past.lease.partition, "acme", store.today());
    let entries: Vec<(String, Vec<String>)> = past.tenant.run(&["XRANGE", &log, "-", "+"]).await;
    let fields = entries[0].1.join(" ");
    assert_eq!(entries.len(), 1);
    assert!(
        fields.contains("type reservation.denied") && fields.contains("metadata.count 42"),
        "{fields}"
    );
    assert!(
        fields.contains("data.reason_code BUDGET_EXCEEDED") && fields.contains("actor system"),
        "{fields}"
    );
    let left: Vec<String> = past.tenant.run(&["ZRANGE", &index, "0", "-1"]).await;
    assert_eq!(left, ["later"]);
}
