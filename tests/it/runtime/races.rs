//! Many clients of several replicas compete: one of them wins, and the ledgers stay exact.

use std::collections::BTreeSet;
use std::time::Duration;

use budget_authority::domain::cause::Cause;
use budget_authority::store::runtime::expire::expire_tenant;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::app::{TestApp, reserve_body};
use crate::harness::eventually;
use crate::harness::ledger_audit::LedgerAudit;
use crate::harness::random_clients::action;
use crate::harness::redis::shared;
use crate::harness::redis_fixture::now_ms;
use crate::harness::response::Response;
use crate::harness::retrying_client::{LONG_REDIS_TIMEOUT, RetryingClient};
use crate::harness::runtime_calls::tokens;

const ROOT: &str = "tenant:acme";

/// Three replicas of one deployment, and a client of them all.
struct Replicas {
    replicas: Vec<TestApp>,
    client: RetryingClient,
}

impl Replicas {
    async fn with_budget(allocated: i64) -> Self {
        let first = TestApp::spawn_on(&shared().url(), LONG_REDIS_TIMEOUT).await;
        first.budget(ROOT, allocated, 0).await;
        let mut replicas = vec![first];
        for _ in 0..2 {
            let replica = replicas[0].replica(LONG_REDIS_TIMEOUT).await;
            replicas.push(replica);
        }
        let addresses: Vec<_> = replicas.iter().map(|replica| replica.address).collect();
        let client = RetryingClient::with_long_timeout(&addresses, &replicas[0].keys[0]);
        Self { replicas, client }
    }

    /// Sends all requests at once; the responses in their order.
    async fn run(&self, requests: impl IntoIterator<Item = (String, Value)>) -> Vec<Response> {
        let mut running = JoinSet::new();
        for (index, (path, body)) in requests.into_iter().enumerate() {
            let client = self.client.clone();
            running.spawn(async move {
                let response = client.ask(Method::POST, &path, Some(&body)).await;
                (index, response.expect("no connection fails"))
            });
        }
        let mut responses = running.join_all().await;
        responses.sort_by_key(|(index, _)| *index);
        responses
            .into_iter()
            .map(|(_, response)| response)
            .collect()
    }

    async fn reserve(&self, key: &str, amount: i64, ttl_ms: i64) -> String {
        let mut body = reserve_body(key, amount);
        body["ttl_ms"] = json!(ttl_ms);
        body["grace_period_ms"] = json!(0);
        let response = self.client.post("/v1/reservations", &body).await;
        response.text("reservation_id").to_owned()
    }

    async fn audit(&self) -> LedgerAudit {
        LedgerAudit::run(&self.replicas[0], 0).await
    }
}

fn commit(id: &str, key: &str, amount: i64) -> (String, Value) {
    let body = json!({"idempotency_key": key, "actual": tokens(amount)});
    (format!("/v1/reservations/{id}/commit"), body)
}

fn release(id: &str, key: &str) -> (String, Value) {
    let body = json!({"idempotency_key": key});
    (format!("/v1/reservations/{id}/release"), body)
}

fn create(key: &str, amount: i64) -> (String, Value) {
    ("/v1/reservations".to_owned(), reserve_body(key, amount))
}

fn granted(responses: &[Response]) -> usize {
    responses
        .iter()
        .filter(|response| response.status < 300)
        .count()
}

/// All others were refused for this reason.
fn refused_with(responses: &[Response], status: u16, code: &str) {
    for response in responses.iter().filter(|response| response.status >= 300) {
        assert_eq!(
            (response.status, response.text("error")),
            (status, code),
            "{response:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_is_never_oversubscribed() {
    let replicas = Replicas::with_budget(1_000).await;
    let responses = replicas
        .run((0..150).map(|n| create(&format!("k{n}"), 13)))
        .await;
    assert_eq!(granted(&responses), 76, "76 × 13 = 988");
    refused_with(&responses, 409, "BUDGET_EXCEEDED");
    let audit = replicas.audit().await;
    assert_eq!(audit.figure(ROOT, "remaining"), 12);
    assert_eq!(audit.reservations.len(), 76);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_clients_leave_exact_ledgers() {
    let replicas = Replicas::with_budget(500).await;
    let mut clients = JoinSet::new();
    for n in 0..16_i64 {
        let client = replicas.client.clone();
        clients.spawn(async move {
            let mut charged = 0;
            for round in 0..15_i64 {
                let (path, body) = create(&format!("c{n}-{round}"), 10 + (n * round) % 50);
                let reserved = client.post(&path, &body).await;
                if reserved.status != 200 {
                    assert_eq!(reserved.text("error"), "BUDGET_EXCEEDED");
                    continue;
                }
                let id = reserved.text("reservation_id");
                let (path, body) = match round % 3 {
                    0 => release(id, "end"),
                    _ => commit(id, "end", round % 5),
                };
                let ended = client.post(&path, &body).await.expect(200);
                charged += ended.amount("charged").unwrap_or(0);
            }
            charged
        });
    }
    let charged: i64 = clients.join_all().await.iter().sum();
    let audit = replicas.audit().await;
    assert_eq!(audit.figure(ROOT, "spent"), charged);
    assert_eq!(audit.figure(ROOT, "remaining"), 500 - charged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_identical_creates_are_one_reservation() {
    let replicas = Replicas::with_budget(1_000).await;
    let responses = replicas.run((0..50).map(|_| create("same", 30))).await;
    assert_eq!(granted(&responses), 50);
    for response in &responses {
        assert_eq!(response.lasting(), responses[0].lasting());
    }
    let audit = replicas.audit().await;
    assert_eq!(audit.reservations.len(), 1);
    assert_eq!(audit.figure(ROOT, "reserved"), 30);
    // The same key for two payloads: one is served, as often as it comes, the other refused.
    let responses = replicas
        .run((0..50).map(|n| create("differs", 1 + n % 2)))
        .await;
    assert_eq!(granted(&responses), 25, "{responses:?}");
    refused_with(&responses, 409, "IDEMPOTENCY_MISMATCH");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_events_with_one_key_charge_once() {
    let replicas = Replicas::with_budget(1_000).await;
    let body = json!({
        "idempotency_key": "e", "subject": {"tenant": "acme"}, "action": action(), "actual": tokens(7),
    });
    let responses = replicas
        .run((0..50).map(|_| ("/v1/events".to_owned(), body.clone())))
        .await;
    for response in &responses {
        assert_eq!((response.status, &response.body), (201, &responses[0].body));
    }
    assert_eq!(replicas.audit().await.figure(ROOT, "spent"), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_commits_charge_once() {
    let replicas = Replicas::with_budget(1_000).await;
    let id = replicas.reserve("one key", 50, 60_000).await;
    let responses = replicas.run((0..50).map(|_| commit(&id, "c", 40))).await;
    for response in &responses {
        assert_eq!((response.status, &response.body), (200, &responses[0].body));
    }
    let id = replicas.reserve("fifty keys", 50, 60_000).await;
    let responses = replicas
        .run((0..50).map(|n| commit(&id, &format!("c{n}"), 40)))
        .await;
    assert_eq!(granted(&responses), 1);
    refused_with(&responses, 409, "RESERVATION_FINALIZED");
    let audit = replicas.audit().await;
    assert_eq!(audit.figure(ROOT, "spent"), 80);
    assert_eq!(audit.figure(ROOT, "remaining"), 920);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_is_committed_or_released_but_never_both() {
    let replicas = Replicas::with_budget(1_000).await;
    let mut committed = 0;
    for round in 0..20 {
        let id = replicas.reserve(&format!("r{round}"), 20, 60_000).await;
        // Either may be first in line.
        let mut rivals = vec![commit(&id, "end", 5), release(&id, "end")];
        rivals.rotate_left(round % 2);
        let responses = replicas
            .run([rivals.clone(), rivals.clone(), rivals].concat())
            .await;
        let winners = responses.iter().filter(|response| response.status == 200);
        let won: BTreeSet<_> = winners.map(|winner| winner.text("status")).collect();
        assert_eq!(won.len(), 1, "{responses:?}");
        assert_eq!(
            granted(&responses),
            3,
            "the winner's repetitions: {responses:?}"
        );
        refused_with(&responses, 409, "RESERVATION_FINALIZED");
        committed += i64::from(won.contains("COMMITTED"));
    }
    let audit = replicas.audit().await;
    assert_eq!(audit.figure(ROOT, "spent"), committed * 5);
    assert_eq!(audit.figure(ROOT, "reserved"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_extensions_are_granted_than_allowed() {
    let replicas = Replicas::with_budget(1_000).await;
    let id = replicas.reserve("r", 20, 60_000).await;
    let path = format!("/v1/reservations/{id}/extend");
    let body = |n| json!({"idempotency_key": format!("x{n}"), "extend_by_ms": 1_000});
    let responses = replicas.run((0..50).map(|n| (path.clone(), body(n)))).await;
    assert_eq!(granted(&responses), 10);
    refused_with(&responses, 409, "MAX_EXTENSIONS_EXCEEDED");
    let latest = responses
        .iter()
        .filter_map(|response| response.body["expires_at_ms"].as_i64())
        .max();
    let earliest = responses
        .iter()
        .filter_map(|response| response.body["expires_at_ms"].as_i64())
        .min();
    assert_eq!(
        latest.zip(earliest).map(|(l, e)| l - e),
        Some(9_000),
        "each moves it once"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_is_committed_or_expires_but_never_both() {
    // A busy machine may take seconds until the first is committed.
    const TTL_MS: i64 = 8_000;
    let replicas = Replicas::with_budget(10_000).await;
    let creates = (0..60).map(|n| {
        let (path, mut body) = create(&format!("r{n}"), 10);
        body["ttl_ms"] = json!(TTL_MS);
        body["grace_period_ms"] = json!(0);
        (path, body)
    });
    let reserved = replicas.run(creates).await;
    let ids = reserved
        .iter()
        .map(|response| response.text("reservation_id").to_owned());
    let fixture = &replicas.replicas[0];
    let due_ms = now_ms(&fixture.store).await + TTL_MS;
    let mut rivals = JoinSet::new();
    for (n, id) in ids.enumerate() {
        let (client, store) = (replicas.client.clone(), fixture.store.clone());
        let tenant = fixture.callers[0].tenant.clone();
        rivals.spawn(async move {
            // The first at once, the last when all is over, the others just when the holds end.
            let offset_ms = match n {
                0 => -TTL_MS,
                59 => 300,
                n => 2 * n as i64 - 80,
            };
            let wait_ms = due_ms + offset_ms - now_ms(&store).await;
            // Each at its own moment about the end of the holds.
            tokio::time::sleep(Duration::from_millis(wait_ms.max(0) as u64)).await;
            let (path, body) = commit(&id, "c", 10);
            let committing = client.post(&path, &body);
            let cause = Cause::sweep().lines();
            let sweeping = expire_tenant(&store, &tenant, &cause, i64::MAX);
            let (response, swept) = tokio::join!(committing, sweeping);
            swept.expect("Redis answers");
            match response.status {
                200 => 1,
                410 => 0,
                _ => panic!("{response:?}"),
            }
        });
    }
    let committed: i64 = rivals.join_all().await.iter().sum();
    assert!((1..60).contains(&committed), "{committed} of 60");
    let audit = replicas.audit().await;
    assert_eq!(audit.figure(ROOT, "spent"), committed * 10);
    assert_eq!(audit.figure(ROOT, "reserved"), 0);
    let expired = 60 - committed as usize;
    assert_eq!(audit.reservations_in("EXPIRED"), expired);
    assert_eq!(audit.events_of("reservation.expired"), expired);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_holds_return_to_all_requests_without_a_sweeper() {
    // The early request may take seconds on a busy machine.
    const TTL_MS: i64 = 8_000;
    let replicas = Replicas::with_budget(100).await;
    replicas.reserve("dead", 95, TTL_MS).await;
    replicas
        .client
        .post("/v1/reservations", &reserve_body("early", 10))
        .await
        .expect(409);
    let store = &replicas.replicas[0].store;
    let over_ms = now_ms(store).await + TTL_MS;
    eventually("the hold is past its end", || async {
        now_ms(store).await > over_ms
    })
    .await;
    let responses = replicas
        .run((0..30).map(|n| create(&format!("k{n}"), 10)))
        .await;
    assert_eq!(granted(&responses), 10, "{responses:?}");
    refused_with(&responses, 409, "BUDGET_EXCEEDED");
    let audit = replicas.audit().await;
    assert_eq!(audit.figure(ROOT, "remaining"), 0);
    assert_eq!(audit.events_of("reservation.expired"), 1);
}
