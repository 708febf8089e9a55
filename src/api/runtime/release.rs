//! Returns a hold without a charge.

use axum::extract::State;

use crate::api::extract::{ReservationBody, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::ledger::{ReleaseRequest, ReleaseResponse};

runtime_body!(ReleaseRequest);

pub(in crate::api) const DECLARATION: Declaration =
    declare!(release, "Returns a hold without a charge")
        .takes_change::<ReleaseRequest>()
        .returns::<ReleaseResponse>(200, "What was returned.")
        .refuses(&[404, 409, 410]);

async fn release(
    State(state): State<AppState>,
    caller: Caller,
    cause: Cause,
    ReservationBody(id, body): ReservationBody<ReleaseRequest>,
) -> Returns<ReleaseResponse> {
    let response = state.ledger.release(&caller, &id, &body, &cause).await?;
    Ok(CheckedJson::ok(response))
}
