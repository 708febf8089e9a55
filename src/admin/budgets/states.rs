//! Changes the settings of a budget, freezes and unfreezes it.

use crate::admin::audit::entry;
use crate::admin::{Admin, AdminError, Parts, Request, refuse};
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::funding::BudgetStatus;
use crate::domain::budget::ledger::{BudgetLedger, BudgetUpdateRequest};
use crate::domain::ids::TenantId;
use crate::domain::record::audited;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::{BudgetScope, Level};
use crate::store::admin::budgets::{
    FreezeBudget, FreezeBudgetReply, UpdateBudget, UpdateBudgetReply,
};
use crate::store::admin::{Pairs, changes_of};

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
    ) -> Result<BudgetLedger, AdminError> {
        let Some(tenant) = owner(scope) else {
            return refuse(AdminRefusal::BudgetNotFound);
        };
        let mut audit = ledger_entry(request, "updateBudget", scope, unit);
        audit.extend(
            update
                .overdraft_limit
                .map(|limit| ("metadata.overdraft_limit", limit.value().to_string())),
        );
        audit.extend(audited(update.fields()));
        let parts = Parts::of(request, "updateBudget", audit);
        let call = UpdateBudget {
            partition: tenant.partition(),
            change: &parts.change(),
            tenant: tenant.as_str(),
            scope: scope.path().as_str(),
            unit: unit.as_str(),
            overdraft_limit: update.overdraft_limit.map(Amount::value),
            changes: changes_of(&update.fields()),
        };
        let UpdateBudgetReply::Updated { record } = self.store.run(&call).await??;
        Ok(BudgetLedger::from_record(&record.0)?)
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
    ) -> Result<BudgetLedger, AdminError> {
        let Some(tenant) = owner(scope) else {
            return refuse(AdminRefusal::BudgetNotFound);
        };
        let (operation, wanted, unchanged) = match frozen {
            true => (
                "freezeBudget",
                BudgetStatus::Frozen,
                AdminRefusal::AlreadyFrozen,
            ),
            false => (
                "unfreezeBudget",
                BudgetStatus::Active,
                AdminRefusal::NotFrozen,
            ),
        };
        let mut audit = ledger_entry(request, operation, scope, unit);
        audit.extend(reason.map(|reason| ("metadata.reason", reason.to_owned())));
        let parts = Parts::of(request, operation, audit);
        let call = FreezeBudget {
            partition: tenant.partition(),
            change: &parts.change(),
            tenant: tenant.as_str(),
            scope: scope.path().as_str(),
            unit: unit.as_str(),
            wanted: wanted.as_str(),
            reason,
        };
        match self.store.run(&call).await?? {
            FreezeBudgetReply::Changed { record } => Ok(BudgetLedger::from_record(&record.0)?),
            FreezeBudgetReply::Unchanged => refuse(unchanged),
        }
    }
}

/// The entry, but for the resource: only the script knows the ledger's id.
fn ledger_entry(
    request: &Request<'_>,
    operation: &'static str,
    scope: &BudgetScope,
    unit: Unit,
) -> Pairs {
    let mut audit = entry(request.cause, operation, "budget", "");
    audit.retain(|(name, _)| !name.starts_with("resource_"));
    audit.extend([
        ("status", "200".to_owned()),
        ("metadata.scope", scope.path().to_string()),
        ("metadata.unit", unit.to_string()),
    ]);
    audit
}

fn owner(scope: &BudgetScope) -> Option<TenantId> {
    TenantId::parse(scope.path().value(Level::Tenant).unwrap_or_default())
}
