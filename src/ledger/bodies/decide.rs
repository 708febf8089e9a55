//! Bodies of decide, and the outcome that a dry run has too.

use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;
use crate::domain::policy::Caps;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::Denial;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;
use crate::domain::words::words;
use crate::evidence::Endpoint;

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
    pub(in crate::ledger) fn allow(caps: Option<&Caps>) -> Self {
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

/// Which of the two an outcome is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeKind {
    /// A decision.
    Decision,
    /// A dry run.
    DryRun,
}

impl OutcomeKind {
    pub(in crate::ledger) fn endpoint(self) -> Endpoint {
        match self {
            Self::Decision => Endpoint::Decide,
            Self::DryRun => Endpoint::Reserve,
        }
    }
}

/// What decide and a dry run respond with.
#[derive(Clone)]
pub(in crate::ledger) struct Outcome {
    pub scope_path: ScopePath,
    pub decision: Decision,
    pub caps: Option<Caps>,
    pub reason_code: Option<String>,
    /// The budgeted ledgers as they were; none with a denial or the replay of a decision.
    pub balances: Vec<Balance>,
    /// Where the signed evidence can be read.
    pub evidence: Option<EvidenceRef>,
}

impl Outcome {
    pub(in crate::ledger) fn allowed(
        scope_path: ScopePath,
        caps: Option<Caps>,
        balances: Vec<Balance>,
    ) -> Self {
        Self {
            scope_path,
            decision: Decision::allow(caps.as_ref()),
            caps,
            reason_code: None,
            balances,
            evidence: None,
        }
    }

    pub(in crate::ledger) fn denied(scope_path: ScopePath, denial: Denial) -> Self {
        Self {
            scope_path,
            decision: Decision::Deny,
            caps: None,
            reason_code: Some(denial.as_str().to_owned()),
            balances: Vec::new(),
            evidence: None,
        }
    }

    /// The first outcome again.
    pub(in crate::ledger) fn replayed(
        kind: OutcomeKind,
        record: &Record,
    ) -> Result<Self, RecordError> {
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
            evidence: outcome.evidence,
        }
    }
}
