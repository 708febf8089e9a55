//! Shows the budget of a scope and unit.

use axum::extract::{RawQuery, State};

use super::{BudgetTarget, target_parameters};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::admin::target_tenant;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::caller::Caller;
use crate::domain::scope::Level;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(lookup_budget, "Shows the budget of a scope and unit")
        .query(target_parameters)
        .returns::<BudgetLedger>(200, "The budget.")
        .refuses(&[404]);

async fn lookup_budget(
    State(state): State<AppState>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Returns<BudgetLedger> {
    let target = BudgetTarget::parse(&query.unwrap_or_default())?;
    let found = state
        .admin
        .lookup_budget(&caller, &target.scope, target.unit)
        .await;
    let path = target.scope.path();
    let context = ErrorContext {
        scope: path.as_str(),
        unit: Some(target.unit),
        ..ErrorContext::default()
    };
    let tenant = target_tenant(&caller, path.value(Level::Tenant));
    let found = found.map_err(|error| error_of(error, &context).about(tenant))?;
    Ok(CheckedJson::ok(found))
}
