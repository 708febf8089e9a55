//! Charges what was already used, without a reservation.

use axum::extract::State;

use crate::api::extract::{RuntimeJson, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::ledger::{EventCreateRequest, EventCreateResponse};

runtime_body!(EventCreateRequest);

pub(in crate::api) const DECLARATION: Declaration = declare!(
    create_event,
    "Charges what was already spent, without a reservation"
)
.takes_change::<EventCreateRequest>()
.returns::<EventCreateResponse>(201, "What was charged.")
.refuses(&[404, 409]);

async fn create_event(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    RuntimeJson(body): RuntimeJson<EventCreateRequest>,
) -> Returns<EventCreateResponse> {
    let response = state.ledger.charge(&caller, &body, &cause).await?;
    Ok(CheckedJson::created(response))
}
