//! Moves a reservation's deadline.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::balances::{Balance, balances_of};
use crate::api::extract::{ReservationBody, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::refusals::{ErrorContext, error_of};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::RuntimeCaller;
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;
use crate::ledger::Extend;

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

/// The only status of an extension.
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

runtime_body!(ReservationExtendRequest);

pub(in crate::api) const DECLARATION: Declaration =
    declare!(extend, "Moves the deadline of a hold")
        .idempotent()
        .takes::<ReservationExtendRequest>()
        .returns::<ReservationExtendResponse>(200, "The new deadline.")
        .refuses(&[404, 409, 410]);

async fn extend(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    ReservationBody(reservation_id, body): ReservationBody<ReservationExtendRequest>,
) -> Returns<ReservationExtendResponse> {
    let extend = Extend {
        reservation_id,
        idempotency_key: body.request.idempotency_key,
        payload_hash: body.payload_hash,
        extend_by_ms: body.request.extend_by_ms,
        metadata: body.request.metadata,
    };
    let context = ErrorContext {
        reservation: Some(&extend.reservation_id),
        ..ErrorContext::default()
    };
    let extended = state.ledger.extend(&caller, &extend).await;
    let extended = extended.map_err(|error| error_of(error, context))?;
    let response = ReservationExtendResponse {
        status: ExtendStatus::Active,
        expires_at_ms: extended.expires_at_ms,
        remaining_ttl_ms: extended.remaining_ttl_ms,
        balances: balances_of(&extended.balances)?,
    };
    Ok(CheckedJson(StatusCode::OK, response))
}
