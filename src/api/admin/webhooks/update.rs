//! Changes a webhook subscription.

use axum::extract::State;
use axum::http::StatusCode;

use super::error_of;
use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader, PathId};
use crate::api::operation::{Declaration, Operation, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::json::Json;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::webhook::{Subscription, WebhookUpdateRequest};

pub(in crate::api) const DECLARATION: Declaration =
    declare!(update_webhook, "Changes a webhook subscription")
        .idempotent()
        .takes::<WebhookUpdateRequest>()
        .returns::<Subscription>(200, "The subscription after the change.")
        .refuses(&[404, 409]);

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
