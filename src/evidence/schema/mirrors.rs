//! The closed objects of an envelope. They are part of the format: what is attested stays verifiable, so a member is only ever
//! added together with a new version of the format.

use super::Kind::{Flag, Free, Hex, Integer, List, Map, Object, Text, Word};
use super::{Kind, Mirror, Rule};
use crate::domain::json::Json;

/// Long enough for what has no bound of its own.
const ANY: usize = usize::MAX;

const DECISIONS: Kind = Word(&["ALLOW", "ALLOW_WITH_CAPS", "DENY"]);
const UNITS: Kind = Word(&["USD_MICROCENTS", "TOKENS", "CREDITS", "RISK_POINTS"]);
const OVERAGE_POLICIES: Kind = Word(&["REJECT", "ALLOW_IF_AVAILABLE", "ALLOW_WITH_OVERDRAFT"]);
pub(super) const ERROR_CODES: Kind = Word(&[
    "INVALID_REQUEST",
    "UNAUTHORIZED",
    "FORBIDDEN",
    "NOT_FOUND",
    "BUDGET_EXCEEDED",
    "BUDGET_FROZEN",
    "BUDGET_CLOSED",
    "RESERVATION_EXPIRED",
    "RESERVATION_FINALIZED",
    "IDEMPOTENCY_MISMATCH",
    "UNIT_MISMATCH",
    "OVERDRAFT_LIMIT_EXCEEDED",
    "DEBT_OUTSTANDING",
    "MAX_EXTENSIONS_EXCEEDED",
    "LIMIT_EXCEEDED",
    "TENANT_CLOSED",
    "INTERNAL_ERROR",
]);
const NOT_NEGATIVE: Kind = Integer(0, i64::MAX);
const IDEMPOTENCY_KEY: Kind = Text(1, 256);
const BALANCES: Kind = List(ANY, &Object(&BALANCE));
const SCOPES: Kind = List(ANY, &Text(0, ANY));

/// An object without a rule over several of its members.
const fn closed(members: &'static [(&'static str, Kind)]) -> Mirror {
    Mirror {
        members,
        rule: None,
    }
}

const fn ruled(members: &'static [(&'static str, Kind)], rule: Rule) -> Mirror {
    Mirror {
        members,
        rule: Some(rule),
    }
}

pub(super) static ENVELOPE: Mirror = closed(&[
    ("schema_version", Text(1, ANY)),
    ("artifact_type", Text(1, ANY)),
    ("server_id", Text(1, ANY)),
    ("signer_did", Text(1, ANY)),
    ("issued_at_ms", NOT_NEGATIVE),
    ("payload", Free),
    ("evidence_id", Hex(64)),
    ("signature", Hex(128)),
    ("trace_id?", Hex(32)),
]);
pub(super) static DECIDE: Mirror = closed(&[
    ("request", Object(&DECIDE_REQUEST)),
    ("response", Object(&DECIDE_RESPONSE)),
]);
pub(super) static RESERVE: Mirror = ruled(
    &[
        ("request", Object(&RESERVE_REQUEST)),
        ("response", Object(&RESERVE_RESPONSE)),
    ],
    dry_run_rule,
);
pub(super) static COMMIT: Mirror = closed(&[
    ("reservation_id", Text(1, ANY)),
    ("request", Object(&COMMIT_REQUEST)),
    ("response", Object(&COMMIT_RESPONSE)),
]);
pub(super) static RELEASE: Mirror = closed(&[
    ("reservation_id", Text(1, ANY)),
    ("request", Object(&RELEASE_REQUEST)),
    ("response", Object(&RELEASE_RESPONSE)),
]);
/// The endpoint decides which request it has.
pub(super) static ERROR: Mirror = closed(&[
    ("endpoint", Text(1, ANY)),
    ("http_status", Integer(400, 599)),
    ("response", Object(&ERROR_RESPONSE)),
    ("request?", Free),
    ("reservation_id?", Text(1, ANY)),
]);

pub(super) static DECIDE_REQUEST: Mirror = closed(&[
    ("idempotency_key", IDEMPOTENCY_KEY),
    ("subject", Object(&SUBJECT)),
    ("action", Object(&ACTION)),
    ("estimate", Object(&AMOUNT)),
    ("metadata?", Free),
]);
pub(super) static RESERVE_REQUEST: Mirror = closed(&[
    ("idempotency_key", IDEMPOTENCY_KEY),
    ("subject", Object(&SUBJECT)),
    ("action", Object(&ACTION)),
    ("estimate", Object(&AMOUNT)),
    ("ttl_ms?", Integer(1_000, 86_400_000)),
    ("grace_period_ms?", Integer(0, 60_000)),
    ("overage_policy?", OVERAGE_POLICIES),
    ("dry_run?", Flag),
    ("metadata?", Free),
]);
pub(super) static COMMIT_REQUEST: Mirror = closed(&[
    ("idempotency_key", IDEMPOTENCY_KEY),
    ("actual", Object(&AMOUNT)),
    ("metrics?", Object(&METRICS)),
    ("metadata?", Free),
]);
pub(super) static RELEASE_REQUEST: Mirror = closed(&[
    ("idempotency_key", IDEMPOTENCY_KEY),
    ("reason?", Text(0, 256)),
]);

static DECIDE_RESPONSE: Mirror = ruled(
    &[
        ("decision", DECISIONS),
        ("caps?", Object(&CAPS)),
        ("reason_code?", Text(0, 128)),
        ("retry_after_ms?", NOT_NEGATIVE),
        ("affected_scopes?", SCOPES),
    ],
    caps_rule,
);
static RESERVE_RESPONSE: Mirror = ruled(
    &[
        ("decision", DECISIONS),
        ("affected_scopes", SCOPES),
        ("reservation_id?", Text(1, ANY)),
        ("reserved?", Object(&AMOUNT)),
        ("caps?", Object(&CAPS)),
        ("reason_code?", Text(0, 128)),
        ("retry_after_ms?", NOT_NEGATIVE),
        ("expires_at_ms?", NOT_NEGATIVE),
        ("scope_path?", Text(0, ANY)),
        ("balances?", BALANCES),
    ],
    caps_rule,
);
static COMMIT_RESPONSE: Mirror = closed(&[
    ("status", Word(&["COMMITTED"])),
    ("charged", Object(&AMOUNT)),
    ("released?", Object(&AMOUNT)),
    ("balances?", BALANCES),
]);
static RELEASE_RESPONSE: Mirror = closed(&[
    ("status", Word(&["RELEASED"])),
    ("released", Object(&AMOUNT)),
    ("balances?", BALANCES),
]);
static ERROR_RESPONSE: Mirror = closed(&[
    ("error", ERROR_CODES),
    ("message", Text(0, ANY)),
    ("request_id", Text(0, ANY)),
    ("trace_id?", Hex(32)),
    ("details?", Free),
]);

static SUBJECT: Mirror = ruled(
    &[
        ("tenant?", Text(0, 128)),
        ("workspace?", Text(0, 128)),
        ("app?", Text(0, 128)),
        ("workflow?", Text(0, 128)),
        ("agent?", Text(0, 128)),
        ("toolset?", Text(0, 128)),
        ("dimensions?", Map(16, &Text(0, 256))),
    ],
    level_rule,
);
static ACTION: Mirror = closed(&[
    ("kind", Text(0, 64)),
    ("name", Text(0, 256)),
    ("tags?", List(10, &Text(0, 64))),
]);
static AMOUNT: Mirror = closed(&[("unit", UNITS), ("amount", NOT_NEGATIVE)]);
static SIGNED_AMOUNT: Mirror = closed(&[("unit", UNITS), ("amount", Integer(i64::MIN, i64::MAX))]);
static BALANCE: Mirror = closed(&[
    ("scope", Text(0, ANY)),
    ("scope_path", Text(0, ANY)),
    ("remaining", Object(&SIGNED_AMOUNT)),
    ("reserved?", Object(&AMOUNT)),
    ("spent?", Object(&AMOUNT)),
    ("allocated?", Object(&AMOUNT)),
    ("debt?", Object(&AMOUNT)),
    ("overdraft_limit?", Object(&AMOUNT)),
    ("is_over_limit?", Flag),
]);
static CAPS: Mirror = closed(&[
    ("max_tokens?", NOT_NEGATIVE),
    ("max_steps_remaining?", NOT_NEGATIVE),
    ("tool_allowlist?", List(ANY, &Text(0, ANY))),
    ("tool_denylist?", List(ANY, &Text(0, ANY))),
    ("cooldown_ms?", NOT_NEGATIVE),
]);
static METRICS: Mirror = closed(&[
    ("tokens_input?", NOT_NEGATIVE),
    ("tokens_output?", NOT_NEGATIVE),
    ("latency_ms?", NOT_NEGATIVE),
    ("model_version?", Text(0, 128)),
    ("custom?", Free),
]);

fn level_rule(subject: &Json) -> Result<(), &'static str> {
    let Json::Object(members) = subject else {
        return Ok(());
    };
    match members.iter().any(|(name, _)| name != "dimensions") {
        true => Ok(()),
        false => Err("names nothing that is charged"),
    }
}

fn decision_of(response: &Json) -> Option<&str> {
    response.member("decision")?.as_text()
}

fn caps_rule(response: &Json) -> Result<(), &'static str> {
    let with_caps = decision_of(response) == Some("ALLOW_WITH_CAPS");
    match with_caps == response.member("caps").is_some() {
        true => Ok(()),
        false => Err("must have caps if and only if the decision is ALLOW_WITH_CAPS"),
    }
}

/// Only a dry run is denied, and it makes no reservation.
fn dry_run_rule(reserve: &Json) -> Result<(), &'static str> {
    let (Some(request), Some(response)) = (reserve.member("request"), reserve.member("response"))
    else {
        return Ok(());
    };
    let dry_run = request.member("dry_run") == Some(&Json::Bool(true));
    let has = |name| response.member(name).is_some();
    match (dry_run, decision_of(response)) {
        (true, _) if has("reservation_id") || has("expires_at_ms") => {
            Err("is a dry run, which has neither reservation_id nor expires_at_ms")
        }
        (false, Some("DENY")) => Err("is denied without being a dry run"),
        (false, _) if !has("reservation_id") => Err("is no dry run, and lacks reservation_id"),
        _ => Ok(()),
    }
}
