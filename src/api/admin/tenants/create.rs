//! Creates a tenant.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::operation::{Declaration, json, parameters, required};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::cause::Cause;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::tenant::record::{Tenant, TenantCreateRequest};

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Creates a tenant",
    parameters: || vec![parameters::idempotency_key()],
    request: required::<TenantCreateRequest>(),
    responses: &[
        json::<Tenant>(200, "The tenant of that id and name, which exists already."),
        json::<Tenant>(201, "The new tenant."),
    ],
    errors: &[409],
    handler: |method| on(method, create_tenant),
};

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
