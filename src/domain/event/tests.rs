//! Each event type, byte for byte.

use super::*;

const CAUSE: &[(&str, &str)] = &[
    ("source", "service-server"),
    ("actor", "api_key"),
    ("key_id", "key_05f_abcdefghij12"),
    ("source_ip", "192.0.2.7"),
    ("request_id", "req_1"),
    ("trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"),
    ("trace_flags", "01"),
];

fn facts(event_type: &str, pairs: &[(&str, &str)]) -> Record {
    let head = [("type", event_type), ("at_ms", "1775745000007")];
    let all = head.iter().chain(CAUSE).chain(pairs);
    Record::from_pairs(
        all.flat_map(|(name, value)| [name.to_string(), value.to_string()])
            .collect(),
    )
}

fn stored(facts: &Record) -> StoredEvent<'_> {
    StoredEvent {
        partition: Partition::new(0x05f).expect("below 1024"),
        tenant: "acme",
        entry: "1775745000007-3",
        facts,
    }
}

/// The envelope's members as text, and `data` alone.
fn rendered(event_type: &str, pairs: &[(&str, &str)]) -> (String, String) {
    let envelope = stored(&facts(event_type, pairs))
        .envelope()
        .expect("complete facts");
    let value: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
        serde_json::from_str(&envelope).expect("JSON");
    let data = value["data"].get().to_owned();
    (envelope, data)
}

fn data(event_type: &str, pairs: &[(&str, &str)]) -> String {
    rendered(event_type, pairs).1
}

#[test]
fn an_envelope_holds_the_facts_and_nothing_internal() {
    let pairs = [
        ("scope", "tenant:acme"),
        ("kind", "*"),
        ("data.unit", "TOKENS"),
        ("data.debt", "9223372036854775807"),
        ("data.overdraft_limit", "0"),
        ("data.is_over_limit", "1"),
    ];
    let digest = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest("acme")[..12]);
    let expected = format!(
        "{{\"event_id\":\"evt_05f_{digest}_1775745000007-3\",\"event_type\":\"budget.over_limit_entered\",\
         \"category\":\"budget\",\"timestamp\":\"2026-04-09T14:30:00.007Z\",\"tenant_id\":\"acme\",\
         \"source\":\"service-server\",\"scope\":\"tenant:acme\",\
         \"actor\":{{\"type\":\"api_key\",\"key_id\":\"key_05f_abcdefghij12\",\"source_ip\":\"192.0.2.7\"}},\
         \"data\":{{\"scope\":\"tenant:acme\",\"unit\":\"TOKENS\",\"debt\":9223372036854775807,\"overdraft_limit\":0,\
         \"is_over_limit\":true}},\
         \"correlation_id\":\"runtime:d33aad4eef95228c0b25e8d886c95a01\",\"request_id\":\"req_1\",\
         \"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\"}}"
    );
    assert_eq!(rendered("budget.over_limit_entered", &pairs).0, expected);
}

#[test]
fn an_event_id_travels_in_headers_and_paths() {
    let facts = facts("tenant.created", &[]);
    let id = stored(&facts).event_id();
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(
        id.starts_with("evt_05f_") && id.len() <= 128 && id.chars().all(allowed),
        "{id}"
    );
}

#[test]
fn funding_tells_the_ledger_before_and_after() {
    let state = |state: &str, allocated: &str| {
        [
            ("allocated", allocated),
            ("remaining", "-5"),
            ("debt", "0"),
            ("spent", "7"),
            ("reserved", "1"),
            ("status", "ACTIVE"),
        ]
        .map(|(name, value)| (format!("data.{state}.{name}"), value.to_owned()))
    };
    let states: Vec<_> = state("previous_state", "3")
        .into_iter()
        .chain(state("new_state", "3"))
        .collect();
    let mut pairs: Vec<(&str, &str)> = states
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    pairs.extend([
        ("scope", "tenant:acme"),
        ("data.unit", "TOKENS"),
        ("data.operation", "RESET_SPENT"),
        ("data.ledger_id", "l1"),
        ("data.reason", "new \"period\""),
        ("data.spent_override_provided", "0"),
    ]);
    let state = "{\"allocated\":3,\"remaining\":-5,\"debt\":0,\"spent\":7,\"reserved\":1,\"status\":\"ACTIVE\"}";
    let (envelope, data) = rendered("budget.reset_spent", &pairs);
    assert_eq!(
        data,
        format!(
            "{{\"ledger_id\":\"l1\",\"scope\":\"tenant:acme\",\"unit\":\"TOKENS\",\"operation\":\"RESET_SPENT\",\
             \"previous_state\":{state},\"new_state\":{state},\"spent_override_provided\":false,\
             \"reason\":\"new \\\"period\\\"\"}}"
        )
    );
    assert!(!envelope.contains("correlation_id"));
}

#[test]
fn a_crossed_threshold_is_a_number() {
    let pairs = |allocated: &'static str| {
        [
            ("scope", "tenant:acme"),
            ("data.unit", "TOKENS"),
            ("data.threshold_millionths", "800000"),
            ("data.direction", "rising"),
            ("data.allocated", allocated),
            ("data.remaining", "15"),
            ("data.spent", "80"),
            ("data.reserved", "5"),
        ]
    };
    assert_eq!(
        data("budget.threshold_crossed", &pairs("100")),
        "{\"scope\":\"tenant:acme\",\"unit\":\"TOKENS\",\"threshold\":0.8,\"utilization\":0.85,\"allocated\":100,\
         \"remaining\":15,\"spent\":80,\"reserved\":5,\"direction\":\"rising\"}"
    );
    assert!(!data("budget.exhausted", &pairs("0")).contains("utilization"));
}

#[test]
fn a_denial_tells_the_request_and_the_scope_to_blame() {
    let pairs = [
        ("scope", "tenant:acme/app:chat"),
        ("data.unit", "TOKENS"),
        ("data.reason_code", "BUDGET_EXCEEDED"),
        ("data.requested_amount", "10"),
        ("data.remaining", "-3"),
        ("data.blocked_by_scope", "tenant:acme"),
        ("data.action_kind", "model.call"),
        ("data.action_name", "m"),
        ("data.action_tags", "[\"a\"]"),
    ];
    assert_eq!(
        data("reservation.denied", &pairs),
        "{\"scope\":\"tenant:acme/app:chat\",\"unit\":\"TOKENS\",\"reason_code\":\"BUDGET_EXCEEDED\",\
         \"requested_amount\":10,\"remaining\":-3,\"action\":{\"kind\":\"model.call\",\"name\":\"m\",\"tags\":[\"a\"]},\
         \"subject\":{\"tenant\":\"acme\",\"app\":\"chat\"},\"deny_detail\":{\"blocked_by_scope\":\"tenant:acme\"}}"
    );
    let mut summed_up = pairs.to_vec();
    summed_up.extend([
        ("metadata.count", "41"),
        ("data.subject", "{\"tenant\":\"Acme\"}"),
    ]);
    let (envelope, data) = rendered("reservation.denied", &summed_up);
    assert!(envelope.ends_with("\"metadata\":{\"count\":41}}"));
    assert!(data.contains("\"subject\":{\"tenant\":\"Acme\"}"));
}

#[test]
fn what_ends_a_reservation_tells_its_figures() {
    let expired = [
        ("scope", "tenant:acme"),
        ("kind", "model.call"),
        ("data.reservation_id", "r05f_x"),
        ("data.unit", "TOKENS"),
        ("data.estimated_amount", "9"),
        ("data.created_at_ms", "1775745000000"),
        ("data.expires_at_ms", "253402207199999"),
        ("data.extensions_used", "2"),
    ];
    let data_of_expired = data("reservation.expired", &expired);
    assert!(data_of_expired.contains("\"created_at\":\"2026-04-09T14:30:00.000Z\""));
    assert!(data_of_expired.contains("\"ttl_ms\":251626462199999,\"extensions_used\":2"));
    let overage = [
        ("scope", "tenant:acme"),
        ("data.reservation_id", "r05f_x"),
        ("data.unit", "TOKENS"),
        ("data.estimated_amount", "9"),
        ("data.actual_amount", "12"),
        ("data.overage", "3"),
        ("data.overage_policy", "REJECT"),
        ("data.debt_incurred", "0"),
    ];
    assert_eq!(
        data("reservation.commit_overage", &overage),
        "{\"reservation_id\":\"r05f_x\",\"scope\":\"tenant:acme\",\"unit\":\"TOKENS\",\"estimated_amount\":9,\
         \"actual_amount\":12,\"overage\":3,\"overage_policy\":\"REJECT\",\"debt_incurred\":0}"
    );
    let debt = [
        ("scope", "tenant:acme"),
        ("data.unit", "TOKENS"),
        ("data.debt_incurred", "3"),
        ("data.total_debt", "4"),
        ("data.overdraft_limit", "8"),
        ("data.overage_policy", "ALLOW_WITH_OVERDRAFT"),
    ];
    assert_eq!(
        data("budget.debt_incurred", &debt),
        "{\"scope\":\"tenant:acme\",\"unit\":\"TOKENS\",\"debt_incurred\":3,\"total_debt\":4,\"overdraft_limit\":8,\
         \"overage_policy\":\"ALLOW_WITH_OVERDRAFT\"}"
    );
}

#[test]
fn operators_changes_tell_what_changed() {
    let budget = [
        ("scope", "tenant:acme"),
        ("data.ledger_id", "l1"),
        ("data.unit", "TOKENS"),
        ("data.operation", "CREATE"),
    ];
    assert_eq!(
        data("budget.created", &budget),
        "{\"ledger_id\":\"l1\",\"scope\":\"tenant:acme\",\"unit\":\"TOKENS\",\"operation\":\"CREATE\"}"
    );
    let tenant = [("data.new_status", "ACTIVE"), ("data.changed_fields", "")];
    assert_eq!(
        data("tenant.created", &tenant),
        "{\"tenant_id\":\"acme\",\"new_status\":\"ACTIVE\",\"changed_fields\":[]}"
    );
    let created = [
        ("data.key_id", "key_1"),
        ("data.key_name", "ci"),
        ("data.new_status", "ACTIVE"),
        ("data.permissions", " budgets:read budgets:write "),
    ];
    assert_eq!(
        data("api_key.created", &created),
        "{\"key_id\":\"key_1\",\"key_name\":\"ci\",\"new_status\":\"ACTIVE\",\
         \"permissions\":[\"budgets:read\",\"budgets:write\"]}"
    );
    let revoked = [
        ("data.key_id", "key_1"),
        ("data.key_name", "ci"),
        ("data.previous_status", "EXPIRED"),
        ("data.new_status", "REVOKED"),
    ];
    assert_eq!(
        data("api_key.revoked", &revoked),
        "{\"key_id\":\"key_1\",\"key_name\":\"ci\",\"previous_status\":\"EXPIRED\",\"new_status\":\"REVOKED\"}"
    );
    assert_eq!(
        data("api_key.expired", &revoked),
        data("api_key.revoked", &revoked)
    );
    assert_eq!(
        data(
            "api_key.permissions_changed",
            &[created[0], created[1], created[3]]
        ),
        "{\"key_id\":\"key_1\",\"key_name\":\"ci\",\"permissions\":[\"budgets:read\",\"budgets:write\"]}"
    );
}

#[test]
fn policies_tell_their_pattern_and_what_changed() {
    let pairs = |changed: &'static str| {
        [
            ("scope", "tenant:acme/agent:*"),
            ("data.policy_id", "pol_05f_abcdefghij12"),
            ("data.name", "agents"),
            ("data.scope_pattern", "tenant:acme/agent:*"),
            ("data.changed_fields", changed),
        ]
    };
    let (envelope, made) = rendered("policy.created", &pairs(""));
    assert!(envelope.contains("\"category\":\"policy\"") && !envelope.contains("correlation_id"));
    assert_eq!(
        made,
        "{\"policy_id\":\"pol_05f_abcdefghij12\",\"name\":\"agents\",\"scope_pattern\":\"tenant:acme/agent:*\",\
         \"changed_fields\":[]}"
    );
    let changed = data("policy.updated", &pairs("name caps"));
    assert!(
        changed.ends_with("\"changed_fields\":[\"name\",\"caps\"]}"),
        "{changed}"
    );
}

#[test]
fn missing_facts_and_later_types_are_errors() {
    let error = |event_type: &str| {
        stored(&facts(event_type, &[]))
            .envelope()
            .expect_err("incomplete")
            .field
    };
    assert_eq!(error("budget.funded"), "data.ledger_id");
    assert_eq!(error("moon.landed"), "type");
}

#[test]
fn a_refused_key_is_told_as_far_as_it_is_known() {
    let known = [
        ("data.failure_reason", "key_revoked"),
        ("data.key_name", "ci"),
        ("metadata.count", "7"),
    ];
    let (envelope, data) = rendered("api_key.auth_failed", &known);
    assert_eq!(
        data,
        r#"{"key_id":"key_05f_abcdefghij12","key_name":"ci","failure_reason":"key_revoked","source_ip":"192.0.2.7"}"#
    );
    assert!(envelope.contains(r#""metadata":{"count":7}"#), "{envelope}");
    assert!(!envelope.contains("correlation_id"), "{envelope}");
    let unknown = Record::from_pairs(
        [
            "type",
            "api_key.auth_failed",
            "at_ms",
            "1",
            "source",
            "service-server",
            "actor",
            "api_key",
            "trace_id",
            "4bf92f3577b34da6a3ce929d0e0e4736",
            "data.failure_reason",
            "invalid_format",
        ]
        .map(str::to_owned)
        .to_vec(),
    );
    let event = StoredEvent {
        tenant: "__system__",
        ..stored(&unknown)
    };
    let envelope = event.envelope().expect("complete facts");
    let told = r#""tenant_id":"__system__","source":"service-server","actor":{"type":"api_key"},"data":{"failure_reason":"invalid_format"}"#;
    assert!(envelope.contains(told), "{envelope}");
}
