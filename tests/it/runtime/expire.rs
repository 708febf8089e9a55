//! The sweeper: each hold expires once and returns to its ledgers, with several sweepers and damaged records.

use std::time::{Duration, Instant};

use budget_authority::dispatcher::sweep::{ClockMetrics, ClockWatch, Sweep, SweepMetrics, Sweeper};
use budget_authority::domain::cause::Cause;
use budget_authority::store::runtime::expire::expire_tenant;
use budget_authority::store::{Lane, Lease, Store};

use crate::harness::redis::{RedisServer, shared};
use crate::harness::redis_fixture::now_ms;
use crate::harness::tenant_fixture::TenantFixture;
use crate::harness::{patient, store, store_with};

const LEASE: Duration = Duration::from_secs(60);

fn sweeper(store: &Store) -> Sweeper {
    let registry = prometheus::Registry::new();
    let clock = ClockWatch::new(ClockMetrics::register(&registry).expect("a fresh registry"));
    let metrics = SweepMetrics::register(&registry).expect("a fresh registry");
    Sweeper::new(store.clone(), clock, metrics)
}

/// Sweeps until nothing due is left; returns the sum of all passes.
async fn sweep(store: &Store, leases: &[Lease]) -> Sweep {
    let (mut sweeper, mut sum) = (sweeper(store), Sweep::default());
    loop {
        let pass = sweeper
            .run_once(leases, |_| {})
            .await
            .expect("Redis answers");
        sum.expired += pass.expired;
        sum.quarantined += pass.quarantined;
        sum.failed += pass.failed;
        if !pass.more {
            return sum;
        }
    }
}

async fn expired_events(tenant: &TenantFixture) -> usize {
    let events = tenant.event_facts().await.into_iter();
    events
        .filter(|facts| facts["type"] == "reservation.expired")
        .count()
}

#[tokio::test]
async fn concurrent_sweepers_expire_each_hold_once() {
    let store = store(&shared().url());
    let mut tenant = TenantFixture::bare(&store, "acme").await;
    let now = now_ms(&store).await;
    let ids = tenant.write_holds(1_500, now - 10).await;
    let later = tenant.write_holds(3, now + 3_600_000).await;
    let lease = tenant.lease("d", LEASE).await;

    let mut racing = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = store.clone();
        racing.spawn(async move { sweep(&store, &[lease]).await.expired });
    }
    for _ in 0..2 {
        let (store, id) = (store.clone(), tenant.id.clone());
        racing.spawn(async move {
            expire_tenant(&store, &id, &Cause::sweep().lines(), now)
                .await
                .expect("Redis answers")
        });
    }
    let expired: i64 = racing.join_all().await.into_iter().sum();

    assert_eq!(expired, 1_500);
    assert_eq!(expired_events(&tenant).await, 1_500);
    assert_eq!(tenant.figures().await[..2], [2_000_000_000 - 30, 30]);
    let status: String = tenant
        .run(&["HGET", &tenant.reservation_key(&ids[0]), "status"])
        .await;
    assert_eq!(status, "EXPIRED");
    let due: Vec<String> = tenant.run(&["ZRANGE", &tenant.due_key(), "0", "-1"]).await;
    assert_eq!(due.len(), later.len());
    let at: i64 = tenant
        .run(&[
            "ZSCORE",
            &store.keys().due_tenants(tenant.id.partition()),
            "acme",
        ])
        .await;
    assert_eq!(at, now + 3_600_000);
    assert_eq!(sweep(&store, &[lease]).await, Sweep::default());
}

#[tokio::test]
async fn events_of_one_batch_share_a_trace_and_name_the_sweeper() {
    let store = store(&shared().url());
    let mut tenant = TenantFixture::bare(&store, "acme").await;
    let now = now_ms(&store).await;
    tenant.write_holds(150, now - 10).await;
    let lease = tenant.lease("d", LEASE).await;
    sweep(&store, &[lease]).await;
    let mut traces = std::collections::BTreeMap::new();
    for facts in tenant.event_facts().await {
        assert_eq!(facts["source"], "expiry-sweeper");
        assert_eq!(facts["actor"], "system");
        assert_eq!(facts.get("request_id"), None);
        *traces.entry(facts["trace_id"].clone()).or_insert(0) += 1;
    }
    let mut sizes: Vec<i32> = traces.into_values().collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 50, 50]);
}

#[tokio::test]
async fn a_former_owner_is_refused() {
    let store = store(&shared().url());
    let mut tenant = TenantFixture::bare(&store, "acme").await;
    let now = now_ms(&store).await;
    tenant.write_holds(1, now - 10).await;
    let stale = tenant.lease("former", Duration::from_millis(1)).await;
    tenant.until_ms(tenant.now_ms().await + 2).await;
    let lease = tenant.lease("present", LEASE).await;
    assert_eq!(lease.token, stale.token + 1);
    let refused = store
        .expire(Lane::Background, &tenant.id, "source t", None, Some(stale))
        .await;
    assert!(matches!(refused, Ok(None)), "{refused:?}");
    let mut lost = Vec::new();
    let pass = sweeper(&store)
        .run_once(&[stale], |lease| lost.push(lease))
        .await;
    assert_eq!(pass.expect("Redis answers").expired, 0);
    assert_eq!(lost, [stale]);
    assert_eq!(sweep(&store, &[lease]).await.expired, 1);
}

#[tokio::test]
async fn corrupt_records_are_quarantined_once_and_block_no_others() {
    let store = store(&shared().url());
    let mut tenant = TenantFixture::bare(&store, "acme").await;
    let now = now_ms(&store).await;
    let ids = tenant.write_holds(40, now - 10).await;
    let damages: [&[&str]; 9] = [
        &["HDEL", "estimate"],
        &["HSET", "estimate", "12x"],
        &["HSET", "estimate", "-10"],
        &["HSET", "expires_at_ms", "1e400"],
        &["HSET", "status", "WEIRD"],
        &["HSET", "tenant", "bolt"],
        &["HSET", "unit", "CREDITS"],
        &["HSET", "budgeted", ""],
        &["HSET", "estimate", "9223372036854775807"],
    ];
    for (id, damage) in ids.iter().zip(damages) {
        let key = tenant.reservation_key(id);
        let mut words = vec![damage[0], key.as_str()];
        words.extend(&damage[1..]);
        tenant.run::<i64>(&words).await;
    }
    let wrong_type = tenant.reservation_key(&ids[9]);
    tenant.run::<i64>(&["DEL", &wrong_type]).await;
    tenant.run::<()>(&["SET", &wrong_type, "x"]).await;
    let gone = tenant.reservation_key(&ids[10]);
    tenant.run::<i64>(&["DEL", &gone]).await;

    let lease = tenant.lease("d", LEASE).await;
    let swept = sweep(&store, &[lease]).await;
    assert_eq!(
        (swept.expired, swept.quarantined, swept.failed),
        (29, 10, 0)
    );
    assert_eq!(sweep(&store, &[lease]).await, Sweep::default());
    let quarantine: Vec<String> = tenant
        .run(&[
            "ZRANGE",
            &store.keys().quarantine(tenant.id.partition()),
            "0",
            "-1",
        ])
        .await;
    assert_eq!(quarantine.len(), 10);
    // The budget is not changed for a damaged record.
    assert_eq!(tenant.figures().await[1], 110);
}

#[tokio::test]
async fn an_outdated_due_time_is_corrected() {
    let store = store(&shared().url());
    let mut tenant = TenantFixture::bare(&store, "acme").await;
    let now = now_ms(&store).await;
    let ids = tenant.write_holds(1, now + 500_000).await;
    tenant
        .run::<i64>(&["ZADD", &tenant.due_key(), &(now - 5).to_string(), &ids[0]])
        .await;
    let due_tenants = store.keys().due_tenants(tenant.id.partition());
    tenant
        .run::<i64>(&["ZADD", &due_tenants, &(now - 5).to_string(), "acme"])
        .await;
    let lease = tenant.lease("d", LEASE).await;
    assert_eq!(sweep(&store, &[lease]).await, Sweep::default());
    let score: i64 = tenant.run(&["ZSCORE", &tenant.due_key(), &ids[0]]).await;
    assert_eq!(score, now + 500_000);
    assert_eq!(tenant.figures().await[1], 10);
}

#[tokio::test]
async fn a_tenant_that_cannot_be_swept_delays_no_others() {
    let store = store(&shared().url());
    let now = now_ms(&store).await;
    let mut leases = Vec::new();
    let mut sound = Vec::new();
    for name in ["broken", "sound-1", "sound-2"] {
        let mut tenant = TenantFixture::bare(&store, name).await;
        tenant.write_holds(5, now - 10).await;
        leases.push(tenant.lease("d", LEASE).await);
        if name == "broken" {
            let key = tenant.due_key();
            tenant.run::<i64>(&["DEL", &key]).await;
            tenant.run::<()>(&["SET", &key, "x"]).await;
        } else {
            sound.push(tenant);
        }
    }
    let mut sweeper = sweeper(&store);
    let first = sweeper
        .run_once(&leases, |_| {})
        .await
        .expect("Redis answers");
    assert_eq!((first.expired, first.failed), (10, 1));
    let second = sweeper
        .run_once(&leases, |_| {})
        .await
        .expect("Redis answers");
    assert_eq!(
        (second.tenants, second.failed, second.more),
        (0, 0, false),
        "it is left alone"
    );
}

/// Prints the rate. One dispatcher must expire 20,000 a second, and so it does in a release build; a lower bound would
/// hide a regression. Without optimization most of the time is spent in this process, which says nothing about Redis or the
/// script: there the bound only finds gross errors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sweeper_expires_thousands_a_second() {
    const HOLDS: usize = if cfg!(debug_assertions) {
        8_000
    } else {
        40_000
    };
    let server = RedisServer::start_with(&["--hash-max-listpack-value", "1024"]);
    for tenants in [1, 8] {
        let store = store_with(patient(&server.url()));
        let due_ms = now_ms(&store).await - 10;
        let mut leases = Vec::new();
        for number in 0..tenants {
            let mut tenant = TenantFixture::bare(&store, &format!("tenant-{number}")).await;
            tenant.write_holds(HOLDS / tenants, due_ms).await;
            leases.push(tenant.lease("d", LEASE).await);
        }
        leases.sort_by_key(|lease| lease.partition);
        leases.dedup_by_key(|lease| lease.partition);
        let started = Instant::now();
        let swept = sweep(&store, &leases).await;
        let rate = HOLDS as f64 / started.elapsed().as_secs_f64();
        println!("{tenants} tenants: {rate:.0} expiries a second");
        assert_eq!(swept.expired, HOLDS as i64);
        let least = if cfg!(debug_assertions) {
            200.0
        } else {
            20_000.0
        };
        assert!(rate > least, "{rate:.0} a second with {tenants} tenants");
    }
}
