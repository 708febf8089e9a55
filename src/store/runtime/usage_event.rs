//! `event.lua`: charges what was already spent, without a reservation.

use super::reserve::{Subjected, optional, policy_words, push_pairs};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::PostId;
use crate::domain::policy::{OveragePolicy, PolicySelection};
use crate::domain::record::Record;
use crate::store::runtime::{Answer, balances, record, refused_for};
use crate::store::scripts::EVENT;
use crate::store::{Arg, Reply, Store, StoreError};

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
    /// Runs `event.lua` once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn post(
        &self,
        caller: &RuntimeCaller,
        post: &Post<'_>,
    ) -> Result<Answer<Posted>, StoreError> {
        let (request, partition, tenant) =
            (&post.request, caller.partition, caller.tenant.as_str());
        let (keys, day, unit) = (self.keys(), self.today(), request.amount.unit());
        let mut key_names = vec![
            keys.api_key(partition, caller.key_id.as_str()),
            keys.tenant(partition, tenant),
            keys.post(partition, post.post_id.as_str()),
            keys.posts(partition, tenant, day),
            keys.due(partition, tenant),
            keys.events(partition, tenant, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.strained(partition),
        ];
        self.push_budgets(&mut key_names, caller, request.scope_path, unit);
        let (day_text, budget_prefix) = (day.to_string(), keys.budget_prefix(partition, tenant));
        let policy = policy_words(post.policy);
        let mut args = vec![
            Arg::from(caller.key_hash.as_str()),
            Arg::from(tenant),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(request.payload_hash),
            Arg::from(request.scope_path.as_str()),
            Arg::from(unit.as_str()),
            Arg::from(request.amount.value()),
            Arg::from(post.overage_policy.map(OveragePolicy::as_str)),
            optional(request.swept_until_ms),
            Arg::from(&budget_prefix),
            Arg::from(post.post_id.as_str()),
            Arg::from(&policy),
            Arg::from(request.cause),
            Arg::from(post.action_kind),
            Arg::from(&*post.policy.version),
            Arg::from(post.policy.from_ms),
            Arg::from(post.policy.until_ms),
        ];
        push_pairs(&mut args, request.facts);
        push_pairs(&mut args, post.kept);
        let mut reply = Reply::new(&EVENT, self.call(&EVENT, &key_names, &args).await?)?;
        Ok(Answer::Done(match reply.next_str()?.as_str() {
            "applied" => {
                let _now_ms = reply.next_i64()?;
                let charged = reply.next_i64()?;
                let depths = reply.next_str()?;
                Posted::Now {
                    charged,
                    balances: balances(&mut reply, request.scope_path, unit, &depths)?,
                }
            }
            "replayed" => {
                let _now_ms = reply.next_i64()?;
                Posted::Before(record(&mut reply)?)
            }
            other => return refused_for(&caller.tenant, other, reply),
        }))
    }
}
