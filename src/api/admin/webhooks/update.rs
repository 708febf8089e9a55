//! Changes a webhook subscription.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::{error_of, subscription_id};
use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader, PathId};
use crate::api::operation::{Declaration, Operation, json, parameters, required};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::json::Json;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::webhook::{Subscription, WebhookUpdateRequest};

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Changes a webhook subscription",
    parameters: || vec![subscription_id(), parameters::idempotency_key()],
    request: required::<WebhookUpdateRequest>(),
    responses: &[json::<Subscription>(
        200,
        "The subscription after the change.",
    )],
    errors: &[404, 409],
    handler: |method| on(method, update_webhook),
};

async fn update_webhook(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    PathId(id): PathId,
    body: AdminJson<WebhookUpdateRequest>,
) -> Returns<Subscription> {
    // `null` is not as good as absent here, so the body is hashed as it is.
    let sent = body.sent.canonical();
    let target = [("subscription_id", id.as_str()), ("patch", sent.as_str())];
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body_and_target(&Json::Object(Vec::new()), &target),
    };
    let updated = state
        .webhooks
        .update(&caller, &id, &body.request, operation.name, &request)
        .await;
    let updated = updated.map_err(|error| error_of(error, "", &id))?;
    Ok(CheckedJson(StatusCode::OK, updated))
}
