//! Lists budgets.

use crate::admin::{BudgetFilter, BudgetSort};
use crate::api::admin::{target_tenant, target_tenant_as_sent};
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
    const ABOUT_SORT: &'static str = "What the rows are sorted by. `scope` and `tenant_id` have an index; any other is \
        refused where there are more than 10000 budgets, and where none is asked for, `scope` stands in.";
    type Filter = BudgetFilter;
    type Sort = BudgetSort;
    type Response = BudgetListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<BudgetFilter, ApiError> {
        let about = "The owner. Required with the admin key, unless the service is set to list budgets of all tenants; \
                     without effect with an API key.";
        let tenant_id = parameters.unbound_text("tenant_id", about)?;
        let about = "What the scope starts with, in lower case.";
        let scope_prefix = parameters.text("scope_prefix", about)?;
        let unit = parameters.word("unit", "The unit that the budgets count.")?;
        let status = parameters.word("status", "The status of the budgets.")?;
        let about = "Whether new reservations are refused until the budget is funded.";
        let over_limit = parameters.flag("over_limit", about)?;
        let has_debt = parameters.flag("has_debt", "Whether there is debt.")?;
        let about =
            "Least share that was spent of what was allocated; 0 where nothing was allocated.";
        let utilization_min = parameters.fraction("utilization_min", about)?;
        let about = "Greatest share; a budget that spent more than it has never matches.";
        let utilization_max = parameters.fraction("utilization_max", about)?;
        let bounds = utilization_min.zip(utilization_max);
        if let Some((least, most)) = bounds.filter(|(least, most)| least > most) {
            let what = format!("{least} is above utilization_max {most}");
            return Err(parameters.refusal("utilization_min", &what));
        }
        let about = "What tenant or scope must contain, whatever the case.";
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
        let owner = target_tenant_as_sent(&call.caller, named.as_deref());
        call.list.bind("tenant", owner);
        let query = call.query().await?;
        let page = call.state.admin.list_budgets(&call.caller, &query).await;
        let tenant = target_tenant(&call.caller, named.as_deref());
        page.map_err(|error| ApiError::from(error).about(tenant))
    }
}

pub(in crate::api) const DECLARATION: Declaration =
    list::<Budgets>("Lists budgets", "A page of budgets.");
