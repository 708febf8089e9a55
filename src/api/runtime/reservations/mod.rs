//! Reservations as responses show them.

pub mod get;
pub mod list;

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
use crate::ledger;

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

impl From<ledger::Reservation> for Reservation {
    fn from(stored: ledger::Reservation) -> Self {
        Self {
            reservation_id: stored.reservation_id,
            status: stored.status,
            idempotency_key: stored.idempotency_key,
            subject: stored.subject,
            action: stored.action,
            reserved: stored.estimate,
            committed: stored.charged,
            created_at_ms: stored.created_at_ms,
            expires_at_ms: stored.expires_at_ms,
            finalized_at_ms: stored.finalized_at_ms,
            affected_scopes: stored.scope_path.with_parents().collect(),
            scope_path: stored.scope_path,
            metadata: stored.metadata,
            committed_metadata: stored.committed_metadata,
            evidence: None,
        }
    }
}
