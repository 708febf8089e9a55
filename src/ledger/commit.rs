//! Committing: what was used is charged, the rest of the hold returns.

use super::calls::Target;
use super::stored_bytes::bytes_of;
use super::{Ledger, amount};
use crate::domain::action::Metrics;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::{Read as _, object};
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::Hashed;
use crate::domain::record::{Record, RecordError};
use crate::domain::reservation::balances_at;
use crate::domain::words::words;
use crate::store::OperationError;
use crate::store::runtime::commit::{Commit, CommitReply};

object! {
    /// Reports what the action cost.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CommitRequest: Read {
        /// Identifies this attempt: the same key charges once.
        pub idempotency_key: IdempotencyKey,
        /// What it cost, in the unit of the estimate.
        pub actual: Amount,
        /// What the client measured.
        pub metrics: Option<Metrics>,
        /// Data that the client chooses, returned with the reservation as `committed_metadata`.
        pub metadata: Option<FreeObject>,
    }
}

words! {
    /// The only status of a commit.
    CommitStatus {
        /// Charged.
        Committed = "COMMITTED",
    }
}

object! {
    /// What was charged.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CommitResponse: Serialize {
        /// The reservation's status.
        pub status: CommitStatus,
        /// What every budget was charged. Less than was used where the overage policy caps it.
        pub charged: Amount,
        /// What was returned. Absent when nothing was.
        pub released: Option<Amount>,
        /// The budgets that held the reservation, root first, after the charge.
        pub balances: Vec<Balance> { required: false },
        /// Where the signed evidence can be read.
        pub evidence: Option<EvidenceRef> { described: false, named_by: evidence::member_name },
    }
}

impl Ledger {
    /// Ends an active reservation with a charge. Repeating it under one key charges once.
    ///
    /// # Errors
    /// [`OperationError`]; refused in the order of precedence of `lua/runtime/commit.lua`.
    pub async fn commit(
        &self,
        caller: &RuntimeCaller,
        reservation_id: &ReservationId,
        body: &Hashed<CommitRequest>,
        cause: &Cause,
    ) -> Result<CommitResponse, OperationError> {
        self.refuse_foreign(caller, reservation_id, "reservations:commit")
            .await?;
        let request = &body.request;
        let metrics = request.metrics.as_ref().map(|it| ("metrics", it.to_json()));
        let metadata = request.metadata.as_ref();
        let metadata = metadata.map(|it| ("committed_metadata", it.as_str().to_owned()));
        let kept: Vec<_> = metrics.into_iter().chain(metadata).collect();
        let (key_digest, context) = (request.idempotency_key.digest(), cause.lines());
        let target = Target::Charge(reservation_id, request.actual);
        let reply = self.decided(&caller.tenant, target, |attempt| Commit {
            caller,
            payload_hash: body.payload_hash.as_str(),
            unit: request.actual.unit().as_str(),
            actual: request.actual.value(),
            key_digest: &key_digest,
            swept_until_ms: attempt.swept_until_ms,
            reservation_id,
            context: &context,
            stored_bytes: self.counted(bytes_of(&kept)),
            kept: &kept,
        });
        match reply.await? {
            CommitReply::Committed {
                unit,
                charged,
                released,
                depths,
                scope_path,
                snapshots,
                ..
            } => {
                self.traffic.ended(&caller.tenant);
                let balances = balances_at(&scope_path, unit, &depths, &snapshots)?;
                self.traffic
                    .charged(&caller.tenant, unit, charged, &balances);
                Ok(CommitResponse::new(unit, charged, released, balances)?)
            }
            CommitReply::Replayed { record, .. } => Ok(CommitResponse::replayed(&record)?),
        }
    }
}

impl CommitResponse {
    fn new(
        unit: Unit,
        charged: i64,
        released: i64,
        balances: Vec<Balance>,
    ) -> Result<Self, RecordError> {
        let released = (released > 0).then(|| amount("released", unit, released));
        Ok(Self {
            status: CommitStatus::Committed,
            charged: amount("charged", unit, charged)?,
            released: released.transpose()?,
            balances,
            evidence: None,
        })
    }

    /// The first response again.
    pub(super) fn replayed(record: &Record) -> Result<Self, RecordError> {
        let charged = record.integer("charged")?;
        let released = record.integer("estimate")? - charged;
        let balances = record.balances("commit")?;
        Self::new(record.read("unit")?, charged, released, balances)
    }
}
