//! The operations on policies: who calls, about what, with what.

use axum::extract::State;
use axum::http::StatusCode;

use super::{Policies, Policy, PolicyCreateRequest, PolicyListResponse, PolicyUpdateRequest};
use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, Because, KeyHeader, Named, Outcome};
use crate::api::admin::refusals::{Asked, error_of};
use crate::api::admin::tenants::handlers::{answered, owner, owner_as_sent};
use crate::api::errors::ApiError;
use crate::api::extract::{ByEither, RawQuery};
use crate::api::list::ListRequest;
use crate::api::refusals::store_error;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::policy;

/// `POST /v1/admin/policies`
pub async fn create_policy(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    body: AdminJson<PolicyCreateRequest>,
) -> Result<Outcome<Policy>, ApiError> {
    let new = body.request.into_new()?;
    let tenant = owner(&caller, new.tenant_id.as_deref());
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let asked = Asked {
        tenant: tenant.as_ref().map_or(
            new.tenant_id.as_deref().unwrap_or_default(),
            TenantId::as_str,
        ),
        scope: new.scope_pattern.as_str(),
        name: &new.name,
        ..Asked::default()
    };
    let created = state.admin.create_policy(&caller, &new, &request).await;
    let created = created.map_err(|error| error_of(error, &asked));
    Ok(answered(StatusCode::CREATED, created.map(shown), tenant))
}

/// `GET /v1/admin/policies`
pub async fn list_policies(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    RawQuery(query): RawQuery,
) -> Result<Outcome<PolicyListResponse>, ApiError> {
    let mut list = ListRequest::<Policies>::parse(&query)?;
    let named = list.filter.tenant_id.clone();
    list.bind("tenant", owner_as_sent(&caller, named.as_deref()));
    let secret = state.store.secret().await.map_err(store_error)?;
    let page = state
        .admin
        .list_policies(&caller, &list.query(secret)?)
        .await;
    let response = page.map(|page| {
        let next = list.next_cursor(&page, secret);
        let policies = page.rows.into_iter().map(shown).collect();
        PolicyListResponse::new(policies, next)
    });
    let response = response.map_err(|error| error_of(error, &Asked::default()));
    Ok(answered(
        StatusCode::OK,
        response,
        owner(&caller, named.as_deref()),
    ))
}

/// `PATCH /v1/admin/policies/{policy_id}`
pub async fn update_policy(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    Named(policy_id): Named,
    body: AdminJson<PolicyUpdateRequest>,
) -> Result<Outcome<Policy>, ApiError> {
    let asked = Asked {
        policy: &policy_id,
        ..Asked::default()
    };
    let tenant = match &caller {
        Caller::Tenant(caller) => Some(caller.tenant.clone()),
        Caller::Admin(_) => {
            let found = state.admin.owner_of_policy(&policy_id).await;
            found.map_err(|error| error_of(error, &asked))?
        }
    };
    let changes = body.request.into_changes();
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_patch_and_target(&body.sent, &[("policy_id", &policy_id)]),
    };
    let updated = state
        .admin
        .update_policy(&caller, &policy_id, tenant.as_ref(), &changes, &request)
        .await;
    let asked = Asked {
        tenant: tenant.as_ref().map_or("", TenantId::as_str),
        name: changes.name.as_deref().unwrap_or_default(),
        ..asked
    };
    let updated = updated.map_err(|error| error_of(error, &asked));
    Ok(answered(StatusCode::OK, updated.map(shown), tenant))
}

/// A policy as the wire shows it. Whose it is is not told.
fn shown(policy: policy::Policy) -> Policy {
    let (ttl, rates) = (policy.reservation_ttl_override, policy.rate_limits);
    Policy {
        policy_id: policy.policy_id.to_string(),
        name: Some(policy.name),
        description: policy.description,
        scope_pattern: policy.scope_pattern.to_string(),
        priority: policy.priority,
        caps: policy.caps,
        commit_overage_policy: policy.commit_overage_policy,
        reservation_ttl_override: (ttl != Default::default()).then_some(ttl),
        rate_limits: (rates != Default::default()).then_some(rates),
        status: policy.status,
        effective_from: policy.effective_from,
        effective_until: policy.effective_until,
        created_at: policy.created_at,
        updated_at: policy.updated_at,
    }
}
