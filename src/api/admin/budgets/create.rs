//! Creates a budget.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::{BudgetCreateRequest, BudgetLedger};
use crate::admin::{NewBudget, Request};
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::admin::target_tenant;
use crate::api::operation::{Declaration, json, parameters, required};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::amount::Amount;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Creates a budget at a scope",
    parameters: || vec![parameters::idempotency_key()],
    request: required::<BudgetCreateRequest>(),
    responses: &[json::<BudgetLedger>(201, "The new budget.")],
    errors: &[409],
    handler: |method| on(method, create_budget),
};

async fn create_budget(
    State(state): State<AppState>,
    caller: Caller,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    body: AdminJson<BudgetCreateRequest>,
) -> Returns<BudgetLedger> {
    let sent = body.request;
    sent.check_units()?;
    let scope = sent.budget_scope()?;
    let tenant = target_tenant(&caller, sent.tenant_id.as_deref());
    let new = NewBudget {
        tenant_id: sent.tenant_id,
        scope,
        allocated: sent.allocated,
        overdraft_limit: sent.overdraft_limit.map_or(0, Amount::value),
        commit_overage_policy: sent.commit_overage_policy,
        rollover_policy: sent.rollover_policy,
        period_start: sent.period_start,
        period_end: sent.period_end,
        metadata: sent.metadata,
    };
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let created = state.admin.create_budget(&caller, &new, &request).await;
    let named = new.tenant_id.as_deref().unwrap_or_default();
    let context = ErrorContext {
        tenant: tenant.as_ref().map_or(named, TenantId::as_str),
        scope: new.scope.path().as_str(),
        unit: Some(new.allocated.unit()),
        ..ErrorContext::default()
    };
    let created = created.map_err(|error| error_of(error, &context).about(tenant.clone()))?;
    Ok(CheckedJson(StatusCode::CREATED, created.try_into()?))
}
