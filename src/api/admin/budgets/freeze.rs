//! Freezes a budget.

use axum::extract::State;
use axum::routing::on;

use super::update::{changed, payload_hash};
use super::{BudgetTarget, change_parameters};
use crate::admin::Request;
use crate::api::admin::extract::{IdempotencyKeyHeader, OptionalAdminJson};
use crate::api::extract::RawQuery;
use crate::api::operation::{Declaration, json, optional};
use crate::api::response::Returns;
use crate::api::state::AppState;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::cause::Cause;
use crate::domain::fields::object;
use crate::domain::json::FreeObject;

object! {
    /// Freezes or unfreezes a budget. The whole body may be absent.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetStatusTransitionRequest: Read {
        /// Reason, for the record.
        pub reason: Option<String> { chars: ..=512 },
        /// Data that the operator chooses.
        pub metadata: Option<FreeObject>,
    }
}

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Freezes a budget: nothing new is reserved, charged by an event, or funded",
    parameters: change_parameters,
    request: optional::<BudgetStatusTransitionRequest>(),
    responses: &[json::<BudgetLedger>(200, "The frozen budget.")],
    errors: &[404, 409],
    handler: |method| on(method, freeze_budget),
};

async fn freeze_budget(
    state: State<AppState>,
    cause: Cause,
    key: IdempotencyKeyHeader,
    query: RawQuery,
    body: OptionalAdminJson<BudgetStatusTransitionRequest>,
) -> Returns<BudgetLedger> {
    change_status(true, state, cause, key, query, body).await
}

/// Freezes a budget, or ends that.
pub(super) async fn change_status(
    frozen: bool,
    State(state): State<AppState>,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    RawQuery(query): RawQuery,
    OptionalAdminJson(body): OptionalAdminJson<BudgetStatusTransitionRequest>,
) -> Returns<BudgetLedger> {
    let target = BudgetTarget::parse(&query)?;
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload_hash(&body.sent, &target),
    };
    let reason = body.request.reason.as_deref();
    let done = state
        .admin
        .freeze_budget(&target.scope, target.unit, frozen, reason, &request)
        .await;
    changed(done, &target)
}
