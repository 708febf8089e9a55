//! Request and response of a create, and of its dry run.

use super::decide::{Decision, DecisionResponse, ObservedRefusal, OutcomeKind};
use super::{GRACE_PERIOD_MS_DEFAULT, RESERVATION_TTL_MS, remaining_ttl_ms};
use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::object;
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::policy::{Caps, OveragePolicy};
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::Denial;
use crate::domain::scope::ScopePath;
use crate::domain::subject::{Action, Subject};
use crate::domain::tenant::RESERVATION_TTL_MS_DEFAULT;
use crate::domain::words::words;

object! {
    /// Asks for a hold on every budget that encloses the subject.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReservationCreateRequest: Read {
        /// Identifies this attempt: the same key holds once.
        pub idempotency_key: IdempotencyKey,
        /// Whom the request charges.
        pub subject: Subject,
        /// The requested action.
        pub action: Action,
        /// Highest possible cost; held until the reservation ends.
        pub estimate: Amount,
        /// How long the hold lasts, in milliseconds. The tenant's settings give the default and cap longer lifetimes.
        pub ttl_ms: Option<i64> { range: RESERVATION_TTL_MS, default: RESERVATION_TTL_MS_DEFAULT },
        /// Grace period: how long after expiry a commit or release still counts, in milliseconds.
        pub grace_period_ms: i64 { range: 0..=60_000, default: GRACE_PERIOD_MS_DEFAULT },
        /// Overage policy of a commit above the estimate. Policy, budget and tenant can set the default.
        pub overage_policy: Option<OveragePolicy> { default: OveragePolicy::DEFAULT },
        /// `true`: only reports what would happen.
        pub dry_run: bool { default: false },
        /// Data that the client chooses, returned with the reservation.
        pub metadata: Option<FreeObject>,
        /// Other modes than `OBSERVE` are what the service does anyway.
        pub observe_mode: Option<ObserveMode> { described: false },
    }
    check |request, object| {
        // It promises that nothing is spent, which this release cannot keep.
        if request.observe_mode == Some(ObserveMode::Observe) {
            object.refuse_member("observe_mode", "OBSERVE is not supported; use dry_run to try without holding");
        }
    }
}

words! {
    /// The requested enforcement of limits.
    ObserveMode: "SCREAMING_SNAKE_CASE" {
        /// Refuse what exceeds them.
        Enforce,
        /// Refuse what exceeds them.
        Disabled,
        /// Only report what exceeds them.
        Observe,
    }
}

object! {
    /// A hold, or the outcome of a dry run.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReservationCreateResponse: Serialize {
        /// `DENY` only in dry runs: a live request that is denied is an error.
        pub decision: Decision,
        /// Id of the reservation. Absent in dry runs.
        pub reservation_id: Option<ReservationId>,
        /// Every scope that encloses the subject, root first, whether or not it has a budget.
        pub affected_scopes: Vec<ScopePath>,
        /// Deepest scope of the subject.
        pub scope_path: ScopePath { required: false },
        /// Held amount: the estimate.
        pub reserved: Option<Amount>,
        /// When the hold expires, in milliseconds since the epoch.
        pub expires_at_ms: Option<i64> { range: 0.. },
        /// How long that is from now, in milliseconds. The only member that is computed anew in a replay.
        pub remaining_ttl_ms: Option<i64> { range: 0.. },
        /// The budgets that hold it, root first, after the hold.
        pub balances: Option<Vec<Balance>>,
        /// Limits for the caller. Only with `ALLOW_WITH_CAPS`.
        pub caps: Option<Caps>,
        /// Why not. Only with `DENY`. Clients must expect values that they do not know.
        pub reason_code: Option<String> { chars: ..=128 },
        /// How long to wait before asking again, in milliseconds.
        pub retry_after_ms: Option<i64> { range: 0.. },
        /// What budgets that only observe would have refused. Not in the Cycles dialect.
        pub observed: Option<Vec<ObservedRefusal>>,
        /// Where the signed evidence can be read.
        pub evidence: Option<EvidenceRef> { described: false, named_by: evidence::member_name },
    }
}

impl ReservationCreateResponse {
    /// An estimate that is held, or could be. `balances`: root first, after the hold if there is one.
    pub(crate) fn allowed(
        scope_path: ScopePath,
        estimate: Amount,
        caps: Option<Caps>,
        balances: Vec<Balance>,
    ) -> Self {
        Self {
            reserved: Some(estimate),
            balances: Some(balances),
            ..Self::new(Decision::allow(caps.as_ref()), scope_path, caps)
        }
    }

    /// An estimate that could not be held.
    pub(crate) fn denied(scope_path: ScopePath, denial: Denial) -> Self {
        Self {
            reason_code: Some(denial.as_str().to_owned()),
            ..Self::new(Decision::Deny, scope_path, None)
        }
    }

    fn new(decision: Decision, scope_path: ScopePath, caps: Option<Caps>) -> Self {
        Self {
            decision,
            reservation_id: None,
            affected_scopes: scope_path.with_parents().collect(),
            scope_path,
            reserved: None,
            expires_at_ms: None,
            remaining_ttl_ms: None,
            balances: None,
            caps,
            reason_code: None,
            retry_after_ms: None,
            observed: None,
            evidence: None,
        }
    }

    /// The first response of a create, with the expiry before any extension. Only the remaining time is computed from `now_ms`.
    pub(crate) fn replayed(
        id: ReservationId,
        now_ms: i64,
        record: &Record,
    ) -> Result<Self, RecordError> {
        let extended_ms = record.optional("extended_ms")?.unwrap_or(0);
        let expires_at_ms = record.integer("expires_at_ms")? - extended_ms;
        let status = record.read("status")?;
        Ok(Self {
            reservation_id: Some(id),
            expires_at_ms: Some(expires_at_ms),
            remaining_ttl_ms: Some(remaining_ttl_ms(status, expires_at_ms, now_ms)),
            ..Self::allowed_by(record, record.balances("create")?)?
        })
    }

    /// The first outcome of a decision or a dry run.
    pub(crate) fn replayed_outcome(
        kind: OutcomeKind,
        record: &Record,
    ) -> Result<Self, RecordError> {
        if record.text("decision")? == Decision::Deny.as_str() {
            let scope_path = record.read("scope_path")?;
            return Ok(Self::denied(scope_path, record.read("reason_code")?));
        }
        let balances = match kind {
            OutcomeKind::Decision => Vec::new(),
            OutcomeKind::DryRun => record.balances("create")?,
        };
        Self::allowed_by(record, balances)
    }

    fn allowed_by(record: &Record, balances: Vec<Balance>) -> Result<Self, RecordError> {
        let (scope_path, estimate) = (record.read("scope_path")?, record.read("estimate")?);
        let caps = record.optional("caps")?;
        let observed = record.get("observed");
        let observed = observed.and_then(|text| ObservedRefusal::all(&scope_path, text));
        Ok(Self {
            observed,
            ..Self::allowed(scope_path, estimate, caps, balances)
        })
    }
}

impl From<ReservationCreateResponse> for DecisionResponse {
    fn from(outcome: ReservationCreateResponse) -> Self {
        Self {
            decision: outcome.decision,
            affected_scopes: outcome.affected_scopes,
            caps: outcome.caps,
            reason_code: outcome.reason_code,
            retry_after_ms: None,
            observed: outcome.observed,
            evidence: outcome.evidence,
        }
    }
}
