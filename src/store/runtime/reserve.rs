//! `reserve.lua`: holds an estimate on every budgeted scope, or on none.

use super::{Answer, balances};
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::{Partition, ReservationId};
use crate::domain::policy::{OveragePolicy, PolicySelection};
use crate::domain::record::Record;
use crate::domain::scope::ScopePath;
use crate::driver::script::Counted;
use crate::store::signature::{ScriptCall, Signature, signature};
use crate::store::{Call, Pair, Store, StoreError};

signature! {
    /// Holds an estimate on every budgeted scope of a subject, or on none.
    RESERVE: Reserve -> ReserveReply = "runtime/reserve";
    names { partition: Partition, key_id: &'a str }
    keys of partition {
        read api_key(key_id);
        write tenant_key: tenant(tenant), reservation(reservation_id), reservations(tenant, day), due(tenant), due_tenants(),
            event_log: events(tenant, day), outbox(), days(), denials(tenant), denial_minutes: denials_due(),
            rates(tenant) when rate_limits;
    }
    each { write budgets: budget }
    builds { read budget }
    args {
        day,
        key_hash: &'a str,
        tenant: &'a str,
        payload_hash: &'a str,
        scope_path: &'a str,
        unit: &'a str,
        amount: i64,
        requested_ttl_ms: Option<i64>,
        grace_ms: i64,
        requested_overage_policy: Option<&'a str>,
        /// Holds that were due by then have been expired for this request.
        swept_until_ms: Option<i64>,
        budget_prefix = budget_prefix(tenant),
        reservation_id: &'a str,
        /// Overage policy, default_ttl_ms, max_ttl_ms and max_extensions of the policy that applies; - for what it leaves open.
        policy: String,
        /// Above this number in a minute, denials are only counted.
        denied_per_minute: u32,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// The version of the tenant's policies from which the policy was chosen.
        policies_version: &'a str,
        /// From then on the policy applies.
        policy_from_ms: i64,
        /// Until then the policy applies.
        policy_until_ms: i64,
        /// max_reservations_per_minute, max_commits_per_minute and id of the policy, if it limits rates; - for no limit.
        rate_limits: Option<String>,
        /// Names and values of action and subject, action_kind first: the record keeps them, a denial tells them.
        facts: Counted<&'a [Pair]>,
        /// Names and values that only the record keeps.
        kept: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, tenant_closed, tenant_suspended, stale, rate_limited, corrupt, unit_mismatch, budget_not_found,
        sweep_first, denied,
        reserved: Reserved { now_ms: i64, ttl_ms: i64, depths: String, snapshots: Vec<String> },
    }
    writes "On reserved: the reservation, its index, its due time, the ledgers, the rates, events. On denied and \
tenant_closed: the event. Otherwise nothing."
}

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

impl Subjected<'_> {
    /// The ledgers at the given depths of the subject's scopes.
    pub(super) fn balances(
        &self,
        signature: &Signature,
        depths: &str,
        snapshots: &[String],
    ) -> Result<Vec<Balance>, StoreError> {
        balances(
            signature,
            self.scope_path,
            self.amount.unit(),
            depths,
            snapshots,
        )
    }
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
        let (call, request) = (self.reserve_with(caller, hold), &hold.request);
        self.answer(&call, Some(&caller.tenant), |outcome| {
            Ok(match outcome {
                ReserveReply::Reserved {
                    now_ms,
                    ttl_ms,
                    depths,
                    snapshots,
                } => Reserved::Now {
                    now_ms,
                    ttl_ms,
                    balances: request.balances(&RESERVE, &depths, &snapshots)?,
                },
                ReserveReply::Replayed { now_ms, record } => Reserved::Before { now_ms, record },
            })
        })
        .await
    }

    /// The call of `reserve.lua`.
    pub fn reserve_call(&self, caller: &RuntimeCaller, hold: &Hold<'_>) -> Call {
        self.reserve_with(caller, hold)
            .on(self.keys(), self.today())
    }

    fn reserve_with<'a>(&self, caller: &'a RuntimeCaller, hold: &'a Hold<'a>) -> Reserve<'a> {
        let (request, unit) = (&hold.request, hold.request.amount.unit());
        Reserve {
            partition: caller.partition,
            key_id: caller.key_id.as_str(),
            budgets: self.budgets_of(caller, request.scope_path, unit),
            key_hash: caller.key_hash.as_str(),
            tenant: caller.tenant.as_str(),
            payload_hash: request.payload_hash,
            scope_path: request.scope_path.as_str(),
            unit: unit.as_str(),
            amount: request.amount.value(),
            requested_ttl_ms: hold.ttl_ms,
            grace_ms: hold.grace_ms,
            requested_overage_policy: hold.overage_policy.map(OveragePolicy::as_str),
            swept_until_ms: request.swept_until_ms,
            reservation_id: hold.reservation_id.as_str(),
            policy: policy_words(hold.policy),
            denied_per_minute: hold.denied_per_minute,
            context: request.cause,
            policies_version: &hold.policy.version,
            policy_from_ms: hold.policy.from_ms,
            policy_until_ms: hold.policy.until_ms,
            rate_limits: rate_limits(hold.policy),
            facts: Counted(request.facts),
            kept: hold.kept,
        }
    }

    /// The ledgers of every enclosing scope, root first.
    pub(super) fn budgets_of(
        &self,
        caller: &RuntimeCaller,
        path: &ScopePath,
        unit: Unit,
    ) -> Vec<String> {
        let (keys, tenant) = (self.keys().of(caller.partition), caller.tenant.as_str());
        let ledger = |scope: ScopePath| keys.budget(tenant, unit.as_str(), scope.as_str());
        path.with_parents().map(ledger).collect()
    }
}

/// `overage default_ttl_ms max_ttl_ms max_extensions`, `-` for what the policy leaves open; empty without a policy.
pub(super) fn policy_words(policy: &PolicySelection) -> String {
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
