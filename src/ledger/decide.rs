//! Deciding: whether an estimate could be held now. Nothing is held.

use super::Ledger;
use super::calls::{Attempt, RunOptions};
use super::decisions::DecidedBy;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::fields::Read as _;
use crate::domain::ids::DecisionId;
use crate::domain::payload_hash::HashedRequest;
use crate::domain::policy::Caps;
use crate::domain::reservation::{
    DecisionRequest, DecisionResponse, ObservedRefusal, OutcomeKind, ReservationCreateResponse,
    balances_at, facts,
};
use crate::evidence::statements::of_outcome;
use crate::evidence::{Draft, Endpoint};
use crate::store::StoreError;
use crate::store::runtime::decide::{Decide, DecideReply};
use crate::store::runtime::replay::Replay;
use crate::store::runtime::target::RuntimeTarget;

/// How long the outcome of a decision or a dry run is replayed under its idempotency key.
const RETENTION_MS: i64 = 86_400_000;

impl Ledger {
    /// Decides whether an estimate could be held. Repeating it under one key returns the first decision.
    ///
    /// # Errors
    /// [`StoreError`]; refused in the order of precedence of `lua/runtime/decide.lua`. A denial is no error.
    pub async fn decide(
        &self,
        caller: &RuntimeCaller,
        body: &HashedRequest<DecisionRequest>,
        cause: &Cause,
    ) -> Result<DecisionResponse, StoreError> {
        let secret = self.store.secret().await?;
        let id = DecisionId::derive(secret, &caller.tenant, &body.request.idempotency_key);
        let outcome = self.outcome(caller, OutcomeKind::Decision, id.as_str(), body, cause);
        Ok(outcome.await?.into())
    }

    /// Decides, or tries a reservation. `id`: of the decision, or of the reservation that is not made; keeps the outcome.
    pub(super) async fn outcome(
        &self,
        caller: &RuntimeCaller,
        kind: OutcomeKind,
        id: &str,
        body: &HashedRequest<DecisionRequest>,
        cause: &Cause,
    ) -> Result<ReservationCreateResponse, StoreError> {
        let request = &body.request;
        let (unit, amount) = (request.estimate.unit(), request.estimate.value());
        let scope_path = self.own_scope(caller, &request.subject).await?;
        let facts = facts::of_request(&request.subject, &request.action);
        let context = cause.lines();
        let (by, endpoint, outcome_status) = match kind {
            OutcomeKind::Decision => (DecidedBy::Decide, Endpoint::Decide, "DECISION"),
            OutcomeKind::DryRun => (DecidedBy::DryRun, Endpoint::Reserve, "DRY_RUN"),
        };
        let decision_id = Some(id).filter(|_| kind == OutcomeKind::Decision);
        let reservation_id = Some(id).filter(|_| kind == OutcomeKind::DryRun);
        let place = (caller.partition, endpoint);
        let draft = self.attesting.draft(place, body, None, cause).await?;
        let stored = draft.as_ref().and_then(Draft::lines);
        let stored_bytes = stored.and_then(|lines| self.counted_bytes(lines.len()));
        let call = |attempt: &Attempt| {
            let policy = &attempt.policy;
            let caps = policy
                .policy
                .as_ref()
                .and_then(|policy| policy.caps.as_ref());
            Decide {
                caller,
                decision_id,
                reservation_id,
                budgets: self.store.budgets_of(&caller.tenant, &scope_path, unit),
                payload_hash: body.payload_hash.as_str(),
                scope_path: scope_path.as_str(),
                unit: unit.as_str(),
                amount,
                until_ms: attempt.until_ms,
                outcome_status,
                caps: caps.map(Caps::to_json),
                denied_per_minute: self.denied_per_minute(caller),
                context: &context,
                retention_ms: RETENTION_MS,
                policies_version: policy.version.to_string(),
                policy_from_ms: policy.from_ms,
                policy_until_ms: policy.until_ms,
                templates: self.template_words(policy, unit),
                evidence: draft.as_ref().and_then(Draft::lines),
                stored_bytes: stored_bytes.clone(),
                facts: &facts,
            }
        };
        let replay = Replay {
            caller,
            reservation_id,
            event_id: None,
            decision_id,
            payload_hash: body.payload_hash.as_str(),
            scope_path: scope_path.as_str(),
            permission: "reservations:create",
        };
        let target = RuntimeTarget::scope(&scope_path, request.estimate);
        let options = RunOptions::new(by, &caller.tenant, target, cause, draft.as_ref())
            .or_replay(&replay, DecideReply::from);
        let (reply, policy) = self.run_with_policy(options, call).await?;
        let (mut outcome, now_ms) = match reply {
            DecideReply::Allow {
                now_ms,
                observed,
                depths,
                snapshots,
            } => {
                self.traffic.decided(&caller.tenant, false);
                let balances = balances_at(&scope_path, unit, &depths, &snapshots)?;
                let caps = policy.and_then(|policy| policy.caps.clone());
                let observed = ObservedRefusal::all(&scope_path, &observed);
                let outcome = ReservationCreateResponse {
                    observed,
                    ..ReservationCreateResponse::allowed(
                        scope_path,
                        request.estimate,
                        caps,
                        balances,
                    )
                };
                self.metrics.allowed(by, outcome.decision, unit);
                (outcome, now_ms)
            }
            DecideReply::Deny { now_ms, reason } => {
                self.traffic.decided(&caller.tenant, true);
                self.metrics.denied(by, reason, unit);
                (
                    ReservationCreateResponse::denied(scope_path, reason),
                    now_ms,
                )
            }
            DecideReply::Replayed { record, .. } => {
                let mut outcome = ReservationCreateResponse::replayed_outcome(kind, &record)?;
                outcome.evidence = self
                    .attesting
                    .replayed(|| of_outcome(kind, &record))
                    .await?;
                return Ok(outcome);
            }
        };
        outcome.evidence = draft.and_then(|draft| match kind {
            OutcomeKind::Decision => {
                draft.of_response(now_ms, &DecisionResponse::from(outcome.clone()))
            }
            OutcomeKind::DryRun => draft.of_response(now_ms, &outcome),
        });
        Ok(outcome)
    }
}
