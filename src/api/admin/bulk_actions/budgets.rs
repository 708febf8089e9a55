//! Funds many budgets of a tenant.

use axum::response::Response;

use super::{BudgetBulkActionRequest, BudgetBulkActionResponse, bulk_request, response_of};
use crate::admin::BudgetFilter;
use crate::api::admin::extract::Change;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::domain::amount::Amount;
use crate::domain::bulk::BulkFunding;
use crate::domain::ids::TenantId;

use crate::domain::refusal::admin::AdminRefusal;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(bulk_action_budgets, "Funds up to 500 budgets of a tenant")
        .takes_change::<BudgetBulkActionRequest>()
        .returns::<BudgetBulkActionResponse>(200, "The outcome of each budget.")
        .refuses(&[404, 409]);

async fn bulk_action_budgets(
    change: Change<BudgetBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = &change.body;
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
        reason: sent.reason.clone().filter(|reason| !reason.is_empty()),
    };
    let bulk = bulk_request(
        &change.state,
        change.request(),
        sent.expected_count,
        &sent.filter,
    );
    let filter = BudgetFilter::from(&sent.filter);
    let done = change
        .state
        .admin
        .bulk_budgets(&filter, &funding, &bulk)
        .await;
    response_of(&change.state, done, Some(tenant))
}
