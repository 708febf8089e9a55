//! `POST /v1/reservations/{reservation_id}/release`: returns a hold without a charge.

use serde::Serialize;
use utoipa::ToSchema;

use super::balances::Balance;
use super::evidence::{self, EvidenceRef};
use crate::domain::amount::Amount;
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;

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
