//! Funds many budgets of a tenant.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::{BudgetBulkActionRequest, BudgetBulkActionResponse, bulk_request, response_of};
use crate::admin::{BudgetFilter, Request};
use crate::api::admin::extract::AdminJson;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::body::idempotency_key;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::state::AppState;
use crate::domain::amount::Amount;
use crate::domain::bulk::BulkFunding;
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::refusal::admin::AdminRefusal;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(bulk_action_budgets, "Funds up to 500 budgets of a tenant")
        .idempotent()
        .takes::<BudgetBulkActionRequest>()
        .returns::<BudgetBulkActionResponse>(200, "The outcome of each budget.")
        .refuses(&[404, 409]);

async fn bulk_action_budgets(
    State(state): State<AppState>,
    cause: Cause,
    headers: HeaderMap,
    body: AdminJson<BudgetBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = body.request;
    sent.check_units()?;
    let key = idempotency_key(&headers, Some(&sent.idempotency_key))?;
    let named = sent.filter.tenant_id.as_str();
    let Some(tenant) = TenantId::parse(named) else {
        let context = ErrorContext {
            tenant: named,
            ..ErrorContext::default()
        };
        return Err(error_of(AdminRefusal::TenantNotFound.into(), &context));
    };
    let funding = BulkFunding {
        tenant: tenant.clone(),
        operation: sent.action,
        amount: sent.amount,
        spent: sent.spent.map(Amount::value),
        reason: sent.reason.filter(|reason| !reason.is_empty()),
    };
    let payload_hash = PayloadHash::of_body(&body.sent);
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload_hash,
    };
    let bulk = bulk_request(&state, request, sent.expected_count, &sent.filter);
    let filter = BudgetFilter::from(&sent.filter);
    let done = state.admin.bulk_budgets(&filter, &funding, &bulk).await;
    response_of(&state, done, Some(tenant))
}
