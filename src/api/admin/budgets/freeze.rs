//! Freezes or unfreezes a budget.

use super::BudgetTarget;
use super::target_parameters;
use crate::api::admin::extract::{Change, ChangeBody, Presence};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::budget::ledger::BudgetLedger;
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

impl ChangeBody for BudgetStatusTransitionRequest {
    const PRESENCE: Presence = Presence::Optional;
}

pub(in crate::api) const DECLARATION: Declaration = declare!(
    freeze_budget,
    "Freezes a budget: it refuses reservations, usage events and funding"
)
.query(target_parameters)
.idempotent()
.may_take::<BudgetStatusTransitionRequest>()
.returns::<BudgetLedger>(200, "The frozen budget.")
.refuses(&[404, 409]);

/// Ends the freeze.
pub mod unfreeze {
    use super::{
        BudgetLedger, BudgetStatusTransitionRequest, Declaration, declare, target_parameters,
        unfreeze_budget,
    };

    pub(in crate::api) const DECLARATION: Declaration =
        declare!(unfreeze_budget, "Unfreezes a budget")
            .query(target_parameters)
            .idempotent()
            .may_take::<BudgetStatusTransitionRequest>()
            .returns::<BudgetLedger>(200, "The budget as it is now.")
            .refuses(&[404, 409]);
}

type StatusChange = Change<BudgetStatusTransitionRequest, BudgetTarget>;

async fn freeze_budget(change: StatusChange) -> Returns<BudgetLedger> {
    change_status(true, change).await
}

async fn unfreeze_budget(change: StatusChange) -> Returns<BudgetLedger> {
    change_status(false, change).await
}

async fn change_status(frozen: bool, change: StatusChange) -> Returns<BudgetLedger> {
    let BudgetTarget { scope, unit, .. } = &change.target;
    let (reason, request) = (change.body.reason.as_deref(), change.request());
    let admin = &change.state.admin;
    let ledger = admin.freeze_budget(scope, *unit, frozen, reason, &request);
    Ok(CheckedJson::ok(ledger.await?))
}
