//! Returns a hold without a charge.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;
use serde::Serialize;
use utoipa::ToSchema;

use super::balances::{Balance, balances_of};
use super::evidence::{self, EvidenceRef};
use super::reservations::reservation_id;
use crate::api::extract::{ReservationBody, runtime_body};
use crate::api::operation::{Declaration, json, parameters, required};
use crate::api::refusals::{ErrorContext, error_of};
use crate::api::response::{CheckedJson, Returns, amount};
use crate::api::state::AppState;
use crate::domain::amount::Amount;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::ledger::Release;

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

/// The only status of a release.
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

runtime_body!(ReleaseRequest);

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Returns a hold without a charge",
    parameters: || vec![reservation_id(), parameters::repeated_idempotency_key()],
    request: required::<ReleaseRequest>(),
    responses: &[json::<ReleaseResponse>(200, "What was returned.")],
    errors: &[404, 409, 410],
    handler: |method| on(method, release),
};

async fn release(
    State(state): State<AppState>,
    caller: Caller,
    cause: Cause,
    ReservationBody(reservation_id, body): ReservationBody<ReleaseRequest>,
) -> Returns<ReleaseResponse> {
    let release = Release {
        reservation_id,
        idempotency_key: body.request.idempotency_key,
        payload_hash: body.payload_hash,
        reason: body.request.reason,
    };
    let context = ErrorContext {
        reservation: Some(&release.reservation_id),
        ..ErrorContext::default()
    };
    let released = state.ledger.release(&caller, &release, &cause).await;
    let released = released.map_err(|error| error_of(error, context))?;
    let response = ReleaseResponse {
        status: ReleaseStatus::Released,
        released: amount(released.unit, released.released)?,
        balances: balances_of(&released.balances)?,
        evidence: None,
    };
    Ok(CheckedJson(StatusCode::OK, response))
}
