//! Reserving: a hold on every budgeted scope of a subject, or a dry run, which only reports whether it could be made.

use std::borrow::Cow;

use super::calls::{Attempt, RunOptions};
use super::decisions::DecidedBy;
use super::policies::{policy_words, rate_limits};
use super::{Ledger, bytes_of};
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::fields::Read as _;
use crate::domain::ids::ReservationId;
use crate::domain::payload_hash::HashedRequest;
use crate::domain::policy::{OveragePolicy, Policy};
use crate::domain::reservation::{
    DecisionRequest, GRACE_PERIOD_MS_DEFAULT, ObservedRefusal, OutcomeKind,
    ReservationCreateRequest, ReservationCreateResponse, balances_at, facts,
};
use crate::evidence::statements::of_create;
use crate::evidence::{Draft, Endpoint};
use crate::store::runtime::replay::Replay;
use crate::store::runtime::reserve::{Reserve, ReserveReply};
use crate::store::runtime::target::RuntimeTarget;
use crate::store::{Counted, StoreError};

impl Ledger {
    /// Holds an estimate on every budgeted scope of a subject, or on none. Repeating it under one key holds once.
    ///
    /// # Errors
    /// [`StoreError`]; refused in the order of precedence of `lua/runtime/reserve.lua`.
    pub async fn reserve(
        &self,
        caller: &RuntimeCaller,
        body: &HashedRequest<ReservationCreateRequest>,
        cause: &Cause,
    ) -> Result<ReservationCreateResponse, StoreError> {
        let (request, secret) = (&body.request, self.store.secret().await?);
        let id = ReservationId::derive(secret, &caller.tenant, &request.idempotency_key);
        if request.dry_run {
            let question = HashedRequest {
                request: DecisionRequest {
                    idempotency_key: request.idempotency_key.clone(),
                    subject: request.subject.clone(),
                    action: request.action.clone(),
                    estimate: request.estimate,
                    metadata: None,
                },
                payload_hash: body.payload_hash.clone(),
                attested: body.attested.clone(),
            };
            return self
                .outcome(caller, OutcomeKind::DryRun, id.as_str(), &question, cause)
                .await;
        }
        let scope_path = self.own_scope(caller, &request.subject).await?;
        let facts = facts::of_request(&request.subject, &request.action);
        let metadata = request.metadata.as_ref().map_or(0, |it| it.as_str().len());
        let stored = self.counted_bytes(bytes_of(&facts) + metadata);
        let (unit, context) = (request.estimate.unit(), cause.lines());
        let place = (caller.partition, Endpoint::Reserve);
        let draft = self.attesting.draft(place, body, None, cause).await?;
        let call = |attempt: &Attempt| {
            let (selection, policy) = (&attempt.policy, attempt.policy.policy.as_deref());
            Reserve {
                caller,
                other_grace: request.grace_period_ms != GRACE_PERIOD_MS_DEFAULT,
                budgets: self.store.budgets_of(&caller.tenant, &scope_path, unit),
                payload_hash: body.payload_hash.as_str(),
                scope_path: scope_path.as_str(),
                unit: unit.as_str(),
                amount: request.estimate.value(),
                requested_ttl_ms: request.ttl_ms,
                grace_ms: request.grace_period_ms,
                requested_overage_policy: request.overage_policy.map(OveragePolicy::as_str),
                until_ms: attempt.until_ms,
                reservation_id: &id,
                policy: policy_words(policy),
                denied_per_minute: self.denied_per_minute(caller),
                context: &context,
                policies_version: selection.version.to_string(),
                policy_from_ms: selection.from_ms,
                policy_until_ms: selection.until_ms,
                templates: self.template_words(selection, unit),
                rate_limits: rate_limits(policy, stored.as_deref()),
                evidence: draft.as_ref().and_then(Draft::lines),
                facts: Counted(&facts),
                kept: kept(caller, request, policy),
            }
        };
        let replay = Replay {
            caller,
            reservation_id: Some(id.as_str()),
            event_id: None,
            decision_id: None,
            payload_hash: body.payload_hash.as_str(),
            scope_path: scope_path.as_str(),
            permission: "reservations:create",
        };
        let refused = |error: &StoreError| self.traffic.refused(&caller.tenant, error);
        let target = RuntimeTarget::scope(&scope_path, request.estimate);
        let options = RunOptions::new(
            DecidedBy::Reserve,
            &caller.tenant,
            target,
            cause,
            draft.as_ref(),
        )
        .or_replay(&replay, ReserveReply::from);
        let created = self.run_with_policy(options, call).await;
        match created.inspect_err(refused)? {
            (
                ReserveReply::Reserved {
                    now_ms,
                    ttl_ms,
                    observed,
                    depths,
                    snapshots,
                },
                policy,
            ) => {
                self.traffic.decided(&caller.tenant, false);
                let caps = policy.and_then(|policy| policy.caps.clone());
                let balances = balances_at(&scope_path, unit, &depths, &snapshots)?;
                let estimate = request.estimate;
                let mut response = ReservationCreateResponse {
                    observed: ObservedRefusal::all(&scope_path, &observed),
                    reservation_id: Some(id),
                    expires_at_ms: Some(now_ms + ttl_ms),
                    remaining_ttl_ms: Some(ttl_ms),
                    ..ReservationCreateResponse::allowed(scope_path, estimate, caps, balances)
                };
                self.metrics
                    .allowed(DecidedBy::Reserve, response.decision, unit);
                response.evidence = draft.and_then(|draft| draft.of_response(now_ms, &response));
                Ok(response)
            }
            (ReserveReply::Replayed { now_ms, record }, _) => {
                let evidence = self.attesting.replayed(|| of_create(&id, &record)).await?;
                let response = ReservationCreateResponse::replayed(id, now_ms, &record)?;
                Ok(ReservationCreateResponse {
                    evidence,
                    ..response
                })
            }
        }
    }
}

/// Fields that only the record keeps, such as the policy that applied.
fn kept<'a>(
    caller: &'a RuntimeCaller,
    request: &'a ReservationCreateRequest,
    policy: Option<&Policy>,
) -> facts::Facts<'a> {
    let counting = policy.filter(|policy| policy.rate_limits.max_commits_per_minute.is_some());
    let caps = policy.and_then(|policy| policy.caps.as_ref());
    facts::present([
        (
            "idempotency_key",
            Some(Cow::from(request.idempotency_key.as_str())),
        ),
        ("key_id", Some(caller.key_id.as_str().into())),
        (
            "metadata",
            request.metadata.as_ref().map(|it| it.as_str().into()),
        ),
        (
            "policy_id",
            policy.map(|policy| policy.policy_id.to_string().into()),
        ),
        ("caps", caps.map(|caps| caps.to_json().into())),
        (
            "counting_policy",
            counting.map(|policy| policy.policy_id.to_string().into()),
        ),
    ])
    .collect()
}
