//! Deciding: whether an estimate could be held now. Nothing is held.

use super::calls::{Attempt, Target};
use super::{Ledger, facts};
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::{Read as _, object};
use crate::domain::ids::{DecisionId, IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::Hashed;
use crate::domain::policy::Caps;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::Denial;
use crate::domain::reservation::balances_at;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;
use crate::domain::words::words;
use crate::store::OperationError;
use crate::store::runtime::decide::{Decide, DecideReply};
use crate::store::runtime::replay::Replay;

object! {
    /// Asks whether an action would be allowed.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DecisionRequest: Read {
        /// Identifies this question: the same key gets the same response.
        pub idempotency_key: IdempotencyKey,
        /// Whom the request charges.
        pub subject: Subject,
        /// What is to be done.
        pub action: Action,
        /// Highest possible cost.
        pub estimate: Amount,
        /// Data that the client chooses.
        pub metadata: Option<FreeObject>,
    }
}

words! {
    /// Whether an action is allowed.
    Decision {
        /// Yes.
        Allow = "ALLOW",
        /// Yes, if the caller keeps the caps.
        AllowWithCaps = "ALLOW_WITH_CAPS",
        /// No.
        Deny = "DENY",
    }
}

impl Decision {
    /// Yes, with the caps that the caller must keep, if there are any.
    pub(super) fn allow(caps: Option<&Caps>) -> Self {
        match caps {
            Some(_) => Self::AllowWithCaps,
            None => Self::Allow,
        }
    }
}

object! {
    /// Whether the action would be allowed, at the moment of asking.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DecisionResponse: Serialize {
        /// Whether it would be allowed.
        pub decision: Decision,
        /// Every scope that encloses the subject, root first, whether or not it has a budget.
        pub affected_scopes: Vec<ScopePath> { required: false },
        /// What the caller must keep to. Only with `ALLOW_WITH_CAPS`.
        pub caps: Option<Caps>,
        /// Why not. Only with `DENY`. Clients must expect values that they do not know.
        pub reason_code: Option<String> { chars: ..=128 },
        /// How long to wait before asking again, in milliseconds.
        pub retry_after_ms: Option<i64> { range: 0.. },
        /// Where the signed evidence of the decision can be read.
        pub evidence: Option<EvidenceRef> { described: false, named_by: evidence::member_name },
    }
}

/// The id that an outcome is kept under.
#[derive(Clone, Copy)]
pub(super) enum OutcomeId<'a> {
    /// Of a decision.
    Decision(&'a DecisionId),
    /// Of the reservation that a dry run does not make.
    DryRun(&'a ReservationId),
}

/// Which of the two an outcome is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeKind {
    /// A decision.
    Decision,
    /// A dry run.
    DryRun,
}

impl OutcomeId<'_> {
    fn kind(&self) -> OutcomeKind {
        match self {
            Self::Decision(_) => OutcomeKind::Decision,
            Self::DryRun(_) => OutcomeKind::DryRun,
        }
    }
}

/// What decide and a dry run respond with.
pub(super) struct Outcome {
    pub scope_path: ScopePath,
    pub decision: Decision,
    pub caps: Option<Caps>,
    pub reason_code: Option<String>,
    /// The budgeted ledgers as they were; none with a denial or the replay of a decision.
    pub balances: Vec<Balance>,
}

impl Outcome {
    fn allowed(scope_path: ScopePath, caps: Option<Caps>, balances: Vec<Balance>) -> Self {
        Self {
            scope_path,
            decision: Decision::allow(caps.as_ref()),
            caps,
            reason_code: None,
            balances,
        }
    }

    fn denied(scope_path: ScopePath, denial: Denial) -> Self {
        Self {
            scope_path,
            decision: Decision::Deny,
            caps: None,
            reason_code: Some(denial.as_str().to_owned()),
            balances: Vec::new(),
        }
    }

    /// The first outcome again.
    pub(super) fn replayed(kind: OutcomeKind, record: &Record) -> Result<Self, RecordError> {
        let scope_path = record.read("scope_path")?;
        if record.text("decision")? == "DENY" {
            return Ok(Self::denied(scope_path, record.read("reason_code")?));
        }
        let balances = match kind {
            OutcomeKind::Decision => Vec::new(),
            OutcomeKind::DryRun => record.balances("create")?,
        };
        Ok(Self::allowed(
            scope_path,
            record.optional("caps")?,
            balances,
        ))
    }
}

impl From<Outcome> for DecisionResponse {
    fn from(outcome: Outcome) -> Self {
        Self {
            decision: outcome.decision,
            affected_scopes: outcome.scope_path.with_parents().collect(),
            caps: outcome.caps,
            reason_code: outcome.reason_code,
            retry_after_ms: None,
            evidence: None,
        }
    }
}

/// How long the outcome of a decision or a dry run answers its idempotency key.
const RETENTION_MS: i64 = 86_400_000;

impl Ledger {
    /// Decides whether an estimate could be held. Repeating it under one key returns the first decision.
    ///
    /// # Errors
    /// [`OperationError`]; refused in the order of precedence of `lua/runtime/decide.lua`. A denial is no error.
    pub async fn decide(
        &self,
        caller: &RuntimeCaller,
        body: &Hashed<DecisionRequest>,
        cause: &Cause,
    ) -> Result<DecisionResponse, OperationError> {
        let secret = self.store.secret().await?;
        let id = DecisionId::derive(secret, &caller.tenant, &body.request.idempotency_key);
        let outcome = self
            .outcome(caller, OutcomeId::Decision(&id), body, cause)
            .await?;
        Ok(outcome.into())
    }

    /// The decision, or what would come of a reservation.
    pub(super) async fn outcome(
        &self,
        caller: &RuntimeCaller,
        id: OutcomeId<'_>,
        body: &Hashed<DecisionRequest>,
        cause: &Cause,
    ) -> Result<Outcome, OperationError> {
        let request = &body.request;
        let (unit, amount) = (request.estimate.unit(), request.estimate.value());
        let scope_path = self.own_scope(caller, &request.subject).await?;
        let facts = facts::of_request(&request.subject, &request.action);
        let context = cause.lines();
        let (decision_id, reservation_id, outcome_status) = match id {
            OutcomeId::Decision(id) => (Some(id.as_str()), None, "DECISION"),
            OutcomeId::DryRun(id) => (None, Some(id.as_str()), "DRY_RUN"),
        };
        let target = Target::Scope(&scope_path, request.estimate);
        let call = |attempt: &Attempt| {
            let policy = &attempt.policy;
            let caps = policy
                .policy
                .as_ref()
                .and_then(|policy| policy.caps.as_ref());
            Decide {
                caller,
                decision_id,
                reservation_id,
                budgets: self.store.budgets_of(&caller.tenant, &scope_path, unit),
                payload_hash: body.payload_hash.as_str(),
                scope_path: scope_path.as_str(),
                unit: unit.as_str(),
                amount,
                swept_until_ms: attempt.swept_until_ms,
                outcome_status,
                caps: caps.map(Caps::to_json),
                denied_per_minute: self.denied_per_minute(caller),
                context: &context,
                retention_ms: RETENTION_MS,
                policies_version: policy.version.to_string(),
                policy_from_ms: policy.from_ms,
                policy_until_ms: policy.until_ms,
                facts: &facts,
            }
        };
        let replay = Replay {
            caller,
            reservation_id,
            event_id: None,
            decision_id,
            payload_hash: body.payload_hash.as_str(),
            scope_path: scope_path.as_str(),
            permission: "reservations:create",
        };
        let (reply, policy) = self.created_under(&replay, target, call).await?;
        match reply {
            DecideReply::Allow {
                depths, snapshots, ..
            } => {
                self.traffic.decided(&caller.tenant, false);
                let balances = balances_at(&scope_path, unit, &depths, &snapshots)?;
                let caps = policy.and_then(|policy| policy.caps.clone());
                Ok(Outcome::allowed(scope_path, caps, balances))
            }
            DecideReply::Deny { reason, .. } => {
                self.traffic.decided(&caller.tenant, true);
                Ok(Outcome::denied(scope_path, reason))
            }
            DecideReply::Replayed { record, .. } => Ok(Outcome::replayed(id.kind(), &record)?),
        }
    }
}
