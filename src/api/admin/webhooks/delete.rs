//! Deletes a webhook subscription.

use axum::extract::State;
use axum::routing::on;

use super::{error_of, subscription_id};
use crate::admin::Request;
use crate::api::admin::extract::{IdempotencyKeyHeader, PathId};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, Operation, empty, parameters};
use crate::api::response::CheckedNoContent;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::json::Json;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Deletes a webhook subscription with its secrets",
    parameters: || vec![subscription_id(), parameters::idempotency_key()],
    request: None,
    responses: &[empty("It is gone.")],
    errors: &[404, 409],
    handler: |method| on(method, delete_webhook),
};

async fn delete_webhook(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    PathId(id): PathId,
) -> Result<CheckedNoContent, ApiError> {
    let target = [("subscription_id", id.as_str())];
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body_and_target(&Json::Object(Vec::new()), &target),
    };
    let deleted = state
        .webhooks
        .delete(&caller, &id, operation.name, &request)
        .await;
    deleted.map_err(|error| error_of(error, "", &id))?;
    Ok(CheckedNoContent)
}
