//! `GET /v1/reservations` and `GET /v1/reservations/{reservation_id}`.

mod list;

pub use list::{Include, ReservationListQuery};

use serde::Serialize;
use utoipa::ToSchema;

use super::evidence::ReservationEvidence;
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::ids::ReservationId;
use crate::domain::json::FreeObject;
use crate::domain::reservation::Status;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;

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
