//! The worked examples of `docs/evidence.md`, byte for byte.

use super::*;
use crate::domain::dialect::Dialect;
use crate::domain::json::Canonical;
use crate::evidence::issuers::{ServerId, Signer};
use crate::evidence::payload::{attested_request, attested_response};
use crate::evidence::schema::Endpoint;

const SEED: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const TRACE: &str = "5b8efff798038103d269b633813fc60c";

fn key() -> SigningKey {
    SigningKey::parse(SEED).expect("a seed")
}

fn issuer(dialect: Dialect, kid: Option<&str>) -> Issuer {
    let server_id = ServerId::parse("https://authority.example.com/v1").expect("a server id");
    let signer = match kid {
        Some(kid) => Signer::listed(dialect, &server_id, kid),
        None => Signer::Raw(key().public()),
    };
    Issuer {
        dialect,
        server_id,
        signer,
    }
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).expect("JSON")
}

fn canonical(text: &str) -> Canonical {
    Canonical::of_json(&json(text))
}

fn statement(issued_at_ms: i64, payload: Payload) -> Statement {
    Statement {
        issued_at_ms,
        trace_id: TraceId::parse(TRACE),
        payload,
    }
}

fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

const RESERVE_RESPONSE: &str = r#"{"decision":"ALLOW","reservation_id":"rsv_5f_0001",
    "affected_scopes":["tenant:acme","tenant:acme/app:chat"],"scope_path":"tenant:acme/app:chat",
    "reserved":{"unit":"TOKENS","amount":1500},"expires_at_ms":1790000020100 EXTRA}"#;

fn reserve(extra: &str) -> Statement {
    let body = json(
        r#"{"ttl_ms":20000,"subject":{"tenant":"acme","app":"chat","agent":null},"observe_mode":"ENFORCE",
            "action":{"name":"large-v2","kind":"model.call","policy_keys":{"a":1}},"metadata":null,
            "estimate":{"unit":"TOKENS","amount":1500},"idempotency_key":"job-7:step-1"}"#,
    );
    let request = attested_request(Endpoint::Reserve, &body).canonical;
    let response = canonical(&RESERVE_RESPONSE.replace("EXTRA", extra));
    let payload = Payload::success(Endpoint::Reserve, None, request, response);
    statement(1_790_000_000_123, payload)
}

#[test]
fn a_reservation_has_the_published_id_signature_and_bytes() {
    let unsigned =
        Unsigned::new(&issuer(Dialect::Service, None), &reserve("")).expect("an envelope");
    let id = "d2e032d1379508066aab5cbc9dc44e6c9d86e473e29b85705c1b39e9bb9ced42";
    assert_eq!(unsigned.evidence_id(), id);
    assert_eq!(
        sha256(&unsigned.signed_bytes()),
        "0cd5bbf3fb09f75c7fdfbd9b96878c9817c47a2e73a966249727347d9bd4785b"
    );
    let document = unsigned.sign(&key());
    assert_eq!(document.len(), 940);
    assert_eq!(
        sha256(&document),
        "b601d7bcdde8f09fe6f65144ff933ddc1372c638ca9e0ff8ecb75ddcfb992a99"
    );
    let signature = "94c094cbfb9a6e6507c40ae9c834a9db35885b204c3ce71be0ca7637fc7140d505ea7921d8c60cf23413c81352f9f790\
                     b071d3ee59a2da92e68354a8125a2909";
    assert!(document.contains(signature), "{document}");
}

#[test]
fn another_dialect_is_another_document() {
    let unsigned =
        Unsigned::new(&issuer(Dialect::Cycles, None), &reserve("")).expect("an envelope");
    let id = "7a94a9714765b2453f2d0f94265f1e2ab776a3b44f1dfdc6fe01d8eba6e724ed";
    assert_eq!(unsigned.evidence_id(), id);
    let signature = "4f9a8de6c2c109a6f0408c60139e75440304cb99864747486c7225c58e165e1c2c5efc74e7af22f4b6929406b2d23bb7\
                     fccffea2099ef21db1a91ed10c632100";
    assert!(unsigned.sign(&key()).contains(signature));
}

#[test]
fn without_a_trace_id_the_member_is_absent() {
    let statement = Statement {
        trace_id: None,
        ..reserve("")
    };
    let unsigned = Unsigned::new(&issuer(Dialect::Service, None), &statement).expect("an envelope");
    let id = "f4d8b5fbcc6fb4b6c1eef39c2df217157570ca5f9ff2516ba1ee56a3dc80ae9c";
    assert_eq!(unsigned.evidence_id(), id);
}

#[test]
fn transport_members_are_not_attested() {
    for extra in [
        r#","remaining_ttl_ms":20000"#,
        r#","evidence":{"evidence_id":"a"}"#,
        r#","cycles_evidence":{"evidence_id":"a"}"#,
    ] {
        let response = json(&RESERVE_RESPONSE.replace("EXTRA", extra));
        let plain = canonical(&RESERVE_RESPONSE.replace("EXTRA", ""));
        assert_eq!(attested_response(&response), Some(plain));
        assert!(reserve(extra).check().is_err(), "it would be attested");
    }
}

/// A refused commit, under a key that the key set lists, with metadata that a careless writer gets wrong.
fn refused_commit() -> Statement {
    let request = json(
        r#"{"idempotency_key":"job-7:step-1:commit","actual":{"unit":"TOKENS","amount":1800},
            "metadata":{"note":"caf\u00e9 \u20ac \"x\"\n","\ud83d\ude00":1,"\ufb33":2,"Z":3,"a":4},
            "metrics":{"latency_ms":950,"custom":{"score":4.50,"tiny":0.0000001,"big":1e21,"zero":-0.0}}}"#,
    );
    let payload = Payload {
        endpoint: Endpoint::Commit,
        refused: Some(409),
        request: Some(attested_request(Endpoint::Commit, &request).canonical),
        reservation_id: Some("rsv_5f_0001".to_owned()),
        response: canonical(
            r#"{"error":"BUDGET_EXCEEDED","message":"remaining is too small","request_id":"req-01",
                "trace_id":"5b8efff798038103d269b633813fc60c"}"#,
        ),
    };
    statement(1_790_000_004_567, payload)
}

#[test]
fn a_refusal_has_the_published_id_signature_and_bytes() {
    let issuer = issuer(Dialect::Service, Some("k2026-09"));
    let unsigned = Unsigned::new(&issuer, &refused_commit()).expect("an envelope");
    let id = "9f3f6ef4ab1a70deec74a520aea635abfa35a3265464245a378d6def18310fd8";
    assert_eq!(unsigned.evidence_id(), id);
    assert_eq!(
        sha256(&unsigned.signed_bytes()),
        "0debe7ff5dc8890d4b5fe97b83c5909eaec63ff0f548ad5a0b558b6779c3921b"
    );
    let document = unsigned.sign(&key());
    assert_eq!(document.len(), 1032);
    assert_eq!(
        sha256(&document),
        "d702a95f15cf1d984a03c9ba582dca02101c22d4e29c24a6504b156a66535bd3"
    );
}

#[test]
fn a_listed_key_has_the_dialect_in_its_name() {
    let issuer = issuer(Dialect::Cycles, Some("k2026-09"));
    let unsigned = Unsigned::new(&issuer, &refused_commit()).expect("an envelope");
    let id = "88c29b0f7b654dec7d3bd46fe6ab431d7355daba317be81679abe109da20243d";
    assert_eq!(unsigned.evidence_id(), id);
    let signature = "e081e5c6d21e13f3b7acfd7d5f7a42ec170254b50231135f54ff91265b729b2101856d099fc841b613cd9d5d216d556f\
                     f834541d420b3bfafbd2a002bcf7af0a";
    assert!(unsigned.sign(&key()).contains(signature));
}

#[test]
fn a_rounded_integer_has_no_envelope() {
    let issuer = issuer(Dialect::Service, None);
    for (amount, attestable) in [
        ("9007199254740992", true),
        ("9007199254740993", false),
        ("1000000000000000000", true),
        ("4611686018427387904", false),
        ("9223372036854775807", false),
    ] {
        let mut statement = reserve("");
        let request = statement.payload.request.as_mut().expect("a request");
        *request = canonical(&request.as_str().replace("1500", amount));
        match Unsigned::new(&issuer, &statement) {
            Err(Rounded(literal)) => assert_eq!((literal.as_str(), attestable), (amount, false)),
            Ok(_) => assert!(attestable, "{amount}"),
        }
    }
}

#[test]
fn sentinels_are_present_and_empty() {
    let unsigned =
        Unsigned::new(&issuer(Dialect::Service, None), &reserve("")).expect("an envelope");
    assert_eq!(unsigned.canonical.len(), 748);
    let envelope = json(&unsigned.canonical);
    assert_eq!(envelope.rfc8785(), unsigned.canonical);
    assert_eq!(id_of(&envelope), unsigned.evidence_id);
}
