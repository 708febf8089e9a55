//! The registry of keys is lost while no process runs: what the next start shows and signs.

use serde_json::{Value, json};

use super::fixture::{EvidenceFixture, ON, PUBLIC, SEED, SERVER_ID, signer};
use crate::harness::app::TestApp;
use crate::harness::evidence_keys::{key, seed};
use crate::harness::redis_fixture::now_ms;
use crate::harness::runtime_calls::ask_body;

const SCOPE: &str = "tenant:acme";

/// The settings with these further keys, beside the one that signs from a time on.
fn settings(from_ms: i64, until_ms: Option<i64>, further: &Value) -> Vec<&'static str> {
    let word = |text: String| -> &'static str { text.leak() };
    let seeds = match further == &json!([]) {
        true => SEED.to_owned(),
        false => format!("{SEED},{}", seed('b')),
    };
    let mut words = vec![
        "--evidence-server-id",
        SERVER_ID,
        "--evidence-public-key",
        PUBLIC,
        "--evidence-nbf-ms",
        word(from_ms.to_string()),
        "--evidence-keys",
        word(further.to_string()),
        "--evidence-seeds",
        word(seeds),
    ];
    if let Some(until_ms) = until_ms {
        words.extend(["--evidence-exp-ms", word(until_ms.to_string())]);
    }
    words
}

/// Those that a replica takes.
fn without_seeds(words: &[&'static str]) -> Vec<&'static str> {
    let pairs = words.chunks(2).filter(|pair| pair[0] != "--evidence-seeds");
    pairs.flatten().copied().collect()
}

async fn reserve(app: &TestApp, name: &str) -> (String, Value) {
    let held = app.post("/v1/reservations", ask_body(name, SCOPE, 1)).await;
    let held = held.expect(200);
    let path = format!("/v1/reservations/{}", held.text("/reservation_id"));
    (path, held.at("/evidence").clone())
}

async fn reads(app: &TestApp, path: &str) -> Value {
    app.get(path)
        .await
        .expect(200)
        .at("/evidence/reserve")
        .clone()
}

#[tokio::test]
async fn e20_a_registry_lost_while_nothing_ran_references_and_signs_nothing_wrong() {
    let of_another = key('b').public().hex();
    let retired = settings(
        9,
        None,
        &json!([{"public_key": of_another, "nbf_ms": 0, "exp_ms": 9}]),
    );
    let prefix = format!("t{:016x}", rand::random::<u64>());
    let url = crate::harness::redis::shared().url();
    let app = TestApp::spawn_with(&url, &prefix, &without_seeds(&retired)).await;
    app.budget(SCOPE, 1_000, 0).await;
    let (path, reference) = reserve(&app, "before").await;
    assert_eq!(reads(&app, &path).await, reference);
    let registry = app.store.keys().issuers();
    let backup: Vec<(String, String)> = app.run(&["HGETALL", &registry]).await;
    assert_eq!(backup.len(), 2);
    app.run::<i64>(&["DEL", &registry]).await;

    // With the same keys, the next start gives the same numbers.
    let same = app.replica(&without_seeds(&retired)).await;
    assert_eq!(reads(&same, &path).await, reference);
    let stored: Vec<(String, String)> = app.run(&["HGETALL", &registry]).await;
    assert_eq!(stored.len(), 2);

    // With others, a number may be another's: then there is no reference rather than a wrong one, and nothing is signed.
    let later = now_ms(&app.store).await + 900_000;
    let coming = json!([{"public_key": of_another, "nbf_ms": later}]);
    let alone = settings(9, None, &json!([]));
    for other in [alone, settings(9, Some(later), &coming)] {
        app.run::<i64>(&["DEL", &registry]).await;
        let app = app.replica(&without_seeds(&other)).await;
        assert_eq!(reads(&app, &path).await, Value::Null);
        let mut issued = EvidenceFixture {
            signer: signer(&app, &other),
            settings: ON.to_vec(),
            app,
        };
        let pass = issued.sign().await;
        assert_eq!((pass.signed, pass.quarantined), (0, 0));
        assert_eq!(issued.queued().await, 1);
    }

    // The lost registry is restored, and all processes are started again.
    app.run::<i64>(&["DEL", &registry]).await;
    for (number, issuer) in backup {
        app.run::<i64>(&["HSET", &registry, &number, &issuer]).await;
    }
    let app = app.replica(&without_seeds(&retired)).await;
    assert_eq!(reads(&app, &path).await, reference);
    let mut issued = EvidenceFixture {
        signer: signer(&app, &retired),
        settings: ON.to_vec(),
        app,
    };
    assert_eq!(issued.sign().await.signed, 1);
    issued.envelope(&reference).await;
}
