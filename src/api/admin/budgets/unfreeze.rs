//! Ends the freeze of a budget.

use axum::extract::State;

use super::freeze::{BudgetStatusTransitionRequest, change_status};
use super::target_parameters;
use crate::api::admin::extract::{IdempotencyKeyHeader, OptionalAdminJson};
use crate::api::extract::RawQuery;
use crate::api::operation::{Declaration, declare};
use crate::api::response::Returns;
use crate::api::state::AppState;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::cause::Cause;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(unfreeze_budget, "Ends the freeze of a budget")
        .query(target_parameters)
        .idempotent()
        .may_take::<BudgetStatusTransitionRequest>()
        .returns::<BudgetLedger>(200, "The budget as it is now.")
        .refuses(&[404, 409]);

async fn unfreeze_budget(
    state: State<AppState>,
    cause: Cause,
    key: IdempotencyKeyHeader,
    query: RawQuery,
    body: OptionalAdminJson<BudgetStatusTransitionRequest>,
) -> Returns<BudgetLedger> {
    change_status(false, state, cause, key, query, body).await
}
