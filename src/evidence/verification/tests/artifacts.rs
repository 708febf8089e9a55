//! Envelopes of every kind, those whose payload is none of their kind, and what the canonical form and the reader can hold.

use super::*;
use crate::domain::refusal::EvaluatedCode;

const ESTIMATE: &str = r#"{"idempotency_key":"k","subject":{"tenant":"acme"},"action":{"kind":"k","name":"n"},"estimate":{"amount":1,"unit":"TOKENS"}}"#;

/// A payload of each kind.
fn payloads() -> Vec<Payload> {
    let of = |endpoint, request: &str, response: &str| {
        let reservation_id = names_reservation(endpoint).then(|| "rsv_1".to_owned());
        let (request, response) = (canonical(request), canonical(response));
        Payload::success(endpoint, reservation_id, request, response)
    };
    vec![
        of(
            Endpoint::Decide,
            ESTIMATE,
            r#"{"decision":"DENY","reason_code":"BUDGET_EXCEEDED"}"#,
        ),
        of(
            Endpoint::Reserve,
            ESTIMATE,
            r#"{"decision":"ALLOW","affected_scopes":["tenant:acme"],"reservation_id":"rsv_1","expires_at_ms":1}"#,
        ),
        of(
            Endpoint::Commit,
            r#"{"idempotency_key":"k","actual":{"amount":1,"unit":"TOKENS"}}"#,
            r#"{"status":"COMMITTED","charged":{"amount":1,"unit":"TOKENS"}}"#,
        ),
        of(
            Endpoint::Release,
            r#"{"idempotency_key":"k"}"#,
            r#"{"status":"RELEASED","released":{"amount":1,"unit":"TOKENS"}}"#,
        ),
        refusal(Endpoint::Commit, 409, "BUDGET_EXCEEDED"),
    ]
}

fn names_reservation(endpoint: Endpoint) -> bool {
    matches!(endpoint, Endpoint::Commit | Endpoint::Release)
}

fn refusal(endpoint: Endpoint, http_status: u16, code: &str) -> Payload {
    let response = format!(r#"{{"error":"{code}","message":"m","request_id":"r"}}"#);
    Payload {
        endpoint,
        refused: Some(http_status),
        request: None,
        reservation_id: names_reservation(endpoint).then(|| "rsv_1".to_owned()),
        response: canonical(&response),
    }
}

fn document_of(payload: Payload) -> String {
    let issuer = Issuer {
        dialect: Dialect::Service,
        server_id: ServerId::parse(SERVER).expect("a server id"),
        signer: Signer::Raw(key(1).public()),
    };
    let statement = Statement {
        issued_at_ms: AT_MS,
        trace_id: None,
        payload,
    };
    assert_eq!(statement.clone().check(), Ok(()));
    let unsigned = Unsigned::new(&issuer, &statement).expect("an envelope");
    unsigned.sign(&key(1))
}

/// Signs whatever it is, in order.
fn signed_anyway(mut envelope: Json) -> String {
    for name in ["signature", "evidence_id"] {
        super::super::set(&mut envelope, name, "");
    }
    let id = id_of(&envelope);
    super::super::set(&mut envelope, "evidence_id", &id);
    let signature = key(1).sign(envelope.rfc8785().as_bytes());
    super::super::set(&mut envelope, "signature", &signature);
    envelope.rfc8785()
}

/// With another value of a member.
fn with(envelope: &Json, name: &str, value: Json) -> Json {
    let Json::Object(mut members) = envelope.clone() else {
        panic!("an object")
    };
    let mut found = members.iter_mut().find(|(known, _)| known == name);
    found.as_mut().expect("a member").1 = value;
    Json::Object(members)
}

#[test]
fn every_kind_of_envelope_is_verified_and_no_altered_one() {
    let keys = set(&[("a", 1, 0, None)]);
    for payload in payloads() {
        let document = document_of(payload);
        assert_eq!(with_set(&document, &keys), Authentic, "{document}");
        assert_eq!(signed_anyway(json(&document)), document);
        for at in 0..document.len() {
            let mut bytes = document.clone().into_bytes();
            bytes[at] ^= 1;
            let found = verify(&bytes, Keys::Set(keys.as_bytes()), None, None);
            assert_eq!(
                found.disposition, SignatureInvalid,
                "byte {at} of {document}"
            );
        }
    }
}

#[test]
fn a_payload_under_another_artifact_type_is_refused() {
    let documents: Vec<Json> = payloads()
        .into_iter()
        .map(|it| json(&document_of(it)))
        .collect();
    let text = |envelope: &Json, name| -> String {
        let text = envelope.member(name).and_then(Json::as_text);
        text.expect("a text").to_owned()
    };
    for (at, envelope) in documents.iter().enumerate() {
        let artifact = text(envelope, "artifact_type");
        for (other_at, other) in documents.iter().enumerate() {
            if at == other_at {
                continue;
            }
            let name = text(other, "artifact_type");
            // Another type, another member, and the body of this kind under the name of the other.
            let renamed = with(envelope, "artifact_type", Json::from(&*name));
            let payload = envelope.member("payload").expect("a payload");
            let body = payload.member(&artifact).expect("its body").clone();
            let moved = Json::Object(vec![(name.clone().into(), body.clone())]);
            let both = Json::Object(vec![
                (artifact.clone().into(), body.clone()),
                (name.clone().into(), body),
            ]);
            for wrong in [
                renamed.clone(),
                with(
                    envelope,
                    "payload",
                    other.member("payload").expect("a payload").clone(),
                ),
                with(&renamed, "payload", moved),
                with(envelope, "payload", both),
            ] {
                let document = signed_anyway(wrong);
                assert_eq!(alone(&document), SignatureInvalid, "{document}");
            }
        }
        let unknown = with(envelope, "artifact_type", Json::from("extend"));
        assert_eq!(alone(&signed_anyway(unknown)), SignatureInvalid);
    }
}

/// Codes of refusals that this service does not attest.
const NEVER_EMITTED: [&str; 8] = [
    "INVALID_REQUEST",
    "UNAUTHORIZED",
    "FORBIDDEN",
    "NOT_FOUND",
    "IDEMPOTENCY_MISMATCH",
    "MAX_EXTENSIONS_EXCEEDED",
    "LIMIT_EXCEEDED",
    "INTERNAL_ERROR",
];

/// The issuer decides which refusals it attests: a verifier accepts whatever the format can carry.
#[test]
fn e09_a_verifier_ignores_the_policy_of_the_issuer() {
    for code in NEVER_EMITTED {
        assert_eq!(EvaluatedCode::parse(code), None);
        for endpoint in [
            Endpoint::Decide,
            Endpoint::Reserve,
            Endpoint::Commit,
            Endpoint::Release,
        ] {
            for http_status in [400, 429, 599] {
                let document = document_of(refusal(endpoint, http_status, code));
                assert_eq!(alone(&document), BindingOnly, "{document}");
            }
        }
    }
    let document = json(&document_of(refusal(
        Endpoint::Decide,
        409,
        "BUDGET_EXCEEDED",
    )));
    let unknown = document
        .rfc8785()
        .replace("BUDGET_EXCEEDED", "SOMETHING_ELSE");
    assert_eq!(alone(&signed_anyway(json(&unknown))), SignatureInvalid);
    // Neither does it ask for what we always attest, such as the trace.
    assert_eq!(document.member("trace_id"), None);
}

#[test]
fn a_name_that_is_not_a_key_is_refused() {
    let document = json(&raw());
    let mine = key(1).public().hex();
    for name in [
        "ff".repeat(32),
        "00".repeat(32),
        format!("01{}", "00".repeat(31)),
        mine.to_uppercase(),
        mine[..62].to_owned(),
        format!("{mine}00"),
        format!("did:service:{}#k", "f".repeat(63)),
        String::new(),
    ] {
        let wrong = signed_anyway(with(&document, "signer_did", Json::from(&*name)));
        assert_eq!(alone(&wrong), SignatureInvalid, "{name}");
    }
}

#[test]
fn numbers_that_the_canonical_form_would_round_are_refused() {
    // Another text of the same double as 9007199254740992.
    let document = raw().replace("[12,", "[9007199254740993,");
    let found = verify(document.as_bytes(), Keys::Absent, None, None);
    assert_eq!(found.disposition, SignatureInvalid);
    assert!(
        found.reason.contains("9007199254740993"),
        "{}",
        found.reason
    );
}

#[test]
fn e08_an_envelope_nests_as_deep_as_a_request_may_and_no_deeper() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let found = |levels| {
        let document = raw().replace("[12,null,true]", &nested(levels));
        verify(document.as_bytes(), Keys::Absent, None, None).reason
    };
    // Five objects are around it.
    assert!(
        found(DEPTH_MAX - 5).contains("evidence_id"),
        "{}",
        found(DEPTH_MAX - 5)
    );
    assert!(
        found(DEPTH_MAX - 4).contains("nested deeper than 72"),
        "{}",
        found(DEPTH_MAX - 4)
    );
}
