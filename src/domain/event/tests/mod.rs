//! Each event type, byte for byte.

mod golden;

use super::*;
use crate::domain::rows;

const CAUSE: &str = "source=service-server; actor=api_key; key_id=key_05f_abcdefghij12; source_ip=192.0.2.7; request_id=req_1; \
     trace_id=4bf92f3577b34da6a3ce929d0e0e4736; trace_flags=01";

/// Names and values as `name=value; …`. A name that begins with a dot is one of `data.`.
fn record(facts: &str) -> Record {
    let pair = |fact: &str| {
        let (name, value) = fact.split_once('=').expect("a name and a value");
        let data = if name.starts_with('.') { "data" } else { "" };
        (format!("{data}{name}"), value.to_owned())
    };
    facts.split("; ").map(pair).collect()
}

fn facts(event_type: &str, facts: &str) -> Record {
    record(&format!(
        "type={event_type}; at_ms=1775745000007; {CAUSE}; {facts}"
    ))
}

fn stored(facts: &Record) -> StoredEvent<'_> {
    StoredEvent {
        partition: Partition::new(0x05f).expect("below 1024"),
        tenant: "acme",
        entry: "1775745000007-3",
        facts,
    }
}

/// The envelope as text, and its `data` alone.
fn rendered(event_type: &str, pairs: &str) -> (String, String) {
    let envelope = stored(&facts(event_type, pairs))
        .envelope()
        .expect("complete facts");
    let value: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
        serde_json::from_str(&envelope).expect("JSON");
    let data = value["data"].get().to_owned();
    (envelope, data)
}

fn data(event_type: &str, pairs: &str) -> String {
    rendered(event_type, pairs).1
}

#[test]
fn an_event_has_its_facts_and_nothing_internal() {
    let pairs = "scope=tenant:acme; kind=*; .unit=TOKENS; .debt=9223372036854775807; .overdraft_limit=0; .is_over_limit=1";
    let digest = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest("acme")[..12]);
    let expected = [
        r#"{"event_id":"evt_05f_"#,
        &digest,
        r#"_1775745000007-3","event_type":"budget.over_limit_entered","category":"budget","#,
        r#""timestamp":"2026-04-09T14:30:00.007Z","tenant_id":"acme","source":"service-server","scope":"tenant:acme","#,
        r#""actor":{"type":"api_key","key_id":"key_05f_abcdefghij12","source_ip":"192.0.2.7"},"#,
        r#""data":{"scope":"tenant:acme","unit":"TOKENS","debt":9223372036854775807,"overdraft_limit":0,"is_over_limit":true},"#,
        r#""correlation_id":"runtime:d33aad4eef95228c0b25e8d886c95a01","request_id":"req_1","#,
        r#""trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"}"#,
    ];
    let (envelope, _) = rendered("budget.over_limit_entered", pairs);
    assert_eq!(envelope, expected.concat());
}

#[test]
fn an_event_id_is_valid_in_headers_and_paths() {
    let facts = facts("tenant.created", "scope=tenant:acme");
    let id = stored(&facts).event_id();
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(
        id.starts_with("evt_05f_") && id.len() <= 128 && id.chars().all(allowed),
        "{id}"
    );
}

#[test]
fn a_funding_event_shows_the_ledger_before_and_after() {
    let state = |state: &str| {
        let figures = [
            "allocated=3",
            "remaining=-5",
            "debt=0",
            "spent=7",
            "reserved=1",
        ];
        let members = figures.iter().chain(&["status=ACTIVE"]);
        let members = members.map(|member| format!(".{state}.{member}; "));
        members.collect::<String>()
    };
    let pairs = state("previous_state")
        + &state("new_state")
        + "scope=tenant:acme; .unit=TOKENS; .operation=RESET_SPENT; .ledger_id=l1; .reason=new \"period\"; \
           .spent_override_provided=0";
    let state =
        r#"{"allocated":3,"remaining":-5,"debt":0,"spent":7,"reserved":1,"status":"ACTIVE"}"#;
    let (envelope, data) = rendered("budget.reset_spent", &pairs);
    let expected = [
        r#"{"ledger_id":"l1","scope":"tenant:acme","unit":"TOKENS","operation":"RESET_SPENT","previous_state":"#,
        state,
        r#","new_state":"#,
        state,
        r#","spent_override_provided":false,"reason":"new \"period\""}"#,
    ];
    assert_eq!(data, expected.concat());
    assert!(!envelope.contains("correlation_id"));
}

#[test]
fn a_crossed_threshold_is_a_number() {
    let pairs = |allocated: &str| {
        let of_100 = "scope=tenant:acme; .unit=TOKENS; .threshold_millionths=800000; .direction=rising; .allocated=100; \
                      .remaining=15; .spent=80; .reserved=5";
        of_100.replace("=100;", &format!("={allocated};"))
    };
    assert_eq!(
        data("budget.threshold_crossed", &pairs("100")),
        r#"{"scope":"tenant:acme","unit":"TOKENS","threshold":0.8,"utilization":0.85,"allocated":100,"remaining":15,"spent":80,"reserved":5,"direction":"rising"}"#
    );
    assert!(!data("budget.exhausted", &pairs("0")).contains("utilization"));
}

#[test]
fn a_denial_names_the_request_and_the_blocking_scope() {
    let pairs = "scope=tenant:acme/app:chat; .unit=TOKENS; .reason_code=BUDGET_EXCEEDED; .requested_amount=10; \
         .remaining=-3; .blocked_by_scope=tenant:acme; .action_kind=model.call; .action_name=m; .action_tags=[\"a\"]";
    let expected = [
        r#"{"scope":"tenant:acme/app:chat","unit":"TOKENS","reason_code":"BUDGET_EXCEEDED","requested_amount":10,"#,
        r#""remaining":-3,"action":{"kind":"model.call","name":"m","tags":["a"]},"#,
        r#""subject":{"tenant":"acme","app":"chat"},"deny_detail":{"blocked_by_scope":"tenant:acme"}}"#,
    ];
    assert_eq!(data("reservation.denied", pairs), expected.concat());
    let summed_up = format!(r#"{pairs}; metadata.count=41; .subject={{"tenant":"Acme"}}"#);
    let (envelope, data) = rendered("reservation.denied", &summed_up);
    assert!(envelope.ends_with(r#""metadata":{"count":41}}"#));
    assert!(data.contains(r#""subject":{"tenant":"Acme"}"#));
}

#[test]
fn the_end_of_a_reservation_has_its_figures() {
    let expired = data(
        "reservation.expired",
        "scope=tenant:acme; kind=model.call; .reservation_id=r05f_x; .unit=TOKENS; .estimated_amount=9; \
         .created_at_ms=1775745000000; .expires_at_ms=253402207199999; .extensions_used=2",
    );
    assert!(expired.contains(r#""created_at":"2026-04-09T14:30:00.000Z""#));
    assert!(expired.contains(r#""ttl_ms":251626462199999,"extensions_used":2"#));
    let overage = data(
        "reservation.commit_overage",
        "scope=tenant:acme; .reservation_id=r05f_x; .unit=TOKENS; .estimated_amount=9; .actual_amount=12; .overage=3; \
         .overage_policy=REJECT; .debt_incurred=0",
    );
    assert_eq!(
        overage,
        r#"{"reservation_id":"r05f_x","scope":"tenant:acme","unit":"TOKENS","estimated_amount":9,"actual_amount":12,"overage":3,"overage_policy":"REJECT","debt_incurred":0}"#
    );
    let debt = data(
        "budget.debt_incurred",
        "scope=tenant:acme; .unit=TOKENS; .debt_incurred=3; .total_debt=4; .overdraft_limit=8; \
         .overage_policy=ALLOW_WITH_OVERDRAFT",
    );
    assert_eq!(
        debt,
        r#"{"scope":"tenant:acme","unit":"TOKENS","debt_incurred":3,"total_debt":4,"overdraft_limit":8,"overage_policy":"ALLOW_WITH_OVERDRAFT"}"#
    );
}

#[test]
fn operator_updates_name_the_changed_fields() {
    for (event, expected) in rows(
        r#"
        budget.created scope=tenant:acme; .ledger_id=l1; .unit=TOKENS; .operation=CREATE => {"ledger_id":"l1","scope":"tenant:acme","unit":"TOKENS","operation":"CREATE"}
        tenant.created .new_status=ACTIVE; .changed_fields= => {"tenant_id":"acme","new_status":"ACTIVE","changed_fields":[]}
        api_key.created .key_id=key_1; .key_name=ci; .new_status=ACTIVE; .permissions= budgets:read budgets:write  => {"key_id":"key_1","key_name":"ci","new_status":"ACTIVE","permissions":["budgets:read","budgets:write"]}
        api_key.revoked .key_id=key_1; .key_name=ci; .previous_status=EXPIRED; .new_status=REVOKED => {"key_id":"key_1","key_name":"ci","previous_status":"EXPIRED","new_status":"REVOKED"}
        api_key.expired .key_id=key_1; .key_name=ci; .previous_status=EXPIRED; .new_status=REVOKED => {"key_id":"key_1","key_name":"ci","previous_status":"EXPIRED","new_status":"REVOKED"}
        api_key.permissions_changed .key_id=key_1; .key_name=ci; .permissions= budgets:read budgets:write  => {"key_id":"key_1","key_name":"ci","permissions":["budgets:read","budgets:write"]}
        "#,
    ) {
        let (event_type, pairs) = event.split_once(' ').expect("a type and its facts");
        assert_eq!(data(event_type, pairs), expected, "{event_type}");
    }
}

#[test]
fn policy_events_name_pattern_and_changed_fields() {
    let pairs = "scope=tenant:acme/agent:*; .policy_id=pol_05f_abcdefghij12; .name=agents; \
         .scope_pattern=tenant:acme/agent:*; .changed_fields=";
    let (envelope, made) = rendered("policy.created", pairs);
    assert!(envelope.contains(r#""category":"policy""#) && !envelope.contains("correlation_id"));
    assert_eq!(
        made,
        r#"{"policy_id":"pol_05f_abcdefghij12","name":"agents","scope_pattern":"tenant:acme/agent:*","changed_fields":[]}"#
    );
    let changed = data("policy.updated", &format!("{pairs}name caps"));
    assert!(
        changed.ends_with(r#""changed_fields":["name","caps"]}"#),
        "{changed}"
    );
}

#[test]
fn missing_facts_and_later_types_are_errors() {
    let error = |event_type: &str| {
        stored(&facts(event_type, "kind=*"))
            .envelope()
            .expect_err("incomplete")
            .field
    };
    assert_eq!(error("budget.funded"), "data.ledger_id");
    assert_eq!(error("moon.landed"), "type");
}

#[test]
fn a_refused_key_is_named_as_far_as_known() {
    let known = ".failure_reason=key_revoked; .key_name=ci; metadata.count=7";
    let (envelope, data) = rendered("api_key.auth_failed", known);
    assert_eq!(
        data,
        r#"{"key_id":"key_05f_abcdefghij12","key_name":"ci","failure_reason":"key_revoked","source_ip":"192.0.2.7"}"#
    );
    assert!(envelope.contains(r#""metadata":{"count":7}"#), "{envelope}");
    assert!(!envelope.contains("correlation_id"), "{envelope}");
    let unknown = record(
        "type=api_key.auth_failed; at_ms=1; source=service-server; actor=api_key; \
         trace_id=4bf92f3577b34da6a3ce929d0e0e4736; .failure_reason=invalid_format",
    );
    let event = StoredEvent {
        tenant: "__system__",
        ..stored(&unknown)
    };
    let envelope = event.envelope().expect("complete facts");
    let actor = r#""tenant_id":"__system__","source":"service-server","actor":{"type":"api_key"},"data":{"failure_reason":"invalid_format"}"#;
    assert!(envelope.contains(actor), "{envelope}");
}

#[test]
fn a_spike_has_rate_and_threshold_as_shares() {
    let pairs = ".metric=denial_rate; .occurrences=3; .sample_count=12; .threshold_rate=0.1; .window_seconds=300";
    let (envelope, data) = rendered("reservation.denial_rate_spike", pairs);
    assert_eq!(
        data,
        r#"{"metric":"denial_rate","current_rate":0.25,"threshold_rate":0.1,"window_seconds":300,"sample_count":12}"#
    );
    assert!(
        envelope.contains(r#""correlation_id":"runtime:"#) && !envelope.contains(r#""scope""#),
        "{envelope}"
    );
    let pairs = pairs.replace("denial_rate", "auth_failure_rate");
    let (envelope, data) = rendered("api_key.auth_failure_rate_spike", &pairs);
    assert!(data.starts_with(r#"{"metric":"auth_failure_rate","current_rate":0.25,"#));
    assert!(envelope.contains(r#""correlation_id":"runtime:"#));
}

#[test]
fn a_burn_rate_is_in_units_per_minute_and_hides_the_limit() {
    let pairs = "scope=tenant:acme; .unit=TOKENS; .charged=1000; .baseline_charged=300; .baseline_windows=3; \
         .multiplier_limit=3; .window_seconds=300";
    let with_rest = |remaining: i64| format!("{pairs}; .remaining={remaining}");
    assert_eq!(
        data("budget.burn_rate_anomaly", &with_rest(500)),
        r#"{"scope":"tenant:acme","unit":"TOKENS","current_rate":200.0,"baseline_rate":20.0,"multiplier":10.0,"window_seconds":300,"projected_exhaustion_minutes":2.5}"#
    );
    assert!(!data("budget.burn_rate_anomaly", &with_rest(0)).contains("projected"));
    // Amounts may add up to more than 64 bits.
    let much = with_rest(1).replace("charged=1000", "charged=36893488147419103232");
    assert!(data("budget.burn_rate_anomaly", &much).contains(r#""current_rate":7"#));
}

#[test]
fn an_event_about_the_store_has_its_start() {
    let pairs = ".component=store; .message=gone; .severity=critical; .details={\"since\":\"2026-04-09T14:30:00.000Z\"}";
    assert_eq!(
        data("system.store_connection_lost", pairs),
        r#"{"component":"store","message":"gone","severity":"critical","details":{"since":"2026-04-09T14:30:00.000Z"}}"#
    );
}
