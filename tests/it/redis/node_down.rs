//! One master of a cluster is out of reach: background work continues for the tenants of the others.

use std::time::Duration;

use budget_authority::config::RetentionConfig;
use budget_authority::dispatcher::retention::{Retention, RetentionMetrics};
use budget_authority::dispatcher::sweep::{ClockMetrics, ClockWatch, SweepMetrics, Sweeper};
use budget_authority::dispatcher::{DueEvents, LeaseKeeper, LeaseMetrics};
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::store::{RedisOptions, Store};
use serde_json::json;
use tokio::task::block_in_place;
use tokio::time::Instant;

use crate::admin::webhooks::guard::open;
use crate::admin::webhooks::replay::replay;
use crate::admin::webhooks::subscriptions::HOOKS;
use crate::dispatcher::fan_out::{fan_out, leases};
use crate::harness::app::TestApp;
use crate::harness::behind::catch_up_of;
use crate::harness::deliveries::RunningDispatcher;
use crate::harness::due_events::due_events;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::RedisCluster;
use crate::harness::redis_fixture::now_ms;
use crate::harness::runtime_calls::tokens;
use crate::harness::tenant_fixture::TenantFixture;
use crate::harness::{eventually, store_with};

const DAY: Duration = Duration::from_secs(86_400);

/// All workers of a dispatcher.
struct Workers {
    keeper: LeaseKeeper,
    sweeper: Sweeper,
    retention: Retention,
    denials: DueEvents,
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
            usage_days: 40,
            usage_months: 24,
        };
        Self {
            keeper: LeaseKeeper::new(
                store.clone(),
                "d".to_owned(),
                Duration::from_secs(12),
                leases,
            ),
            sweeper: Sweeper::new(store.clone(), clock.clone(), sweep),
            retention: Retention::new(store.clone(), clock, periods, retention),
            denials: due_events(store),
        }
    }
}

/// A cluster whose masters serve without each other.
pub(crate) fn cluster() -> RedisCluster {
    block_in_place(|| {
        let cluster = RedisCluster::start();
        for master in &cluster.masters {
            let words = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
            master.run::<()>(&words);
        }
        cluster
    })
}

/// The position of the master that owns a key.
pub(crate) fn place_of(cluster: &RedisCluster, key: &str) -> usize {
    let port = block_in_place(|| cluster.owner(key).0.port);
    let place = cluster.masters.iter().position(|m| m.port == port);
    place.expect("a master")
}

/// Names of this many tenants on each master, in the order of the masters.
pub(super) fn names(cluster: &RedisCluster, store: &Store, count: usize) -> [Vec<String>; 3] {
    let mut found: [Vec<String>; 3] = [vec![], vec![], vec![]];
    for number in 0.. {
        let name = format!("tenant-{number}");
        let id = TenantId::parse(&name).expect("a tenant id");
        let place = place_of(cluster, &store.keys().tenant(id.partition(), &name));
        if found[place].len() < count {
            found[place].push(name);
        }
        if found.iter().all(|names| names.len() == count) {
            break;
        }
    }
    found
}

/// A tenant on each master, in the order of the masters.
async fn tenants(cluster: &RedisCluster, store: &Store) -> Vec<TenantFixture> {
    let found = names(cluster, store, 1);
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
        let mut cluster = cluster();
        let mut options = RedisOptions::new(cluster.url());
        options.timeout = Duration::from_secs(2);
        let store = store_with(options);
        store.secret().await.expect("it runs");
        let mut tenants = tenants(&cluster, &store).await;
        let mut workers = Workers::new(&store);
        eventually("every partition is leased", || async {
            let renewed = workers.keeper.run_once().await.expect("all answer");
            renewed.held == 1024
        })
        .await;

        // The one that has the list of dispatchers.
        let directory = store.keys().dispatchers();
        let down = place_of(&cluster, &directory);
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
        while started.elapsed() < Duration::from_secs(16) {
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

/// Tenants with a budget, and a webhook each for what is credited to it.
async fn hooked(app: &TestApp, names: &[String], url: &str) {
    for name in names {
        let body = json!({"tenant_id": name, "name": name});
        app.post_as_admin("/v1/admin/tenants", body)
            .await
            .expect(201);
        let budget = json!({"tenant_id": name, "scope": format!("tenant:{name}"), "unit": "TOKENS", "allocated": tokens(100)});
        app.post_as_admin("/v1/admin/budgets", budget)
            .await
            .expect(201);
        let hook =
            json!({"url": url, "event_types": ["budget.funded"], "disable_after_failures": 100});
        let path = format!("{HOOKS}?tenant_id={name}");
        app.post_as_admin(&path, hook).await.expect(201);
    }
}

pub(super) async fn fund(app: &TestApp, names: &[String]) {
    for name in names {
        let path =
            format!("/v1/admin/budgets/fund?scope=tenant:{name}&unit=TOKENS&tenant_id={name}");
        let body = json!({"operation": "CREDIT", "amount": tokens(1)});
        app.post_as_admin(&path, body).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_of_the_other_masters_get_their_events_within_seconds() {
    let mut cluster = cluster();
    let app = TestApp::spawn_on(&cluster.url(), &[]).await;
    open(&app).await;
    // The rules for addresses of receivers are in the first partition.
    let first = place_of(&cluster, &app.store.keys().outbox(Partition::FIRST));
    let (down, other) = ((first + 1) % 3, (first + 2) % 3);
    let names = names(&cluster, &app.store, 10);
    let failing = Receiver::start(Reply::Status(503, "")).await;
    hooked(&app, &names[down], &failing.url("/")).await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    hooked(&app, &names[other][..1], &receiver.url("/own")).await;
    let system = json!({"url": receiver.url("/system"), "event_types": ["budget.funded"], "scope_filter": format!("tenant:{}", names[other][0])});
    app.post_as_admin(HOOKS, system).await.expect(201);
    let _running = RunningDispatcher::start(&app);
    fund(&app, &names[down]).await;
    eventually("every delivery is to be attempted again", || async {
        failing.arrived().len() >= 10
    })
    .await;

    block_in_place(|| cluster.masters[down].kill());
    // Retries that are due there are found to be out of reach.
    tokio::time::sleep(Duration::from_secs(3)).await;
    for count in [2, 4] {
        fund(&app, &names[other][..1]).await;
        let arrived = || async { receiver.arrived().len() == count };
        eventually("the events arrive", arrived).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_queued_while_the_master_of_the_first_partition_is_down() {
    let mut cluster = cluster();
    let app = TestApp::spawn_on(&cluster.url(), &[]).await;
    open(&app).await;
    let first = place_of(&cluster, &app.store.keys().outbox(Partition::FIRST));
    let other = (first + 1) % 3;
    let names = names(&cluster, &app.store, 1);
    hooked(&app, &names[other], "http://127.0.0.1:9/").await;
    let fan_out = fan_out(&app);
    fund(&app, &names[other]).await;
    block_in_place(|| cluster.masters[first].kill());
    let pass = fan_out.run_once(&leases()).await.expect("two answer");
    assert_eq!(pass.queued, 1, "{pass:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replays_on_the_other_masters_continue_while_one_refuses_writes() {
    let cluster = cluster();
    let app = TestApp::spawn_on(&cluster.url(), &[]).await;
    open(&app).await;
    let names = names(&cluster, &app.store, 1).concat();
    hooked(&app, &names, "http://127.0.0.1:9/").await;
    fund(&app, &names).await;
    let Workers { keeper, .. } = Workers::new(&app.store);
    keeper.run_once().await.expect("all answer");
    let (mut replays, _) = catch_up_of(&app);
    // With connections that are open, it finds the replays.
    let pass = replays.run_once(&keeper.leases().current(), drop).await;
    assert_eq!(pass.expect("all answer").replays, 0);
    let mut ids = Vec::new();
    for name in &names {
        let page = app.get_as_admin(&format!("{HOOKS}?tenant_id={name}")).await;
        let id = page.text("/subscriptions/0/subscription_id").to_owned();
        let begun = replay(&app, &id, json!({})).await.expect(202);
        assert_eq!(begun.at("/events_queued"), &json!(1));
        ids.push(id);
    }
    // Those of the first partition would be fed first.
    let partition = |place: &usize| TenantId::parse(&names[*place]).expect("an id").partition();
    let sick = (0..3).min_by_key(partition).expect("three");
    let replicas = |count| {
        let words = ["CONFIG", "SET", "min-replicas-to-write", count];
        block_in_place(|| cluster.masters[sick].run::<()>(&words));
    };
    replicas("1");
    // It fails, unless it does not even reach the one that takes no writes.
    drop(replays.run_once(&keeper.leases().current(), drop).await);
    replicas("0");
    for (place, id) in ids.iter().enumerate() {
        let page = app.get_as_admin(&format!("{HOOKS}/{id}/deliveries")).await;
        let queued = page.at("/deliveries").as_array().expect("rows").len();
        assert_eq!(queued, usize::from(place != sick), "{place}");
    }
}
