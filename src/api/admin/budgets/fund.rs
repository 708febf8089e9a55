//! Changes what a budget has.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;

use super::{BudgetFundingRequest, BudgetFundingResponse, BudgetTarget, target_parameters};
use crate::admin::{Funding, Request};
use crate::api::admin::extract::AdminJson;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::admin::target_tenant;
use crate::api::body::idempotency_key;
use crate::api::extract::RawQuery;
use crate::api::operation::parameters::{self, Parameter, text};
use crate::api::operation::{Declaration, Operation, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::amount::Amount;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(fund_budget, "Changes what a budget has")
        .query(parameters)
        .idempotent()
        .takes::<BudgetFundingRequest>()
        .returns::<BudgetFundingResponse>(200, "The figures before and after.")
        .refuses(&[404, 409]);

fn parameters() -> Vec<Parameter> {
    let mut parameters = target_parameters();
    parameters.push(parameters::query(
        "tenant_id",
        "Whose budget it is. Required with the admin key; without effect with an API key.",
        text(),
    ));
    parameters
}

async fn fund_budget(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    cause: Cause,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    body: AdminJson<BudgetFundingRequest>,
) -> Returns<BudgetFundingResponse> {
    let target = BudgetTarget::parse(&query)?;
    let sent = body.request;
    let key = idempotency_key(&headers, sent.idempotency_key.as_ref())?;
    let tenant = target_tenant(&caller, target.tenant_id.as_deref());
    let named = target.tenant_id.as_deref().unwrap_or_default();
    let scope = target.scope.path().clone();
    let context = ErrorContext {
        tenant: tenant.as_ref().map_or(named, TenantId::as_str),
        scope: scope.as_str(),
        unit: Some(target.unit),
        amount: Some(sent.amount),
        ..ErrorContext::default()
    };
    let refused = |error| error_of(error, &context).about(tenant.clone());
    if let Err(mismatch) = sent.check_units(&target) {
        // A key that is restricted to other scopes learns that first.
        let permission = operation.callers.permission();
        let checked = state
            .admin
            .check_access(&caller, permission, Some(&target.scope))
            .await;
        checked.map_err(refused)?;
        return Err(mismatch.after_check().about(tenant.clone()));
    }
    let selected = [
        ("tenant_id", context.tenant),
        ("scope", context.scope),
        ("unit", target.unit.as_str()),
    ];
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body_and_target(&body.sent, &selected),
    };
    let funding = Funding {
        tenant_id: target.tenant_id.clone(),
        scope: target.scope,
        operation: sent.operation,
        amount: sent.amount,
        spent: sent.spent.map(Amount::value),
        reason: sent.reason,
    };
    let funded = state.admin.fund_budget(&caller, &funding, &request).await;
    let funded = funded.map_err(refused)?;
    let response = BudgetFundingResponse::new(sent.operation, target.unit, &funded)?;
    Ok(CheckedJson(StatusCode::OK, response))
}
