//! Sends a test event to a webhook subscription.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::{WebhookTestResponse, error_of, subscription_id};
use crate::admin::Request;
use crate::api::admin::extract::PathId;
use crate::api::operation::{Declaration, Operation, json};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::json::Json;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Sends a signed test event to the receiver now, and reports the outcome",
    parameters: || vec![subscription_id()],
    request: None,
    responses: &[json::<WebhookTestResponse>(200, "The outcome.")],
    errors: &[404, 409],
    handler: |method| on(method, test_webhook),
};

async fn test_webhook(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    cause: Cause,
    PathId(id): PathId,
) -> Returns<WebhookTestResponse> {
    let request = Request {
        cause: &cause,
        idempotency_key: None,
        payload_hash: &PayloadHash::of_body(&Json::Object(Vec::new())),
    };
    let tested = state
        .webhooks
        .test(&caller, &id, operation.name, &request)
        .await;
    let outcome = tested.map_err(|error| error_of(error, "", &id))?;
    let millis = |took: Duration| i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
    let response = WebhookTestResponse {
        success: outcome.success,
        response_status: outcome.response_status.map(i64::from),
        response_time_ms: outcome.response_time.map(millis),
        error_message: outcome.error_message,
        event_id: Some(outcome.event_id),
    };
    Ok(CheckedJson(StatusCode::OK, response))
}
