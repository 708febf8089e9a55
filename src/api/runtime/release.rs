//! `POST /v1/reservations/{reservation_id}/release`: returns a hold without a charge.

use serde::Serialize;
use utoipa::ToSchema;

use super::balances::Balance;
use super::evidence::{self, EvidenceRef};
use crate::domain::amount::Amount;
use crate::domain::fields::{Problems, read_body};
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::Json;

/// Gives a hold back.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// Names this attempt; repeating it under the same key returns the hold once.
    #[schema(value_type = String, min_length = 1, max_length = 256)]
    pub idempotency_key: IdempotencyKey,
    /// Why, for the record.
    #[schema(max_length = 256, nullable = false)]
    pub reason: Option<String>,
}

impl ReleaseRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let idempotency_key = body.required("idempotency_key", |value| value.idempotency_key());
            let reason = body.optional("reason", |value| value.string(0..=256));
            Some(Self {
                idempotency_key: idempotency_key?,
                reason,
            })
        })
    }
}

/// The only status that a release answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReleaseStatus {
    /// Returned.
    Released,
}

/// What was returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseResponse {
    /// The reservation's status.
    pub status: ReleaseStatus,
    /// What every budget got back: the whole hold.
    pub released: Amount,
    /// The budgets that held the reservation, root first, after the return.
    #[schema(required = false)]
    pub balances: Vec<Balance>,
    /// Where the signed evidence can be read.
    #[serde(flatten, serialize_with = "evidence::serialize_reference")]
    #[schema(ignore)]
    pub evidence: Option<EvidenceRef>,
}
