//! Changes the settings of a budget, freezes and unfreezes it.

use super::BudgetTarget;
use crate::admin::{Admin, Request, refuse};
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::funding::BudgetStatus;
use crate::domain::budget::ledger::{BudgetLedger, BudgetUpdateRequest};
use crate::domain::record::audited;
use crate::domain::refusal::BudgetRefusal;
use crate::domain::scope::BudgetScope;
use crate::store::StoreError;
use crate::store::admin::budgets::{
    FreezeBudget, FreezeBudgetReply, UpdateBudget, UpdateBudgetReply,
};
use crate::store::admin::changes_of;
use crate::store::target::Target;

impl Admin {
    /// Changes a ledger, and judges anew whether it is over its limit.
    ///
    /// # Errors
    /// Refusals, in this order: another request under the same idempotency key; tenant closed; no such ledger; a closed one.
    pub async fn update_budget(
        &self,
        scope: &BudgetScope,
        unit: Unit,
        update: &BudgetUpdateRequest,
        request: &Request<'_>,
    ) -> Result<BudgetLedger, StoreError> {
        let target = BudgetTarget::of_scope(scope, unit)?;
        let mut parts = target.parts(request, "updateBudget", 200, "");
        let limit = update.overdraft_limit.map(Amount::value);
        parts.add("metadata.overdraft_limit", limit);
        parts.audit.extend(audited(update.fields()));
        let call = UpdateBudget {
            change: &parts.change(),
            tenant: &target.tenant,
            scope: scope.path().as_str(),
            unit: unit.as_str(),
            overdraft_limit: limit,
            changes: changes_of(&update.fields()),
        };
        let UpdateBudgetReply::Updated { record } = target.run(&self.store, &call).await?;
        target.about(BudgetLedger::from_record(&record.0))
    }

    /// Freezes a ledger, or ends that.
    ///
    /// # Errors
    /// Refusals, in this order: another request under the same idempotency key; tenant closed; no such ledger; a closed one;
    /// one that is in that state already.
    pub async fn freeze_budget(
        &self,
        scope: &BudgetScope,
        unit: Unit,
        frozen: bool,
        reason: Option<&str>,
        request: &Request<'_>,
    ) -> Result<BudgetLedger, StoreError> {
        let target = BudgetTarget::of_scope(scope, unit)?;
        let (operation, wanted) = match frozen {
            true => ("freezeBudget", BudgetStatus::Frozen),
            false => ("unfreezeBudget", BudgetStatus::Active),
        };
        let mut parts = target.parts(request, operation, 200, "");
        parts.add("metadata.reason", reason);
        let call = FreezeBudget {
            change: &parts.change(),
            tenant: &target.tenant,
            scope: scope.path().as_str(),
            unit: unit.as_str(),
            wanted: wanted.as_str(),
            reason,
        };
        let changed = target.run(&self.store, &call).await?;
        target.about(match (changed, frozen) {
            (FreezeBudgetReply::Changed { record }, _) => {
                BudgetLedger::from_record(&record.0).map_err(StoreError::from)
            }
            (FreezeBudgetReply::Unchanged, true) => {
                refuse(BudgetRefusal::AlreadyFrozen(target.budget.clone()))
            }
            (FreezeBudgetReply::Unchanged, false) => {
                refuse(BudgetRefusal::NotFrozen(target.budget.clone()))
            }
        })
    }
}
