//! One master of a cluster is out of reach: background work continues for the tenants of the others.

use std::time::Duration;

use budget_authority::config::RetentionConfig;
use budget_authority::dispatcher::retention::{Retention, RetentionMetrics};
use budget_authority::dispatcher::sweep::{ClockMetrics, ClockWatch, SweepMetrics, Sweeper};
use budget_authority::dispatcher::{LeaseKeeper, LeaseMetrics, Rollups};
use budget_authority::store::{RedisOptions, Store};
use tokio::task::block_in_place;
use tokio::time::Instant;

use crate::harness::redis::RedisCluster;
use crate::harness::redis_fixture::now_ms;
use crate::harness::tenant_fixture::TenantFixture;
use crate::harness::{eventually, store_with};

const DAY: Duration = Duration::from_secs(86_400);

/// All workers of a dispatcher.
struct Workers {
    keeper: LeaseKeeper,
    sweeper: Sweeper,
    retention: Retention,
    denials: Rollups,
}

impl Workers {
    fn new(store: &Store) -> Self {
        let registry = prometheus::Registry::new();
        let clock = ClockWatch::new(ClockMetrics::register(&registry).expect("fresh"));
        let sweep = SweepMetrics::register(&registry).expect("fresh");
        let retention = RetentionMetrics::register(&registry).expect("fresh");
        let leases = LeaseMetrics::register(&registry).expect("fresh");
        let periods = RetentionConfig {
            reservations: DAY,
            events: DAY,
            audit: DAY,
            outbox: DAY,
        };
        Self {
            keeper: LeaseKeeper::new(
                store.clone(),
                "d".to_owned(),
                Duration::from_secs(4),
                leases,
            ),
            sweeper: Sweeper::new(store.clone(), clock.clone(), sweep),
            retention: Retention::new(store.clone(), clock, periods, retention),
            denials: Rollups::new(store.clone(), "test", &registry).expect("fresh"),
        }
    }
}

/// A tenant on each master, in the order of the masters.
async fn tenants(cluster: &RedisCluster, store: &Store) -> Vec<TenantFixture> {
    let mut found: [Option<String>; 3] = [None, None, None];
    for number in 0.. {
        let name = format!("tenant-{number}");
        let id = budget_authority::domain::ids::TenantId::parse(&name).expect("a tenant id");
        let key = store.keys().tenant(id.partition(), &name);
        let port = block_in_place(|| cluster.owner(&key).0.port);
        let place = cluster.masters.iter().position(|m| m.port == port);
        found[place.expect("a master")].get_or_insert(name);
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    let mut tenants = Vec::new();
    for name in found.into_iter().flatten() {
        tenants.push(TenantFixture::bare(store, &name).await);
    }
    tenants
}

/// An old day of a tenant, of which nothing is left to keep.
async fn old_day(tenant: &TenantFixture, now_ms: i64) -> String {
    let days = tenant.store.keys().days(tenant.id.partition());
    let member = format!("{}:20200101", tenant.id);
    tenant
        .run::<i64>(&["ZADD", &days, &(now_ms - 1_000).to_string(), &member])
        .await;
    member
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeps_retention_and_leases_continue_on_the_other_masters() {
    for frozen in [false, true] {
        let mut cluster = block_in_place(RedisCluster::start);
        block_in_place(|| {
            for master in &cluster.masters {
                let words = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
                master.run::<()>(&words);
            }
        });
        let mut options = RedisOptions::new(cluster.url());
        options.timeout = Duration::from_millis(400);
        let store = store_with(options);
        store.deployment().await.expect("it runs");
        let mut tenants = tenants(&cluster, &store).await;
        let mut workers = Workers::new(&store);
        eventually("every partition is leased", || async {
            let renewed = workers.keeper.run_once().await.expect("all answer");
            renewed.held == 1024
        })
        .await;

        // The one that has the list of dispatchers.
        let directory = store.keys().dispatchers();
        let port = block_in_place(|| cluster.owner(&directory).0.port);
        let down = cluster
            .masters
            .iter()
            .position(|m| m.port == port)
            .expect("a master");
        let now = now_ms(&store).await;
        let mut days = Vec::new();
        for (place, tenant) in tenants.iter_mut().enumerate() {
            tenant.write_holds(5, now - 10).await;
            days.push(old_day(tenant, now).await);
            let index = store.keys().denials_due(tenant.id.partition());
            let name = tenant.id.to_string();
            tenant.run::<i64>(&["ZADD", &index, "1", &name]).await;
            assert_eq!(tenant.figures().await[1], 50, "{place}");
        }
        match frozen {
            true => cluster.masters[down].freeze(),
            false => block_in_place(|| cluster.masters[down].kill()),
        }

        // Longer than a lease lasts.
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(6) {
            let _ = workers.keeper.run_once().await;
            // The pace of a keeper.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let leases = workers.keeper.leases().current();
        assert!((600..1024).contains(&leases.len()), "{}", leases.len());
        let mut held = leases.clone();
        // A lease of the partition that is gone, as a dispatcher has in the first seconds.
        let gone = tenants[down].id.partition();
        held.push(budget_authority::store::Lease {
            partition: gone,
            token: 1,
        });

        let swept = workers
            .sweeper
            .run_once(&held, |_| {})
            .await
            .expect("two answer");
        assert_eq!((swept.expired, swept.unreachable), (10, 1), "{swept:?}");
        let pass = workers
            .retention
            .run_once(&held, |_| {})
            .await
            .expect("two answer");
        assert_eq!(pass.unreachable, 1, "{pass:?}");
        workers
            .denials
            .run_once(&held, |_| {})
            .await
            .expect("two answer");
        for (place, tenant) in tenants
            .iter()
            .enumerate()
            .filter(|(place, _)| *place != down)
        {
            assert_eq!(tenant.figures().await[1], 0);
            let registry = store.keys().days(tenant.id.partition());
            let left: Option<f64> = tenant.run(&["ZSCORE", &registry, &days[place]]).await;
            assert_eq!(left, None, "the old day is forgotten");
            let index = store.keys().denials_due(tenant.id.partition());
            let left: i64 = tenant.run(&["ZCARD", &index]).await;
            assert_eq!(left, 0, "the denials are summed up");
        }
        if frozen {
            cluster.masters[down].thaw();
        }
    }
}
