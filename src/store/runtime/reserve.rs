//! `reserve.lua`: holds an estimate on every budgeted scope, or on none.

use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::ReservationId;
use crate::domain::policy::{OveragePolicy, PolicySelection};
use crate::domain::record::Record;
use crate::domain::scope::ScopePath;
use crate::store::runtime::{Answer, balances, record, refused_for};
use crate::store::scripts::RESERVE;
use crate::store::{Arg, Call, Reply, Store, StoreError};

/// What a script needs to know of every request that names a subject.
#[derive(Debug)]
pub struct Subjected<'a> {
    /// Digest of the canonical body.
    pub payload_hash: &'a str,
    /// The deepest scope of the subject.
    pub scope_path: &'a ScopePath,
    /// What is asked for or was spent.
    pub amount: Amount,
    /// Lines of the cause, for events.
    pub cause: &'a str,
    /// Names and values of action and subject.
    pub facts: &'a [(&'static str, String)],
    /// Holds due by this time have been expired already; none at the first call.
    pub swept_until_ms: Option<i64>,
}

/// A hold to be made.
#[derive(Debug)]
pub struct Hold<'a> {
    /// Subject, amount and cause.
    pub request: Subjected<'a>,
    /// Derived from tenant and idempotency key.
    pub reservation_id: &'a ReservationId,
    /// As requested; else the policy's, the tenant's or the built-in default counts.
    pub ttl_ms: Option<i64>,
    /// How long after expiry a commit still counts.
    pub grace_ms: i64,
    /// As requested; else the policy's, the ledger's, the tenant's or the built-in one counts.
    pub overage_policy: Option<OveragePolicy>,
    /// Which policy applies.
    pub policy: &'a PolicySelection,
    /// Above this number a minute's denials are counted, not told one by one.
    pub denied_per_minute: u32,
    /// Names and values that only the record keeps.
    pub kept: &'a [(&'static str, String)],
}

/// What `reserve.lua` did, or did when it was asked first.
#[derive(Debug)]
pub enum Reserved {
    /// The hold stands.
    Now {
        /// The script's clock, in milliseconds.
        now_ms: i64,
        /// The time to live that was granted.
        ttl_ms: i64,
        /// The budgeted ledgers after the hold, root first.
        balances: Vec<Balance>,
    },
    /// The record that the first request left.
    Before {
        /// The script's clock, in milliseconds.
        now_ms: i64,
        /// The reservation, or a dry run's outcome.
        record: Record,
    },
}

impl Store {
    /// Runs `reserve.lua` once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn reserve(
        &self,
        caller: &RuntimeCaller,
        hold: &Hold<'_>,
    ) -> Result<Answer<Reserved>, StoreError> {
        let call = self.reserve_call(caller, hold);
        let (request, unit) = (&hold.request, hold.request.amount.unit());
        let mut reply = Reply::new(&RESERVE, self.send(&call).await?)?;
        Ok(Answer::Done(match reply.next_str()?.as_str() {
            "reserved" => {
                let (now_ms, ttl_ms) = (reply.next_i64()?, reply.next_i64()?);
                let depths = reply.next_str()?;
                let balances = balances(&mut reply, request.scope_path, unit, &depths)?;
                Reserved::Now {
                    now_ms,
                    ttl_ms,
                    balances,
                }
            }
            "replayed" => Reserved::Before {
                now_ms: reply.next_i64()?,
                record: record(&mut reply)?,
            },
            other => return refused_for(&caller.tenant, other, reply),
        }))
    }

    /// The call of `reserve.lua`.
    pub fn reserve_call(&self, caller: &RuntimeCaller, hold: &Hold<'_>) -> Call {
        let (request, partition, tenant) =
            (&hold.request, caller.partition, caller.tenant.as_str());
        let (keys, day, unit) = (self.keys(), self.today(), request.amount.unit());
        let mut key_names = vec![
            keys.api_key(partition, caller.key_id.as_str()),
            keys.tenant(partition, tenant),
            keys.reservation(partition, hold.reservation_id.as_str()),
            keys.reservations(partition, tenant, day),
            keys.due(partition, tenant),
            keys.due_tenants(partition),
            keys.events(partition, tenant, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.denials(partition, tenant),
            keys.denials_due(partition),
        ];
        let rate_limits = rate_limits(hold.policy);
        if rate_limits.is_some() {
            key_names.push(keys.rates(partition, tenant));
        }
        self.push_budgets(&mut key_names, caller, request.scope_path, unit);
        let (day_text, budget_prefix) = (day.to_string(), keys.budget_prefix(partition, tenant));
        let policy = policy_words(hold.policy);
        let mut args = vec![
            Arg::from(caller.key_hash.as_str()),
            Arg::from(tenant),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(request.payload_hash),
            Arg::from(request.scope_path.as_str()),
            Arg::from(unit.as_str()),
            Arg::from(request.amount.value()),
            optional(hold.ttl_ms),
            Arg::from(hold.grace_ms),
            Arg::from(hold.overage_policy.map(OveragePolicy::as_str)),
            optional(request.swept_until_ms),
            Arg::from(&budget_prefix),
            Arg::from(hold.reservation_id.as_str()),
            Arg::from(&policy),
            Arg::from(hold.denied_per_minute),
            Arg::from(request.cause),
            Arg::from(&*hold.policy.version),
            Arg::from(hold.policy.from_ms),
            Arg::from(hold.policy.until_ms),
            Arg::from(rate_limits.as_deref()),
            Arg::from(request.facts.len() as i64 * 2),
        ];
        push_pairs(&mut args, request.facts);
        push_pairs(&mut args, hold.kept);
        Call::new(&RESERVE, &key_names, &args)
    }

    /// Adds the ledgers of every enclosing scope, root first.
    pub(in crate::store) fn push_budgets(
        &self,
        keys: &mut Vec<String>,
        caller: &RuntimeCaller,
        path: &ScopePath,
        unit: Unit,
    ) {
        for scope in path.with_parents() {
            keys.push(self.keys().budget(
                caller.partition,
                caller.tenant.as_str(),
                unit.as_str(),
                scope.as_str(),
            ));
        }
    }
}

/// An integer, or the empty string.
pub(in crate::store) fn optional(integer: Option<i64>) -> Arg<'static> {
    integer.map_or(Arg::Bytes(b""), Arg::Integer)
}

pub(in crate::store) fn push_pairs<'a>(
    args: &mut Vec<Arg<'a>>,
    pairs: &'a [(&'static str, String)],
) {
    for (name, value) in pairs {
        args.push(Arg::from(*name));
        args.push(Arg::from(value));
    }
}

/// `overage default_ttl_ms max_ttl_ms max_extensions`, `-` for what the policy leaves open; empty without a policy.
pub(in crate::store) fn policy_words(policy: &PolicySelection) -> String {
    let Some(policy) = &policy.policy else {
        return String::new();
    };
    format!(
        "{} {} {} {}",
        policy.overage.map_or("-", OveragePolicy::as_str),
        number(policy.default_ttl_ms),
        number(policy.max_ttl_ms),
        number(policy.max_extensions),
    )
}

/// `max_reservations_per_minute max_commits_per_minute policy_id`, `-` for what is not limited; `None` without limits.
fn rate_limits(policy: &PolicySelection) -> Option<String> {
    let policy = policy.policy.as_ref()?;
    let (reservations, commits) = (
        policy.max_reservations_per_minute,
        policy.max_commits_per_minute,
    );
    reservations.or(commits)?;
    Some(format!(
        "{} {} {}",
        number(reservations),
        number(commits),
        policy.id
    ))
}

fn number(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
