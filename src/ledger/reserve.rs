//! Reserving: a hold on every budgeted scope of a subject, or a dry run that tells whether it could be made.

use super::calls::{Attempt, Target};
use super::decide::{Decision, DecisionRequest, Outcome, OutcomeId};
use super::extend::remaining_ttl_ms;
use super::policies::{policy_words, rate_limits};
use super::stored_bytes::bytes_of;
use super::{Ledger, facts};
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::{Read as _, object};
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::Hashed;
use crate::domain::policy::{Caps, InForce, OveragePolicy};
use crate::domain::record::{Record, RecordError};
use crate::domain::reservation::{GRACE_PERIOD_MS_DEFAULT, RESERVATION_TTL_MS, balances_at};
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;
use crate::domain::tenant::RESERVATION_TTL_MS_DEFAULT;
use crate::domain::words::words;
use crate::store::runtime::replay::Replay;
use crate::store::runtime::reserve::{Reserve, ReserveReply};
use crate::store::{Counted, OperationError};

object! {
    /// Asks for a hold on every budget that encloses the subject.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReservationCreateRequest: Read {
        /// Identifies this attempt: the same key holds once.
        pub idempotency_key: IdempotencyKey,
        /// Whom the request charges.
        pub subject: Subject,
        /// What is to be done.
        pub action: Action,
        /// Highest possible cost; held until the reservation ends.
        pub estimate: Amount,
        /// How long the hold lasts, in milliseconds. The tenant's settings give the default and cap longer lifetimes.
        pub ttl_ms: Option<i64> { range: RESERVATION_TTL_MS, default: RESERVATION_TTL_MS_DEFAULT },
        /// Grace period: how long after expiry a commit or release still counts, in milliseconds.
        pub grace_period_ms: i64 { range: 0..=60_000, default: GRACE_PERIOD_MS_DEFAULT },
        /// What a commit above the estimate does. Policy, budget and tenant can set the default.
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
    /// How a request wants its limits to be applied.
    ObserveMode {
        /// Refuse what exceeds them.
        Enforce = "ENFORCE",
        /// Refuse what exceeds them.
        Disabled = "DISABLED",
        /// Only report what exceeds them.
        Observe = "OBSERVE",
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
        /// What is held: the estimate.
        pub reserved: Option<Amount>,
        /// When the hold expires, in milliseconds since the epoch.
        pub expires_at_ms: Option<i64> { range: 0.. },
        /// How long that is from now, in milliseconds. The only member that is computed anew in a replay.
        pub remaining_ttl_ms: Option<i64> { range: 0.. },
        /// The budgets that hold it, root first, after the hold.
        pub balances: Option<Vec<Balance>>,
        /// What the caller must keep to. Only with `ALLOW_WITH_CAPS`.
        pub caps: Option<Caps>,
        /// Why not. Only with `DENY`. Clients must expect values that they do not know.
        pub reason_code: Option<String> { chars: ..=128 },
        /// How long to wait before asking again, in milliseconds.
        pub retry_after_ms: Option<i64> { range: 0.. },
        /// Where the signed evidence can be read.
        pub evidence: Option<EvidenceRef> { described: false, named_by: evidence::member_name },
    }
}

impl Ledger {
    /// Holds an estimate on every budgeted scope of a subject, or on none. Repeating it under one key holds once.
    ///
    /// # Errors
    /// [`OperationError`]; refused in the order of precedence of `lua/runtime/reserve.lua`.
    pub async fn reserve(
        &self,
        caller: &RuntimeCaller,
        body: &Hashed<ReservationCreateRequest>,
        cause: &Cause,
    ) -> Result<ReservationCreateResponse, OperationError> {
        let (request, secret) = (&body.request, self.store.secret().await?);
        let id = ReservationId::derive(secret, &caller.tenant, &request.idempotency_key);
        if request.dry_run {
            let question = Hashed {
                request: DecisionRequest {
                    idempotency_key: request.idempotency_key.clone(),
                    subject: request.subject.clone(),
                    action: request.action.clone(),
                    estimate: request.estimate,
                    metadata: None,
                },
                payload_hash: body.payload_hash.clone(),
            };
            let outcome = self
                .outcome(caller, OutcomeId::DryRun(&id), &question, cause)
                .await?;
            return Ok(ReservationCreateResponse::of_dry_run(
                outcome,
                request.estimate,
            ));
        }
        let scope_path = self.own_scope(caller, &request.subject).await?;
        let facts = facts::of_request(&request.subject, &request.action);
        let metadata = request.metadata.as_ref().map_or(0, |it| it.as_str().len());
        let stored = self.counted(bytes_of(&facts) + metadata);
        let (unit, context) = (request.estimate.unit(), cause.lines());
        let target = Target::Scope(&scope_path, request.estimate);
        let call = |attempt: &Attempt| {
            let (selection, policy) = (&attempt.policy, attempt.policy.policy.as_deref());
            Reserve {
                caller,
                other_grace: request.grace_period_ms != GRACE_PERIOD_MS_DEFAULT,
                budgets: self.store.budgets_of(&caller.tenant, &scope_path, unit),
                payload_hash: body.payload_hash.as_str(),
                scope_path: scope_path.as_str(),
                unit: unit.as_str(),
                amount: request.estimate.value(),
                requested_ttl_ms: request.ttl_ms,
                grace_ms: request.grace_period_ms,
                requested_overage_policy: request.overage_policy.map(OveragePolicy::as_str),
                swept_until_ms: attempt.swept_until_ms,
                reservation_id: &id,
                policy: policy_words(policy),
                denied_per_minute: self.denied_per_minute(caller),
                context: &context,
                policies_version: selection.version.to_string(),
                policy_from_ms: selection.from_ms,
                policy_until_ms: selection.until_ms,
                rate_limits: rate_limits(policy, stored.as_deref()),
                facts: Counted(&facts),
                kept: kept(request, policy),
            }
        };
        let replay = Replay {
            caller,
            reservation_id: Some(id.as_str()),
            event_id: None,
            decision_id: None,
            payload_hash: body.payload_hash.as_str(),
            scope_path: scope_path.as_str(),
            permission: "reservations:create",
        };
        let created = self.created_under(&replay, target, call).await;
        let created = created.inspect_err(|error| self.traffic.refused(&caller.tenant, error));
        match created? {
            (
                ReserveReply::Reserved {
                    now_ms,
                    ttl_ms,
                    depths,
                    snapshots,
                },
                policy,
            ) => {
                self.traffic.decided(&caller.tenant, false);
                let caps = policy.and_then(|policy| policy.caps.clone());
                Ok(ReservationCreateResponse {
                    reservation_id: Some(id),
                    reserved: Some(request.estimate),
                    expires_at_ms: Some(now_ms + ttl_ms),
                    remaining_ttl_ms: Some(ttl_ms),
                    balances: Some(balances_at(&scope_path, unit, &depths, &snapshots)?),
                    ..ReservationCreateResponse::new(
                        Decision::allow(caps.as_ref()),
                        scope_path,
                        caps,
                    )
                })
            }
            (ReserveReply::Replayed { now_ms, record }, _) => {
                Ok(ReservationCreateResponse::replayed(id, now_ms, &record)?)
            }
        }
    }
}

/// What only the record keeps, the policy that applied among it.
fn kept(request: &ReservationCreateRequest, policy: Option<&InForce>) -> facts::Facts {
    let counting = policy.filter(|policy| policy.rate_limits.max_commits_per_minute.is_some());
    let caps = policy.and_then(|policy| policy.caps.as_ref());
    facts::given([
        ("idempotency_key", Some(request.idempotency_key.to_string())),
        (
            "metadata",
            request.metadata.as_ref().map(|it| it.as_str().to_owned()),
        ),
        ("policy_id", policy.map(|policy| policy.id.to_string())),
        ("caps", caps.map(Caps::to_json)),
        (
            "counting_policy",
            counting.map(|policy| policy.id.to_string()),
        ),
    ])
}

impl ReservationCreateResponse {
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
            evidence: None,
        }
    }

    /// The first response again: the expiry of that time, whatever extended it since, and the time that is left of it.
    pub(super) fn replayed(
        id: ReservationId,
        now_ms: i64,
        record: &Record,
    ) -> Result<Self, RecordError> {
        let extended_ms = record.optional("extended_ms")?.unwrap_or(0);
        let expires_at_ms = record.integer("expires_at_ms")? - extended_ms;
        let caps = record.optional("caps")?;
        let decision = Decision::allow(caps.as_ref());
        Ok(Self {
            reservation_id: Some(id),
            reserved: Some(record.read("estimate")?),
            expires_at_ms: Some(expires_at_ms),
            remaining_ttl_ms: Some(remaining_ttl_ms(
                record.read("status")?,
                expires_at_ms,
                now_ms,
            )),
            balances: Some(record.balances("create")?),
            ..Self::new(decision, record.read("scope_path")?, caps)
        })
    }

    /// For a dry run. `estimate`: what would be held.
    pub(super) fn of_dry_run(outcome: Outcome, estimate: Amount) -> Self {
        let allowed = outcome.decision != Decision::Deny;
        Self {
            reserved: allowed.then_some(estimate),
            balances: allowed.then_some(outcome.balances),
            reason_code: outcome.reason_code,
            ..Self::new(outcome.decision, outcome.scope_path, outcome.caps)
        }
    }
}
