//! Gets a reservation.

use axum::extract::State;

use crate::api::extract::PathReservation;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::ledger::Reservation;

pub(in crate::api) const DECLARATION: Declaration = declare!(get_reservation, "Gets a reservation")
    .returns::<Reservation>(200, "The reservation.")
    .refuses(&[404, 410]);

async fn get_reservation(
    State(state): State<AppState>,
    caller: Caller,
    PathReservation(id): PathReservation,
) -> Returns<Reservation> {
    let reservation = state.ledger.get(&caller, &id).await?;
    Ok(CheckedJson::ok(reservation))
}
