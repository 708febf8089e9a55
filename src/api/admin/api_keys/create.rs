//! Creates an API key.

use axum::extract::State;
use axum::http::StatusCode;

use super::ApiKeyCreateResponse;
use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::api_key::ApiKeyCreateRequest;
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    create_api_key,
    "Creates an API key; the response is the only one that shows it"
)
.idempotent()
.takes::<ApiKeyCreateRequest>()
.returns::<ApiKeyCreateResponse>(201, "The new key.")
.refuses(&[409]);

async fn create_api_key(
    State(state): State<AppState>,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    body: AdminJson<ApiKeyCreateRequest>,
) -> Returns<ApiKeyCreateResponse> {
    let new = body.request;
    let tenant = TenantId::parse(&new.tenant_id);
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let context = ErrorContext {
        tenant: &new.tenant_id,
        ..ErrorContext::default()
    };
    let created = state.admin.create_api_key(&new, &request).await;
    let created = created.map_err(|error| error_of(error, &context).about(tenant))?;
    let response = ApiKeyCreateResponse::new(
        &created.key,
        created.tenant_id,
        created.permissions,
        created.created_at,
        created.expires_at,
    );
    Ok(CheckedJson(StatusCode::CREATED, response))
}
