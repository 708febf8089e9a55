//! Deciding: whether an estimate could be held now. Nothing is held.

use super::facts::Facts;
use super::{Ledger, LedgerError, facts};
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::ids::{DecisionId, IdempotencyKey};
use crate::domain::payload_hash::PayloadHash;
use crate::domain::policy::Caps;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::Denial;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;
use crate::store::runtime::decide::{Decided, Outcome, Question};
use crate::store::runtime::reserve::Subjected;

/// A decision that is asked for.
#[derive(Debug)]
pub struct Decide {
    /// Chosen by the client.
    pub idempotency_key: IdempotencyKey,
    /// Digest of the canonical body.
    pub payload_hash: PayloadHash,
    /// Who it is for.
    pub subject: Subject,
    /// What it is for.
    pub action: Action,
    /// How much would be held.
    pub estimate: Amount,
}

/// Whether it could be held. A denial is a value here, not an error.
#[derive(Debug)]
pub enum Decision {
    /// It could.
    Allow {
        /// Caps of the selected policy.
        caps: Option<Caps>,
        /// The budgeted ledgers as they were; none for decide, which does not keep them.
        balances: Vec<Balance>,
    },
    /// It could not.
    Deny(Denial),
}

/// A decision with the scope that it was asked for.
#[derive(Debug)]
pub struct DecidedFor {
    /// The deepest scope.
    pub scope_path: ScopePath,
    /// The answer.
    pub decision: Decision,
}

/// What [`evaluate`] needs to know.
pub(super) struct Asked<'a> {
    pub payload_hash: &'a str,
    pub scope_path: &'a ScopePath,
    pub amount: Amount,
    pub cause: &'a str,
    pub facts: &'a Facts,
    pub outcome: Outcome,
    pub outcome_id: &'a str,
}

impl Ledger {
    /// Tells whether an estimate could be held. Repeating it under one key tells what it told first.
    ///
    /// # Errors
    /// [`crate::domain::refusal::Refusal`] in the order of precedence of `lua/runtime/decide.lua`; a denial is none.
    pub async fn decide(
        &self,
        caller: &RuntimeCaller,
        decide: &Decide,
        cause: &Cause,
    ) -> Result<DecidedFor, LedgerError> {
        let secret = self.store.secret().await?;
        let id = DecisionId::derive(secret, &caller.tenant, &decide.idempotency_key);
        let scope_path = self.own_scope(caller, &decide.subject).await?;
        let asked = Asked {
            payload_hash: decide.payload_hash.as_str(),
            scope_path: &scope_path,
            amount: decide.estimate,
            cause: &cause.lines(),
            facts: &facts::of_request(&decide.subject, &decide.action),
            outcome: Outcome::Decision,
            outcome_id: id.as_str(),
        };
        let decision = evaluate(self, caller, &asked).await?;
        Ok(DecidedFor {
            scope_path,
            decision,
        })
    }
}

/// Asks the script, for a decision or for a dry run.
pub(super) async fn evaluate(
    ledger: &Ledger,
    caller: &RuntimeCaller,
    asked: &Asked<'_>,
) -> Result<Decision, LedgerError> {
    let mut attempts = ledger.governed_attempts(&caller.tenant, asked.scope_path);
    let decided = loop {
        let policy = attempts.policy();
        let question = Question {
            request: Subjected {
                payload_hash: asked.payload_hash,
                scope_path: asked.scope_path,
                amount: asked.amount,
                cause: asked.cause,
                facts: asked.facts,
                swept_until_ms: attempts.swept_until_ms,
            },
            outcome: asked.outcome,
            outcome_id: asked.outcome_id,
            policy: &policy,
            denied_per_minute: ledger.denied_per_minute,
        };
        let answer = ledger.store.decide(caller, &question).await?;
        if let Some(outcome) = attempts.settled(answer).await? {
            break outcome;
        }
    };
    match decided {
        Decided::Allow { caps, balances } => Ok(Decision::Allow { caps, balances }),
        Decided::Deny(denial) => Ok(Decision::Deny(denial)),
        Decided::Before(record) => decided_before(&record, asked.outcome),
    }
}

fn decided_before(record: &Record, outcome: Outcome) -> Result<Decision, LedgerError> {
    if record.text("decision")? == "DENY" {
        let denial = Denial::parse(record.text("reason_code")?);
        return denial
            .map(Decision::Deny)
            .ok_or_else(|| LedgerError::Record(RecordError::of("reason_code")));
    }
    let balances = match outcome {
        Outcome::Decision => Vec::new(),
        Outcome::DryRun => record.balances("create")?,
    };
    let caps = record.optional("caps")?;
    Ok(Decision::Allow { caps, balances })
}
