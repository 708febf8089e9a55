//! Request and response of a decision.

use crate::domain::amount::Amount;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;
use crate::domain::policy::Caps;
use crate::domain::refusal::Denial;
use crate::domain::scope::ScopePath;
use crate::domain::subject::{Action, Subject};
use crate::domain::words::words;

object! {
    /// Asks whether an action would be allowed.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DecisionRequest: Read {
        /// Identifies this question: the same key gets the same response.
        pub idempotency_key: IdempotencyKey,
        /// Whom the request charges.
        pub subject: Subject,
        /// The requested action.
        pub action: Action,
        /// Highest possible cost.
        pub estimate: Amount,
        /// Data that the client chooses.
        pub metadata: Option<FreeObject>,
    }
}

object! {
    /// What a budget that only observes would have refused.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ObservedRefusal: Serialize {
        /// Scope of the budget.
        pub scope: ScopePath,
        /// Why.
        pub reason: Denial,
    }
}

impl ObservedRefusal {
    /// Reads what a script replies and a record keeps: depth and reason of each, blanks between. `None` without any.
    pub(crate) fn all(scope_path: &ScopePath, text: &str) -> Option<Vec<Self>> {
        let words: Vec<&str> = text.split(' ').collect();
        let one = |pair: &[&str]| {
            let [depth, reason] = pair else { return None };
            Some(Self {
                scope: scope_path
                    .with_parents()
                    .nth(depth.parse::<usize>().ok()? - 1)?,
                reason: Denial::parse(reason)?,
            })
        };
        words.chunks(2).map(one).collect()
    }
}

words! {
    /// Whether an action is allowed.
    Decision: "SCREAMING_SNAKE_CASE" {
        /// Yes.
        Allow,
        /// Yes, if the caller keeps the caps.
        AllowWithCaps,
        /// No.
        Deny,
    }
}

impl Decision {
    /// Yes, with the caps that the caller must keep, if there are any.
    pub(crate) fn allow(caps: Option<&Caps>) -> Self {
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
        /// Limits for the caller. Only with `ALLOW_WITH_CAPS`.
        pub caps: Option<Caps>,
        /// Why not. Only with `DENY`. Clients must expect values that they do not know.
        pub reason_code: Option<String> { chars: ..=128 },
        /// How long to wait before asking again, in milliseconds.
        pub retry_after_ms: Option<i64> { range: 0.. },
        /// What budgets that only observe would have refused. Not in the Cycles dialect.
        pub observed: Option<Vec<ObservedRefusal>>,
        /// Where the signed evidence of the decision can be read.
        pub evidence: Option<EvidenceRef> { described: false, named_by: evidence::member_name },
    }
}

/// The operation that an outcome without a hold belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeKind {
    /// A decision.
    Decision,
    /// A dry run.
    DryRun,
}
