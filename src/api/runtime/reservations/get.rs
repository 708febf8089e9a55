//! Shows a reservation.

use axum::extract::State;
use axum::http::StatusCode;

use super::Reservation;
use crate::api::extract::PathReservation;
use crate::api::operation::{Declaration, declare};
use crate::api::refusals::{ErrorContext, error_of};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(get_reservation, "Shows a reservation")
        .returns::<Reservation>(200, "The reservation.")
        .refuses(&[404, 410]);

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
