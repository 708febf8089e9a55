//! Ends the freeze of a budget.

use axum::extract::State;
use axum::routing::on;

use super::change_parameters;
use super::freeze::{BudgetStatusTransitionRequest, change_status};
use crate::api::admin::extract::{IdempotencyKeyHeader, OptionalAdminJson};
use crate::api::extract::RawQuery;
use crate::api::operation::{Declaration, json, optional};
use crate::api::response::Returns;
use crate::api::state::AppState;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::cause::Cause;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Ends the freeze of a budget",
    parameters: change_parameters,
    request: optional::<BudgetStatusTransitionRequest>(),
    responses: &[json::<BudgetLedger>(200, "The budget as it is now.")],
    errors: &[404, 409],
    handler: |method| on(method, unfreeze_budget),
};

async fn unfreeze_budget(
    state: State<AppState>,
    cause: Cause,
    key: IdempotencyKeyHeader,
    query: RawQuery,
    body: OptionalAdminJson<BudgetStatusTransitionRequest>,
) -> Returns<BudgetLedger> {
    change_status(false, state, cause, key, query, body).await
}
