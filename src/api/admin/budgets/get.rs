//! Gets the budget of a scope and unit.

use axum::extract::{RawQuery, State};

use super::{BudgetTarget, target_parameters};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::caller::Caller;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(lookup_budget, "Gets the budget of a scope and unit")
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
        .lookup_budget(&caller, &target.scope, target.unit);
    Ok(CheckedJson::ok(found.await?))
}
