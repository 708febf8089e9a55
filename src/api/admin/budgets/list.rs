//! Lists budgets.

use axum::extract::State;

use crate::admin::{BudgetFilter, BudgetSort};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::admin::{target_tenant, target_tenant_as_sent};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::list::{List, ListRequest, Parameters, list_response, parameters};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::caller::Caller;

list_response! {
    /// A page of budgets.
    BudgetListResponse {
        /// The budgets.
        ledgers: BudgetLedger,
        has_more { required: false }
    }
}

/// The list of budgets. Its cursors are bound to the tenant besides.
#[derive(Debug)]
pub struct Budgets;

impl List for Budgets {
    const NAME: &'static str = "budgets";
    const ABOUT_SORT: &'static str = "What the rows are sorted by. `scope` and `tenant_id` have an index; any other is \
        refused where there are more than 10000 budgets, and where none is asked for, `scope` stands in.";
    type Filter = BudgetFilter;
    type Sort = BudgetSort;

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
}

pub(in crate::api) const DECLARATION: Declaration = declare!(list_budgets, "Lists budgets")
    .query(parameters::<Budgets>)
    .returns::<BudgetListResponse>(200, "A page of budgets.");

async fn list_budgets(
    State(state): State<AppState>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Returns<BudgetListResponse> {
    let mut list = ListRequest::<Budgets>::parse(&query)?;
    let named = list.filter.tenant_id.clone();
    list.bind("tenant", target_tenant_as_sent(&caller, named.as_deref()));
    let secret = state.store.secret().await?;
    let page = state
        .admin
        .list_budgets(&caller, &list.query(secret)?)
        .await;
    let tenant = target_tenant(&caller, named.as_deref());
    let page = page.map_err(|error| error_of(error, &ErrorContext::default()).about(tenant))?;
    let next = list.next_cursor(&page, secret);
    let response = BudgetListResponse::new(page.rows, next);
    Ok(CheckedJson::ok(response))
}
