//! Revokes an API key.

use axum::extract::State;
use serde_json::json;

use super::{ApiKeyRevokeQuery, changed, owner_of};
use crate::admin::Request;
use crate::api::admin::extract::{IdempotencyKeyHeader, PathId};
use crate::api::extract::RawQuery;
use crate::api::operation::{Declaration, declare, parameters};
use crate::api::response::Returns;
use crate::api::state::AppState;
use crate::domain::api_key::ApiKey;
use crate::domain::cause::Cause;
use crate::domain::json::Json;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(revoke_api_key, "Revokes an API key at once")
        .query(|| {
            let reason = json!({"type": "string", "maxLength": 512});
            vec![parameters::query("reason", "Why, for the record.", reason)]
        })
        .idempotent()
        .returns::<ApiKey>(200, "The revoked key.")
        .refuses(&[404, 409]);

async fn revoke_api_key(
    State(state): State<AppState>,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    PathId(key_id): PathId,
    RawQuery(query): RawQuery,
) -> Returns<ApiKey> {
    let reason = ApiKeyRevokeQuery::parse(&query)?.reason;
    let owner = owner_of(&state, &key_id).await?;
    let mut target = vec![("key_id", key_id.as_str())];
    target.extend(reason.as_deref().map(|reason| ("reason", reason)));
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body_and_target(&Json::Object(Vec::new()), &target),
    };
    let revoked = state
        .admin
        .revoke_api_key(&key_id, &owner, reason.as_deref(), &request)
        .await;
    changed(revoked, &key_id, owner)
}
