//! Sends a test event to a webhook subscription.

use axum::extract::State;

use crate::admin::webhooks::WebhookTestResponse;
use crate::api::admin::extract::PathId;
use crate::api::operation::{Declaration, Operation, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    test_webhook,
    "Sends a signed test event to the receiver now, and reports the outcome"
)
.returns::<WebhookTestResponse>(200, "The outcome.")
.refuses(&[404, 409]);

async fn test_webhook(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    cause: Cause,
    PathId(id): PathId,
) -> Returns<WebhookTestResponse> {
    let tested = state.webhooks.test(&caller, &id, operation.name, &cause);
    Ok(CheckedJson::ok(tested.await?))
}
