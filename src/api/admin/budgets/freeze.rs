//! Freezes a budget.

use axum::extract::State;

use super::update::{changed, payload_hash};
use super::{BudgetTarget, target_parameters};
use crate::admin::Request;
use crate::api::admin::extract::{IdempotencyKeyHeader, OptionalAdminJson};
use crate::api::extract::RawQuery;
use crate::api::operation::{Declaration, declare};
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

pub(in crate::api) const DECLARATION: Declaration = declare!(
    freeze_budget,
    "Freezes a budget: nothing new is reserved, charged by an event, or funded"
)
.query(target_parameters)
.idempotent()
.may_take::<BudgetStatusTransitionRequest>()
.returns::<BudgetLedger>(200, "The frozen budget.")
.refuses(&[404, 409]);

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
