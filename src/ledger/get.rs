//! Reads a reservation.

use super::Ledger;
use crate::domain::amount::Amount;
use crate::domain::api_key::secret::KeyId;
use crate::domain::caller::{Caller, ScriptCaller};
use crate::domain::evidence::ReservationEvidence;
use crate::domain::fields::object;
use crate::domain::ids::{Partition, ReservationId, TenantId};
use crate::domain::json::FreeObject;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::ReservationRefusal;
use crate::domain::reservation::Status;
use crate::domain::scope::ScopePath;
use crate::domain::subject::{Action, Subject};
use crate::evidence::statements;
use crate::store::runtime::fields_of;
use crate::store::runtime::read::{Get, GetReply};
use crate::store::runtime::target::RuntimeTarget;
use crate::store::target::Target as _;
use crate::store::{ExtraRoundTrip, Lane, StoreError};

object! {
    /// A reservation, in full or as a row of a list.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Reservation: Serialize {
        /// Id of the reservation.
        pub reservation_id: ReservationId,
        /// Status.
        pub status: Status,
        /// The key under which it was created.
        pub idempotency_key: String { chars: 1..=256, required: false },
        /// Subject, as it was sent.
        pub subject: Subject,
        /// Action, as it was sent.
        pub action: Action,
        /// The estimate, whatever the status.
        pub reserved: Amount,
        /// Charged amount. Only when committed.
        pub committed: Option<Amount>,
        /// What was given back of the charge. Absent without a refund, and in the Cycles dialect.
        pub refunded: Option<Amount>,
        /// When it was created, in milliseconds since the epoch.
        pub created_at_ms: i64 { range: 0.. },
        /// When it expires or expired, in milliseconds since the epoch.
        pub expires_at_ms: i64 { range: 0.. },
        /// When it was committed or released, in milliseconds since the epoch.
        pub finalized_at_ms: Option<i64> { range: 0.. },
        /// Deepest scope of the subject.
        pub scope_path: ScopePath,
        /// Every scope that encloses the subject, root first.
        pub affected_scopes: Vec<ScopePath>,
        /// The API key that created it. In the Cycles dialect only in a list, on request.
        pub key_id: Option<KeyId>,
        /// Data that the client sent with the create. In a list only on request.
        pub metadata: Option<FreeObject>,
        /// Data that the client sent with the commit. In a list only on request.
        pub committed_metadata: Option<FreeObject>,
        /// Where its signed evidence can be read. In a list only on request.
        pub evidence: Option<ReservationEvidence>,
    }
}

/// The record that an id names.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedRecord<'a> {
    /// The text of the id, also of a usage event.
    pub id: &'a ReservationId,
    /// The partition that it names, if it names one.
    pub partition: Option<Partition>,
    /// Whether it is a usage event.
    pub is_event: bool,
}

impl<'a> From<&'a ReservationId> for NamedRecord<'a> {
    fn from(id: &'a ReservationId) -> Self {
        Self {
            id,
            partition: id.partition(),
            is_event: false,
        }
    }
}

/// The fields of a record that every read needs. Metadata is read on request. Evidence needs these and more.
pub(super) const FIELDS: [&str; 16] = [
    "status",
    "unit",
    "estimate",
    "charged",
    "refunded",
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
    "key_id",
];

impl Reservation {
    /// Reads a record as it is at `now_ms` on the store's clock.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub(super) fn read(id: &str, record: &Record, now_ms: i64) -> Result<Self, RecordError> {
        let (status, scope_path) = (
            record.effective_status(now_ms)?,
            record.read::<ScopePath>("scope_path")?,
        );
        Ok(Self {
            reservation_id: ReservationId::parse(id)
                .ok_or_else(|| RecordError::of("reservation_id"))?,
            status,
            idempotency_key: record.text("idempotency_key")?.to_owned(),
            subject: record.subject()?,
            action: record.action()?,
            reserved: record.read("estimate")?,
            committed: match status {
                Status::Committed => Some(record.read("charged")?),
                Status::Active | Status::Released | Status::Expired => None,
            },
            refunded: record.optional("refunded")?,
            created_at_ms: record.integer("created_at_ms")?,
            expires_at_ms: record.integer("expires_at_ms")?,
            finalized_at_ms: record.optional("finalized_at_ms")?,
            affected_scopes: scope_path.with_parents().collect(),
            scope_path,
            key_id: record.get("key_id").and_then(KeyId::parse),
            metadata: record.optional("metadata")?,
            committed_metadata: record.optional("committed_metadata")?,
            evidence: None,
        })
    }
}

impl Ledger {
    /// Reads a reservation.
    ///
    /// # Errors
    /// [`StoreError`]; refused when there is none, when it belongs to another tenant, or when it has expired, swept or not.
    pub async fn get(
        &self,
        caller: &Caller,
        reservation_id: &ReservationId,
    ) -> Result<Reservation, StoreError> {
        let partition = match caller {
            Caller::Tenant(caller) => {
                self.refuse_foreign(caller, reservation_id, "reservations:list")
                    .await?;
                caller.partition
            }
            Caller::Admin(_) => named_partition(reservation_id)?,
        };
        let fields = self.fields(true, &["metadata", "committed_metadata"]);
        let (now_ms, record) = self
            .read_reservation(caller.into(), partition, reservation_id, &fields)
            .await?;
        let attester = self.attesting.attester().await?;
        match record.effective_status(now_ms)? {
            Status::Expired => Err(ReservationRefusal::Expired(reservation_id.clone()).into()),
            _ => Ok(Reservation {
                evidence: attester
                    .and_then(|attester| attester.of_reservation(reservation_id, &record, now_ms)),
                ..Reservation::read(reservation_id.as_str(), &record, now_ms)?
            }),
        }
    }

    /// The fields of a record that a reservation is made of, with `more` of them, or with its evidence.
    pub(super) fn fields(&self, evidence: bool, more: &[&'static str]) -> Vec<&'static str> {
        match evidence && self.attests() {
            true => [&statements::FIELDS[..], &["refunded", "key_id"]].concat(),
            false => [&FIELDS[..], more].concat(),
        }
    }

    /// The tenant that a reservation belongs to.
    pub(super) async fn owner_of(
        &self,
        reservation_id: &ReservationId,
    ) -> Result<TenantId, StoreError> {
        let partition = named_partition(reservation_id)?;
        self.store.extra_round_trip(ExtraRoundTrip::Owner);
        let (_, record) = self
            .read_reservation(
                ScriptCaller::TRUSTED,
                partition,
                reservation_id,
                &["tenant"],
            )
            .await?;
        Ok(record.read("tenant")?)
    }

    /// Reads fields of a reservation, and the store's clock in milliseconds. `partition` must be the reader's own, unless the
    /// reader is trusted.
    pub(super) async fn read_reservation(
        &self,
        caller: ScriptCaller<'_>,
        partition: Partition,
        reservation_id: &ReservationId,
        names: &[&str],
    ) -> Result<(i64, Record), StoreError> {
        self.read_record(caller, partition, reservation_id.into(), names)
            .await
    }

    /// The same of a usage event as well.
    pub(super) async fn read_record(
        &self,
        caller: ScriptCaller<'_>,
        partition: Partition,
        named: NamedRecord<'_>,
        names: &[&str],
    ) -> Result<(i64, Record), StoreError> {
        let id = Some(named.id.as_str());
        let call = Get {
            partition,
            caller,
            reservation_id: id.filter(|_| !named.is_event),
            event_id: id.filter(|_| named.is_event),
            names,
        };
        let found = self.store.run(Lane::Request, &call).await;
        let GetReply::Found { now_ms, fields } =
            RuntimeTarget::reservation(named.id).named(found)?;
        Ok((now_ms, fields_of(names, fields.0).unwrap_or_default()))
    }
}

/// The partition in an id, for the admin key, which has none of its own.
fn named_partition(reservation_id: &ReservationId) -> Result<Partition, StoreError> {
    let partition = reservation_id.partition();
    partition.ok_or_else(|| ReservationRefusal::NotFound(reservation_id.clone()).into())
}
