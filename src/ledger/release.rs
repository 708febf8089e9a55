//! Releasing: the hold returns without a charge.

use super::calls::Target;
use super::{Ledger, amount, facts};
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::object;
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::payload_hash::Hashed;
use crate::domain::record::{Record, RecordError};
use crate::domain::reservation::balances_at;
use crate::domain::words::words;
use crate::store::runtime::release::{Release, ReleaseReply};
use crate::store::{Counted, OperationError, Pair};

object! {
    /// Returns a hold without a charge.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReleaseRequest: Read {
        /// Identifies this attempt: the same key returns the hold once.
        pub idempotency_key: IdempotencyKey,
        /// Reason, for the record.
        pub reason: Option<String> { chars: ..=256 },
    }
}

words! {
    /// The only status of a release.
    ReleaseStatus {
        /// Returned.
        Released = "RELEASED",
    }
}

object! {
    /// What was returned.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReleaseResponse: Serialize {
        /// The reservation's status.
        pub status: ReleaseStatus,
        /// What every budget got back: the whole hold.
        pub released: Amount,
        /// The budgets that held the reservation, root first, after the return.
        pub balances: Vec<Balance> { required: false },
        /// Where the signed evidence can be read.
        pub evidence: Option<EvidenceRef> { described: false, named_by: evidence::member_name },
    }
}

impl Ledger {
    /// Ends an active reservation without a charge. Repeating it under one key, with either credential, returns the hold
    /// once. An admin's release is written to the owner's audit chain in the same step.
    ///
    /// # Errors
    /// [`OperationError`]; refused in the order of precedence of `lua/runtime/release.lua`.
    pub async fn release(
        &self,
        caller: &Caller,
        reservation_id: &ReservationId,
        body: &Hashed<ReleaseRequest>,
        cause: &Cause,
    ) -> Result<ReleaseResponse, OperationError> {
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
        let kept = facts::given([("release_reason", request.reason.clone())]);
        let (key_digest, context) = (request.idempotency_key.digest(), cause.lines());
        let target = Target::Reservation(reservation_id);
        let reply = self.decided(&owner, target, |_| Release {
            caller: caller.into(),
            audited: matches!(caller, Caller::Admin(_)),
            payload_hash: body.payload_hash.as_str(),
            key_digest: &key_digest,
            context: &context,
            owner: &owner,
            reservation_id,
            kept: Counted(&kept),
            audit: &audit,
        });
        match reply.await? {
            ReleaseReply::Released {
                unit,
                estimate,
                depths,
                scope_path,
                snapshots,
                ..
            } => {
                self.traffic.ended(&owner);
                let balances = balances_at(&scope_path, unit, &depths, &snapshots)?;
                Ok(ReleaseResponse::new(unit, estimate, balances)?)
            }
            ReleaseReply::Replayed { record, .. } => Ok(ReleaseResponse::replayed(&record)?),
        }
    }
}

impl ReleaseResponse {
    fn new(unit: Unit, released: i64, balances: Vec<Balance>) -> Result<Self, RecordError> {
        Ok(Self {
            status: ReleaseStatus::Released,
            released: amount("estimate", unit, released)?,
            balances,
            evidence: None,
        })
    }

    /// The first response again.
    pub(super) fn replayed(record: &Record) -> Result<Self, RecordError> {
        let balances = record.balances("release")?;
        Self::new(record.read("unit")?, record.integer("estimate")?, balances)
    }
}

fn audit_entry(
    reservation_id: &ReservationId,
    request: &ReleaseRequest,
    cause: &Cause,
) -> Vec<Pair> {
    let request_id = cause.request_id.as_ref();
    facts::given([
        ("operation", Some("releaseReservation".to_owned())),
        ("resource_type", Some("reservation".to_owned())),
        ("resource_id", Some(reservation_id.to_string())),
        ("status", Some("200".to_owned())),
        ("trace_id", Some(cause.trace_id.to_string())),
        ("request_id", request_id.map(ToString::to_string)),
        ("source_ip", cause.source_ip.clone()),
        ("metadata.actor_type", Some(cause.actor.as_str().to_owned())),
        ("metadata.reason", request.reason.clone()),
    ])
}
