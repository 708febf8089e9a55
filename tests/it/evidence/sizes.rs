//! Memory of evidence in Redis: the figures of docs/capacity.md.

use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::fixture::{EvidenceFixture, ON, signer};
use crate::harness::app::TestApp;
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::{ask_body, tokens, with};

const ROUNDS: usize = 200;
/// Bytes of a node of a stream; it grows by whole nodes.
const NODE: usize = 4_096;
const SCOPE: &str = "tenant:acme/workspace:w/agent:a";

/// The bytes of one, of the row of the document that begins so.
fn documented<const N: usize>(row: &str) -> [usize; N] {
    let document = include_str!("../../../docs/capacity.md");
    let begins = |line: &&str| {
        let cells = line.strip_prefix("| ");
        cells.is_some_and(|cells| cells.starts_with(row))
    };
    let line = document.lines().find(begins);
    let line = line.unwrap_or_else(|| panic!("no row `{row}`"));
    let figures = line.split(" | ").nth(1).expect("a cell").split(", ");
    let figures = figures.map_while(|figure| figure.replace(',', "").parse().ok());
    let figures: Vec<usize> = figures.collect();
    let found: Result<[usize; N], _> = figures.try_into();
    found.unwrap_or_else(|figures| panic!("{row}: {figures:?}"))
}

async fn bytes(app: &TestApp, key: &str) -> usize {
    app.run(&["MEMORY", "USAGE", key, "SAMPLES", "0"]).await
}

async fn keys(app: &TestApp, kind: &str) -> Vec<String> {
    let pattern = format!("*{}*:{kind}:*", app.store.keys().prefix());
    app.run(&["KEYS", &pattern]).await
}

async fn mean(app: &TestApp, keys: &[String]) -> usize {
    let mut sum = 0;
    for key in keys {
        sum += bytes(app, key).await;
    }
    sum / keys.len()
}

/// Makes calls and signs them; the bytes of an entry, and of an envelope.
async fn measured(
    issued: &mut EvidenceFixture,
    calls: &[(String, Value)],
    status: u16,
) -> [usize; 2] {
    let partition = issued.app.callers[0].partition;
    let unsigned = issued.app.store.keys().unsigned(partition);
    let before = bytes(&issued.app, &unsigned).await;
    let known = issued.envelopes().await;
    for (path, body) in calls {
        issued.app.post(path, body.clone()).await.expect(status);
    }
    let entry = (bytes(&issued.app, &unsigned).await - before) / calls.len();
    issued.sign().await;
    let mut envelopes = issued.envelopes().await;
    envelopes.retain(|key| !known.contains(key));
    assert_eq!(envelopes.len(), calls.len());
    [entry, mean(&issued.app, &envelopes).await]
}

/// A call for each round.
fn calls(call: impl Fn(usize) -> (String, Value)) -> Vec<(String, Value)> {
    (0..ROUNDS).map(call).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_takes_the_documented_number_of_bytes() {
    let compact = ["--hash-max-listpack-value", "1024"];
    let server = block_in_place(move || RedisServer::start_with(&compact));
    let app = TestApp::spawn_on(&server.url(), &[ON, LONG_REDIS_TIMEOUT].concat()).await;
    for scope in ["tenant:acme", "tenant:acme/workspace:w", SCOPE] {
        app.budget(scope, 1_000_000, 0).await;
    }
    let off = app.replica(&[]).await;
    let mut issued = EvidenceFixture {
        signer: signer(&app, ON),
        settings: ON.to_vec(),
        app,
    };
    let ask =
        |kind: &str, n: usize, amount| ask_body(&format!("{kind}-0123456789-{n}"), SCOPE, amount);
    let decide = |kind: &'static str| calls(move |n| ("/v1/decide".to_owned(), ask(kind, n, 5)));
    for (path, body) in decide("off") {
        off.post(&path, body).await.expect(200);
    }
    let plain = keys(&issued.app, "decision").await;
    let plain_bytes = mean(&issued.app, &plain).await;
    // So that the stream is there.
    issued
        .app
        .post("/v1/decide", ask("first", 0, 1))
        .await
        .expect(200);
    issued.sign().await;
    let decision = measured(&mut issued, &decide("on"), 200).await;
    let mut attested = keys(&issued.app, "decision").await;
    attested.retain(|key| !plain.contains(key));
    let attested_bytes = mean(&issued.app, &attested).await;

    let create = calls(|n| ("/v1/reservations".to_owned(), ask("k", n, 5)));
    let reserve = measured(&mut issued, &create, 200).await;
    let mut commits = Vec::new();
    for (path, body) in create {
        let held = issued.app.post(&path, body).await.expect(200);
        let path = format!("{path}/{}/commit", held.text("/reservation_id"));
        let key = format!("c-0123456789-{}", commits.len());
        commits.push((path, json!({"idempotency_key": key, "actual": tokens(4)})));
    }
    let commit = measured(&mut issued, &commits, 200).await;
    let denied = calls(|n| ("/v1/reservations".to_owned(), ask("much", n, 5_000_000)));
    let refusal = measured(&mut issued, &denied, 409).await;
    let metadata = json!({"metadata": {"x": "y".repeat(1_000)}});
    let long = calls(|n| {
        (
            "/v1/decide".to_owned(),
            with(ask("long", n, 5), metadata.clone()),
        )
    });
    let long = measured(&mut issued, &long, 200).await;

    let [plain_max] = documented("decision, dry run |");
    let [attested_max] = documented("the same with evidence, which keeps");
    let [ended] = documented("envelope of evidence of a create or a commit");
    let [decided, refused] = documented("envelope of a decision, of a refusal |");
    let entries: [usize; 4] = documented("entry that is not signed yet");
    let found = [
        (
            "a decision keeps more",
            attested_bytes - plain_bytes,
            attested_max - plain_max,
        ),
        ("entry of a create", reserve[0], entries[0]),
        ("entry of a commit", commit[0], entries[0]),
        ("entry of a decision", decision[0], entries[1]),
        ("entry of a refusal", refusal[0], entries[2]),
        ("entry of a decision with metadata", long[0], entries[3]),
        ("envelope of a create", reserve[1], ended),
        ("envelope of a commit", commit[1], ended),
        ("envelope of a decision", decision[1], decided),
        ("envelope of a refusal", refusal[1], refused),
    ];
    for (what, bytes, documented) in found {
        // The entries of the rounds may have begun one node more than they fill.
        let near = documented / 2..=documented + NODE / ROUNDS;
        assert!(near.contains(&bytes), "{what}: {found:?}");
    }
}
