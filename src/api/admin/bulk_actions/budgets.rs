//! Funds many budgets of a tenant.

use axum::response::Response;

use super::{BudgetBulkActionRequest, BudgetBulkActionResponse, bulk_request, response_of};
use crate::admin::BudgetFilter;
use crate::api::admin::extract::Change;
use crate::api::admin::tenants::named_tenant;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::domain::amount::Amount;
use crate::domain::bulk::BulkFunding;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(bulk_action_budgets, "Funds up to 500 budgets of a tenant")
        .takes_change::<BudgetBulkActionRequest>()
        .returns::<BudgetBulkActionResponse>(200, "The outcome of each budget.")
        .refuses(&[404, 409]);

async fn bulk_action_budgets(
    change: Change<BudgetBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = &change.body;
    let tenant = named_tenant(&sent.filter.tenant_id)?;
    let funding = BulkFunding {
        tenant,
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
    response_of(&change.state, done)
}
