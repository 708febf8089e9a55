//! Whether an action would be allowed, without holding anything.

use axum::extract::State;

use crate::api::extract::{RuntimeJson, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::ledger::{DecisionRequest, DecisionResponse};

runtime_body!(DecisionRequest);

pub(in crate::api) const DECLARATION: Declaration = declare!(
    decide,
    "Decides whether an action would be allowed; holds nothing"
)
.takes_change::<DecisionRequest>()
.returns::<DecisionResponse>(200, "The decision, a denial included.")
.refuses(&[409]);

async fn decide(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    RuntimeJson(body): RuntimeJson<DecisionRequest>,
) -> Returns<DecisionResponse> {
    let response = state.ledger.decide(&caller, &body, &cause).await?;
    Ok(CheckedJson::ok(response))
}
