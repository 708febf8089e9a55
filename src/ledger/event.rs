//! Booking what was already spent, without a reservation.

use super::{Ledger, LedgerError, facts};
use crate::domain::action::{Action, Metrics};
use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::ids::{IdempotencyKey, PostId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::policy::OveragePolicy;
use crate::domain::subject::Subject;
use crate::store::runtime::reserve::Subjected;
use crate::store::runtime::usage_event as store;

/// A charge that is reported.
#[derive(Debug)]
pub struct Post {
    /// Chosen by the client; one key, one charge.
    pub idempotency_key: IdempotencyKey,
    /// Digest of the canonical body.
    pub payload_hash: PayloadHash,
    /// Who it is for.
    pub subject: Subject,
    /// What it was for.
    pub action: Action,
    /// What was used.
    pub actual: Amount,
    /// Requested rule for what the budgets cannot cover.
    pub overage_policy: Option<OveragePolicy>,
    /// What the client measured.
    pub metrics: Option<Metrics>,
    /// The client's own clock; decides nothing.
    pub client_time_ms: Option<i64>,
    /// The client's own.
    pub metadata: Option<FreeObject>,
}

/// What was booked.
#[derive(Debug)]
pub struct Posted {
    /// The event.
    pub post_id: PostId,
    /// What was charged; less than was used where a policy capped it.
    pub charged: i64,
    /// The budgeted ledgers after it.
    pub balances: Vec<Balance>,
}

impl Ledger {
    /// Charges every budgeted scope of a subject. Repeating it under one key charges once.
    ///
    /// # Errors
    /// [`crate::domain::refusal::Refusal`] in the order of precedence of `lua/runtime/event.lua`.
    pub async fn post(
        &self,
        caller: &RuntimeCaller,
        post: &Post,
        cause: &Cause,
    ) -> Result<Posted, LedgerError> {
        let secret = self.store.secret().await?;
        let post_id = PostId::derive(secret, &caller.tenant, &post.idempotency_key);
        let scope_path = self.own_scope(caller, &post.subject).await?;
        let request_facts = facts::of_request(&post.subject, &post.action);
        let mut kept = vec![("idempotency_key", post.idempotency_key.as_str().to_owned())];
        facts::keep_metrics(&mut kept, post.metrics.as_ref());
        facts::keep(&mut kept, "metadata", post.metadata.as_ref());
        if let Some(client_time_ms) = post.client_time_ms {
            kept.push(("client_time_ms", client_time_ms.to_string()));
        }
        let cause = cause.lines();
        let mut attempts = self.governed_attempts(&caller.tenant, &scope_path);
        let posted = loop {
            let policy = attempts.policy();
            let charge = store::Post {
                request: Subjected {
                    payload_hash: post.payload_hash.as_str(),
                    scope_path: &scope_path,
                    amount: post.actual,
                    cause: &cause,
                    facts: &request_facts,
                    swept_until_ms: attempts.swept_until_ms,
                },
                post_id: &post_id,
                overage_policy: post.overage_policy,
                policy: &policy,
                action_kind: &post.action.kind,
                kept: &kept,
            };
            let answer = self.store.post(caller, &charge).await?;
            if let Some(outcome) = attempts.settled(answer).await? {
                break outcome;
            }
        };
        let (charged, balances) = match posted {
            store::Posted::Now { charged, balances } => (charged, balances),
            store::Posted::Before(record) => {
                (record.integer("charged")?, record.balances("create")?)
            }
        };
        Ok(Posted {
            post_id,
            charged,
            balances,
        })
    }
}
