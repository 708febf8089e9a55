//! Dispatchers and Redis are killed at random moments: every reference leads to its envelope.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use budget_authority::evidence::Endpoint;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::fixture::{EvidenceFixture, ON, PUBLIC, SEED, SERVER_ID, clock_watch, signer};
use crate::dispatcher::fan_out::leases;
use crate::harness::app::TestApp;
use crate::harness::eventually;
use crate::harness::process::{Environment, Process};
use crate::harness::redis::{RedisCluster, RedisServer, SentinelTrio, shared};
use crate::harness::runtime_calls::{ask_body, tokens};

const SCOPE: &str = "tenant:acme";

fn environment() -> Environment {
    [
        ("BUDGET_EVIDENCE_SERVER_ID", SERVER_ID),
        ("BUDGET_EVIDENCE_PUBLIC_KEY", PUBLIC),
        ("BUDGET_EVIDENCE_NBF_MS", "0"),
        ("BUDGET_EVIDENCE_SEEDS", SEED),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}

/// A service that attests on a Redis of the test's choice; the signer of the test itself is not used.
async fn issued(url: &str) -> EvidenceFixture {
    let settings = [ON, &["--evidence-requests-per-minute", "0"]].concat();
    let app = TestApp::spawn_on(url, &settings).await;
    app.budget(SCOPE, 1_000_000_000, 0).await;
    EvidenceFixture {
        signer: signer(&app, ON),
        settings,
        app,
    }
}

fn dispatcher(issued: &EvidenceFixture) -> Process {
    let prefix = issued.app.store.keys().prefix();
    Process::dispatcher_in(environment(), &issued.app.redis_url, prefix)
}

type Seen = Vec<(Endpoint, Value, Value)>;

/// Reserves and commits until it is stopped; the requests and responses. Requests without a response are sent again.
async fn decide_until(issued: &EvidenceFixture, stop: &AtomicBool) -> Seen {
    let post = async |path: &str, body: &Value| {
        eventually("a response", || async {
            let response = issued.app.post(path, body.clone()).await;
            response.is_success().then_some(response.body)
        })
        .await
    };
    let (mut seen, mut number) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let body = ask_body(&format!("k{number}"), SCOPE, 10);
        let held = post("/v1/reservations", &body).await;
        let id = held["reservation_id"].as_str().expect("an id").to_owned();
        seen.push((Endpoint::Reserve, body, held));
        let body = json!({"idempotency_key": format!("c{number}"), "actual": tokens(7)});
        let done = post(&format!("/v1/reservations/{id}/commit"), &body).await;
        seen.push((Endpoint::Commit, body, done));
    }
    seen
}

/// Every reference leads to its envelope soon.
async fn check(issued: &EvidenceFixture, seen: &Seen) {
    for (endpoint, sent, got) in seen {
        let reference = issued.reference(got).expect("a reference");
        let id = reference["evidence_id"].as_str().expect("an id");
        let path = format!("/v1/evidence/{id}");
        eventually("the envelope", || async {
            let request = issued.app.request(reqwest::Method::GET, &path);
            let response = request.send().await.expect("a response");
            (response.status() == 200).then_some(())
        })
        .await;
        issued.check(*endpoint, sent, got).await;
    }
}

/// Each decision was queued once, and has one envelope.
async fn count(issued: &EvidenceFixture, seen: &Seen) {
    let counted = (issued.ever_queued().await, issued.envelopes().await.len());
    assert_eq!(counted, (seen.len(), seen.len()));
}

/// Kills dispatchers now and then; at half time also Redis.
async fn survive(url: &str, mut redis: Option<&mut RedisServer>) {
    const KILLS: usize = 5;
    let issued = issued(url).await;
    let mut dispatchers = [dispatcher(&issued), dispatcher(&issued)];
    let stop = AtomicBool::new(false);
    let killing = async {
        for kill in 0..KILLS {
            // The tests kill at any moment.
            tokio::time::sleep(Duration::from_millis(rand::random_range(600..1_500))).await;
            if kill == KILLS / 2
                && let Some(redis) = redis.take()
            {
                block_in_place(|| redis.restart());
            }
            block_in_place(|| dispatchers[kill % 2].restart());
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (seen, ()) = tokio::join!(decide_until(&issued, &stop), killing);
    assert!(seen.len() > 10, "{} decisions", seen.len());
    check(&issued, &seen).await;
    count(&issued, &seen).await;
}

/// Polls a future at most this many times; `None` if it did not end.
async fn killed_after<T>(steps: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut left, mut future) = (steps, pin!(future));
    std::future::poll_fn(|context| match left.checked_sub(1) {
        None => Poll::Ready(None),
        Some(fewer) => {
            left = fewer;
            future.as_mut().poll(context).map(Some)
        }
    })
    .await
}

#[tokio::test]
async fn e16_a_dispatcher_killed_at_any_step_loses_and_repeats_nothing() {
    let mut issued = issued(&shared().url()).await;
    let mut seen = Seen::new();
    let decide = async |issued: &EvidenceFixture, seen: &mut Seen| {
        let body = ask_body(&format!("k{}", seen.len()), SCOPE, 1);
        let held = issued.app.post("/v1/reservations", body.clone()).await;
        seen.push((Endpoint::Reserve, body, held.expect(200).body));
    };
    let mut steps = 0;
    loop {
        steps += 1;
        decide(&issued, &mut seen).await;
        // The next dispatcher signs what the killed one left.
        issued.signer = signer(&issued.app, ON);
        let signed = issued.signer.run_once(&leases()).await;
        assert!(signed.expect("Redis answers").signed > 0);
        decide(&issued, &mut seen).await;
        let pass = killed_after(steps, issued.signer.run_once(&leases())).await;
        if let Some(pass) = pass {
            let pass = pass.expect("Redis answers");
            assert!(pass.signed > 0, "{pass:?}");
            break;
        }
    }
    assert!(steps > 4, "{steps}");
    issued.signer = signer(&issued.app, ON);
    while issued.queued().await > 0 {
        issued
            .signer
            .run_once(&leases())
            .await
            .expect("Redis answers");
    }
    check(&issued, &seen).await;
    count(&issued, &seen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e16_every_reference_leads_to_its_envelope_while_dispatchers_are_killed() {
    survive(&shared().url(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e23_every_reference_leads_to_its_envelope_while_a_durable_redis_is_killed() {
    let mut redis = block_in_place(|| RedisServer::start_with(&["--appendfsync", "always"]));
    let url = redis.url();
    survive(&url, Some(&mut redis)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e17_on_a_cluster_every_envelope_is_in_the_partition_of_its_id() {
    let cluster = block_in_place(RedisCluster::start);
    let mut issued = issued(&cluster.url()).await;
    let stop = AtomicBool::new(false);
    let stopping = async {
        // Long enough for some decisions.
        tokio::time::sleep(Duration::from_millis(700)).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (seen, ()) = tokio::join!(decide_until(&issued, &stop), stopping);
    assert_eq!(issued.ever_queued().await, seen.len());
    assert_eq!(issued.sign().await.signed, seen.len());
    check(&issued, &seen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e24_an_envelope_can_be_read_within_a_second() {
    const EACH: usize = 50;
    let issued = &issued(&shared().url()).await;
    let _dispatcher = dispatcher(issued);
    let decided = async |key: String| {
        let body = ask_body(&key, SCOPE, 10);
        let held = issued.app.post("/v1/reservations", body).await.expect(200);
        let begun = tokio::time::Instant::now();
        let id = issued.reference(&held.body).expect("evidence")["evidence_id"].clone();
        let path = format!("/v1/evidence/{}", id.as_str().expect("an id"));
        eventually("the envelope", || async {
            let request = issued.app.request(reqwest::Method::GET, &path);
            let response = request.send().await.expect("a response");
            (response.status() == 200).then_some(())
        })
        .await;
        begun.elapsed()
    };
    // It waits for the start of the dispatcher.
    decided("first".to_owned()).await;
    let lane = async |round: usize, lane: usize| {
        let mut waits = Vec::new();
        for number in 0..EACH {
            waits.push(decided(format!("k{round} {lane} {number}")).await);
        }
        waits
    };
    // A stall of the machine delays all lanes, so the best of some rounds counts.
    let mut found = Vec::new();
    for round in 0..8 {
        let lanes = tokio::join!(
            lane(round, 0),
            lane(round, 1),
            lane(round, 2),
            lane(round, 3)
        );
        let mut waits = [lanes.0, lanes.1, lanes.2, lanes.3].concat();
        waits.sort_unstable();
        let p99 = waits[waits.len() * 99 / 100 - 1];
        if p99 < Duration::from_secs(1) {
            return;
        }
        found.push(p99);
    }
    panic!("{found:?}");
}

#[tokio::test]
async fn e22_an_unsignable_entry_shows_its_age() {
    use budget_authority::dispatcher::BacklogGauge;
    use budget_authority::evidence::signing::SignerMetrics;
    let issued = issued(&shared().url()).await;
    let metrics = SignerMetrics::register(&prometheus::Registry::new()).expect("distinct names");
    let mut watch = BacklogGauge::new(issued.app.store.clone(), clock_watch(), metrics.clone());
    watch.run_once(&leases()).await.expect("Redis answers");
    assert!(metrics.oldest_unsigned_seconds.get() == 0.0);
    let body = ask_body("k", SCOPE, 10);
    issued.app.post("/v1/reservations", body).await.expect(200);
    while metrics.oldest_unsigned_seconds.get() < 0.05 {
        watch.run_once(&leases()).await.expect("Redis answers");
    }
}

/// Decisions that the new master lacks are lost with their references; the others are signed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e23_after_a_failover_the_entries_of_the_new_master_are_signed() {
    let mut trio = block_in_place(SentinelTrio::start);
    let issued = issued(&trio.url()).await;
    let _dispatcher = dispatcher(&issued);
    let stop = AtomicBool::new(false);
    let failing_over = async {
        // Some decisions on either side of it.
        tokio::time::sleep(Duration::from_secs(3)).await;
        block_in_place(|| trio.master.kill());
        eventually("the failover", || async {
            (issued.app.store.metrics().primary_changes.get() > 0).then_some(())
        })
        .await;
        // Some more.
        tokio::time::sleep(Duration::from_secs(3)).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (seen, ()) = tokio::join!(decide_until(&issued, &stop), failing_over);
    let keys = issued.app.store.keys();
    let mut kept = Seen::new();
    for (endpoint, sent, got) in seen {
        let id = got["reservation_id"].as_str().unwrap_or_default();
        let record = keys.reservation(issued.app.callers[0].partition, id);
        if issued.app.run::<bool>(&["EXISTS", &record]).await {
            kept.push((endpoint, sent, got));
        }
    }
    assert!(kept.len() > 5, "{} decisions", kept.len());
    check(&issued, &kept).await;
}
