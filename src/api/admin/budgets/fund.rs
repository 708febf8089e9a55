//! Funds a budget.

use super::{BudgetFundingRequest, BudgetFundingResponse, FundingTarget, target_parameters};
use crate::admin::Funding;
use crate::api::admin::extract::Change;
use crate::api::operation::parameters::{self, Parameter, text};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::amount::Amount;
use crate::domain::ids::TenantId;

pub(in crate::api) const DECLARATION: Declaration = declare!(
    fund_budget,
    "Funds a budget: credits, debits or resets it, or repays its debt"
)
.query(parameters)
.takes_change::<BudgetFundingRequest>()
.returns::<BudgetFundingResponse>(200, "The figures before and after.")
.refuses(&[404, 409]);

fn parameters() -> Vec<Parameter> {
    let mut parameters = target_parameters();
    parameters.push(parameters::query(
        "tenant_id",
        "Tenant that owns the budget. Required with the admin key; without effect with an API key.",
        text(),
    ));
    parameters
}

async fn fund_budget(
    change: Change<BudgetFundingRequest, FundingTarget>,
) -> Returns<BudgetFundingResponse> {
    let (caller, sent, target) = (&change.caller, &change.body, &change.target.budget);
    let state = &change.state;
    if let Err(mismatch) = sent.check_units(target) {
        // A key that is restricted to other scopes learns that first.
        let permission = change.operation.callers.permission();
        let scope = target.scope.path().as_str();
        state.store.admin_access(caller, permission, scope).await?;
        let tenant = TenantId::parse(&change.target.tenant);
        return Err(mismatch.after_check().about(tenant));
    }
    let funding = Funding {
        tenant_id: target.tenant_id.clone(),
        scope: target.scope.clone(),
        operation: sent.operation,
        amount: sent.amount,
        spent: sent.spent.map(Amount::value),
        reason: sent.reason.clone(),
    };
    let request = change.request();
    let funded = state.admin.fund_budget(caller, &funding, &request).await?;
    let response = BudgetFundingResponse::new(sent.operation, target.unit, &funded)?;
    Ok(CheckedJson::ok(response))
}
