//! Changes an API key.

use axum::extract::State;

use super::{changed, owner_of};
use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader, PathId};
use crate::api::operation::{Declaration, declare};
use crate::api::response::Returns;
use crate::api::state::AppState;
use crate::domain::api_key::{ApiKey, ApiKeyUpdateRequest};
use crate::domain::cause::Cause;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    update_api_key,
    "Changes an API key; its next use is judged by what it is then"
)
.idempotent()
.takes::<ApiKeyUpdateRequest>()
.returns::<ApiKey>(200, "The key as it is now.")
.refuses(&[404, 409]);

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
