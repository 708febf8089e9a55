//! That what a record gives back is what the client sent and got, and that its bytes never change.

mod entries;
mod refusals;

use proptest::prelude::*;

use super::*;
use crate::domain::dialect::Dialect;
use crate::domain::fields::Read as _;
use crate::domain::json::Canonical;
use crate::domain::reservation::facts;
use crate::domain::reservation::{CommitRequest, ReleaseRequest, ReservationCreateRequest};
use crate::evidence::{Endpoint, Issuer, ServerId, Signer, SigningKey, Unsigned, attested_request};

const TRACE: &str = "5b8efff798038103d269b633813fc60c";

fn parsed_json(text: &str) -> Json {
    Json::parse(text.as_bytes()).expect("JSON")
}

fn trace() -> TraceId {
    TraceId::parse(TRACE).expect("a trace id")
}

/// The id of the envelope that an issuer makes of a record.
fn id_of(attested: &Attested) -> String {
    let key = SigningKey::parse(&"07".repeat(32)).expect("a seed");
    let issuer = Issuer {
        dialect: Dialect::Service,
        server_id: ServerId::parse("https://authority.example.com/v1").expect("a server id"),
        signer: Signer::Raw(key.public()),
    };
    let unsigned = Unsigned::new(&issuer, &attested.statement).expect("an envelope");
    unsigned.evidence_id().to_owned()
}

/// The request and the response of a payload, as they are attested.
fn parts(payload: &Payload) -> (String, String) {
    assert_eq!(payload.refused, None, "no record has a refusal");
    let request = payload.request.as_ref().expect("a request");
    (
        request.as_str().to_owned(),
        payload.response.as_str().to_owned(),
    )
}

const CREATE: &str = r#"{"idempotency_key":"k-1","subject":{"tenant":"acme","app":"Chat","dimensions":{"b":"2","a":"1"}},
    "action":{"kind":"model.call","name":"large","tags":["x"]},"estimate":{"unit":"TOKENS","amount":1500},
    "ttl_ms":7200000,"grace_period_ms":5000,"overage_policy":"REJECT","dry_run":false,"metadata":{"n":1.50,"z":null}}"#;

/// The record of a create, as its script leaves it where the tenant grants an hour at most.
fn created(body: &str) -> Record {
    let request = ReservationCreateRequest::from_json(parsed_json(body)).expect("a request");
    let attested = attested_request(Endpoint::Reserve, &parsed_json(body));
    let metadata = request.metadata.as_ref().map(|it| it.as_str().to_owned());
    let overage = request
        .overage_policy
        .map(|policy| policy.as_str().to_owned());
    let mut fields = facts::of_request(&request.subject, &request.action);
    fields.extend(facts::present([
        ("status", Some("ACTIVE".to_owned())),
        ("unit", Some(request.estimate.unit().to_string())),
        ("estimate", Some(request.estimate.value().to_string())),
        ("scope_path", Some("tenant:acme/app:chat".to_owned())),
        ("budgeted", Some("1 2".to_owned())),
        ("create.1", Some("5000 0 1500".to_owned())),
        ("create.2", Some("2000 100 1500 50 100 0".to_owned())),
        ("caps", Some(r#"{"max_tokens":7}"#.to_owned())),
        (
            "overage_policy",
            overage.or(Some("ALLOW_IF_AVAILABLE".to_owned())),
        ),
        ("created_at_ms", Some("1790000000123".to_owned())),
        ("expires_at_ms", Some("1790003600123".to_owned())),
        ("grace_ms", Some(request.grace_period_ms.to_string())),
        ("idempotency_key", Some(request.idempotency_key.to_string())),
        ("metadata", metadata),
        (
            "create_inputs",
            Some(Inputs::new(3, trace(), &attested).to_string()),
        ),
    ]));
    fields.into_iter().collect()
}

fn reservation() -> ReservationId {
    ReservationId::parse("rsv_5f_0001").expect("an id")
}

fn create_of(record: &Record) -> Attested {
    let attested = of_create(&reservation(), record).expect("a record");
    attested.expect("inputs")
}

#[test]
fn a_create_is_attested_as_it_was_sent() {
    let named = [
        r#""ttl_ms":7200000,"#,
        r#""grace_period_ms":5000,"#,
        r#""overage_policy":"REJECT","#,
        r#""dry_run":false,"#,
        r#","metadata":{"n":1.50,"z":null}"#,
        r#","tags":["x"]"#,
        r#","dimensions":{"b":"2","a":"1"}"#,
    ];
    let mut bodies = vec![CREATE.to_owned(), CREATE.replace("Chat", "chat")];
    bodies.extend(named.map(|member| CREATE.replace(member, "")));
    for body in bodies {
        let attested = create_of(&created(&body));
        let (request, _) = parts(&attested.statement.payload);
        let sent = attested_request(Endpoint::Reserve, &parsed_json(&body));
        assert_eq!(request, sent.canonical.as_str());
        assert_eq!(
            (attested.inputs.issuer, attested.inputs.format),
            (3, FORMAT)
        );
    }
}

#[test]
fn the_envelope_of_a_create_outlives_commit_and_extension() {
    let first = create_of(&created(CREATE));
    let later = created(CREATE)
        .with("status", "COMMITTED")
        .with("charged", "7")
        .with("expires_at_ms", "1790003700123")
        .with("extended_ms", "100000");
    assert_eq!(id_of(&create_of(&later)), id_of(&first));
}

const COMMIT: &str = r#"{"idempotency_key":"k-2","actual":{"unit":"TOKENS","amount":1800},
    "metrics":{"latency_ms":5,"custom":{"score":0.420}},"metadata":{"é":[1e3]}}"#;

fn committed(body: &str) -> Record {
    let request = CommitRequest::from_json(parsed_json(body)).expect("a request");
    let metrics = request.metrics.as_ref().map(|it| it.to_json());
    let metadata = request.metadata.as_ref().map(|it| it.as_str().to_owned());
    let attested = attested_request(Endpoint::Commit, &parsed_json(body));
    let ended = facts::present([
        ("status", Some("COMMITTED".to_owned())),
        ("charged", Some("1500".to_owned())),
        ("finalized_at_ms", Some("1790000004567".to_owned())),
        ("commit.1", Some("5000 1500 0".to_owned())),
        ("commit.2", Some("2000 1600 0 50 100 1".to_owned())),
        ("actual", Some(request.actual.value().to_string())),
        ("end_key", Some(request.idempotency_key.to_string())),
        ("metrics", metrics),
        ("committed_metadata", metadata),
        (
            "end_inputs",
            Some(Inputs::new(3, trace(), &attested).to_string()),
        ),
    ]);
    ended.fold(created(CREATE), |record, (name, value)| {
        record.with(name, value)
    })
}

fn end_of(record: &Record) -> Attested {
    let attested = of_end(&reservation(), record).expect("a record");
    attested.expect("inputs")
}

#[test]
fn a_commit_is_attested_as_it_was_sent() {
    for body in [
        COMMIT.to_owned(),
        COMMIT.replace(r#","metadata":{"é":[1e3]}"#, ""),
        COMMIT.replace(r#""custom":{"score":0.420}"#, r#""model_version":null"#),
        COMMIT.replace(r#"{"latency_ms":5,"custom":{"score":0.420}}"#, "{}"),
    ] {
        let (request, response) = parts(&end_of(&committed(&body)).statement.payload);
        assert_eq!(
            request,
            attested_request(Endpoint::Commit, &parsed_json(&body))
                .canonical
                .as_str()
        );
        assert!(
            response.contains(r#""charged":{"amount":1500,"unit":"TOKENS"}"#),
            "{response}"
        );
    }
}

/// A record of a release, or of a decision.
fn record(fields: &[(&str, &str)]) -> Record {
    let inputs = format!("1 3 {TRACE}");
    let record: Record = fields.iter().copied().collect();
    let record = record.with("inputs", inputs.as_str());
    record.with("end_inputs", inputs)
}

fn released(body: &str) -> Record {
    let request = ReleaseRequest::from_json(parsed_json(body)).expect("a request");
    let record = record(&[
        ("status", "RELEASED"),
        ("unit", "TOKENS"),
        ("estimate", "1500"),
        ("scope_path", "tenant:acme"),
        ("budgeted", "1"),
        ("release.1", "5000 0 0"),
        ("finalized_at_ms", "1790000004567"),
    ]);
    let record = record.with("end_key", request.idempotency_key.to_string());
    match request.reason {
        Some(reason) => record.with("release_reason", reason),
        None => record,
    }
}

#[test]
fn a_release_is_attested_as_it_was_sent() {
    for body in [
        r#"{"idempotency_key":"k"}"#,
        r#"{"idempotency_key":"k","reason":""}"#,
        r#"{"idempotency_key":"k","reason":"é\n"}"#,
    ] {
        let (request, _) = parts(&end_of(&released(body)).statement.payload);
        assert_eq!(request, parsed_json(body).rfc8785());
    }
}

fn decided(decision: &[(&str, &str)]) -> Record {
    let request = r#"{"action":{"kind":"k","name":"n"},"dry_run":true,"estimate":{"amount":5,"unit":"TOKENS"},"idempotency_key":"k","subject":{"tenant":"acme"}}"#;
    let fields = [
        ("unit", "TOKENS"),
        ("estimate", "5"),
        ("scope_path", "tenant:acme"),
        ("budgeted", "1"),
        ("create.1", "10 1 0"),
        ("created_at_ms", "1790000000123"),
        ("request", request),
    ];
    record(&[&fields[..], decision].concat())
}

const ALLOWED: [(&str, &str); 1] = [("decision", "ALLOW")];
const DENIED: [(&str, &str); 2] = [("decision", "DENY"), ("reason_code", "BUDGET_FROZEN")];

#[test]
fn a_reader_needs_no_other_fields_of_a_reservation() {
    let of_fields = |record: &Record| -> Record {
        let value = |name: &&'static str| Some((*name, record.get(name)?.to_owned()));
        FIELDS.iter().filter_map(value).collect()
    };
    let created = created(CREATE).with("extended_ms", "1000");
    assert_eq!(
        id_of(&create_of(&of_fields(&created))),
        id_of(&create_of(&created))
    );
    let released = released(r#"{"idempotency_key":"k","reason":"done"}"#);
    for ended in [committed(COMMIT), released] {
        assert_eq!(id_of(&end_of(&of_fields(&ended))), id_of(&end_of(&ended)));
    }
}

/// Frozen: an envelope of this format has these bytes for ever.
#[test]
fn the_ids_of_format_1_never_change() {
    let decision = decided(&DENIED).with(
        "request",
        parsed_json(
            r#"{"idempotency_key":"k","subject":{"tenant":"acme"},
        "action":{"kind":"k","name":"n"},"estimate":{"unit":"TOKENS","amount":5}}"#,
        )
        .rfc8785(),
    );
    let outcome = |kind, record: &Record| {
        let attested = of_outcome(kind, record).expect("a record");
        id_of(&attested.expect("inputs"))
    };
    let ids = [
        id_of(&create_of(&created(CREATE))),
        id_of(&end_of(&committed(COMMIT))),
        id_of(&end_of(&released(
            r#"{"idempotency_key":"k","reason":"done"}"#,
        ))),
        outcome(OutcomeKind::Decision, &decision),
        outcome(OutcomeKind::DryRun, &decided(&ALLOWED)),
        outcome(OutcomeKind::DryRun, &decided(&DENIED)),
    ];
    assert_eq!(ids, GOLDEN);
}

/// Create, commit, release, decision, dry run that is allowed, dry run that is denied.
const GOLDEN: [&str; 6] = [
    "c873796d2b89f1fd76955a9f9ec78ac982d6bcc83deb7ee5c8296a8a5dda5f56",
    "e13298b97173d2a104b052cdbdc8f640673f483104d2e43a322b0a4fc520ce6d",
    "de68ba821c1e0f0ae0148ae060e4f592afc36a69c31147ffb2ee4489742b3aad",
    "3fc19f4537a0901b47d79376a45d08201ec7e4c59e2be6dc65eda6e74a50f854",
    "60994ae520efb5de25545ae0366b4d74c50c9dd553761deec01f72e16c90a8dc",
    "6f428d0caffd25788983ad0d2ce128ca06036f8c6020cc1439c6cd51b24540b3",
];

#[test]
fn e02_a_record_of_a_later_format_attests_nothing_here() {
    for inputs in [format!("4 3 {TRACE} z"), "4 something new".to_owned()] {
        let create = created(CREATE).with("create_inputs", &*inputs);
        let end = committed(COMMIT).with("end_inputs", &*inputs);
        let outcome = decided(&ALLOWED).with("inputs", &*inputs);
        for attested in [
            of_create(&reservation(), &create),
            of_end(&reservation(), &end),
            of_outcome(OutcomeKind::DryRun, &outcome),
        ] {
            assert!(attested.is_ok_and(|attested| attested.is_none()));
        }
        // The commit of a later release leaves the create of this one as it is.
        assert!(of_create(&reservation(), &end).is_ok_and(|create| create.is_some()));
    }
}

#[test]
fn a_record_from_before_evidence_attests_nothing() {
    let old = Record::default().with("status", "COMMITTED");
    assert!(of_create(&reservation(), &old).expect("a record").is_none());
    assert!(of_end(&reservation(), &old).expect("a record").is_none());
    assert!(
        of_outcome(OutcomeKind::Decision, &old)
            .expect("a record")
            .is_none()
    );
    let damaged = created(CREATE).with("create_inputs", "1 x y");
    let refused = of_create(&reservation(), &damaged).expect_err("unreadable");
    assert_eq!(refused.field, "create_inputs");
}

proptest! {
    #[test]
    fn attested_requests_have_exactly_the_members_of_the_client(
        ttl_ms in proptest::option::of(1_000i64..=86_400_000),
        grace_ms in proptest::option::of(0i64..=60_000),
        overage in proptest::option::of("REJECT|ALLOW_IF_AVAILABLE|ALLOW_WITH_OVERDRAFT"),
        dry_run in proptest::option::of(Just(false)),
        key in "\\PC{1,40}",
        amount in any::<i64>().prop_map(|amount| amount & i64::MAX),
    ) {
        let mut members = vec![
            ("idempotency_key", Json::from(key.as_str())),
            ("subject", parsed_json(r#"{"tenant":"acme","app":"chat"}"#)),
            ("action", parsed_json(r#"{"kind":"k","name":"n","tags":null,"policy_keys":{}}"#)),
            ("estimate", [("unit", Json::from("TOKENS")), ("amount", Json::from(amount))].into_iter().collect()),
        ];
        members.extend(ttl_ms.map(|ms| ("ttl_ms", Json::from(ms))));
        members.extend(grace_ms.map(|ms| ("grace_period_ms", Json::from(ms))));
        members.extend(overage.map(|policy| ("overage_policy", Json::from(policy.as_str()))));
        members.extend(dry_run.map(|flag| ("dry_run", Json::Bool(flag))));
        let body: Json = members.into_iter().collect();
        let record = created(&body.compact());
        prop_assert!(record.text("create_inputs").expect("inputs").len() <= 64);
        let request = create_request(&record, &Inputs::parse(record.text("create_inputs").expect("inputs")).expect("inputs").named);
        prop_assert_eq!(Canonical::of_json(&request.expect("a record")), attested_request(Endpoint::Reserve, &body).canonical);
    }
}
