//! Charges what an action cost and returns the rest.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::balances::{Balance, balances_of};
use super::evidence::{self, EvidenceRef};
use crate::api::extract::{ReservationBody, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::refusals::{ErrorContext, error_of};
use crate::api::response::{CheckedJson, Returns, amount};
use crate::api::state::AppState;
use crate::domain::action::Metrics;
use crate::domain::amount::Amount;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;
use crate::ledger::Commit;

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

/// The only status of a commit.
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

runtime_body!(CommitRequest);

pub(in crate::api) const DECLARATION: Declaration = declare!(
    commit,
    "Charges what an action cost and returns the rest of its hold"
)
.idempotent()
.takes::<CommitRequest>()
.returns::<CommitResponse>(200, "What was charged.")
.refuses(&[404, 409, 410]);

async fn commit(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    ReservationBody(reservation_id, body): ReservationBody<CommitRequest>,
) -> Returns<CommitResponse> {
    let commit = Commit {
        reservation_id,
        idempotency_key: body.request.idempotency_key,
        payload_hash: body.payload_hash,
        actual: body.request.actual,
        metrics: body.request.metrics,
        metadata: body.request.metadata,
    };
    let context = ErrorContext {
        reservation: Some(&commit.reservation_id),
        amount: Some(commit.actual),
        ..ErrorContext::default()
    };
    let committed = state.ledger.commit(&caller, &commit, &cause).await;
    let committed = committed.map_err(|error| error_of(error, context))?;
    let released = (committed.released > 0).then_some(committed.released);
    let response = CommitResponse {
        status: CommitStatus::Committed,
        charged: amount(committed.unit, committed.charged)?,
        released: released
            .map(|value| amount(committed.unit, value))
            .transpose()?,
        balances: balances_of(&committed.balances)?,
        evidence: None,
    };
    Ok(CheckedJson(StatusCode::OK, response))
}
