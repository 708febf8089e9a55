//! `usage_event.lua`: charges what was already spent, without a reservation.

use super::Answer;
use super::reserve::{Subjected, policy_words};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::{Partition, PostId};
use crate::domain::policy::{OveragePolicy, PolicySelection};
use crate::domain::record::Record;
use crate::store::signature::signature;
use crate::store::{Pair, Store, StoreError};

signature! {
    /// Charges what was already used, without a reservation, to every budgeted scope of a subject.
    USAGE_EVENT: UsageEvent -> UsageEventReply = "runtime/usage_event";
    names { partition: Partition, key_id: &'a str }
    keys of partition {
        read api_key(key_id), due(tenant);
        write tenant_key: tenant(tenant), usage_event(event_id), usage_events(tenant, day), event_log: events(tenant, day),
            outbox(), days(), over_limit_or_in_debt();
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
        actual: i64,
        requested_overage_policy: Option<&'a str>,
        /// Holds that were due by then have been expired for this request.
        swept_until_ms: Option<i64>,
        budget_prefix = budget_prefix(tenant),
        event_id: &'a str,
        /// As in reserve.
        policy: String,
        /// The request cause, lines of name and value.
        context: &'a str,
        action_kind: &'a str,
        /// The version of the tenant's policies from which the policy was chosen.
        policies_version: &'a str,
        /// From then on the policy applies.
        policy_from_ms: i64,
        /// Until then the policy applies.
        policy_until_ms: i64,
        /// Names and values that the record keeps.
        kept: Vec<&'a Pair>,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, tenant_closed, tenant_suspended, stale, corrupt, unit_mismatch, budget_not_found, inactive,
        sweep_first, denied,
        applied: Applied { now_ms: i64, charged: i64, depths: String, snapshots: Vec<String> },
    }
    writes "On applied: the usage event, its index, the ledgers, their place in the index of those over their limit or in \
debt, events. Otherwise nothing."
}

/// A charge to be booked.
#[derive(Debug)]
pub struct Post<'a> {
    /// Subject, amount and cause.
    pub request: Subjected<'a>,
    /// Derived from tenant and idempotency key.
    pub post_id: &'a PostId,
    /// As requested; else the policy's, the ledger's, the tenant's or the built-in one counts.
    pub overage_policy: Option<OveragePolicy>,
    /// Which policy applies.
    pub policy: &'a PolicySelection,
    /// The kind of the action.
    pub action_kind: &'a str,
    /// Names and values that only the record keeps.
    pub kept: &'a [(&'static str, String)],
}

/// What `event.lua` did, or did when it was asked first.
#[derive(Debug)]
pub enum Posted {
    /// The charge is booked.
    Now {
        /// What was charged.
        charged: i64,
        /// The budgeted ledgers after it, root first.
        balances: Vec<Balance>,
    },
    /// The record that the first request left.
    Before(Record),
}

impl Store {
    /// Runs `usage_event.lua` once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn post(
        &self,
        caller: &RuntimeCaller,
        post: &Post<'_>,
    ) -> Result<Answer<Posted>, StoreError> {
        let (request, unit) = (&post.request, post.request.amount.unit());
        let call = UsageEvent {
            partition: caller.partition,
            key_id: caller.key_id.as_str(),
            budgets: self.budgets_of(caller, request.scope_path, unit),
            key_hash: caller.key_hash.as_str(),
            tenant: caller.tenant.as_str(),
            payload_hash: request.payload_hash,
            scope_path: request.scope_path.as_str(),
            unit: unit.as_str(),
            actual: request.amount.value(),
            requested_overage_policy: post.overage_policy.map(OveragePolicy::as_str),
            swept_until_ms: request.swept_until_ms,
            event_id: post.post_id.as_str(),
            policy: policy_words(post.policy),
            context: request.cause,
            action_kind: post.action_kind,
            policies_version: &post.policy.version,
            policy_from_ms: post.policy.from_ms,
            policy_until_ms: post.policy.until_ms,
            kept: request.facts.iter().chain(post.kept).collect(),
        };
        self.answer(&call, Some(&caller.tenant), |outcome| {
            Ok(match outcome {
                UsageEventReply::Applied {
                    charged,
                    depths,
                    snapshots,
                    ..
                } => Posted::Now {
                    charged,
                    balances: request.balances(&USAGE_EVENT, &depths, &snapshots)?,
                },
                UsageEventReply::Replayed { record, .. } => Posted::Before(record),
            })
        })
        .await
    }
}
