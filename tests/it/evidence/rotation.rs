//! One key follows another, as docs/evidence-keys.md says: no decision is without evidence, and each is by the key of its time.

#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use budget_authority::config::SigningConfig;
use budget_authority::evidence::Endpoint;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::fixture::{
    EvidenceFixture, ON, PUBLIC, SEED, SERVER_ID, signer, signer_with, signing_config,
};
use crate::dispatcher::clocks::JumpingRedis;
use crate::dispatcher::fan_out::leases;
use crate::harness::app::TestApp;
use crate::harness::evidence_keys::{key, seed};
use crate::harness::process::{Environment, Process};
use crate::harness::redis::shared;
use crate::harness::redis_fixture::now_ms;
use crate::harness::runtime_calls::ask_body;
use crate::harness::{eventually, store};

const SCOPE: &str = "tenant:acme";
const NO_LIMIT: [&str; 2] = ["--evidence-requests-per-minute", "0"];

/// The settings while the first key is followed by another at an instant.
fn both(at_ms: i64) -> Vec<String> {
    let new = key('b').public().hex();
    let keys = json!([{"public_key": new, "nbf_ms": at_ms}]).to_string();
    let more = [
        "--evidence-exp-ms",
        &at_ms.to_string(),
        "--evidence-keys",
        &keys,
    ]
    .map(str::to_owned);
    ON.iter()
        .map(|word| (*word).to_owned())
        .chain(more)
        .collect()
}

/// The settings after that, when the keys have changed places.
fn swapped(at_ms: i64) -> Vec<String> {
    let new = key('b').public().hex();
    let keys = json!([{"public_key": PUBLIC, "nbf_ms": 0, "exp_ms": at_ms}]).to_string();
    let at_ms = at_ms.to_string();
    [
        "--evidence-server-id",
        SERVER_ID,
        "--evidence-public-key",
        &new,
        "--evidence-nbf-ms",
        &at_ms,
        "--evidence-keys",
        &keys,
    ]
    .map(str::to_owned)
    .into()
}

fn words(settings: &[String]) -> Vec<&str> {
    settings.iter().map(String::as_str).collect()
}

/// With the seeds of both keys.
fn signer_of(app: &TestApp, settings: &[String]) -> budget_authority::evidence::signing::Signer {
    let seeds = format!("{SEED},{}", seed('b'));
    signer(
        app,
        &[&words(settings)[..], &["--evidence-seeds", &seeds]].concat(),
    )
}

async fn replica(url: &str, prefix: &str, settings: &[String], of: Option<&TestApp>) -> TestApp {
    let settings = [&words(settings)[..], &NO_LIMIT].concat();
    match of {
        Some(app) => app.replica(&settings).await,
        None => TestApp::spawn_with(url, prefix, &settings).await,
    }
}

async fn reserve(app: &TestApp, name: &str) -> (Value, Value) {
    let body = ask_body(name, SCOPE, 1);
    let got = app.post("/v1/reservations", body.clone()).await.expect(200);
    (body, got.body)
}

/// Signs all, and checks it.
async fn check(app: TestApp, settings: &[String], seen: &[(Value, Value)], at_ms: i64) {
    let mut issued = EvidenceFixture {
        signer: signer_of(&app, settings),
        settings: Vec::new(),
        app,
    };
    assert_eq!(issued.sign().await.signed, seen.len());
    check_each(&issued, seen, at_ms).await;
}

/// Checks each envelope beside the key of its time.
async fn check_each(issued: &EvidenceFixture, seen: &[(Value, Value)], at_ms: i64) {
    let mut by_new = 0;
    for (sent, got) in seen {
        let envelope = issued.check(Endpoint::Reserve, sent, got).await;
        let issued_at_ms = envelope["issued_at_ms"].as_i64().expect("a time");
        let expected = match issued_at_ms < at_ms {
            true => PUBLIC.to_owned(),
            false => key('b').public().hex(),
        };
        assert_eq!(envelope["signer_did"], expected, "at {issued_at_ms}");
        by_new += usize::from(issued_at_ms >= at_ms);
    }
    assert!(
        by_new > 0 && by_new < seen.len(),
        "{by_new} of {}",
        seen.len()
    );
}

#[tokio::test]
async fn e20_two_replicas_switch_keys_at_the_same_instant_under_load() {
    let store = store(&shared().url());
    let at_ms = now_ms(&store).await + 10_000;
    let (url, prefix) = (shared().url(), store.keys().prefix().to_owned());
    let settings = both(at_ms);
    let one = replica(&url, &prefix, &settings, None).await;
    let other = replica(&url, &prefix, &settings, Some(&one)).await;
    one.budget(SCOPE, 1_000_000, 0).await;
    let pair = tokio::join!(reserve(&one, "a"), reserve(&other, "b"));
    let mut seen = vec![pair.0, pair.1];
    // The load begins shortly before the instant, and ends behind it however busy the machine is.
    one.until_ms(at_ms - 1_500).await;
    loop {
        let is_last = now_ms(&store).await >= at_ms + 500;
        let n = seen.len();
        let (a, b) = (format!("a{n}"), format!("b{n}"));
        let pair = tokio::join!(reserve(&one, &a), reserve(&other, &b));
        seen.extend([pair.0, pair.1]);
        if is_last {
            break;
        }
    }
    check(one, &settings, &seen, at_ms).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e20_a_replica_with_a_fast_clock_references_only_envelopes_that_are_signed() {
    let redis = block_in_place(JumpingRedis::start);
    let url = redis.server.url();
    let before = now_ms(&crate::harness::store(&url)).await;
    let settings = both(before + 600_000);
    let app = replica(&url, "ahead", &settings, None).await;
    app.budget(SCOPE, 1_000_000, 0).await;
    // It learns Redis's clock, which is set back to before the change of the key.
    redis.jump(900);
    reserve(&app, "ahead").await;
    redis.jump(0);
    let body = ask_body("behind", SCOPE, 1);
    let decided = app.post("/v1/decide", body).await.expect(200);
    let mut issued = EvidenceFixture {
        signer: signer_of(&app, &settings),
        settings: Vec::new(),
        app,
    };
    issued.sign().await;
    match issued.reference(&decided.body) {
        Some(reference) => drop(issued.envelope(reference).await),
        None => {
            let text = issued.app.telemetry.render().expect("metrics");
            let skipped = r#"budget_evidence_skipped_total{reason="no_issuer"} 1"#;
            assert!(text.contains(skipped), "{text}");
        }
    }
}

#[tokio::test]
async fn e20_decisions_under_a_former_server_id_are_still_signed() {
    let mut issued = EvidenceFixture::spawn(&["--evidence-signer", "did"]).await;
    issued.app.budget(SCOPE, 1_000, 0).await;
    let (_, got) = reserve(&issued.app, "before").await;
    // Its window ends now, as if that had been announced, and another key under another server id follows.
    let end_ms = now_ms(&issued.app.store).await + 1;
    let issuers = issued.app.store.keys().issuers();
    let row: String = issued.app.run(&["HGET", &issuers, "1"]).await;
    let row = row.replacen(" open ", &format!(" {end_ms} "), 1);
    issued.app.run::<i64>(&["HSET", &issuers, "1", &row]).await;
    let moved = [
        &[
            "--evidence-server-id",
            "https://new.example/v1",
            "--evidence-signer",
            "did",
        ]
        .map(str::to_owned),
        &swapped(end_ms)[2..],
    ]
    .concat();
    issued.signer = signer_of(&issued.app, &moved);
    assert_eq!(issued.sign().await.signed, 1);
    let envelope = issued
        .envelope(issued.reference(&got).expect("evidence"))
        .await;
    assert_eq!(envelope["server_id"], SERVER_ID);
}

#[tokio::test]
async fn e19_changing_the_form_changes_no_envelope_of_a_registered_key() {
    let mut issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget(SCOPE, 1_000, 0).await;
    let before = reserve(&issued.app, "before").await;
    let changed = [ON, &["--evidence-signer", "did"]].concat();
    let replica = issued.app.replica(&changed).await;
    let seen = [before, reserve(&replica, "after").await];
    issued.signer = signer(&issued.app, &changed);
    assert_eq!(issued.sign().await.signed, 2);
    for (sent, got) in &seen {
        let envelope = issued.check(Endpoint::Reserve, sent, got).await;
        assert_eq!(envelope["signer_did"], PUBLIC);
        let path = format!(
            "/v1/reservations/{}",
            got["reservation_id"].as_str().expect("an id")
        );
        let read = replica.get(&path).await.expect(200);
        assert_eq!(read.at("/evidence/reserve"), &got["evidence"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e20_the_runbook_of_a_replaced_key_leaves_no_gap() {
    let redis = block_in_place(JumpingRedis::start);
    let url = redis.server.url();
    let before: Vec<String> = ON.iter().map(|word| (*word).to_owned()).collect();
    let first = replica(&url, "rotation", &before, None).await;
    first.budget(SCOPE, 1_000_000, 0).await;
    let mut seen = vec![reserve(&first, "first").await];
    // Half an hour ahead, as the runbook says; replicas restart one after the other.
    let at_ms = now_ms(&first.store).await + 1_800_000;
    let settings = both(at_ms);
    let second = replica(&url, "rotation", &settings, Some(&first)).await;
    for (app, name) in [(&first, "old settings"), (&second, "new settings")] {
        seen.push(reserve(app, name).await);
    }
    let set = second
        .get("/v1/.well-known/service-jwks.json")
        .await
        .expect(200);
    assert_eq!(set.at("/keys").as_array().map(Vec::len), Some(2));
    first.stop();
    redis.jump(1_860);
    while now_ms(&second.store).await < at_ms {
        tokio::task::yield_now().await;
    }
    seen.push(reserve(&second, "after the instant").await);
    // At the next change of settings the keys change places.
    let third = replica(&url, "rotation", &swapped(at_ms), Some(&second)).await;
    seen.push(reserve(&third, "swapped").await);
    check(third, &swapped(at_ms), &seen, at_ms).await;
}

/// A dispatcher with these settings and seeds, by the clock of its Redis.
fn dispatcher(redis: &JumpingRedis, settings: &[String], seeds: &str) -> Process {
    let variable = |pair: &[String]| {
        let name = pair[0]
            .trim_start_matches("--")
            .replace('-', "_")
            .to_uppercase();
        let name: &'static str = format!("BUDGET_{name}").leak();
        (name, pair[1].clone())
    };
    let mut environment: Environment = settings.chunks(2).map(variable).collect();
    environment.push(("BUDGET_EVIDENCE_SEEDS", seeds.to_owned()));
    environment.extend(redis.environment.clone());
    Process::dispatcher_in(environment, &redis.server.url(), "seeds")
}

/// Reserves at a replica while something happens.
async fn meanwhile<T>(
    app: &TestApp,
    seen: &mut Vec<(Value, Value)>,
    happens: impl Future<Output = T>,
) -> T {
    let is_done = AtomicBool::new(false);
    let reserving = async {
        while !is_done.load(Ordering::Relaxed) {
            let name = format!("k{}", seen.len());
            seen.push(reserve(app, &name).await);
        }
    };
    let happening = async {
        let result = happens.await;
        // Some on either side of it.
        tokio::time::sleep(Duration::from_millis(300)).await;
        is_done.store(true, Ordering::Relaxed);
        result
    };
    tokio::join!(reserving, happening).1
}

/// Waits until the envelope of each decision can be read.
async fn signed(app: &TestApp, seen: &[(Value, Value)]) {
    for (_, got) in seen {
        let path = format!(
            "/v1/evidence/{}",
            got["evidence"]["evidence_id"].as_str().expect("an id")
        );
        eventually("the envelope", || async {
            let response = app.request(reqwest::Method::GET, &path).send().await;
            (response.expect("a response").status() == 200).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e20_the_runbook_works_under_load_until_the_old_seed_is_destroyed() {
    let redis = block_in_place(JumpingRedis::start);
    let url = redis.server.url();
    let before: Vec<String> = ON.iter().map(|word| (*word).to_owned()).collect();
    let first = replica(&url, "seeds", &before, None).await;
    first.budget(SCOPE, 1_000_000_000, 0).await;
    let (old, new) = (SEED.to_owned(), seed('b'));
    let mut dispatchers = [0, 1].map(|_| dispatcher(&redis, &before, &old));
    let mut seen = Vec::new();
    // Steps 2 and 3: dispatchers first, one after the other.
    let at_ms = now_ms(&first.store).await + 1_800_000;
    let settings = both(at_ms);
    meanwhile(&first, &mut seen, async {
        for one in &mut dispatchers {
            *one = block_in_place(|| dispatcher(&redis, &settings, &format!("{old},{new}")));
            // The other one has work meanwhile.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    })
    .await;
    let second = replica(&url, "seeds", &settings, Some(&first)).await;
    meanwhile(&second, &mut seen, async { first.stop() }).await;
    // Step 4: the instant comes.
    meanwhile(&second, &mut seen, async { redis.jump(1_860) }).await;
    while now_ms(&second.store).await < at_ms {
        tokio::task::yield_now().await;
    }
    // Step 5: nothing waits to be signed, and the old seed is destroyed.
    signed(&second, &seen).await;
    let swapped = swapped(at_ms);
    let third = replica(&url, "seeds", &swapped, Some(&second)).await;
    meanwhile(&third, &mut seen, async {
        for one in &mut dispatchers {
            *one = block_in_place(|| dispatcher(&redis, &swapped, &new));
        }
    })
    .await;
    signed(&third, &seen).await;
    drop(dispatchers);
    // Whatever was left was signed by dispatchers that had the old seed: it is removed without it.
    let seeds = format!("{old},{new}");
    let config = signing_config(&[&words(&swapped)[..], &["--evidence-seeds", &seeds]].concat());
    let keys = vec![key('b')];
    let by_new = signer_with(&third, SigningConfig { keys, ..config });
    let mut issued = EvidenceFixture {
        signer: by_new,
        settings: Vec::new(),
        app: third,
    };
    assert_eq!(issued.envelopes().await.len(), seen.len());
    assert_eq!(issued.ever_queued().await, seen.len());
    let begun = Instant::now();
    while issued.queued().await > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "all entries are removed"
        );
        let pass = issued.signer.run_once(&leases()).await;
        pass.expect("Redis answers");
    }
    check_each(&issued, &seen, at_ms).await;
}
