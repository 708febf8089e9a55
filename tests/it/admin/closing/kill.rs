//! Crashes at every point of a close, in process and for real: the close ends, with each child closed once.

use std::time::Duration;

use budget_authority::admin::tenants::closing::{CloseProgress, Closer};
use budget_authority::store::{Keys, Lane, Store, StoreMetrics};
use serde_json::json;
use tokio::task::block_in_place;

use crate::admin::closing::resume::reconcile;
use crate::harness::admin_fixture::{ask, new_key};
use crate::harness::app::ADMIN_KEY;
use crate::harness::http;
use crate::harness::process::{Process, Replica};
use crate::harness::redis::RedisServer;
use crate::harness::tenant_fixture::TenantFixture;
use crate::harness::tenant_snapshot::TenantSnapshot;
use crate::harness::{eventually, patient};

/// A tenant whose close takes several steps in each phase, with its status changed.
async fn flipped() -> (TenantFixture, TenantSnapshot) {
    let tenant = TenantFixture::new().await;
    tenant.populate().await;
    tenant.crowd(120, 250).await;
    for _ in 0..55 {
        let created = tenant
            .admin
            .create_api_key(&new_key("acme"), &ask().request())
            .await;
        created.expect("a key");
    }
    for n in 0..55 {
        tenant.webhook(&format!("whsub_more_{n}"), "ACTIVE").await;
    }
    let before = tenant.account().await;
    tenant.flip().await;
    (tenant, before)
}

/// Takes at most this many steps and stops; whether the close has ended.
async fn die_after(tenant: &TenantFixture, steps: usize) -> bool {
    let mut closer = Closer::new(&tenant.store, &tenant.id, None);
    for _ in 0..steps {
        if let Some(progress) = closer.step().await.expect("Redis answers") {
            assert_eq!(progress, CloseProgress::Closed);
            return true;
        }
    }
    false
}

#[tokio::test]
async fn the_next_attempt_finishes_after_a_crash_at_any_step() {
    let mut steps = 0;
    loop {
        let (tenant, before) = flipped().await;
        let finished = die_after(&tenant, steps).await;
        reconcile(&tenant).await;
        let after = tenant.check_closed(&before).await;
        assert_eq!(
            TenantFixture::requests(&after).len(),
            1,
            "after {steps} steps"
        );
        if finished {
            break;
        }
        steps += 1;
    }
    assert!(steps > 10, "several steps in each phase: {steps}");
}

#[tokio::test]
async fn a_close_finishes_despite_a_crash_after_each_step() {
    let (tenant, before) = flipped().await;
    let mut deaths = 0;
    // The first step only reads the phase; the next one has effects.
    while !die_after(&tenant, 2).await {
        deaths += 1;
        assert!(deaths < 200);
    }
    tenant.check_closed(&before).await;
    assert!(deaths > 6, "{deaths}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_resumes_repeat_nothing() {
    let (tenant, before) = flipped().await;
    let mut closers = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (store, tenant) = (tenant.store.clone(), tenant.id.clone());
        closers.spawn(async move {
            Closer::new(&store, &tenant, None)
                .run(Duration::from_secs(60))
                .await
        });
    }
    let (turns, ()) = tokio::join!(closers.join_all(), reconcile(&tenant));
    assert!(
        turns
            .into_iter()
            .all(|progress| progress.expect("Redis answers") == CloseProgress::Closed)
    );
    let after = tenant.check_closed(&before).await;
    assert_eq!(TenantFixture::requests(&after).len(), 1);
}

#[tokio::test]
async fn a_request_that_runs_out_of_time_is_audited_and_leaves_the_close_to_others() {
    let (tenant, before) = flipped().await;
    let mut closer = Closer::new(&tenant.store, &tenant.id, None);
    closer.step().await.expect("Redis answers");
    let progress = closer.run(Duration::ZERO).await;
    assert_eq!(progress.expect("Redis answers"), CloseProgress::Paused);
    let account = tenant.account().await;
    let requests = TenantFixture::requests(&account);
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (
            &*requests[0]["metadata.cascade.in_progress"],
            &*requests[0]["status"]
        ),
        ("true", "200")
    );
    assert!(tenant.is_closing().await);
    reconcile(&tenant).await;
    let after = tenant.check_closed(&before).await;
    assert_eq!(TenantFixture::requests(&after).len(), 1);
}

struct Deployment {
    redis: RedisServer,
    replica: Replica,
    dispatchers: Vec<Process>,
    tenant: TenantFixture,
}

impl Deployment {
    async fn start(budgets: usize, holds: usize) -> Self {
        let redis = block_in_place(|| RedisServer::start_with(&["--appendfsync", "always"]));
        let url = redis.url();
        let keys = Keys::new("close").expect("a prefix");
        let metrics = StoreMetrics::register(&prometheus::Registry::new());
        let store = Store::new(
            &patient(&url),
            keys,
            "service",
            metrics.expect("a fresh registry"),
        );
        let tenant = TenantFixture::on(store.expect("a usable URL"), "acme").await;
        tenant.crowd(budgets, holds).await;
        let replica = Replica::start(&url, "close", &["--admin-keys", ADMIN_KEY]);
        replica.ready().await;
        Self {
            dispatchers: vec![Process::dispatcher(&url, "close")],
            redis,
            replica,
            tenant,
        }
    }

    /// Waits until fewer than `than` holds are active, or the close has ended.
    async fn wait_for_progress(&self, than: usize) -> usize {
        eventually("the close is resumed", || async {
            let active = self.tenant.active().await;
            (active < than || (active == 0 && !self.tenant.is_closing().await)).then_some(active)
        })
        .await
    }
}

/// With `CLOSE_BUDGETS=1000 CLOSE_HOLDS=100000` at full size.
fn size(variable: &str, usual: usize) -> usize {
    let set = std::env::var(variable).ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariants_1_and_3_a_close_whose_processes_are_killed_three_times_converges_exactly() {
    let (budgets, holds) = (size("CLOSE_BUDGETS", 150), size("CLOSE_HOLDS", 20_000));
    let mut attempts = 0;
    // On a busy machine a close may be over before the last kill: then there is another one.
    let (deployment, before, sent) = loop {
        attempts += 1;
        let mut deployment = Deployment::start(budgets, holds).await;
        let before = deployment.tenant.account().await;
        let url = format!(
            "http://{}/v1/admin/tenants/acme",
            deployment.replica.address
        );
        let request = http::client()
            .patch(&url)
            .header("X-Admin-API-Key", ADMIN_KEY)
            .json(&json!({"status": "CLOSED"}));
        let sent = tokio::spawn(request.send());

        // The replica that handles the request, the dispatcher that takes over, and Redis under the next one.
        let left = deployment.wait_for_progress(holds).await;
        block_in_place(|| deployment.replica.process.restart());
        let first = left;
        let left = deployment.wait_for_progress(left).await;
        block_in_place(|| deployment.dispatchers[0].restart());
        let second = left;
        let left = deployment.wait_for_progress(left).await;
        block_in_place(|| deployment.redis.restart());
        if holds > first && first > second && second > left && left > 0 {
            break (deployment, before, sent);
        }
        assert!(
            attempts < 5,
            "never killed on the way: {holds} {first} {second} {left}"
        );
    };
    let begun = std::time::Instant::now();
    eventually("the close is over", || async {
        let closing = deployment
            .tenant
            .keys()
            .closing(deployment.tenant.id.partition(), deployment.tenant.name());
        let mut command = redis::cmd("EXISTS");
        command.arg(&closing);
        let reply = deployment
            .tenant
            .store
            .send(Lane::Background, (&closing, &command))
            .await;
        let stands: bool = redis::from_redis_value(reply.ok()?).ok()?;
        (!stands).then_some(())
    })
    .await;
    println!("converged {:?} after the last kill", begun.elapsed());
    drop(sent.await);
    let after = deployment.tenant.check_closed(&before).await;
    assert_eq!(TenantFixture::requests(&after).len(), 1);
    assert!(
        after
            .reservations
            .values()
            .all(|record| record["status"] == "RELEASED")
    );
    let released = after
        .events
        .iter()
        .filter(|event| event["type"] == "reservation.released_via_tenant_cascade");
    let sum: usize = released
        .map(|event| {
            event["data.released_amount"]
                .parse::<usize>()
                .expect("a figure")
        })
        .sum();
    let held: usize = (0..holds).map(|hold| 1 + hold % 7).sum();
    assert_eq!(sum, 2 * held, "at the root and at the agents");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_of_many_ledgers_and_holds_converges_within_its_bound() {
    let (budgets, holds) = (size("CLOSE_BUDGETS", 300), size("CLOSE_HOLDS", 15_000));
    let tenant = TenantFixture::new().await;
    tenant.crowd(budgets, holds).await;
    let before = tenant.account().await;
    let begun = std::time::Instant::now();
    tenant.flip().await;
    reconcile(&tenant).await;
    println!(
        "{budgets} ledgers and {holds} holds in {:?}",
        begun.elapsed()
    );
    let after = tenant.check_closed(&before).await;
    assert_eq!(
        after.audit.len(),
        before.audit.len() + budgets + 1 + 1 + 1,
        "ledgers, the root, the key and the request"
    );
}
