//! Crashes at every point of a bulk action: each row is done once, and the response is still available.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use budget_authority::admin::bulk_actions::run::{BulkProgress, Runner};
use budget_authority::dispatcher::UnfinishedWork;
use budget_authority::domain::budget::ledger::FundingOperation;
use budget_authority::domain::bulk::{Bulk, BulkAction, BulkFunding, Row};
use budget_authority::domain::ids::TenantId;
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::PayloadHash;
use budget_authority::store::admin::bulk::{BulkClaim, BulkMode, BulkPlace, BulkState};
use budget_authority::store::{Keys, Lease, Store, StoreMetrics};
use prometheus::Registry;
use rand::RngExt;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::task::block_in_place;

use crate::admin::bulk_actions::actions::stocked;
use crate::harness::admin_fixture::{AdminFixture, tenant_id, tokens};
use crate::harness::app::ADMIN_KEY;
use crate::harness::bulk_calls::{BUDGETS, fund, ids, ledgers};
use crate::harness::days::days_around;
use crate::harness::http;
use crate::harness::process::{Process, Replica};
use crate::harness::redis::RedisServer;
use crate::harness::redis_fixture::RedisFixture;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::{eventually, patient};

pub(crate) const COUNT: usize = 45;
pub(crate) const CAUSE: &str = "source service-admin\nactor admin\nrequest_id req_1\ntrace_id 0af7651916cd43dd8448eb211c80319c";

pub(crate) fn umbra() -> TenantId {
    tenant_id("umbra")
}

/// A claim as the service makes it of a body, whose process dies before the first row.
pub(crate) async fn claimed(fixture: &AdminFixture, body: &Value) -> BulkClaim {
    let text = |name: &str| body[name].as_str().expect("a text").to_owned();
    let digest = Sha256::new()
        .chain_update("bulkActionBudgets\0")
        .chain_update(text("idempotency_key"))
        .finalize();
    let place = BulkPlace {
        partition: umbra().partition(),
        tenant: "umbra".to_owned(),
        digest: BASE64_URL_SAFE_NO_PAD.encode(&digest[..16]),
    };
    let row = |n: usize| Row {
        id: format!("ledger-{n}"),
        place: format!("TOKENS tenant:umbra/agent:a{n}"),
    };
    let funding = BulkFunding {
        tenant: umbra(),
        operation: FundingOperation::parse(&text("action")).expect("an operation"),
        amount: body["amount"]["amount"].as_i64().map(tokens),
        spent: None,
        reason: None,
    };
    let bulk = Bulk {
        action: BulkAction::Budgets(funding),
        cause: CAUSE.to_owned(),
        filter: body["filter"].to_string(),
        idempotency_key: text("idempotency_key"),
        audit_tenant: "umbra".to_owned(),
        gone_row: "GONE".to_owned(),
        thresholds_max: 64,
        rows: (0..COUNT).map(row).collect(),
    };
    let sent = Json::parse(body.to_string().as_bytes()).expect("JSON");
    let hash = PayloadHash::of_body_and_target(&sent, &[]);
    begun(fixture, &place, hash.as_str(), &bulk).await
}

/// A claim whose lease is over as soon as it is made.
pub(crate) async fn begun(
    fixture: &AdminFixture,
    place: &BulkPlace,
    hash: &str,
    bulk: &Bulk,
) -> BulkClaim {
    let begun = fixture
        .store
        .claim_bulk(place, BulkMode::Begin(hash, bulk), Duration::ZERO);
    match begun.await {
        Ok(BulkState::Mine(claim)) => *claim,
        other => panic!("{other:?}"),
    }
}

/// The lease of the tenant's partition.
pub(crate) async fn lease(fixture: &AdminFixture) -> Lease {
    let hour = Duration::from_secs(3_600);
    fixture.lease_of(umbra().partition(), "test", hour).await
}

/// Each row was credited once, has one event; the action has one audit entry.
pub(crate) async fn check(fixture: &AdminFixture, count: usize, amount: i64) {
    for n in 0..count {
        let ledger = fixture.ledger(&format!("tenant:umbra/agent:a{n}")).await;
        assert_eq!(
            (ledger.allocated.value(), ledger.remaining.value()),
            (1_000 + amount, 1_000 + amount),
            "ledger {n}"
        );
    }
    let mut emitted = BTreeMap::<String, usize>::new();
    for event in fixture.events("umbra") {
        if event["event_type"] == "budget.funded" {
            *emitted
                .entry(event["data"]["ledger_id"].to_string())
                .or_default() += 1;
        }
    }
    assert!(
        emitted.len() == count && emitted.values().all(|times| *times == 1),
        "{emitted:?}"
    );
    let recorded = fixture.tenant_audit("umbra").into_iter();
    let recorded: Vec<_> = recorded
        .filter(|entry| entry.get("operation") == Some("bulkActionBudgets"))
        .collect();
    assert_eq!(recorded.len(), 1);
    assert_eq!(
        recorded[0].get("metadata.succeeded"),
        Some(count.to_string().as_str())
    );
    let bulks = fixture.store.keys().bulks(umbra().partition());
    assert_eq!(fixture.redis().run::<usize>(&["ZCARD", &bulks]), 0);
}

/// Takes this many steps, a script each, and stops; whether that was all.
async fn die_after(fixture: &AdminFixture, claim: &BulkClaim, steps: usize) -> bool {
    let mut runner = Runner::new(fixture.store.clone(), claim.clone()).at_once(1);
    for _ in 0..steps {
        if runner.step().await.expect("Redis answers").is_some() {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn the_same_call_finishes_after_a_crash_at_any_script() {
    let mut steps = 0;
    loop {
        let (app, fixture) = stocked(COUNT).await;
        let body = fund("umbra", "CREDIT", 7, "k");
        let claim = claimed(&fixture, &body).await;
        let finished = die_after(&fixture, &claim, steps).await;
        let response = app.post_as_admin(BUDGETS, &body).await;
        assert_eq!(
            ids(&response, "succeeded").len(),
            COUNT,
            "after {steps}: {response:?}"
        );
        check(&fixture, COUNT, 7).await;
        assert_eq!(app.post_as_admin(BUDGETS, &body).await.body, response.body);
        if finished {
            break;
        }
        steps += 1;
    }
    assert_eq!(
        steps,
        COUNT.div_ceil(10) + 1,
        "a script for ten rows, and one for the end"
    );
}

#[tokio::test]
async fn a_dispatcher_finishes_after_a_crash_at_any_script() {
    for steps in 0..=COUNT.div_ceil(10) {
        let (app, fixture) = stocked(COUNT).await;
        let body = fund("umbra", "CREDIT", 7, "k");
        let claim = claimed(&fixture, &body).await;
        assert!(!die_after(&fixture, &claim, steps).await);
        let bulks = UnfinishedWork::new(fixture.store.clone(), &Registry::new()).expect("names");
        let lease = lease(&fixture).await;
        fixture.store.node_times().await.expect("a clock");
        eventually("the lease is over", || async {
            let pass = bulks
                .run_once(&[lease], |_| {})
                .await
                .expect("Redis answers");
            pass.done == 1
        })
        .await;
        check(&fixture, COUNT, 7).await;
        let response = app.post_as_admin(BUDGETS, &body).await;
        assert_eq!(
            ids(&response, "succeeded").len(),
            COUNT,
            "the answer can be had: {response:?}"
        );
        check(&fixture, COUNT, 7).await;
    }
}

#[tokio::test]
async fn a_row_that_failed_before_a_crash_stays_failed() {
    let (app, fixture) = stocked(COUNT).await;
    let key = fixture.budget_key("umbra", "tenant:umbra/agent:a0");
    fixture
        .redis()
        .run::<()>(&["HSET", &key, "remaining", "5", "spent", "995"]);
    let body = fund("umbra", "DEBIT", 7, "k");
    let claim = claimed(&fixture, &body).await;
    assert!(!die_after(&fixture, &claim, 1).await);
    // The row could be changed now, but it has an outcome.
    fixture
        .redis()
        .run::<()>(&["HSET", &key, "remaining", "1000", "spent", "0"]);
    let response = app.post_as_admin(BUDGETS, &body).await;
    assert_eq!(
        (ids(&response, "failed"), ids(&response, "succeeded").len()),
        (vec!["ledger-0".to_owned()], COUNT - 1)
    );
    assert_eq!(
        fixture
            .ledger("tenant:umbra/agent:a0")
            .await
            .allocated
            .value(),
        1_000
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_crashing_attempts_repeat_no_row() {
    for round in 0..8 {
        let (app, fixture) = stocked(COUNT).await;
        let body = fund("umbra", "CREDIT", 3, "k");
        let claim = claimed(&fixture, &body).await;
        let mut runners = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (store, claim) = (fixture.store.clone(), claim.clone());
            let (at_once, micros) = (
                rand::rng().random_range(1..4),
                rand::rng().random_range(0..6_000),
            );
            runners.spawn(async move {
                let mut runner = Runner::new(store, claim).at_once(at_once);
                let run = runner.run(Duration::from_secs(9));
                // Dropped in the middle of whatever it does; its scripts may run all the same.
                let _ = tokio::time::timeout(Duration::from_micros(micros), run).await;
            });
        }
        runners.join_all().await;
        let response = app.post_as_admin(BUDGETS, &body).await;
        assert_eq!(
            ids(&response, "succeeded").len(),
            COUNT,
            "round {round}: {response:?}"
        );
        // A script in flight when its sender died has run by now or never will.
        tokio::time::sleep(Duration::from_millis(20)).await;
        check(&fixture, COUNT, 3).await;
    }
}

#[tokio::test]
async fn concurrent_finishes_store_one_response_and_one_entry() {
    let (_app, fixture) = stocked(COUNT).await;
    let body = fund("umbra", "CREDIT", 3, "k");
    let claim = claimed(&fixture, &body).await;
    let mut one = Runner::new(fixture.store.clone(), claim.clone());
    let mut two = Runner::new(fixture.store.clone(), claim);
    let time = Duration::from_secs(9);
    let (one, two) = tokio::join!(one.run(time), two.run(time));
    let responses = [one, two].map(|progress| match progress.expect("Redis answers") {
        BulkProgress::Finished(response) => response,
        other => panic!("{other:?}"),
    });
    assert_eq!(responses[0], responses[1]);
    check(&fixture, COUNT, 3).await;
}

#[tokio::test]
async fn an_action_older_than_a_day_fails_its_remaining_rows() {
    let (_app, fixture) = stocked(COUNT).await;
    let body = fund("umbra", "CREDIT", 3, "k");
    let mut claim = claimed(&fixture, &body).await;
    assert!(!die_after(&fixture, &claim, 1).await);
    claim.age_ms = 25 * 3_600_000;
    let progress = Runner::new(fixture.store.clone(), claim)
        .run(Duration::from_secs(9))
        .await;
    let BulkProgress::Finished(response) = progress.expect("Redis answers") else {
        panic!("not finished");
    };
    let body: Value = serde_json::from_str(&response.body).expect("JSON");
    let count = |list: &str| body[list].as_array().map(Vec::len);
    assert_eq!(
        (count("succeeded"), count("failed")),
        (Some(10), Some(COUNT - 10))
    );
    assert_eq!(
        fixture
            .ledger("tenant:umbra/agent:a44")
            .await
            .allocated
            .value(),
        1_000
    );
}

#[tokio::test]
async fn an_action_out_of_time_pauses_and_is_resumed() {
    let (app, fixture) = stocked(COUNT).await;
    let body = fund("umbra", "CREDIT", 3, "k");
    let claim = claimed(&fixture, &body).await;
    let progress = Runner::new(fixture.store.clone(), claim)
        .run(Duration::ZERO)
        .await;
    assert_eq!(progress.expect("Redis answers"), BulkProgress::Paused);
    let response = app.post_as_admin(BUDGETS, &body).await;
    assert_eq!(ids(&response, "succeeded").len(), COUNT);
    check(&fixture, COUNT, 3).await;
}

/// With real processes: a replica is killed in the middle of a call, and a dispatcher as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_done_once_when_a_replica_is_killed() {
    const ROWS: usize = 500;
    let redis = block_in_place(|| RedisServer::start_with(&["--appendfsync", "always"]));
    let url = redis.url();
    let metrics = StoreMetrics::register(&Registry::new()).expect("a fresh registry");
    let keys = Keys::new("bulk").expect("a prefix");
    let store = Store::new(&patient(&url), keys, "service", metrics).expect("a usable URL");
    let settings = [&["--admin-keys", ADMIN_KEY][..], LONG_REDIS_TIMEOUT].concat();
    let mut replica = Replica::start(&url, "bulk", &settings);
    replica.ready().await;
    AdminFixture::on(store.clone()).tenant("umbra").await;
    ledgers(&store, "umbra", ROWS).await;
    let partition = umbra().partition();
    let fixture = RedisFixture::on(store.clone());
    let length = || async {
        let mut length = 0;
        for day in days_around(&store) {
            let log = store.keys().events(partition, "umbra", day);
            length += fixture.run::<usize>(&["XLEN", &log]).await;
        }
        length
    };
    let url_of_action = format!("http://{}{BUDGETS}", replica.address);
    let call = |key: &str| {
        http::client()
            .request(Method::POST, &url_of_action)
            .header("X-Admin-API-Key", ADMIN_KEY)
            .json(&fund("umbra", "CREDIT", 1, key))
    };
    // On a busy machine an action may finish before the kill: then the next one is killed.
    let (mut calls, mut before) = (0, 1);
    loop {
        calls += 1;
        assert!(calls <= 10, "never killed in the middle");
        let sent = tokio::spawn(call(&format!("k{calls}")).send());
        eventually("some rows are done", || async {
            length().await > before + 20
        })
        .await;
        block_in_place(|| replica.process.kill());
        drop(sent.await);
        if length().await < before + ROWS {
            break;
        }
        before += ROWS;
        block_in_place(|| replica.process.restart());
        replica.ready().await;
    }
    let all = before + ROWS;
    let _dispatcher = Process::dispatcher(&url, "bulk");
    eventually("a dispatcher does the rest", || async {
        (length().await >= all).then_some(())
    })
    .await;
    block_in_place(|| replica.process.restart());
    replica.ready().await;
    let again = call(&format!("k{calls}")).send().await;
    let response = again.expect("an answer");
    assert_eq!(response.status(), 200);
    let body: Value = response.json().await.expect("JSON");
    assert_eq!(body["total_matched"], json!(ROWS));
    assert_eq!(body["succeeded"].as_array().map(Vec::len), Some(ROWS));
    assert_eq!(length().await, all);
}
