//! Committing: what was used is charged, the rest of the hold returns.

use std::borrow::Cow;

use super::calls::RunOptions;
use super::decisions::DecidedBy;
use super::{Ledger, bytes_of};
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::fields::Read as _;
use crate::domain::ids::ReservationId;
use crate::domain::payload_hash::HashedRequest;
use crate::domain::reservation::{CommitRequest, CommitResponse, balances_at};
use crate::evidence::statements::of_end;
use crate::evidence::{Draft, Endpoint};
use crate::store::StoreError;
use crate::store::runtime::commit::{Commit, CommitReply};
use crate::store::runtime::target::RuntimeTarget;

impl Ledger {
    /// Ends an active reservation with a charge. Repeating it under one key charges once.
    ///
    /// # Errors
    /// [`StoreError`]; refused in the order of precedence of `lua/runtime/commit.lua`.
    pub async fn commit(
        &self,
        caller: &RuntimeCaller,
        reservation_id: &ReservationId,
        body: &HashedRequest<CommitRequest>,
        cause: &Cause,
    ) -> Result<CommitResponse, StoreError> {
        self.refuse_foreign(caller, reservation_id, "reservations:commit")
            .await?;
        let request = &body.request;
        let metrics = request
            .metrics
            .as_ref()
            .map(|it| ("metrics", Cow::from(it.to_json())));
        let metadata = request.metadata.as_ref();
        let metadata = metadata.map(|it| ("committed_metadata", it.as_str().into()));
        let mut kept: Vec<_> = metrics.into_iter().chain(metadata).collect();
        let stored_bytes = self.counted_bytes(bytes_of(&kept));
        let place = (caller.partition, Endpoint::Commit);
        let draft = self
            .attesting
            .draft(place, body, Some(reservation_id), cause)
            .await?;
        let evidence = draft.as_ref().and_then(Draft::lines);
        if evidence.is_some() {
            kept.push(("end_key", request.idempotency_key.as_str().into()));
            kept.push(("actual", request.actual.value().to_string().into()));
        }
        let (key_digest, context) = (request.idempotency_key.digest(), cause.lines());
        let target = RuntimeTarget {
            amount: Some(request.actual),
            ..RuntimeTarget::reservation(reservation_id)
        };
        let options = RunOptions::new(
            DecidedBy::Commit,
            &caller.tenant,
            target,
            cause,
            draft.as_ref(),
        );
        let reply = self.run_with_policy(options, |attempt| Commit {
            caller,
            payload_hash: body.payload_hash.as_str(),
            unit: request.actual.unit().as_str(),
            actual: request.actual.value(),
            key_digest: &key_digest,
            until_ms: attempt.until_ms,
            reservation_id,
            context: &context,
            stored_bytes: stored_bytes.clone(),
            evidence,
            kept: &kept,
        });
        match reply.await?.0 {
            CommitReply::Committed {
                unit,
                charged,
                released,
                depths,
                scope_path,
                overage_policy,
                overage,
                snapshots,
                now_ms,
            } => {
                self.metrics.committed(overage_policy, overage, unit);
                self.traffic.ended(&caller.tenant);
                let balances = balances_at(&scope_path, unit, &depths, &snapshots)?;
                self.traffic
                    .charged(&caller.tenant, unit, charged, &balances);
                let mut response = CommitResponse::new(unit, charged, released, balances)?;
                response.evidence = draft.and_then(|draft| draft.of_response(now_ms, &response));
                Ok(response)
            }
            CommitReply::Replayed { record, .. } => {
                let mut response = CommitResponse::replayed(&record)?;
                let attested = || of_end(reservation_id, &record);
                response.evidence = self.attesting.replayed(attested).await?;
                Ok(response)
            }
        }
    }
}
