//! Changes an API key.

use axum::extract::State;
use axum::routing::on;

use super::{changed, key_id, owner_of};
use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader, PathId};
use crate::api::operation::{Declaration, json, parameters, required};
use crate::api::response::Returns;
use crate::api::state::AppState;
use crate::domain::api_key::{ApiKey, ApiKeyUpdateRequest};
use crate::domain::cause::Cause;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Changes an API key; its next use is judged by what it is then",
    parameters: || vec![key_id(), parameters::idempotency_key()],
    request: required::<ApiKeyUpdateRequest>(),
    responses: &[json::<ApiKey>(200, "The key as it is now.")],
    errors: &[404, 409],
    handler: |method| on(method, update_api_key),
};

async fn update_api_key(
    State(state): State<AppState>,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    PathId(key_id): PathId,
    body: AdminJson<ApiKeyUpdateRequest>,
) -> Returns<ApiKey> {
    let owner = owner_of(&state, &key_id).await?;
    let update = body.request;
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_patch_and_target(&body.sent, &[("key_id", &key_id)]),
    };
    let updated = state
        .admin
        .update_api_key(&key_id, &owner, &update, &request)
        .await;
    changed(updated, &key_id, owner)
}
