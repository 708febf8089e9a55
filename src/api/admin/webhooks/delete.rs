//! Deletes a webhook subscription.

use axum::extract::State;

use super::error_of;
use crate::admin::Request;
use crate::api::admin::extract::{IdempotencyKeyHeader, PathId};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, Operation, declare};
use crate::api::response::CheckedNoContent;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::json::Json;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    delete_webhook,
    "Deletes a webhook subscription with its secrets"
)
.idempotent()
.returns_nothing("It is gone.")
.refuses(&[404, 409]);

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
