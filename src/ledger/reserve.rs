//! Reserving: a hold is made on every budgeted scope, or a dry run tells whether it could be.

use super::decide::{Decision, evaluate};
use super::facts::Facts;
use super::{Ledger, LedgerError, facts};
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::fields::Read as _;
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::policy::{Caps, OveragePolicy, PolicySelection};
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::Refusal;
use crate::domain::reservation::Status;
use crate::domain::scope::{Level, ScopePath};
use crate::domain::subject::Subject;
use crate::store::runtime::decide::Outcome;
use crate::store::runtime::reserve as store;

/// A hold that is asked for.
#[derive(Debug)]
pub struct Reserve {
    /// Chosen by the client; one key, one reservation.
    pub idempotency_key: IdempotencyKey,
    /// Digest of the canonical body.
    pub payload_hash: PayloadHash,
    /// Who it is for.
    pub subject: Subject,
    /// What it is for.
    pub action: Action,
    /// How much is to be held.
    pub estimate: Amount,
    /// Requested time to live, in milliseconds.
    pub ttl_ms: Option<i64>,
    /// How long after expiry a commit still counts, in milliseconds.
    pub grace_ms: i64,
    /// Requested rule for overage.
    pub overage_policy: Option<OveragePolicy>,
    /// Only tell whether it could be held.
    pub dry_run: bool,
    /// The client's own.
    pub metadata: Option<FreeObject>,
}

/// What became of it.
#[derive(Debug)]
pub enum Reserved {
    /// The hold stands, or stood when it was first asked for.
    Held {
        /// Which reservation.
        reservation_id: ReservationId,
        /// The deepest scope.
        scope_path: ScopePath,
        /// What is held.
        reserved: Amount,
        /// The expiry that was granted, in milliseconds since the epoch.
        expires_at_ms: i64,
        /// What is left of it on the store's clock; 0 once the reservation has ended.
        remaining_ttl_ms: i64,
        /// Caps of the selected policy.
        caps: Option<Caps>,
        /// The budgeted ledgers after the hold.
        balances: Vec<Balance>,
    },
    /// The outcome of a dry run.
    DryRun {
        /// The deepest scope.
        scope_path: ScopePath,
        /// What would be held.
        reserved: Amount,
        /// Whether it could.
        decision: Decision,
    },
}

impl Ledger {
    /// Holds an estimate on every budgeted scope of a subject, or on none. Repeating it under one key holds once.
    ///
    /// # Errors
    /// [`Refusal`] in the order of precedence of `lua/runtime/reserve.lua`.
    pub async fn reserve(
        &self,
        caller: &RuntimeCaller,
        reserve: &Reserve,
        cause: &Cause,
    ) -> Result<Reserved, LedgerError> {
        let secret = self.store.secret().await?;
        let reservation_id =
            ReservationId::derive(secret, &caller.tenant, &reserve.idempotency_key);
        let scope_path = self.own_scope(caller, &reserve.subject).await?;
        let request_facts = facts::of_request(&reserve.subject, &reserve.action);
        let cause = cause.lines();
        if reserve.dry_run {
            let question = super::decide::Asked {
                payload_hash: reserve.payload_hash.as_str(),
                scope_path: &scope_path,
                amount: reserve.estimate,
                cause: &cause,
                facts: &request_facts,
                outcome: Outcome::DryRun,
                outcome_id: reservation_id.as_str(),
            };
            let decision = evaluate(self, caller, &question).await?;
            return Ok(Reserved::DryRun {
                scope_path,
                reserved: reserve.estimate,
                decision,
            });
        }
        let mut kept = vec![(
            "idempotency_key",
            reserve.idempotency_key.as_str().to_owned(),
        )];
        facts::keep(&mut kept, "metadata", reserve.metadata.as_ref());
        let mut attempts = self.governed_attempts(&caller.tenant, &scope_path);
        let (answer, policy) = loop {
            let policy = attempts.policy();
            let kept = [kept.as_slice(), &captured(&policy)].concat();
            let hold = store::Hold {
                request: store::Subjected {
                    payload_hash: reserve.payload_hash.as_str(),
                    scope_path: &scope_path,
                    amount: reserve.estimate,
                    cause: &cause,
                    facts: &request_facts,
                    swept_until_ms: attempts.swept_until_ms,
                },
                reservation_id: &reservation_id,
                ttl_ms: reserve.ttl_ms,
                grace_ms: reserve.grace_ms,
                overage_policy: reserve.overage_policy,
                policy: &policy,
                denied_per_minute: self.denied_per_minute,
                kept: &kept,
            };
            let answer = self.store.reserve(caller, &hold).await?;
            if let Some(outcome) = attempts.settled(answer).await? {
                break (outcome, policy);
            }
        };
        match answer {
            store::Reserved::Now {
                now_ms,
                ttl_ms,
                balances,
            } => Ok(Reserved::Held {
                reservation_id,
                scope_path,
                reserved: reserve.estimate,
                expires_at_ms: now_ms + ttl_ms,
                remaining_ttl_ms: ttl_ms,
                caps: policy.policy.and_then(|policy| policy.caps.clone()),
                balances,
            }),
            store::Reserved::Before { now_ms, record } => {
                held_before(reservation_id, now_ms, &record)
            }
        }
    }

    /// The deepest scope of a subject; a subject may name no other tenant than the key's.
    pub(super) async fn own_scope(
        &self,
        caller: &RuntimeCaller,
        subject: &Subject,
    ) -> Result<ScopePath, LedgerError> {
        let foreign = |tenant: &str| tenant != caller.tenant.as_str();
        if subject.value(Level::Tenant).is_some_and(foreign) {
            // A bad key is told first: nobody learns from a refusal that he guessed a tenant right.
            self.authenticate(caller, "").await?;
            return Err(LedgerError::Refused(Refusal::ForeignTenant));
        }
        let path = ScopePath::enclosing(subject).pop();
        path.ok_or(LedgerError::Refused(Refusal::BudgetNotFound))
    }
}

/// What the record keeps of the policy that applied.
fn captured(selection: &PolicySelection) -> Facts {
    let Some(policy) = &selection.policy else {
        return Facts::new();
    };
    let mut kept = vec![("policy_id", policy.id.to_string())];
    kept.extend(policy.caps.as_ref().map(|caps| ("caps", caps.to_json())));
    if policy.max_commits_per_minute.is_some() {
        kept.push(("counting_policy", policy.id.to_string()));
    }
    kept
}

/// The first answer again: the expiry of that time, whatever extended it since, and the time that is left of it.
fn held_before(
    reservation_id: ReservationId,
    now_ms: i64,
    record: &Record,
) -> Result<Reserved, LedgerError> {
    let extended_ms = record.optional_integer("extended_ms")?.unwrap_or(0);
    let expires_at_ms = record.integer("expires_at_ms")? - extended_ms;
    let active = record.status()? == Status::Active;
    let unit = record.unit()?;
    let estimate = Amount::new(unit, record.integer("estimate")?);
    Ok(Reserved::Held {
        reservation_id,
        scope_path: record.scope_path()?,
        reserved: estimate.ok_or_else(|| RecordError::of("estimate"))?,
        expires_at_ms,
        remaining_ttl_ms: if active {
            (expires_at_ms - now_ms).max(0)
        } else {
            0
        },
        caps: record.optional("caps")?,
        balances: record.balances("create")?,
    })
}
