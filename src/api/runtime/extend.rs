//! `POST /v1/reservations/{reservation_id}/extend`: moves a reservation's deadline.

use serde::Serialize;
use utoipa::ToSchema;

use super::balances::Balance;
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;

object! {
    /// Extends a reservation.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReservationExtendRequest: Read {
        /// Identifies this attempt: the same key extends once.
        pub idempotency_key: IdempotencyKey,
        /// How far the expiry moves from where it is now, in milliseconds.
        pub extend_by_ms: i64 { range: 1..=86_400_000 },
        /// Data that the client chooses, stored for audit.
        pub metadata: Option<FreeObject>,
    }
}

/// The only status that an extension answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExtendStatus {
    /// Still held.
    Active,
}

/// The new deadline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationExtendResponse {
    /// The reservation's status.
    pub status: ExtendStatus,
    /// When the hold lapses now, in milliseconds since the epoch.
    #[schema(minimum = 0)]
    pub expires_at_ms: i64,
    /// How long that is from now, in milliseconds. The only member that a repeated request may find changed.
    #[schema(minimum = 0, required = false)]
    pub remaining_ttl_ms: i64,
    /// The budgets that hold the reservation, root first; an extension does not change them.
    #[schema(required = false)]
    pub balances: Vec<Balance>,
}
