//! Reservations as responses show them.

pub mod get;
pub mod list;

pub use list::{Include, ReservationListQuery};

use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::evidence::ReservationEvidence;
use crate::api::errors::ApiError;
use crate::api::operation::parameters::{self, Parameter, text};
use crate::api::response::amount;
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::ids::ReservationId;
use crate::domain::json::FreeObject;
use crate::domain::record::{Record, RecordError};
use crate::domain::reservation::Status;
use crate::domain::scope::{Level, ScopePath};
use crate::domain::subject::Subject;
use crate::ledger::facts;

/// A reservation, in full or as a row of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// Names the reservation.
    #[schema(value_type = String)]
    pub reservation_id: ReservationId,
    /// What has become of it.
    pub status: Status,
    /// The key under which it was created.
    #[schema(min_length = 1, max_length = 256, required = false)]
    pub idempotency_key: String,
    /// Who it is for, as it was sent.
    pub subject: Subject,
    /// What it is for, as it was sent.
    pub action: Action,
    /// The estimate, whatever became of it.
    pub reserved: Amount,
    /// What was charged. Only when committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub committed: Option<Amount>,
    /// When it was created, in milliseconds since the epoch.
    #[schema(minimum = 0)]
    pub created_at_ms: i64,
    /// When its hold lapses or lapsed, in milliseconds since the epoch.
    #[schema(minimum = 0)]
    pub expires_at_ms: i64,
    /// When it was committed or released, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub finalized_at_ms: Option<i64>,
    /// The subject's own scope.
    #[schema(value_type = String)]
    pub scope_path: ScopePath,
    /// Every scope that encloses the subject, root first.
    #[schema(value_type = Vec<String>)]
    pub affected_scopes: Vec<ScopePath>,
    /// Data that the client sent with the create. In a list only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
    /// Data that the client sent with the commit. In a list only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub committed_metadata: Option<FreeObject>,
    /// Where its signed evidence can be read. In a list only on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub evidence: Option<ReservationEvidence>,
}

/// A page of reservations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationListResponse {
    /// The reservations.
    pub reservations: Vec<Reservation>,
    /// Leads to the next page. Absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    #[schema(required = false)]
    pub has_more: bool,
}

impl ReservationListResponse {
    /// With a cursor there is more; without one there is not.
    pub fn new(reservations: Vec<Reservation>, next_cursor: Option<String>) -> Self {
        Self {
            reservations,
            has_more: next_cursor.is_some(),
            next_cursor,
        }
    }
}

impl Reservation {
    /// A record as responses show it. `include`: what a list shows of the optional members; all of them elsewhere.
    ///
    /// # Errors
    /// 500 when the record is corrupt.
    fn of_record(
        reservation_id: ReservationId,
        status: Status,
        record: &Record,
        include: Option<Include>,
    ) -> Result<Self, ApiError> {
        let corrupt = |error: RecordError| ApiError::internal(error).after_check();
        let unit = record.unit().map_err(corrupt)?;
        let integer = |name: &str| record.integer(name).map_err(corrupt);
        let committed = match status {
            Status::Committed => Some(amount(unit, integer("charged")?)?),
            Status::Active | Status::Released | Status::Expired => None,
        };
        let object = |name: &str, chosen: fn(Include) -> bool| match include.is_none_or(chosen) {
            true => facts::object_of(record, name).map_err(corrupt),
            false => Ok(None),
        };
        let scope_path = record.scope_path().map_err(corrupt)?;
        Ok(Self {
            reservation_id,
            status,
            idempotency_key: record.text("idempotency_key").map_err(corrupt)?.to_owned(),
            subject: facts::subject_of(record).map_err(corrupt)?,
            action: facts::action_of(record).map_err(corrupt)?,
            reserved: amount(unit, integer("estimate")?)?,
            committed,
            created_at_ms: integer("created_at_ms")?,
            expires_at_ms: integer("expires_at_ms")?,
            finalized_at_ms: record
                .optional_integer("finalized_at_ms")
                .map_err(corrupt)?,
            affected_scopes: scope_path.with_parents().collect(),
            scope_path,
            metadata: object("metadata", |include| include.metadata)?,
            committed_metadata: object("committed_metadata", |include| include.committed_metadata)?,
            evidence: None,
        })
    }
}

/// The parameter of the path.
pub(super) fn reservation_id() -> Parameter {
    let schema = json!({"type": "string", "minLength": 1, "maxLength": 128});
    parameters::path("reservation_id", "Names the reservation.", schema)
}

/// Filters by the levels of a scope. `tenant` describes that of the tenant.
pub(super) fn level_filters(tenant: &str) -> Vec<Parameter> {
    let filter = |level: Level| {
        let description = match level {
            Level::Tenant => tenant,
            _ => "Only what lies at or below this value of the level, whatever the case.",
        };
        parameters::query(level.as_str(), description, text())
    };
    Level::ALL.into_iter().map(filter).collect()
}
