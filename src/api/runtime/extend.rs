//! `POST /v1/reservations/{reservation_id}/extend`: moves a reservation's deadline.

use serde::Serialize;
use utoipa::ToSchema;

use super::balances::Balance;
use crate::domain::fields::{Problems, read_body};
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::{FreeObject, Json};

/// How far one extension may move the deadline, in milliseconds.
pub const EXTEND_BY_MS: std::ops::RangeInclusive<i64> = 1..=86_400_000;

/// Asks for more time.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationExtendRequest {
    /// Names this attempt; repeating it under the same key extends once.
    #[schema(value_type = String, min_length = 1, max_length = 256)]
    pub idempotency_key: IdempotencyKey,
    /// How far the deadline moves from where it is now, in milliseconds.
    #[schema(minimum = 1, maximum = 86_400_000)]
    pub extend_by_ms: i64,
    /// Data of the client's own, kept for audit.
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
}

impl ReservationExtendRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let idempotency_key = body.required("idempotency_key", |value| value.idempotency_key());
            let extend_by_ms = body.required("extend_by_ms", |value| value.integer(EXTEND_BY_MS));
            let metadata = body.optional("metadata", |value| value.free_object());
            Some(Self {
                idempotency_key: idempotency_key?,
                extend_by_ms: extend_by_ms?,
                metadata,
            })
        })
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
