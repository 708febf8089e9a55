//! Evidence from the records of scripts: the client's request and its response.

use budget_authority::domain::ids::{ReservationId, TraceId};
use budget_authority::domain::json::Json;
use budget_authority::domain::record::Record;
use budget_authority::domain::reservation::OutcomeKind;
use budget_authority::evidence::statements::{Attested, Inputs, of_create, of_end, of_outcome};
use budget_authority::evidence::{Endpoint, attested_request, attested_response};
use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::redis_fixture::Fields;
use crate::harness::runtime_calls::{ask_body, tokens, with};

const SCOPE: &str = "tenant:acme/app:chat";

fn parsed(value: &Value) -> Json {
    Json::parse(value.to_string().as_bytes()).expect("JSON")
}

/// The inputs that a record must store for the envelope of a request.
fn inputs(endpoint: Endpoint, body: &Value) -> String {
    let trace_id = TraceId::parse(&"a".repeat(32)).expect("a trace id");
    let request = attested_request(endpoint, &parsed(body));
    Inputs::new(1, trace_id, &request).to_string()
}

/// Adds fields to a hash, as its script will.
async fn set(app: &TestApp, key: &str, fields: &[(&str, &str)]) {
    let pairs = fields.iter().flat_map(|(name, value)| [*name, *value]);
    let command: Vec<_> = ["HSET", key].into_iter().chain(pairs).collect();
    app.run::<i64>(&command).await;
}

async fn record(app: &TestApp, key: &str) -> Record {
    let fields: Fields = app.run(&["HGETALL", key]).await;
    fields.into_iter().collect()
}

/// Checks that a statement has the request as it was sent and the response as it came.
fn check(attested: Option<Attested>, endpoint: Endpoint, sent: &Value, got: &Value) {
    let payload = attested.expect("inputs").statement.payload;
    assert_eq!(payload.refused, None, "no refusal");
    let request = attested_request(endpoint, &parsed(sent)).canonical;
    assert_eq!(payload.request, Some(request));
    assert_eq!(Some(payload.response), attested_response(&parsed(got)));
}

fn reservation_key(app: &TestApp, id: &str) -> String {
    app.store.keys().reservation(app.callers[0].partition, id)
}

/// Creates a reservation; its body, its response, and its id.
async fn create(app: &TestApp, key: &str, more: Value) -> (Value, Value, String) {
    let body = with(ask_body(key, SCOPE, 100), more);
    let response = app.post("/v1/reservations", body.clone()).await.expect(200);
    let id = response.text("/reservation_id").to_owned();
    let record = reservation_key(app, &id);
    set(
        app,
        &record,
        &[("create_inputs", &inputs(Endpoint::Reserve, &body))],
    )
    .await;
    (body, response.body, id)
}

#[tokio::test]
async fn a_reservation_is_attested_byte_for_byte() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 10_000, 50).await;
    app.budget(SCOPE, 1_000, 0).await;
    let free =
        json!({"z": 1.5, "a": [null, {"é": 12_345_678_901_234_567_890_u64}], "t": "\u{1f600}"});
    for (key, more) in [
        ("plain", json!({})),
        (
            "named",
            json!({"ttl_ms": 86_400_000, "grace_period_ms": 5_000, "overage_policy": "REJECT", "dry_run": false}),
        ),
        ("free", json!({"metadata": free, "observe_mode": "ENFORCE"})),
        (
            "null",
            json!({"ttl_ms": null, "metadata": null, "overage_policy": null}),
        ),
        (
            "subject",
            json!({"subject": {"tenant": "acme", "app": "Chat", "agent": null, "dimensions": {"b": "2", "a": ""}}}),
        ),
        (
            "action",
            json!({"action": {"kind": "k", "name": "n\n", "tags": [], "policy_keys": {"x": 1}}}),
        ),
    ] {
        let (body, response, id) = create(&app, key, more).await;
        let reservation = ReservationId::parse(&id).expect("an id");
        let stored = record(&app, &reservation_key(&app, &id)).await;
        let attested = of_create(&reservation, &stored).expect(key);
        check(attested, Endpoint::Reserve, &body, &response);
        // Later operations do not change it.
        let extend = json!({"idempotency_key": "e", "extend_by_ms": 1_000});
        app.post(&format!("/v1/reservations/{id}/extend"), extend)
            .await
            .expect(200);
        let release = json!({"idempotency_key": "r"});
        app.post(&format!("/v1/reservations/{id}/release"), release)
            .await
            .expect(200);
        let stored = record(&app, &reservation_key(&app, &id)).await;
        let attested = of_create(&reservation, &stored).expect(key);
        check(attested, Endpoint::Reserve, &body, &response);
    }
}

#[tokio::test]
async fn the_end_of_a_reservation_is_attested_byte_for_byte() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 10_000, 50).await;
    app.budget(SCOPE, 1_000, 0).await;
    let metrics =
        json!({"latency_ms": 5, "model_version": null, "custom": {"score": 0.42, "n": null}});
    for (key, operation, endpoint, body) in [
        (
            "less",
            "commit",
            Endpoint::Commit,
            json!({"actual": tokens(40)}),
        ),
        (
            "more",
            "commit",
            Endpoint::Commit,
            json!({"actual": tokens(140), "metrics": metrics, "metadata": {"a": null}}),
        ),
        (
            "none",
            "commit",
            Endpoint::Commit,
            json!({"actual": tokens(0), "metrics": {}}),
        ),
        ("plain", "release", Endpoint::Release, json!({})),
        (
            "why",
            "release",
            Endpoint::Release,
            json!({"reason": "é \"done\""}),
        ),
    ] {
        let (_, _, id) = create(&app, key, json!({})).await;
        let body = with(body, json!({"idempotency_key": format!("end of {key}")}));
        let path = format!("/v1/reservations/{id}/{operation}");
        let response = app.post(&path, body.clone()).await.expect(200);
        let hash = reservation_key(&app, &id);
        let actual = body["actual"]["amount"].to_string();
        let end_key = body["idempotency_key"].as_str().expect("a key");
        let fields = [
            ("end_inputs", &*inputs(endpoint, &body)),
            ("end_key", end_key),
            ("actual", &actual),
        ];
        set(&app, &hash, &fields).await;
        let reservation = ReservationId::parse(&id).expect("an id");
        let attested = of_end(&reservation, &record(&app, &hash).await).expect(key);
        check(attested, endpoint, &body, &response.body);
    }
}

#[tokio::test]
async fn decisions_and_dry_runs_are_attested_byte_for_byte() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 10_000, 50).await;
    app.budget(SCOPE, 1_000, 0).await;
    for (key, amount) in [("allowed", 100), ("denied", 1_001)] {
        for (kind, endpoint, path) in [
            (OutcomeKind::Decision, Endpoint::Decide, "/v1/decide"),
            (OutcomeKind::DryRun, Endpoint::Reserve, "/v1/reservations"),
        ] {
            let mut body = ask_body(key, SCOPE, amount);
            if kind == OutcomeKind::DryRun {
                body["dry_run"] = json!(true);
            }
            let response = app.post(path, body.clone()).await.expect(200);
            let prefix = match kind {
                OutcomeKind::Decision => "decision",
                OutcomeKind::DryRun => "rsv",
            };
            let hash = outcome_key(&app, prefix).await;
            let request = attested_request(endpoint, &parsed(&body)).canonical;
            set(
                &app,
                &hash,
                &[
                    ("inputs", &inputs(endpoint, &body)),
                    ("request", request.as_str()),
                ],
            )
            .await;
            let attested = of_outcome(kind, &record(&app, &hash).await).expect(key);
            check(attested, endpoint, &body, &response.body);
            app.run::<i64>(&["DEL", &hash]).await;
        }
    }
}

/// The only key of an outcome.
async fn outcome_key(app: &TestApp, prefix: &str) -> String {
    let pattern = format!(
        "{}:{{{}}}:{prefix}:*",
        app.store.keys().prefix(),
        app.callers[0].partition
    );
    let keys: Vec<String> = app.run(&["KEYS", &pattern]).await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys.into_iter().next().expect("a key")
}
