//! Lists budgets.

use crate::admin::{BudgetFilter, BudgetSort};
use crate::api::admin::bind_tenant;
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::Declaration;
use crate::domain::budget::ledger::BudgetLedger;

list_response! {
    /// A page of budgets.
    BudgetListResponse {
        /// The budgets.
        ledgers: BudgetLedger,
        has_more { required: false }
    }
}

struct Budgets;

impl List for Budgets {
    const NAME: &'static str = "budgets";
    const ABOUT_SORT: &'static str = "Order of the rows. `scope` and `tenant_id` have an index. Any other order is refused above \
        10,000 budgets; without `sort_by`, such a list is in the order of `scope`.";
    type Filter = BudgetFilter;
    type Sort = BudgetSort;
    type Response = BudgetListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<BudgetFilter, ApiError> {
        let about = "Tenant that owns the budgets. Required with the admin key, unless the service is set to list budgets of all tenants; \
                     without effect with an API key.";
        let tenant_id = parameters.unbound_text("tenant_id", about)?;
        let about = "Beginning of the scope, in lower case.";
        let scope_prefix = parameters.text("scope_prefix", about)?;
        let unit = parameters.word("unit", "Unit of the budgets.")?;
        let status = parameters.word("status", "The status of the budgets.")?;
        let about = "Whether new reservations are refused until the budget is funded.";
        let over_limit = parameters.flag("over_limit", about)?;
        let has_debt = parameters.flag("has_debt", "Whether the budget is in debt.")?;
        let about = "Least share of the allocation that was spent; 0 if nothing was allocated.";
        let utilization_min = parameters.fraction("utilization_min", about)?;
        let about = "Greatest share of the allocation that was spent; a budget that spent more than its allocation never matches.";
        let utilization_max = parameters.fraction("utilization_max", about)?;
        let bounds = utilization_min.zip(utilization_max);
        if let Some((least, most)) = bounds.filter(|(least, most)| least > most) {
            let what = format!("{least} is above utilization_max {most}");
            return Err(parameters.refusal("utilization_min", &what));
        }
        let about = "Text that tenant or scope must contain, in any case.";
        Ok(BudgetFilter {
            tenant_id,
            scope_prefix,
            unit,
            status,
            over_limit,
            has_debt,
            utilization_min,
            utilization_max,
            search: parameters.search(about)?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let named = call.list.filter.tenant_id.clone();
        let tenant = bind_tenant(call, named.as_deref());
        let (admin, query) = (&call.state.admin, call.query().await?);
        let page = admin.list_budgets(&call.caller, &query).await;
        page.map_err(|error| ApiError::from(error).about(tenant))
    }
}

pub(in crate::api) const ALL: Declaration = list::<Budgets>("Lists budgets", "A page of budgets.");
