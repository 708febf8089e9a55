//! Shows a reservation.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::{Reservation, reservation_id};
use crate::api::extract::PathReservation;
use crate::api::operation::{Declaration, json};
use crate::api::refusals::{ErrorContext, error_of};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Shows a reservation",
    parameters: || vec![reservation_id()],
    request: None,
    responses: &[json::<Reservation>(200, "The reservation.")],
    errors: &[404, 410],
    handler: |method| on(method, get_reservation),
};

async fn get_reservation(
    State(state): State<AppState>,
    caller: Caller,
    PathReservation(reservation_id): PathReservation,
) -> Returns<Reservation> {
    let context = ErrorContext {
        reservation: Some(&reservation_id),
        ..ErrorContext::default()
    };
    let found = state.ledger.get(&caller, &reservation_id).await;
    let reservation = found.map_err(|error| error_of(error, context))?;
    Ok(CheckedJson(StatusCode::OK, reservation.into()))
}
