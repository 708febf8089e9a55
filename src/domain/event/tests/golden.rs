//! The bytes of every event type, in `tests/snapshots/events.jsonl`. Receivers verify signatures over these bytes, and an event
//! is sent again after an upgrade: a change of them takes a number of the format among the facts.

use crate::domain::event::types::EventType;
use crate::domain::event::*;

/// A fact of each name that a payload may be made of.
const FACTS: &[&str] = &[
    "at_ms=1775745000007",
    "source=a source",
    "actor=api_key",
    "key_id=key_05f_abcdefghij12",
    "source_ip=192.0.2.7",
    "request_id=req_1",
    "trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
    "trace_flags=01",
    "scope=tenant:acme/app:chat",
    "metadata.count=3",
    "correlation_id=a correlation",
    "data.ledger_id=bl_05f_1",
    "data.unit=TOKENS",
    "data.operation=CREDIT",
    "data.previous_state.allocated=1",
    "data.previous_state.remaining=2",
    "data.previous_state.debt=3",
    "data.previous_state.spent=4",
    "data.previous_state.reserved=5",
    "data.previous_state.status=ACTIVE",
    "data.new_state.allocated=9223372036854775807",
    "data.new_state.remaining=-9223372036854775808",
    "data.new_state.debt=0",
    "data.new_state.spent=9007199254740993",
    "data.new_state.reserved=0",
    "data.new_state.status=FROZEN",
    "data.period_start=2026-04-01T00:00:00.000Z",
    "data.period_end=2026-05-01T00:00:00.000Z",
    "data.carried=13",
    "data.event_id=evt_05f_1",
    "data.charged=18",
    "data.refunded=19",
    "data.increase_id=inc_05f_abcdefghij12",
    "data.amount=17",
    "data.until_ms=1775745120000",
    "data.previous.allocated=14",
    "data.previous.spent=15",
    "data.previous.debt=16",
    "data.previous.period_start=2026-03-01T00:00:00.000Z",
    "data.previous.period_end=2026-04-01T00:00:00.000Z",
    "data.spent_override_provided=1",
    "data.reason=a \"reason\" <ü>\u{2028}\u{7f}",
    "data.threshold_millionths=800000",
    "data.allocated=3",
    "data.remaining=1",
    "data.spent=1",
    "data.reserved=1",
    "data.direction=rising",
    "data.debt=1",
    "data.overdraft_limit=3",
    "data.is_over_limit=1",
    "data.reservation_id=rsv_05f_1",
    "data.debt_incurred=6",
    "data.total_debt=7",
    "data.overage_policy=ALLOW_WITH_OVERDRAFT",
    "data.reason_code=BUDGET_EXCEEDED",
    "data.requested_amount=8",
    "data.action_kind=llm.completion",
    "data.action_name=any-model",
    "data.action_tags=[\"a\",\"b\"]",
    "data.subject={\"tenant\":\"acme\",\"app\":\"chat\",\"dimensions\":{\"x\":\"y\"}}",
    "data.policy_id=pol_05f_1",
    "data.blocked_by_scope=tenant:acme",
    "data.estimated_amount=9",
    "data.actual_amount=10",
    "data.overage=1",
    "data.created_at_ms=1775745000000",
    "data.expires_at_ms=1775745060000",
    "data.extensions_used=2",
    "data.name=a name",
    "data.scope_pattern=tenant:acme/*",
    "data.changed_fields=name caps",
    "data.previous_status=ACTIVE",
    "data.new_status=CLOSED",
    "data.prior_status=ACTIVE",
    "data.released_amount=11",
    "data.released_reserved_amount=12",
    "data.subscription_id=whsub_05f_1",
    "data.key_id=key_05f_2",
    "data.key_name=a key",
    "data.permissions=balances:read reservations:create",
    "data.failure_reason=unknown_key",
    "data.disable_reason=consecutive_failures_exceeded_threshold",
    "data.metric=denial_rate",
    "data.occurrences=1",
    "data.sample_count=3",
    "data.threshold_rate=0.1",
    "data.window_seconds=300",
    "data.charged=100",
    "data.baseline_charged=300",
    "data.baseline_windows=12",
    "data.component=webhook_dispatcher",
    "data.message=A delivery failed for good",
    "data.severity=warning",
    "data.details={\"attempts\":6}",
];

/// Types that nothing emits, or that are made without facts.
const NOT_EMITTED: &[EventType] = &[
    EventType::BudgetClosed,
    EventType::PolicyDeleted,
    EventType::SystemWebhookTest,
];

fn rendered(event_type: EventType) -> Result<String, RecordError> {
    // A rate is of samples or of amounts.
    let is_of_amounts = event_type == EventType::BudgetBurnRateAnomaly;
    let pairs = FACTS
        .iter()
        .map(|fact| fact.split_once('=').expect("a name and a value"));
    let pairs = pairs.filter(|(name, _)| !(is_of_amounts && *name == "data.occurrences"));
    let of_type = ("type", event_type.as_str());
    let facts: Record = pairs
        .chain([of_type])
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let event = StoredEvent {
        partition: Partition::new(0x05f).expect("below 1024"),
        tenant: "acme",
        entry: "1775745000007-3",
        facts: &facts,
    };
    event.envelope()
}

#[test]
fn w8_the_bytes_of_every_type_never_change() {
    let lines = EventType::ALL
        .iter()
        .filter(|known| !NOT_EMITTED.contains(known));
    let lines =
        lines.map(|&known| rendered(known).unwrap_or_else(|damage| panic!("{known}: {damage}")));
    let written: String = lines.map(|line| line + "\n").collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/events.jsonl");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &written).expect("the snapshot can be written");
    }
    let kept = std::fs::read_to_string(path).expect("the snapshot");
    for (line, kept) in written.lines().zip(kept.lines()) {
        assert_eq!(line, kept, "receivers have verified the bytes on the right");
    }
    assert_eq!(written.lines().count(), kept.lines().count());
    for known in NOT_EMITTED {
        assert!(
            rendered(*known).is_err(),
            "{known} is emitted: keep its bytes"
        );
    }
}
