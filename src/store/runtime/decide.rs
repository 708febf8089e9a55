//! `decide.lua`: whether an estimate could be held now; serves decide and the dry run of a create.

use super::Answer;
use super::reserve::Subjected;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::fields::Read as _;
use crate::domain::ids::Partition;
use crate::domain::policy::{Caps, PolicySelection};
use crate::domain::record::Record;
use crate::domain::refusal::Denial;
use crate::driver::error::StoreError;
use crate::store::signature::signature;
use crate::store::{Pair, Store};

signature! {
    /// Decides whether an estimate could be held now; holds nothing. Serves decide and the dry run of a create, whose outcome
    /// is kept under the key of the reservation that it does not make.
    DECIDE: Decide -> DecideReply = "runtime/decide";
    names { partition: Partition, key_id: &'a str, decision_id: Option<&'a str>, reservation_id: Option<&'a str> }
    keys of partition {
        read api_key(key_id), due(tenant);
        write tenant_key: tenant(tenant), event_log: events(tenant, day), outbox(), days(), denials(tenant),
            denial_minutes: denials_due(),
            outcome: decision(decision_id) when decision_id, outcome: reservation(reservation_id) when reservation_id;
    }
    each { read budgets: budget }
    builds { read budget }
    args {
        day,
        key_hash: &'a str,
        tenant: &'a str,
        payload_hash: &'a str,
        scope_path: &'a str,
        unit: &'a str,
        amount: i64,
        /// Holds that were due by then have been expired for this request.
        swept_until_ms: Option<i64>,
        budget_prefix = budget_prefix(tenant),
        /// DECISION or DRY_RUN.
        outcome_status: &'a str,
        /// Of the policy that applies, JSON.
        caps: Option<String>,
        /// Above this number in a minute, denials are only counted.
        denied_per_minute: u32,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Of the outcome.
        retention_ms: i64,
        /// The version of the tenant's policies from which the policy was chosen.
        policies_version: &'a str,
        /// From then on the policy applies.
        policy_from_ms: i64,
        /// Until then the policy applies.
        policy_until_ms: i64,
        /// Names and values of action and subject, action_kind first.
        facts: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, stale, corrupt, unit_mismatch, sweep_first,
        deny: Deny { now_ms: i64, reason: Denial },
        allow: Allow { now_ms: i64, depths: String, snapshots: Vec<String> },
    }
    writes "On deny and allow: the outcome; on deny the event. Otherwise nothing."
}

/// How long the outcome of a decision or a dry run answers its idempotency key.
const RETENTION_MS: i64 = 86_400_000;

/// Where the outcome is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Under a key of its own.
    Decision,
    /// Under the key of the reservation that a dry run does not make.
    DryRun,
}

/// A question to be answered.
#[derive(Debug)]
pub struct Question<'a> {
    /// Subject, estimate and cause.
    pub request: Subjected<'a>,
    /// Where the outcome is kept.
    pub outcome: Outcome,
    /// The id that it is kept under.
    pub outcome_id: &'a str,
    /// Which policy applies.
    pub policy: &'a PolicySelection,
    /// Above this number a minute's denials are counted, not told one by one.
    pub denied_per_minute: u32,
}

/// What `decide.lua` found, now or when it was asked first.
#[derive(Debug)]
pub enum Decided {
    /// It could be held.
    Allow {
        /// Caps of the selected policy.
        caps: Option<Caps>,
        /// The budgeted ledgers as they are, root first.
        balances: Vec<Balance>,
    },
    /// It could not.
    Deny(Denial),
    /// The record that the first request left.
    Before(Record),
}

impl Store {
    /// Runs `decide.lua` once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn decide(
        &self,
        caller: &RuntimeCaller,
        question: &Question<'_>,
    ) -> Result<Answer<Decided>, StoreError> {
        let (request, unit) = (&question.request, question.request.amount.unit());
        let policy = question.policy.policy.as_ref();
        let caps = policy.and_then(|policy| policy.caps.as_ref());
        let (decides, id) = (question.outcome == Outcome::Decision, question.outcome_id);
        let call = Decide {
            partition: caller.partition,
            key_id: caller.key_id.as_str(),
            decision_id: decides.then_some(id),
            reservation_id: (!decides).then_some(id),
            budgets: self.budgets_of(caller, request.scope_path, unit),
            key_hash: caller.key_hash.as_str(),
            tenant: caller.tenant.as_str(),
            payload_hash: request.payload_hash,
            scope_path: request.scope_path.as_str(),
            unit: unit.as_str(),
            amount: request.amount.value(),
            swept_until_ms: request.swept_until_ms,
            outcome_status: if decides { "DECISION" } else { "DRY_RUN" },
            caps: caps.map(Caps::to_json),
            denied_per_minute: question.denied_per_minute,
            context: request.cause,
            retention_ms: RETENTION_MS,
            policies_version: &question.policy.version,
            policy_from_ms: question.policy.from_ms,
            policy_until_ms: question.policy.until_ms,
            facts: request.facts,
        };
        self.answer(&call, Some(&caller.tenant), |outcome| {
            Ok(match outcome {
                DecideReply::Allow {
                    depths, snapshots, ..
                } => Decided::Allow {
                    caps: caps.cloned(),
                    balances: request.balances(&DECIDE, &depths, &snapshots)?,
                },
                DecideReply::Deny { reason, .. } => Decided::Deny(reason),
                DecideReply::Replayed { record, .. } => Decided::Before(record),
            })
        })
        .await
    }
}
