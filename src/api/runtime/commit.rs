//! Charges what an action cost and returns the rest.

use axum::extract::State;

use crate::api::extract::{ReservationBody, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::ledger::{CommitRequest, CommitResponse};

runtime_body!(CommitRequest);

pub(in crate::api) const DECLARATION: Declaration = declare!(
    commit,
    "Charges what an action cost and returns the rest of its hold"
)
.takes_change::<CommitRequest>()
.returns::<CommitResponse>(200, "What was charged.")
.refuses(&[404, 409, 410]);

async fn commit(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    ReservationBody(id, body): ReservationBody<CommitRequest>,
) -> Returns<CommitResponse> {
    let response = state.ledger.commit(&caller, &id, &body, &cause).await?;
    Ok(CheckedJson::ok(response))
}
