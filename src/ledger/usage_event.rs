//! Charging what was already used, without a reservation.

use std::borrow::Cow;

use super::calls::{Attempt, RunOptions};
use super::decisions::DecidedBy;
use super::policies::policy_words;
use super::{Ledger, bytes_of};
use crate::domain::amount::Amount;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::fields::{Read as _, object};
use crate::domain::ids::{IdempotencyKey, PostId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::HashedRequest;
use crate::domain::policy::OveragePolicy;
use crate::domain::reservation::{Decision, amount, balances_at, facts};
use crate::domain::subject::{Action, Metrics, Subject};
use crate::domain::words::words;
use crate::store::StoreError;
use crate::store::runtime::replay::Replay;
use crate::store::runtime::target::RuntimeTarget;
use crate::store::runtime::usage_event::{UsageEvent, UsageEventReply};

object! {
    /// Reports an action after it was taken.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct EventCreateRequest: Read {
        /// Identifies this report: the same key charges once.
        pub idempotency_key: IdempotencyKey,
        /// Whom the request charges.
        pub subject: Subject,
        /// The performed action.
        pub action: Action,
        /// Actual amount.
        pub actual: Amount,
        /// Overage policy, if less remains than the actual amount. Policy, budget and tenant can set the default.
        pub overage_policy: Option<OveragePolicy> { default: OveragePolicy::DEFAULT },
        /// Measurements of the client.
        pub metrics: Option<Metrics>,
        /// When it happened by the client's clock, in milliseconds since the epoch. Stored; decides nothing.
        pub client_time_ms: Option<i64> { range: 0.. },
        /// Data that the client chooses.
        pub metadata: Option<FreeObject>,
    }
}

words! {
    /// The only status of an event.
    EventStatus: "SCREAMING_SNAKE_CASE" {
        /// Charged.
        Applied,
    }
}

object! {
    /// Charged amount.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct EventCreateResponse: Serialize {
        /// Status of the report.
        pub status: EventStatus,
        /// Id of the charge.
        pub event_id: PostId,
        /// Amount charged to every budget, if less than `actual`.
        pub charged: Option<Amount>,
        /// The budgets that were charged, root first, after the charge.
        pub balances: Vec<Balance> { required: false },
    }
}

impl Ledger {
    /// Charges every budgeted scope of a subject. Repeating it under one key charges once.
    ///
    /// # Errors
    /// [`StoreError`]; refused in the order of precedence of `lua/runtime/usage_event.lua`.
    pub async fn charge(
        &self,
        caller: &RuntimeCaller,
        body: &HashedRequest<EventCreateRequest>,
        cause: &Cause,
    ) -> Result<EventCreateResponse, StoreError> {
        let (request, secret) = (&body.request, self.store.secret().await?);
        let event_id = PostId::derive(secret, &caller.tenant, &request.idempotency_key);
        let scope_path = self.own_scope(caller, &request.subject).await?;
        let mut kept = facts::of_request(&request.subject, &request.action);
        kept.extend(facts::present([
            (
                "idempotency_key",
                Some(Cow::from(request.idempotency_key.as_str())),
            ),
            (
                "metrics",
                request.metrics.as_ref().map(|it| it.to_json().into()),
            ),
            (
                "metadata",
                request.metadata.as_ref().map(|it| it.as_str().into()),
            ),
            (
                "client_time_ms",
                request.client_time_ms.map(|ms| ms.to_string().into()),
            ),
        ]));
        let (unit, context) = (request.actual.unit(), cause.lines());
        let stored_bytes = self.counted_bytes(bytes_of(&kept));
        // Behind kind and name of the action; it is none of the client's data.
        kept.insert(2, ("key_id", caller.key_id.as_str().into()));
        let call = |attempt: &Attempt| UsageEvent {
            caller,
            budgets: self.store.budgets_of(&caller.tenant, &scope_path, unit),
            payload_hash: body.payload_hash.as_str(),
            scope_path: scope_path.as_str(),
            unit: unit.as_str(),
            actual: request.actual.value(),
            requested_overage_policy: request.overage_policy.map(OveragePolicy::as_str),
            until_ms: attempt.until_ms,
            event_id: event_id.as_str(),
            policy: policy_words(attempt.policy.policy.as_deref()),
            context: &context,
            policies_version: attempt.policy.version.to_string(),
            policy_from_ms: attempt.policy.from_ms,
            policy_until_ms: attempt.policy.until_ms,
            templates: self.template_words(&attempt.policy, unit),
            stored_bytes: stored_bytes.clone(),
            kept: &kept,
        };
        let replay = Replay {
            caller,
            reservation_id: None,
            event_id: Some(event_id.as_str()),
            decision_id: None,
            payload_hash: body.payload_hash.as_str(),
            scope_path: scope_path.as_str(),
            permission: "reservations:commit",
        };
        let target = RuntimeTarget::scope(&scope_path, request.actual);
        let options = RunOptions::new(DecidedBy::UsageEvent, &caller.tenant, target, cause, None)
            .or_replay(&replay, UsageEventReply::from);
        let (reply, _) = self.run_with_policy(options, call).await?;
        let (charged, balances) = match reply {
            UsageEventReply::Applied {
                charged,
                depths,
                snapshots,
                ..
            } => {
                self.metrics
                    .allowed(DecidedBy::UsageEvent, Decision::Allow, unit);
                let balances = balances_at(&scope_path, unit, &depths, &snapshots)?;
                self.traffic
                    .charged(&caller.tenant, unit, charged, &balances);
                (charged, balances)
            }
            UsageEventReply::Replayed { record, .. } => {
                (record.integer("charged")?, record.balances("create")?)
            }
        };
        let capped = charged < request.actual.value();
        let charged = capped.then(|| amount("charged", unit, charged));
        Ok(EventCreateResponse {
            status: EventStatus::Applied,
            event_id,
            charged: charged.transpose()?,
            balances,
        })
    }
}
