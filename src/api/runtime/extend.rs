//! Extends a reservation.

use axum::extract::State;

use crate::api::extract::{ReservationBody, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::RuntimeCaller;
use crate::ledger::{ReservationExtendRequest, ReservationExtendResponse};

runtime_body!(ReservationExtendRequest);

pub(in crate::api) const DECLARATION: Declaration = declare!(extend, "Extends a reservation")
    .takes_change::<ReservationExtendRequest>()
    .returns::<ReservationExtendResponse>(200, "The new expiry.")
    .refuses(&[404, 409, 410]);

async fn extend(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    ReservationBody(id, body): ReservationBody<ReservationExtendRequest>,
) -> Returns<ReservationExtendResponse> {
    let response = state.ledger.extend(&caller, &id, &body).await?;
    Ok(CheckedJson::ok(response))
}
