//! Attested and unattested requests, at the edges of the other features.

use std::time::Duration;

use budget_authority::evidence::Endpoint;
use serde_json::{Value, json};

use super::fixture::{EvidenceFixture, ON, signer};
use crate::dispatcher::fan_out::leases;
use crate::harness::runtime_calls::{ask_body, tokens, with};
use crate::redis::memory::{filled, service};

const SCOPE: &str = "tenant:acme";

async fn with_ledger(more: &[&'static str]) -> EvidenceFixture {
    let issued = EvidenceFixture::spawn(more).await;
    issued.app.budget(SCOPE, 1_000, 0).await;
    issued
}

async fn held(issued: &EvidenceFixture, key: &str, more: Value) -> (String, Value) {
    let body = with(ask_body(key, SCOPE, 100), more);
    let held = issued.app.post("/v1/reservations", body).await.expect(200);
    (held.text("/reservation_id").to_owned(), held.body)
}

#[tokio::test]
async fn e03_a_request_repeated_within_the_service_is_attested_once() {
    let mut issued = with_ledger(&[]).await;
    let (id, _) = held(
        &issued,
        "dead",
        json!({"ttl_ms": 1_000, "grace_period_ms": 0}),
    )
    .await;
    // Until the hold is dead, so that the next one must expire it first.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let body = ask_body("next", SCOPE, 1_000);
    let next = issued
        .app
        .post("/v1/reservations", body.clone())
        .await
        .expect(200);
    let record = issued
        .app
        .store
        .keys()
        .reservation(issued.app.callers[0].partition, &id);
    assert_eq!(
        issued.app.run::<String>(&["HGET", &record, "status"]).await,
        "EXPIRED"
    );
    assert_eq!(issued.queued().await, 2);
    assert_eq!(issued.sign().await.signed, 2);
    let envelope = issued.check(Endpoint::Reserve, &body, &next.body).await;
    // The time of the decision, by the store's clock.
    let ttl_ms = 60_000;
    let expires = next.at("/expires_at_ms").as_i64().expect("a time");
    assert_eq!(envelope["issued_at_ms"], expires - ttl_ms);
}

#[tokio::test]
async fn e05_members_without_effect_are_not_attested() {
    let mut issued = with_ledger(&[]).await;
    let action = json!({"kind": "k", "name": "n", "policy_keys": {"a": "b"}});
    let more = json!({"action": action, "observe_mode": "ENFORCE"});
    let (_, got) = held(&issued, "k", more).await;
    issued.sign().await;
    let envelope = issued
        .envelope(issued.reference(&got).expect("evidence"))
        .await;
    let request = &envelope["payload"]["reserve"]["request"];
    assert_eq!(request["action"], json!({"kind": "k", "name": "n"}));
    assert_eq!(request.get("observe_mode"), None);
}

#[tokio::test]
async fn e10_a_refused_release_of_an_admin_is_attested_with_its_message() {
    let mut issued = with_ledger(&[]).await;
    let (id, _) = held(&issued, "k", json!({})).await;
    let path = format!("/v1/reservations/{id}/release");
    let body = json!({"idempotency_key": "first", "reason": "mistake"});
    let done = issued
        .app
        .post_as_admin(&path, body.clone())
        .await
        .expect(200);
    let again = json!({"idempotency_key": "second"});
    let refused = issued
        .app
        .post_as_admin(&path, again.clone())
        .await
        .expect(409);
    assert_eq!(issued.sign().await.signed, 3);
    issued.check(Endpoint::Release, &body, &done.body).await;
    let envelope = issued.check(Endpoint::Release, &again, &refused.body).await;
    let error = &envelope["payload"]["error"];
    assert_eq!(
        (&error["http_status"], &error["reservation_id"]),
        (&json!(409), &json!(id))
    );
    for member in ["error", "message", "request_id", "trace_id"] {
        assert_eq!(error["response"][member], refused.body[member], "{member}");
    }
}

#[tokio::test]
async fn e13_a_decision_is_signed_although_its_record_is_deleted() {
    let mut issued = with_ledger(&[]).await;
    let body = ask_body("k", SCOPE, 5);
    let got = issued
        .app
        .post("/v1/decide", body.clone())
        .await
        .expect(200);
    let keys: Vec<String> = issued
        .app
        .run(&[
            "KEYS",
            &format!("*{}*decision:*", issued.app.store.keys().prefix()),
        ])
        .await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    issued.app.run::<i64>(&["DEL", &keys[0]]).await;
    assert_eq!(issued.sign().await.signed, 1);
    issued.check(Endpoint::Decide, &body, &got.body).await;
}

#[tokio::test]
async fn e15_evidence_writes_no_outbox_entry() {
    let issued = with_ledger(&[]).await;
    held(&issued, "k", json!({})).await;
    let outbox = issued
        .app
        .store
        .keys()
        .outbox(issued.app.callers[0].partition);
    assert_eq!(
        (
            issued.queued().await,
            issued.app.run::<i64>(&["XLEN", &outbox]).await
        ),
        (1, 0)
    );
}

#[tokio::test]
async fn e25_a_refused_read_shows_no_reference() {
    let issued = with_ledger(&[]).await;
    let (id, _) = held(&issued, "k", json!({})).await;
    let path = format!("/v1/reservations/{id}");
    let foreign = issued.app.get_as(1, &path).await.expect(403);
    assert!(
        !foreign.body.to_string().contains("evidence"),
        "{foreign:?}"
    );
}

#[tokio::test]
async fn e28_a_reference_is_returned_while_its_envelope_is_stored() {
    let issued = with_ledger(&[]).await;
    let (id, got) = held(&issued, "k", json!({})).await;
    let path = format!("/v1/reservations/{id}");
    // As if it had been decided a year ago, or a day.
    let record = issued
        .app
        .store
        .keys()
        .reservation(issued.app.callers[0].partition, &id);
    let now_ms = crate::harness::redis_fixture::now_ms(&issued.app.store).await;
    for (days, has_it) in [(365, false), (31, false), (29, true)] {
        let at = (now_ms - days * 86_400_000).to_string();
        issued
            .app
            .run::<i64>(&["HSET", &record, "created_at_ms", &at])
            .await;
        let read = issued.app.get(&path).await.expect(200);
        assert_eq!(read.at("evidence").is_object(), has_it, "{days} days");
    }
    assert!(issued.reference(&got).is_some());
}

#[tokio::test]
async fn e29_expiry_and_the_close_of_a_tenant_are_not_attested() {
    let mut issued = with_ledger(&[]).await;
    let tenant = json!({"tenant_id": "beta", "name": "beta"});
    issued
        .app
        .post_as_admin("/v1/admin/tenants", tenant)
        .await
        .expect(201);
    let key = json!({"tenant_id": "beta", "name": "key"});
    let key = issued
        .app
        .post_as_admin("/v1/admin/api-keys", key)
        .await
        .expect(201);
    let key = key.text("key_secret").to_owned();
    let budget = json!({"tenant_id": "beta", "scope": "tenant:beta", "unit": "TOKENS", "allocated": tokens(1_000)});
    let path = "/v1/admin/budgets";
    issued.app.post_as_admin(path, budget).await.expect(201);
    let body = ask_body("k", "tenant:beta", 100);
    let got = issued
        .app
        .post_with(&key, "/v1/reservations", &body)
        .await
        .expect(200);
    let path = format!("/v1/reservations/{}", got.text("/reservation_id"));
    let close = json!({"status": "CLOSED"});
    issued
        .app
        .patch_as_admin("/v1/admin/tenants/beta", close)
        .await
        .expect(200);
    let read = issued.app.get_as_admin(&path).await.expect(200);
    assert_eq!(read.text("status"), "RELEASED");
    assert_eq!(
        read.at("evidence"),
        &json!({"reserve": issued.reference(&got.body)})
    );
    assert_eq!(issued.sign().await.signed, 1);
    issued.check(Endpoint::Reserve, &body, &got.body).await;
}

#[tokio::test]
async fn a_key_of_the_wrong_type_refuses_a_request_before_the_first_write() {
    let issued = with_ledger(&[]).await;
    let (id, _) = held(&issued, "k", json!({})).await;
    let (app, keys) = (&issued.app, issued.app.store.keys());
    let partition = app.callers[0].partition;
    let (figures, unsigned) = (app.figures(SCOPE).await, keys.unsigned(partition));
    let outbox = keys.outbox(partition);
    app.run::<i64>(&["DEL", &unsigned]).await;
    app.run::<()>(&["SET", &unsigned, "x"]).await;
    let commit = json!({"idempotency_key": "c", "actual": tokens(1)});
    let release = json!({"idempotency_key": "r"});
    for (path, body) in [
        ("/v1/reservations".to_owned(), ask_body("n", SCOPE, 1)),
        (
            "/v1/reservations".to_owned(),
            ask_body("much", SCOPE, 9_000),
        ),
        ("/v1/decide".to_owned(), ask_body("d", SCOPE, 1)),
        (format!("/v1/reservations/{id}/commit"), commit),
        (format!("/v1/reservations/{id}/release"), release),
    ] {
        app.post(&path, body).await.refused(500, "INTERNAL_ERROR");
    }
    assert_eq!(app.figures(SCOPE).await, figures);
    let due: Vec<String> = app
        .run(&["ZRANGE", &keys.due(partition, "acme"), "0", "-1"])
        .await;
    assert_eq!(due, [&*id], "the hold is still due, and no other");
    assert_eq!(
        app.run::<i64>(&["XLEN", &outbox]).await,
        0,
        "no event of a denial"
    );
    app.run::<i64>(&["DEL", &unsigned]).await;
    app.commit(&id, "c", 1).await.expect(200);
}

#[tokio::test]
async fn e16_envelopes_that_a_full_redis_refuses_are_signed_later() {
    let (server, app) = service(ON).await;
    let held = app.post("/v1/reservations", ask_body("k", SCOPE, 1)).await;
    held.expect(200);
    let mut issued = EvidenceFixture {
        signer: signer(&app, ON),
        settings: ON.to_vec(),
        app,
    };
    filled(&server, &issued.app, 110).await;
    let pass = issued.signer.run_once(&leases()).await;
    assert_eq!(pass.map(|pass| pass.signed).unwrap_or_default(), 0);
    assert_eq!(issued.queued().await, 1);
    filled(&server, &issued.app, 50).await;
    let mut signed = 0;
    while signed == 0 {
        // Until it is time to sign again.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let pass = issued
            .signer
            .run_once(&leases())
            .await
            .expect("it takes all");
        signed += pass.signed;
    }
    assert_eq!((signed, issued.queued().await), (1, 0));
}

#[tokio::test]
async fn e12_while_memory_is_short_refusals_have_no_evidence_and_successes_do() {
    let (server, app) = service(ON).await;
    for (percent, attested) in [(50, true), (86, false)] {
        filled(&server, &app, percent).await;
        let name = format!("at {percent}");
        let held = app
            .post("/v1/reservations", ask_body(&name, SCOPE, 1))
            .await;
        assert!(held.expect(200).at("evidence").is_object(), "{percent}");
        let body = ask_body(&format!("much {name}"), SCOPE, 5_000);
        let refused = app.post("/v1/reservations", body).await;
        let refused = refused.refused(409, "BUDGET_EXCEEDED");
        assert_eq!(refused.at("evidence").is_object(), attested, "{percent}");
    }
}

#[tokio::test]
async fn stored_inputs_of_decisions_count_towards_the_tenants_bytes() {
    let issued = with_ledger(&["--stored-bytes-per-minute", "20000"]).await;
    let metadata = json!({"metadata": {"x": "y".repeat(4_000)}});
    let mut refused = 0;
    for number in 0..8 {
        let body = with(ask_body(&format!("k{number}"), SCOPE, 5), metadata.clone());
        let got = issued.app.post("/v1/decide", body).await;
        refused += usize::from(got.error() == (429, "LIMIT_EXCEEDED"));
    }
    // Each counts twice; eight may fall into two minutes.
    assert!((2..=6).contains(&refused), "{refused}");
}
