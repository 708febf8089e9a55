//! `POST /v1/reservations/{reservation_id}/commit`: charges what an action cost and returns the rest.

use serde::Serialize;
use utoipa::ToSchema;

use super::balances::Balance;
use super::evidence::{self, EvidenceRef};
use crate::domain::action::Metrics;
use crate::domain::amount::Amount;
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;

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

/// The only status that a commit answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CommitStatus {
    /// Charged.
    Committed,
}

/// What was charged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitResponse {
    /// The reservation's status.
    pub status: CommitStatus,
    /// What every budget was charged.
    pub charged: Amount,
    /// What was returned. Absent when nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub released: Option<Amount>,
    /// The budgets that held the reservation, root first, after the charge.
    #[schema(required = false)]
    pub balances: Vec<Balance>,
    /// Where the signed evidence can be read.
    #[serde(flatten, serialize_with = "evidence::serialize_reference")]
    #[schema(ignore)]
    pub evidence: Option<EvidenceRef>,
}
