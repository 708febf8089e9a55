//! Returns a hold without a charge.

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

pub(in crate::api) const DECLARATION: Declaration =
    declare!(release, "Returns a hold without a charge")
        .idempotent()
        .takes::<ReleaseRequest>()
        .returns::<ReleaseResponse>(200, "What was returned.")
        .refuses(&[404, 409, 410]);

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
