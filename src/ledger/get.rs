//! Reads a reservation.

use super::{Ledger, LedgerError, done, facts};
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::caller::{Caller, Reader, RuntimeCaller};
use crate::domain::ids::{Partition, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::Refusal;
use crate::domain::reservation::Status;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;
use crate::store::ExtraTrip;

/// A reservation, as its record says.
#[derive(Debug, Clone)]
pub struct Reservation {
    /// Its id.
    pub reservation_id: ReservationId,
    /// The status by the store's clock.
    pub status: Status,
    /// The key under which it was created.
    pub idempotency_key: String,
    /// Whom it charges, as it was sent.
    pub subject: Subject,
    /// What it is for, as it was sent.
    pub action: Action,
    /// The estimate, whatever became of it.
    pub estimate: Amount,
    /// What was charged. Only when committed.
    pub charged: Option<Amount>,
    /// When it was created, in milliseconds since the epoch.
    pub created_at_ms: i64,
    /// When its hold lapses or lapsed, in milliseconds since the epoch.
    pub expires_at_ms: i64,
    /// When it was committed or released, in milliseconds since the epoch.
    pub finalized_at_ms: Option<i64>,
    /// The subject's own scope.
    pub scope_path: ScopePath,
    /// Data that the client sent with the create, if it was read.
    pub metadata: Option<FreeObject>,
    /// Data that the client sent with the commit, if it was read.
    pub committed_metadata: Option<FreeObject>,
}

/// What is read of a record, but for data of the client's own.
pub(super) const FIELDS: [&str; 14] = [
    "status",
    "unit",
    "estimate",
    "charged",
    "scope_path",
    "subject",
    "action_kind",
    "action_name",
    "action_tags",
    "idempotency_key",
    "created_at_ms",
    "expires_at_ms",
    "grace_ms",
    "finalized_at_ms",
];

impl Reservation {
    /// Reads a record as it is at `now_ms` on the store's clock.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub(super) fn read(id: &str, record: &Record, now_ms: i64) -> Result<Self, RecordError> {
        let (status, unit) = (record.effective_status(now_ms)?, record.unit()?);
        let amount = |name: &str| {
            let amount = Amount::new(unit, record.integer(name)?);
            amount.ok_or_else(|| RecordError::of(name))
        };
        Ok(Self {
            reservation_id: ReservationId::parse(id)
                .ok_or_else(|| RecordError::of("reservation_id"))?,
            status,
            idempotency_key: record.text("idempotency_key")?.to_owned(),
            subject: facts::subject_of(record)?,
            action: facts::action_of(record)?,
            estimate: amount("estimate")?,
            charged: match status {
                Status::Committed => Some(amount("charged")?),
                Status::Active | Status::Released | Status::Expired => None,
            },
            created_at_ms: record.integer("created_at_ms")?,
            expires_at_ms: record.integer("expires_at_ms")?,
            finalized_at_ms: record.optional_integer("finalized_at_ms")?,
            scope_path: record.scope_path()?,
            metadata: facts::object_of(record, "metadata")?,
            committed_metadata: facts::object_of(record, "committed_metadata")?,
        })
    }
}

impl Ledger {
    /// Reads a reservation.
    ///
    /// # Errors
    /// [`Refusal`] among them: not found, foreign, expired (also when no sweep has said so yet).
    pub async fn get(
        &self,
        caller: &Caller,
        reservation_id: &ReservationId,
    ) -> Result<Reservation, LedgerError> {
        let partition = match caller {
            Caller::Tenant(caller) => {
                self.refuse_foreign(caller, reservation_id, "reservations:list")
                    .await?;
                caller.partition
            }
            Caller::Admin(_) => named_partition(reservation_id)?,
        };
        let mut fields = FIELDS.to_vec();
        fields.extend(["metadata", "committed_metadata"]);
        let answer = self
            .store
            .get_reservation(caller.into(), partition, reservation_id, &fields)
            .await?;
        let found = done(answer)?;
        match found.record.effective_status(found.now_ms)? {
            Status::Expired => Err(LedgerError::Refused(Refusal::Expired)),
            _ => Ok(Reservation::read(
                reservation_id.as_str(),
                &found.record,
                found.now_ms,
            )?),
        }
    }

    /// An id that names another partition than the caller's belongs to another tenant, or to nobody: it is read where it
    /// lies, which no script of the caller's can do.
    pub(super) async fn refuse_foreign(
        &self,
        caller: &RuntimeCaller,
        reservation_id: &ReservationId,
        permission: &str,
    ) -> Result<(), LedgerError> {
        let Some(partition) = reservation_id
            .partition()
            .filter(|p| *p != caller.partition)
        else {
            return Ok(());
        };
        self.authenticate(caller, permission).await?;
        self.store.metrics().extra_trip(ExtraTrip::ForeignId);
        let answer = self
            .store
            .get_reservation(Reader::Trusted, partition, reservation_id, &["status"])
            .await?;
        done(answer)?;
        Err(LedgerError::Refused(Refusal::ForeignReservation))
    }
}

/// Where an id without a caller's partition to fall back on is looked for.
pub(super) fn named_partition(reservation_id: &ReservationId) -> Result<Partition, LedgerError> {
    let partition = reservation_id.partition();
    partition.ok_or(LedgerError::Refused(Refusal::NotFound))
}
