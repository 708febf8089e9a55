//! Funding: the operations that change the figures of a budget.

use super::{BudgetTarget, name, tenant_of};
use crate::admin::{Admin, Request, refuse};
use crate::domain::amount::Unit;
use crate::domain::budget::ledger::FundingOperation;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::refusal::{BudgetRefusal, TenantRefusal};
use crate::domain::scope::BudgetScope;
use crate::store::StoreError;
use crate::store::admin::budgets::{Fund, FundReply};

/// A funding operation.
#[derive(Debug)]
pub struct Funding {
    /// As it was sent: for the admin key alone, ignored from a tenant's.
    pub tenant_id: Option<String>,
    /// The scope.
    pub scope: BudgetScope,
    /// The action.
    pub operation: FundingOperation,
    /// Unit of the ledger.
    pub unit: Unit,
    /// By how much, in that unit; `None` for RENEW.
    pub amount: Option<i64>,
    /// The value that RESET_SPENT sets, in that unit; `None`: not given, so 0.
    pub spent: Option<i64>,
    /// Recorded in the event and in the audit entry.
    pub reason: Option<String>,
}

impl Admin {
    /// Funds a ledger. The reply has the clock of the script; of the first request where this is a replay.
    ///
    /// # Errors
    /// Refusals, in this order: of the key and its scopes; a `tenant_id` that is missing;
    /// another request under the same idempotency key; tenant closed; a foreign, unknown, frozen or closed ledger; too
    /// little left; a figure out of range.
    pub async fn fund_budget(
        &self,
        caller: &Caller,
        funding: &Funding,
        request: &Request<'_>,
    ) -> Result<FundReply, StoreError> {
        let (scope, unit) = (&funding.scope, funding.unit);
        let tenant = match (caller, funding.tenant_id.as_deref()) {
            (Caller::Tenant(caller), _) => caller.tenant.clone(),
            (Caller::Admin(_), None) => return refuse(TenantRefusal::IdMissing),
            (Caller::Admin(_), Some(text)) => match TenantId::parse(text) {
                Some(tenant) => tenant,
                // No tenant has such an id, so it owns no ledger.
                None if tenant_of(scope) == text => {
                    return refuse(BudgetRefusal::NotFound(name(scope, unit)));
                }
                None => return refuse(BudgetRefusal::OfOtherTenant(scope.path().clone())),
            },
        };
        let target = BudgetTarget {
            requested: funding.amount,
            ..BudgetTarget::new(tenant, name(scope, unit))
        };
        let resource = format!("{}:{unit}", scope.path());
        let mut change = target.change(request, "fundBudget", 200, &resource);
        let operation = funding.operation;
        change.add("metadata.funding_operation", Some(operation));
        change.add("metadata.amount", funding.amount);
        change.add("metadata.reason", funding.reason.as_deref());
        change.add("metadata.idempotency_key", request.idempotency_key);
        let resets = operation == FundingOperation::ResetSpent;
        let provided = resets.then_some(funding.spent.is_some());
        change.add("metadata.spent_override_provided", provided);
        let call = |until_ms| Fund {
            caller: caller.into(),
            change: &change,
            tenant: &target.tenant,
            scope: scope.path().as_str(),
            unit: unit.as_str(),
            operation: operation.as_str(),
            amount: funding.amount.unwrap_or(0),
            spent: funding.spent,
            reason: funding.reason.as_deref(),
            foreign: tenant_of(scope) != target.tenant.as_str(),
            until_ms,
        };
        self.turning(&target, request.cause, call).await
    }
}
