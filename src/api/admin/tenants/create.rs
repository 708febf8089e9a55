//! Creates a tenant.

use axum::extract::State;
use axum::http::StatusCode;

use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::cause::Cause;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::tenant::record::{Tenant, TenantCreateRequest};

pub(in crate::api) const DECLARATION: Declaration = declare!(create_tenant, "Creates a tenant")
    .idempotent()
    .takes::<TenantCreateRequest>()
    .returns::<Tenant>(200, "The tenant of that id and name, which exists already.")
    .returns::<Tenant>(201, "The new tenant.")
    .refuses(&[409]);

async fn create_tenant(
    State(state): State<AppState>,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    body: AdminJson<TenantCreateRequest>,
) -> Returns<Tenant> {
    let new = body.request;
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let created = state.admin.create_tenant(&new, &request).await;
    let context = ErrorContext {
        tenant: new.tenant_id.as_str(),
        ..ErrorContext::default()
    };
    let (is_new, tenant) =
        created.map_err(|error| error_of(error, &context).about(Some(new.tenant_id.clone())))?;
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok(CheckedJson(status, tenant))
}
