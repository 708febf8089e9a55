//! `POST /v1/reservations/{reservation_id}/commit`: charges what an action cost and returns the rest.

use serde::Serialize;
use utoipa::ToSchema;

use super::balances::Balance;
use super::evidence::{self, EvidenceRef};
use crate::domain::action::Metrics;
use crate::domain::amount::Amount;
use crate::domain::fields::{Problems, read_body};
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::{FreeObject, Json};

/// Reports what the action cost.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitRequest {
    /// Names this attempt; repeating it under the same key charges once.
    #[schema(value_type = String, min_length = 1, max_length = 256)]
    pub idempotency_key: IdempotencyKey,
    /// What it cost, in the unit of the estimate.
    pub actual: Amount,
    /// What the client measured.
    #[schema(nullable = false)]
    pub metrics: Option<Metrics>,
    /// Data of the client's own, returned with the reservation as `committed_metadata`.
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
}

impl CommitRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let idempotency_key = body.required("idempotency_key", |value| value.idempotency_key());
            let actual = body.required("actual", Amount::read);
            let metrics = body.optional("metrics", Metrics::read);
            let metadata = body.optional("metadata", |value| value.free_object());
            Some(Self {
                idempotency_key: idempotency_key?,
                actual: actual?,
                metrics,
                metadata,
            })
        })
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
