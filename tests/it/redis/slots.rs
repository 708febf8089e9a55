//! A slot that moves between masters: scripts wait for its records and take none for missing.

use std::time::Duration;

use budget_authority::domain::cause::Cause;
use budget_authority::store::dispatcher::retention::{PurgeReply, Records, Walk};
use budget_authority::store::runtime::expire::ExpireReply;
use budget_authority::store::{Day, Lane};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, block_in_place};

use crate::harness::app::{TestApp, reserve_body};
use crate::harness::days::days_around;
use crate::harness::eventually;
use crate::harness::http;
use crate::harness::ledger_audit::LedgerAudit;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::redis::RedisCluster;
use crate::harness::redis_fixture::now_ms;
use crate::harness::resharding::Resharding;
use crate::harness::response::Response;
use crate::harness::retrying_client::{LONG_REDIS_TIMEOUT, RetryingClient};
use crate::harness::runtime_calls::tokens;
use crate::harness::tenant_fixture::TenantFixture;

/// How often the service had to call Redis again because a slot was migrating.
pub fn repetitions(fixture: &LedgerFixture) -> u64 {
    let counter = &fixture.store.metrics().extra_round_trips;
    let of = |reason: &str| counter.with_label_values(&[reason]).get();
    of("tryagain") + of("ask")
}

/// Waits until a call has been repeated more often than `before`, or is over.
pub async fn repeated_request<T>(call: &JoinHandle<T>, fixture: &LedgerFixture, before: u64) {
    eventually("it asks again", || async {
        call.is_finished() || repetitions(fixture) > before + 1
    })
    .await;
}

pub struct MovingSlot {
    cluster: RedisCluster,
    pub app: TestApp,
    client: RetryingClient,
}

impl MovingSlot {
    /// A tenant with a ledger of 1000, a hold of 300, and an event in its log, so that every key of a commit is there.
    pub async fn new() -> (Self, String) {
        Self::with(&[]).await
    }

    /// The same with more settings.
    pub async fn with(settings: &[&str]) -> (Self, String) {
        let cluster = block_in_place(RedisCluster::start);
        let settings = [LONG_REDIS_TIMEOUT, settings].concat();
        let app = TestApp::spawn_on(&cluster.url(), &settings).await;
        app.budget("tenant:acme", 1_000, 0).await;
        let client = RetryingClient::with_long_timeout(&[app.address], &app.keys[0]);
        app.reserve("too much", 1_001).await.expect(409);
        app.reserve("stays", 100).await;
        let id = app
            .reserve("r", 300)
            .await
            .text("/reservation_id")
            .to_owned();
        let moving = Self {
            cluster,
            app,
            client,
        };
        (moving, id)
    }

    pub fn send(&self, method: Method, path: String, body: Option<Value>) -> JoinHandle<Response> {
        let client = self.client.clone();
        tokio::spawn(async move {
            let response = client.ask(method, &path, body.as_ref()).await;
            response.expect("the connection stands")
        })
    }

    /// Starts to move the tenant's slot: all keys that `first` accepts go, the others wait.
    pub fn begin_move(&self, first: impl Fn(&str) -> bool) -> Resharding<'_> {
        let fixture = &self.app;
        let key = fixture
            .store
            .keys()
            .tenant(fixture.callers[0].partition, "acme");
        let resharding = Resharding::begin(&self.cluster, &key);
        let mut waiting = resharding.waiting();
        waiting.retain(|key| first(key));
        waiting.iter().for_each(|key| resharding.migrate(key));
        resharding
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_waits_for_migrating_ledgers() {
    for ledger_first in [false, true] {
        let (moving, id) = MovingSlot::new().await;
        let resharding =
            block_in_place(|| moving.begin_move(|key| key.contains(":budget:") == ledger_first));
        let before = repetitions(&moving.app);
        let body = json!({"idempotency_key": "c", "actual": tokens(200)});
        let path = format!("/v1/reservations/{id}/commit");
        let committing = moving.send(Method::POST, path, Some(body));
        repeated_request(&committing, &moving.app, before).await;
        block_in_place(|| resharding.finish());
        let response = committing.await.expect("no panic");
        assert_eq!(
            (response.status, response.amount("charged")),
            (200, Some(200)),
            "{response:?}"
        );
        let audit = LedgerAudit::run(&moving.app, 0).await;
        assert_eq!(audit.figure("tenant:acme", "spent"), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_waits_for_migrating_records() {
    for records_first in [false, true] {
        let (moving, _) = MovingSlot::new().await;
        let resharding =
            block_in_place(|| moving.begin_move(|key| key.contains(":rsv:") == records_first));
        let before = repetitions(&moving.app);
        let listing = moving.send(Method::GET, "/v1/reservations".to_owned(), None);
        repeated_request(&listing, &moving.app, before).await;
        block_in_place(|| resharding.finish());
        let response = listing.await.expect("no panic");
        assert_eq!(
            response.body["reservations"].as_array().map(Vec::len),
            Some(2),
            "{response:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balances_wait_for_migrating_ledgers() {
    for ledger_first in [false, true] {
        let (moving, _) = MovingSlot::new().await;
        let resharding =
            block_in_place(|| moving.begin_move(|key| key.contains(":budget:") == ledger_first));
        let before = repetitions(&moving.app);
        let asking = moving.send(Method::GET, "/v1/balances?tenant=acme".to_owned(), None);
        repeated_request(&asking, &moving.app, before).await;
        block_in_place(|| resharding.finish());
        let response = asking.await.expect("no panic");
        assert_eq!(
            response.body["balances"].as_array().map(Vec::len),
            Some(1),
            "{response:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_treats_no_migrating_record_as_missing_or_corrupt() {
    for records_first in [false, true] {
        let (moving, _) = MovingSlot::new().await;
        let fixture = &moving.app;
        let mut tenant = TenantFixture::bare(&fixture.store, "acme").await;
        let now = now_ms(&fixture.store).await;
        let ids = tenant.write_holds(3, now - 1_000).await;
        // Every key that the sweep is given is there, so nothing but the records can stop it.
        let keys = fixture.store.keys();
        let quarantine = keys.quarantine(tenant.id.partition());
        tenant.run::<i64>(&["ZADD", &quarantine, "1", "old"]).await;
        tenant.lease("d", Duration::from_secs(60)).await;

        let resharding =
            block_in_place(|| moving.begin_move(|key| key.contains(":rsv:") == records_first));
        let before = repetitions(fixture);
        let (store, id) = (fixture.store.clone(), tenant.id.clone());
        let sweeping = tokio::spawn(async move {
            store
                .expire(Lane::Background, &id, &Cause::sweep().lines(), None, None)
                .await
        });
        repeated_request(&sweeping, fixture, before).await;
        block_in_place(|| resharding.finish());
        let swept = sweeping.await.expect("no panic").expect("Redis answers");
        let Some(ExpireReply::Expired {
            count, quarantined, ..
        }) = swept
        else {
            panic!("{swept:?}");
        };
        assert_eq!((count, quarantined.len()), (3, 0));
        let status: String = tenant
            .run(&["HGET", &tenant.reservation_key(&ids[0]), "status"])
            .await;
        assert_eq!(status, "EXPIRED");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_skips_no_migrating_record() {
    for records_first in [false, true] {
        let (moving, id) = MovingSlot::new().await;
        let fixture = &moving.app;
        let body = json!({"idempotency_key": "c", "actual": tokens(200)});
        let path = format!("/v1/reservations/{id}/commit");
        moving.client.post(&path, &body).await.expect(200);
        let tenant = TenantFixture::bare(&fixture.store, "acme").await;
        let lease = tenant.lease("d", Duration::from_secs(60)).await;
        let later = now_ms(&fixture.store).await + 1_000;

        let resharding =
            block_in_place(|| moving.begin_move(|key| key.contains(":rsv:") == records_first));
        let before = repetitions(fixture);
        let record = fixture.store.keys().reservation(lease.partition, &id);
        let created: i64 = fixture.run(&["HGET", &record, "created_at_ms"]).await;
        let (store, id, day) = (
            fixture.store.clone(),
            tenant.id.clone(),
            Day::of_ms(created),
        );
        let purging = tokio::spawn(async move {
            store
                .purge(
                    lease,
                    id.as_str(),
                    day,
                    Records::Reservations,
                    later,
                    &mut Walk::default(),
                )
                .await
        });
        repeated_request(&purging, fixture, before).await;
        block_in_place(|| resharding.finish());
        let purged = purging.await.expect("no panic").expect("Redis answers");
        let Some(PurgeReply::Purged {
            removed, examined, ..
        }) = purged
        else {
            panic!("{purged:?}");
        };
        assert_eq!((removed, examined), (1, 2));
        let audit = LedgerAudit::run(fixture, 0).await;
        assert_eq!(audit.figure("tenant:acme", "base_spent"), 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_waits_for_a_migrating_slot() {
    let (moving, _) = MovingSlot::new().await;
    let resharding = block_in_place(|| moving.begin_move(|key| key.contains(":budget:")));
    let before = repetitions(&moving.app);
    let body = Some(reserve_body("new", 10));
    let creating = moving.send(Method::POST, "/v1/reservations".to_owned(), body);
    repeated_request(&creating, &moving.app, before).await;
    block_in_place(|| resharding.finish());
    assert_eq!(creating.await.expect("no panic").status, 200);
    LedgerAudit::run(&moving.app, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_reports_no_migrating_record() {
    for records_first in [false, true] {
        let (moving, _) = MovingSlot::new().await;
        let fixture = &moving.app;
        // Every key that it is given is there, so nothing but the records can stop it.
        let keys = fixture.store.keys();
        let partition = fixture.callers[0].partition;
        let quarantine = keys.quarantine(partition);
        fixture.run::<()>(&["ZADD", &quarantine, "1", "old"]).await;
        let tenant = fixture.callers[0].tenant.clone();
        let mut ids = Vec::new();
        for day in days_around(&fixture.store) {
            let index = keys.reservations(partition, tenant.as_str(), day);
            let of_day = fixture.store.members_of(&index).await;
            ids.extend(of_day.expect("Redis answers"));
        }
        assert_eq!(ids.len(), 2);
        let prefix = keys.reservation(partition, "");

        let resharding =
            block_in_place(|| moving.begin_move(|key| key.contains(":rsv:") == records_first));
        let before = repetitions(fixture);
        let store = fixture.store.clone();
        let reading = tokio::spawn(async move { store.read_records(&tenant, &prefix, &ids).await });
        repeated_request(&reading, fixture, before).await;
        block_in_place(|| resharding.finish());
        let read = reading.await.expect("no panic").expect("Redis answers");
        assert!(
            read.rows
                .iter()
                .all(|row| row.field("status") == Some("ACTIVE")),
            "{read:?}"
        );
        fixture.run::<()>(&["DEL", &quarantine]).await;
        let report = budget_authority::tools::verify::verify(&fixture.store, None, |_| {}).await;
        let report = report.expect("Redis answers");
        assert!(report.is_right(), "{}", report.table(true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_wait_for_migrating_policies() {
    for records_first in [false, true] {
        let (moving, _) = MovingSlot::new().await;
        for number in 0..3 {
            let more = json!({"priority": number, "caps": {"max_tokens": number}});
            moving
                .app
                .policy(&number.to_string(), "tenant:acme", more)
                .await;
        }
        let cold = moving.app.replica(LONG_REDIS_TIMEOUT).await;
        let resharding =
            block_in_place(|| moving.begin_move(|key| key.contains(":policy:") == records_first));
        let before = repetitions(&cold);
        let path = format!("http://{}/v1/decide", cold.address);
        let body = reserve_body("d", 1);
        let (http, key) = (http::client(), cold.keys[0].clone());
        let deciding = tokio::spawn(async move {
            let request = http.post(path).header("X-Service-API-Key", key);
            let response = request.json(&body).send().await.expect("an answer");
            response.json::<Value>().await.expect("JSON")
        });
        repeated_request(&deciding, &cold, before).await;
        block_in_place(|| resharding.finish());
        let decision = deciding.await.expect("no panic");
        assert_eq!(decision["caps"]["max_tokens"], 2, "{decision}");
    }
}
