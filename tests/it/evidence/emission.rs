//! Each decision names evidence of it, which attests what was sent and what came back.

use budget_authority::evidence::Endpoint;
use serde_json::{Value, json};

use super::fixture::EvidenceFixture;
use crate::harness::runtime_calls::{ask_body, tokens, with};

const SCOPE: &str = "tenant:acme/app:chat";

const METADATA: &str = r#"{"note":"café € \"x\"\n","z":[null,{"b":1.50,"a":-0.0}],"tiny":1e-7}"#;

/// A service with two ledgers.
async fn with_ledgers(more: &[&'static str]) -> EvidenceFixture {
    let issued = EvidenceFixture::spawn(more).await;
    issued.app.budget("tenant:acme", 10_000, 50).await;
    issued.app.budget(SCOPE, 1_000, 0).await;
    issued
}

fn metadata() -> Value {
    serde_json::from_str(METADATA).expect("JSON")
}

#[tokio::test]
async fn e01_each_decision_is_attested_with_its_request_and_response() {
    for more in [&[][..], &["--dialect", "cycles"]] {
        let mut issued = with_ledgers(more).await;
        let mut seen = Vec::new();
        let mut post = async |path: String, endpoint, body: Value, status| {
            let response = issued.app.post(&path, body.clone()).await.expect(status);
            seen.push((endpoint, body, response.body.clone()));
            response.body
        };
        let reserve = |key: &str, amount, more| with(ask_body(key, SCOPE, amount), more);
        let named = json!({"metadata": metadata(), "ttl_ms": 20_000, "observe_mode": "ENFORCE", "dry_run": false});
        let create = "/v1/reservations".to_owned();
        let first = post(
            create.clone(),
            Endpoint::Reserve,
            reserve("a", 100, named),
            200,
        )
        .await;
        let plain = post(
            create.clone(),
            Endpoint::Reserve,
            reserve("b", 100, json!({})),
            200,
        )
        .await;
        let of = |response: &Value, operation: &str| {
            let id = response["reservation_id"].as_str().expect("an id");
            format!("/v1/reservations/{id}/{operation}")
        };
        let metrics = json!({"latency_ms": 950, "custom": {"score": 4.50, "big": 1e21}});
        let commit = json!({"idempotency_key": "c", "actual": tokens(80), "metrics": metrics, "metadata": metadata()});
        post(of(&first, "commit"), Endpoint::Commit, commit, 200).await;
        let release = json!({"idempotency_key": "r", "reason": "not needed"});
        post(of(&plain, "release"), Endpoint::Release, release, 200).await;
        for (key, amount) in [("allow", 10), ("deny", 5_000)] {
            let body = with(
                ask_body(key, SCOPE, amount),
                json!({"metadata": metadata()}),
            );
            post("/v1/decide".to_owned(), Endpoint::Decide, body, 200).await;
            let body = reserve(
                &format!("dry {key}"),
                amount,
                json!({"dry_run": true, "metadata": {"x": 1}}),
            );
            post(create.clone(), Endpoint::Reserve, body, 200).await;
        }
        // Refusals.
        post(
            create.clone(),
            Endpoint::Reserve,
            reserve("much", 5_000, json!({"metadata": metadata()})),
            409,
        )
        .await;
        let other = json!({"estimate": {"unit": "CREDITS", "amount": 5}});
        post(
            create.clone(),
            Endpoint::Reserve,
            reserve("unit", 5, other.clone()),
            400,
        )
        .await;
        let body = with(ask_body("unit", SCOPE, 5), other);
        post("/v1/decide".to_owned(), Endpoint::Decide, body, 400).await;
        let again = json!({"idempotency_key": "c2", "actual": tokens(80)});
        post(of(&first, "commit"), Endpoint::Commit, again, 409).await;
        let again = json!({"idempotency_key": "r2"});
        post(of(&plain, "release"), Endpoint::Release, again, 409).await;

        let pass = issued.sign().await;
        assert_eq!((pass.signed, pass.quarantined), (seen.len(), 0), "{more:?}");
        let mut kinds = Vec::new();
        for (endpoint, sent, got) in &seen {
            let envelope = issued.check(*endpoint, sent, got).await;
            kinds.push(
                envelope["artifact_type"]
                    .as_str()
                    .expect("a text")
                    .to_owned(),
            );
        }
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds, ["commit", "decide", "error", "release", "reserve"]);
    }
}

#[tokio::test]
async fn e06_a_replay_and_the_record_have_the_first_reference() {
    let mut issued = with_ledgers(&[]).await;
    let body = with(ask_body("a", SCOPE, 100), json!({"metadata": metadata()}));
    let first = issued
        .app
        .post("/v1/reservations", body.clone())
        .await
        .expect(200);
    let again = with(body, json!({"ttl_ms": null, "grace_period_ms": 5_000}));
    let again = issued.app.post("/v1/reservations", again).await.expect(200);
    let reference = issued.reference(&first.body).expect("evidence").clone();
    assert_eq!(issued.reference(&again.body), Some(&reference));

    let id = first.text("/reservation_id").to_owned();
    let path = format!("/v1/reservations/{id}");
    let read = issued.app.get(&path).await.expect(200);
    assert_eq!(read.at("/evidence"), &json!({"reserve": reference}));
    let commit =
        json!({"idempotency_key": "c", "actual": tokens(80), "metrics": {"latency_ms": 1}});
    let committed = issued
        .app
        .post(&format!("{path}/commit"), commit.clone())
        .await
        .expect(200);
    let replayed = issued
        .app
        .post(&format!("{path}/commit"), commit)
        .await
        .expect(200);
    assert_eq!(committed.body, replayed.body);
    let ended = issued.reference(&committed.body).expect("evidence").clone();
    let both = json!({"reserve": reference, "commit": ended});
    assert_eq!(
        issued.app.get(&path).await.expect(200).at("/evidence"),
        &both
    );

    // A list has it on request alone, and nothing else of what it is made of.
    for (query, evidence) in [("", &Value::Null), ("?include=evidence,bogus", &both)] {
        let list = issued
            .app
            .get(&format!("/v1/reservations{query}"))
            .await
            .expect(200);
        assert_eq!(list.at("/reservations/0/evidence"), evidence);
        assert_eq!(list.at("/reservations/0/metadata"), &Value::Null);
    }
    for kind in ["decide", "dry"] {
        let body = with(ask_body(kind, SCOPE, 10), json!({"metadata": metadata()}));
        let (path, body) = match kind {
            "decide" => ("/v1/decide", body),
            _ => ("/v1/reservations", with(body, json!({"dry_run": true}))),
        };
        let first = issued.app.post(path, body.clone()).await.expect(200);
        let again = issued.app.post(path, body).await.expect(200);
        assert!(issued.reference(&first.body).is_some());
        assert_eq!(first.body, again.body);
    }
    assert_eq!(issued.sign().await.signed, 4);
    issued.envelope(&reference).await;
}

#[tokio::test]
async fn e07_a_decision_with_a_rounded_integer_has_no_evidence() {
    let mut issued = with_ledgers(&[]).await;
    for (key, n, attested) in [
        ("exact", "9007199254740991", true),
        ("rounded", "9007199254740993", false),
        ("power", "4611686018427387904", false),
        ("decimal", "0.1", true),
    ] {
        let n: Value = serde_json::from_str(n).expect("a number");
        let body = with(ask_body(key, SCOPE, 1), json!({"metadata": {"n": n}}));
        let response = issued
            .app
            .post("/v1/reservations", body.clone())
            .await
            .expect(200);
        assert_eq!(
            issued.reference(&response.body).is_some(),
            attested,
            "{key}"
        );
    }
    // The request is fine, and the balances are not: the entry is queued, and the signer drops it.
    issued
        .app
        .budget("tenant:acme/app:big", i64::MAX - 1, 0)
        .await;
    let body = ask_body("big", "tenant:acme/app:big", 1);
    let response = issued
        .app
        .post("/v1/reservations", body.clone())
        .await
        .expect(200);
    assert_eq!(issued.reference(&response.body), None);
    // Replays and reads are no further decisions.
    issued.app.post("/v1/reservations", body).await.expect(200);
    let n: Value = serde_json::from_str("9007199254740993").expect("a number");
    let rounded = with(ask_body("rounded", SCOPE, 1), json!({"metadata": {"n": n}}));
    issued
        .app
        .post("/v1/reservations", rounded)
        .await
        .expect(200);
    let path = format!("/v1/reservations/{}", response.text("/reservation_id"));
    for path in [&path, "/v1/reservations?include=evidence"] {
        issued.app.get(path).await.expect(200);
    }
    let pass = issued.sign().await;
    assert_eq!((pass.signed, pass.quarantined), (2, 0));
    let text = issued.app.telemetry.render().expect("metrics");
    assert!(
        text.contains(r#"budget_evidence_skipped_total{reason="unrepresentable_number"} 3"#),
        "{text}"
    );
}

#[tokio::test]
async fn e12_refusals_beyond_the_rate_have_no_evidence_and_successes_do() {
    let mut issued = with_ledgers(&[]).await;
    let mut attested = 0;
    while attested < 1_200 {
        let key = format!("k{attested}");
        let refused = issued
            .app
            .post("/v1/reservations", ask_body(&key, SCOPE, 5_000))
            .await;
        let refused = refused.refused(409, "BUDGET_EXCEEDED");
        if issued.reference(&refused.body).is_none() {
            break;
        }
        attested += 1;
    }
    // The refusals may fall into two minutes.
    assert!((600..1_200).contains(&attested), "{attested}");
    let held = issued
        .app
        .post("/v1/reservations", ask_body("held", SCOPE, 5))
        .await
        .expect(200);
    assert!(issued.reference(&held.body).is_some());
    assert_eq!(issued.sign().await.signed, attested + 1);
    // A long request is left out of the envelope of its refusal.
    let mut issued = with_ledgers(&[]).await;
    let long = with(
        ask_body("long", SCOPE, 5_000),
        json!({"metadata": {"x": "y".repeat(5_000)}}),
    );
    let refused = issued
        .app
        .post("/v1/reservations", long)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(issued.sign().await.signed, 1);
    let envelope = issued
        .envelope(issued.reference(&refused.body).expect("evidence"))
        .await;
    assert_eq!(envelope["payload"]["error"]["request"], Value::Null);
    assert_eq!(
        envelope["payload"]["error"]["response"]["message"],
        refused.body["message"]
    );
}

#[tokio::test]
async fn e09_a_refusal_before_evaluation_has_no_evidence() {
    let issued = with_ledgers(&[]).await;
    let held = issued
        .app
        .post("/v1/reservations", ask_body("a", SCOPE, 5))
        .await
        .expect(200);
    let id = held.text("/reservation_id").to_owned();
    for (path, body, status) in [
        ("/v1/reservations".to_owned(), json!({}), 400),
        ("/v1/reservations".to_owned(), ask_body("a", SCOPE, 6), 409),
        (
            "/v1/reservations".to_owned(),
            ask_body("n", "tenant:bolt", 6),
            403,
        ),
        (
            "/v1/reservations/nobody/commit".to_owned(),
            json!({"idempotency_key": "x", "actual": tokens(1)}),
            404,
        ),
    ] {
        let refused = issued.app.post(&path, body).await.expect(status);
        assert_eq!(issued.reference(&refused.body), None, "{refused:?}");
    }
    let extended = json!({"idempotency_key": "e", "extend_by_ms": 1_000});
    let extended = issued
        .app
        .post(&format!("/v1/reservations/{id}/extend"), extended)
        .await
        .expect(200);
    assert_eq!(issued.reference(&extended.body), None);
}

#[tokio::test]
async fn e18_without_evidence_nothing_is_stored_or_referenced() {
    let issued = with_ledgers(&[]).await;
    let app = &issued.app;
    let body = with(ask_body("a", SCOPE, 100), json!({"metadata": metadata()}));
    let first = app.post("/v1/reservations", body.clone()).await.expect(200);
    let path = format!("/v1/reservations/{}", first.text("/reservation_id"));
    let off = app.replica(&[]).await;
    let again = off.post("/v1/reservations", body).await.expect(200);
    assert_eq!(again.at("evidence"), &Value::Null);
    assert_eq!(
        off.get(&path).await.expect(200).at("evidence"),
        &Value::Null
    );
    let list = off
        .get("/v1/reservations?include=evidence")
        .await
        .expect(200);
    assert_eq!(list.at("/reservations/0/evidence"), &Value::Null);
    let held = off
        .post("/v1/reservations", ask_body("b", SCOPE, 1))
        .await
        .expect(200);
    let id = held.text("/reservation_id");
    assert_eq!(held.at("evidence"), &Value::Null);
    let commit = json!({"idempotency_key": "c", "actual": tokens(1), "metrics": {"latency_ms": 1}});
    let done = off
        .post(&format!("/v1/reservations/{id}/commit"), commit)
        .await;
    assert_eq!(done.expect(200).at("/evidence"), &Value::Null);
    off.post("/v1/decide", ask_body("d", SCOPE, 1))
        .await
        .expect(200);
    let dry = with(ask_body("dry", SCOPE, 1), json!({"dry_run": true}));
    off.post("/v1/reservations", dry).await.expect(200);
    let keys = app.store.keys();
    let mut outcomes = vec![keys.reservation(app.callers[0].partition, id)];
    for kind in ["decision", "rsv"] {
        let pattern = format!("*{}*:{kind}:*", keys.prefix());
        let found: Vec<String> = app.run(&["KEYS", &pattern]).await;
        let first = first.text("/reservation_id");
        outcomes.extend(found.into_iter().filter(|key| !key.ends_with(first)));
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    for key in outcomes {
        let fields: Vec<String> = app.run(&["HKEYS", &key]).await;
        for kept in [
            "create_inputs",
            "end_inputs",
            "end_key",
            "actual",
            "inputs",
            "request",
            "queued",
        ] {
            assert!(
                !fields.iter().any(|field| field == kept),
                "{key} {fields:?}"
            );
        }
    }
    // A record without inputs shows none, whoever reads it.
    let read = app.get(&format!("/v1/reservations/{id}")).await.expect(200);
    assert_eq!(read.at("evidence"), &Value::Null);
    let partition = app.callers[0].partition;
    let queued: i64 = app
        .run(&["XLEN", &app.store.keys().unsigned(partition)])
        .await;
    assert_eq!(queued, 1);
}
