//! Holds an amount before an action, or in a dry run decides whether it could.

use axum::extract::State;

use crate::api::extract::{RuntimeJson, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::ledger::{ReservationCreateRequest, ReservationCreateResponse};

runtime_body!(ReservationCreateRequest);

pub(in crate::api) const DECLARATION: Declaration = declare!(
    reserve,
    "Holds an amount on every budget that encloses the subject, or on none"
)
.takes_change::<ReservationCreateRequest>()
.returns::<ReservationCreateResponse>(200, "The hold, or the outcome of a dry run.")
.refuses(&[404, 409]);

async fn reserve(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    RuntimeJson(body): RuntimeJson<ReservationCreateRequest>,
) -> Returns<ReservationCreateResponse> {
    let response = state.ledger.reserve(&caller, &body, &cause).await?;
    Ok(CheckedJson::ok(response))
}
