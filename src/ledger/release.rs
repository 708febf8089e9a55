//! Releasing: the hold returns without a charge.

use super::Ledger;
use super::calls::RunOptions;
use super::decisions::DecidedBy;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::ids::{RequestId, ReservationId};
use crate::domain::payload_hash::HashedRequest;
use crate::domain::reservation::{Decision, ReleaseRequest, ReleaseResponse, balances_at, facts};
use crate::evidence::statements::of_end;
use crate::evidence::{Draft, Endpoint};
use crate::store::runtime::release::{Release, ReleaseReply};
use crate::store::runtime::target::RuntimeTarget;
use crate::store::{Counted, StoreError};

impl Ledger {
    /// Ends an active reservation without a charge. Repeating it under one key, with either credential, returns the hold
    /// once. An admin's release is written to the owner's audit chain in the same step.
    ///
    /// # Errors
    /// [`StoreError`]; refused in the order of precedence of `lua/runtime/release.lua`.
    pub async fn release(
        &self,
        caller: &Caller,
        reservation_id: &ReservationId,
        body: &HashedRequest<ReleaseRequest>,
        cause: &Cause,
    ) -> Result<ReleaseResponse, StoreError> {
        let request = &body.request;
        let (owner, audit) = match caller {
            Caller::Tenant(caller) => {
                self.refuse_foreign(caller, reservation_id, "reservations:release")
                    .await?;
                (caller.tenant.clone(), Vec::new())
            }
            Caller::Admin(_) => {
                let audit = audit_entry(reservation_id, request, cause);
                (self.owner_of(reservation_id).await?, audit)
            }
        };
        let place = (owner.partition(), Endpoint::Release);
        let draft = self
            .attesting
            .draft(place, body, Some(reservation_id), cause)
            .await?;
        let evidence = draft.as_ref().and_then(Draft::lines);
        let end_key = evidence
            .is_some()
            .then_some(request.idempotency_key.as_str());
        let kept: facts::Facts<'_> = facts::present([
            ("release_reason", request.reason.as_deref()),
            ("end_key", end_key),
        ])
        .collect();
        let (key_digest, context) = (request.idempotency_key.digest(), cause.lines());
        let target = RuntimeTarget::reservation(reservation_id);
        let options = RunOptions::new(DecidedBy::Release, &owner, target, cause, draft.as_ref());
        let reply = self.run_with_policy(options, |attempt| Release {
            caller: caller.into(),
            audited: matches!(caller, Caller::Admin(_)),
            payload_hash: body.payload_hash.as_str(),
            key_digest: &key_digest,
            context: &context,
            owner: &owner,
            reservation_id,
            until_ms: attempt.until_ms,
            evidence,
            kept: Counted(&kept),
            audit: &audit,
        });
        match reply.await?.0 {
            ReleaseReply::Released {
                unit,
                estimate,
                depths,
                scope_path,
                snapshots,
                now_ms,
            } => {
                self.traffic.ended(&owner);
                self.metrics
                    .allowed(DecidedBy::Release, Decision::Allow, unit);
                let balances = balances_at(&scope_path, unit, &depths, &snapshots)?;
                let mut response = ReleaseResponse::new(unit, estimate, balances)?;
                response.evidence = draft.and_then(|draft| draft.of_response(now_ms, &response));
                Ok(response)
            }
            ReleaseReply::Replayed { record, .. } => {
                let mut response = ReleaseResponse::replayed(&record)?;
                let attested = || of_end(reservation_id, &record);
                response.evidence = self.attesting.replayed(attested).await?;
                Ok(response)
            }
        }
    }
}

fn audit_entry<'a>(
    reservation_id: &'a ReservationId,
    request: &'a ReleaseRequest,
    cause: &'a Cause,
) -> facts::Facts<'a> {
    let request_id = cause.request_id.as_ref();
    facts::present([
        ("operation", Some("releaseReservation")),
        ("resource_type", Some("reservation")),
        ("resource_id", Some(reservation_id.as_str())),
        ("status", Some("200")),
        ("trace_id", Some(cause.trace_id.as_str())),
        ("request_id", request_id.map(RequestId::as_str)),
        ("source_ip", cause.source_ip.as_deref()),
        ("metadata.actor_type", Some(cause.actor.as_str())),
        ("metadata.reason", request.reason.as_deref()),
    ])
    .collect()
}
