//! Changes a policy.

use axum::extract::State;
use axum::http::StatusCode;

use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader, PathId};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::policy::{Policy, PolicyUpdateRequest};

pub(in crate::api) const DECLARATION: Declaration =
    declare!(update_policy, "Changes a policy from the next request on")
        .idempotent()
        .takes::<PolicyUpdateRequest>()
        .returns::<Policy>(200, "The policy as it is now.")
        .refuses(&[404, 409]);

async fn update_policy(
    State(state): State<AppState>,
    caller: Caller,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    PathId(policy_id): PathId,
    body: AdminJson<PolicyUpdateRequest>,
) -> Returns<Policy> {
    let context = ErrorContext {
        policy: &policy_id,
        ..ErrorContext::default()
    };
    let tenant = match &caller {
        Caller::Tenant(caller) => Some(caller.tenant.clone()),
        Caller::Admin(_) => {
            let found = state.admin.owner_of_policy(&policy_id).await;
            found.map_err(|error| error_of(error, &context))?
        }
    };
    let update = body.request;
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_patch_and_target(&body.sent, &[("policy_id", &policy_id)]),
    };
    let updated = state
        .admin
        .update_policy(&caller, &policy_id, tenant.as_ref(), &update, &request)
        .await;
    let context = ErrorContext {
        tenant: tenant.as_ref().map_or("", TenantId::as_str),
        name: update.name.as_deref().unwrap_or_default(),
        ..context
    };
    let updated = updated.map_err(|error| error_of(error, &context).about(tenant.clone()))?;
    Ok(CheckedJson(StatusCode::OK, updated))
}
