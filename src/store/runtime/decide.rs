//! `decide.lua`: whether an estimate could be held now; serves decide and the dry run of a create.

use super::reserve::{Subjected, optional, push_pairs};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::fields::Read as _;
use crate::domain::policy::{Caps, PolicySelection};
use crate::domain::record::Record;
use crate::domain::refusal::Denial;
use crate::store::runtime::{Answer, balances, record, refused_for};
use crate::store::scripts::DECIDE;
use crate::store::{Arg, Reply, Store, StoreError};

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
        let (request, partition, tenant) =
            (&question.request, caller.partition, caller.tenant.as_str());
        let (keys, day, unit) = (self.keys(), self.today(), request.amount.unit());
        let (outcome_key, status) = match question.outcome {
            Outcome::Decision => (keys.decision(partition, question.outcome_id), "DECISION"),
            Outcome::DryRun => (keys.reservation(partition, question.outcome_id), "DRY_RUN"),
        };
        let mut key_names = vec![
            keys.api_key(partition, caller.key_id.as_str()),
            keys.tenant(partition, tenant),
            outcome_key,
            keys.due(partition, tenant),
            keys.events(partition, tenant, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.denials(partition, tenant),
            keys.denials_due(partition),
        ];
        self.push_budgets(&mut key_names, caller, request.scope_path, unit);
        let (day_text, budget_prefix) = (day.to_string(), keys.budget_prefix(partition, tenant));
        let policy = question.policy.policy.as_ref();
        let caps = policy.and_then(|policy| policy.caps.as_ref());
        let caps_text = caps.map(Caps::to_text);
        let mut args = vec![
            Arg::from(caller.key_hash.as_str()),
            Arg::from(tenant),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(request.payload_hash),
            Arg::from(request.scope_path.as_str()),
            Arg::from(unit.as_str()),
            Arg::from(request.amount.value()),
            optional(request.swept_until_ms),
            Arg::from(&budget_prefix),
            Arg::from(status),
            Arg::from(caps_text.as_deref()),
            Arg::from(question.denied_per_minute),
            Arg::from(request.cause),
            Arg::from(RETENTION_MS),
            Arg::from(&*question.policy.version),
            Arg::from(question.policy.from_ms),
            Arg::from(question.policy.until_ms),
        ];
        push_pairs(&mut args, request.facts);
        let mut reply = Reply::new(&DECIDE, self.call(&DECIDE, &key_names, &args).await?)?;
        match reply.next_str()?.as_str() {
            "decided" => {}
            "replayed" => {
                let _now_ms = reply.next_i64()?;
                return Ok(Answer::Done(Decided::Before(record(&mut reply)?)));
            }
            other => return refused_for(&caller.tenant, other, reply),
        }
        let _now_ms = reply.next_i64()?;
        let decision = reply.next_str()?;
        if decision == "DENY" {
            let reason = reply.next_str()?;
            let denial = Denial::parse(&reason).ok_or_else(|| reply.unknown(&reason))?;
            return Ok(Answer::Done(Decided::Deny(denial)));
        }
        let depths = reply.next_str()?;
        let balances = balances(&mut reply, request.scope_path, unit, &depths)?;
        let caps = caps.cloned();
        Ok(Answer::Done(Decided::Allow { caps, balances }))
    }
}
