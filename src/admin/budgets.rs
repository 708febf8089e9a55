//! Budgets: opened, funded, looked up; by a tenant's key within its tenant, by the admin key for any.

use uuid::Uuid;

use super::audit::entry;
use super::{Admin, AdminError, Parts, Request, refuse};
use crate::domain::admin_refusal::AdminRefusal;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget_ledger::{BudgetLedger, FundingOperation, RolloverPolicy};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::policy::OveragePolicy;
use crate::domain::scope::{BudgetScope, Level};
use crate::store::admin::Pairs;
pub use crate::store::budgets::FundedLedger as Funded;
use crate::store::budgets::{FundingRequest, LedgerRecord};

/// A ledger to be opened.
#[derive(Debug)]
pub struct NewBudget {
    /// As it was sent: for the admin key alone.
    pub tenant_id: Option<String>,
    /// Which scope.
    pub scope: BudgetScope,
    /// What it counts.
    pub unit: Unit,
    /// What may be spent.
    pub allocated: Amount,
    /// How much debt is allowed; `None`: none.
    pub overdraft_limit: Option<Amount>,
    /// What a commit above the estimate does; `None`: what the tenant says.
    pub commit_overage_policy: Option<OveragePolicy>,
    /// Stored and shown.
    pub rollover_policy: Option<RolloverPolicy>,
    /// RFC 3339 in UTC; stored and shown.
    pub period_start: Option<String>,
    /// RFC 3339 in UTC; stored and shown.
    pub period_end: Option<String>,
    /// A JSON object; stored and never shown.
    pub metadata: Option<String>,
}

/// A funding operation.
#[derive(Debug)]
pub struct Funding {
    /// As it was sent: for the admin key alone, ignored from a tenant's.
    pub tenant_id: Option<String>,
    /// Which scope.
    pub scope: BudgetScope,
    /// Of which unit.
    pub unit: Unit,
    /// What is done.
    pub operation: FundingOperation,
    /// By how much.
    pub amount: Amount,
    /// What RESET_SPENT starts from; `None`: 0.
    pub spent: Option<Amount>,
    /// Told by event and audit entry.
    pub reason: Option<String>,
}

impl Admin {
    /// Opens a ledger.
    ///
    /// # Errors
    /// Refusals, in this order: of the key; another unit than the ledger's; of the key's scopes; a `tenant_id` that is
    /// missing or must not be there; a scope of another tenant; tenant closed, unknown or suspended; a ledger that exists.
    pub async fn create_budget(
        &self,
        caller: &Caller,
        new: &NewBudget,
        request: &Request<'_>,
    ) -> Result<BudgetLedger, AdminError> {
        for (member, amount) in [
            ("allocated", Some(new.allocated)),
            ("overdraft_limit", new.overdraft_limit),
        ] {
            if amount.is_some_and(|amount| amount.unit() != new.unit) {
                let refusal = unit_mismatch(member, &new.scope, new.unit);
                return self
                    .refuse_after_access(caller, "budgets:write", None, refusal)
                    .await;
            }
        }
        let tenant = match creation_tenant(caller, new) {
            Ok(tenant) => tenant,
            Err(refusal) => {
                return self
                    .refuse_after_access(caller, "budgets:write", Some(&new.scope), refusal)
                    .await;
            }
        };
        let (scope, ledger_id) = (new.scope.path(), Uuid::new_v4().to_string());
        let mut audit = entry(request.cause, "createBudget", "budget", &ledger_id);
        audit.extend([
            ("status", "201".to_owned()),
            ("metadata.scope", scope.to_string()),
            ("metadata.unit", new.unit.to_string()),
            ("metadata.allocated", new.allocated.value().to_string()),
        ]);
        push_actor_type(&mut audit, caller);
        let parts = Parts::of(request, "createBudget", audit);
        let rollover = new.rollover_policy.unwrap_or(RolloverPolicy::None);
        let mut fields = vec![("rollover_policy", rollover.as_str().to_owned())];
        let optional = [
            ("period_start", &new.period_start),
            ("period_end", &new.period_end),
            ("metadata", &new.metadata),
        ];
        fields.extend(
            optional
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.clone()?))),
        );
        let record = LedgerRecord {
            tenant: &tenant,
            ledger_id: &ledger_id,
            scope,
            allocated: new.allocated,
            overdraft_limit: new.overdraft_limit.map_or(0, Amount::value),
            overage_policy: new.commit_overage_policy,
            fields: &fields,
        };
        let record = self
            .store
            .create_budget(caller, &record, &parts.change())
            .await?;
        Ok(BudgetLedger::from_record(&record)?)
    }

    /// Funds a ledger.
    ///
    /// # Errors
    /// Refusals, in this order: of the key and its scopes; another unit than the ledger's; a `tenant_id` that is missing;
    /// another request under the same idempotency key; tenant closed; a foreign, unknown, frozen or closed ledger; too
    /// little left; a figure out of range.
    pub async fn fund_budget(
        &self,
        caller: &Caller,
        funding: &Funding,
        request: &Request<'_>,
    ) -> Result<Funded, AdminError> {
        let is_reset = funding.operation == FundingOperation::ResetSpent;
        for (member, amount) in [("amount", Some(funding.amount)), ("spent", funding.spent)] {
            if amount.is_some_and(|amount| amount.unit() != funding.unit) {
                let refusal = unit_mismatch(member, &funding.scope, funding.unit);
                return self
                    .refuse_after_access(caller, "budgets:write", Some(&funding.scope), refusal)
                    .await;
            }
        }
        if funding.spent.is_some() && !is_reset {
            let refusal = AdminRefusal::SpentNotApplicable;
            return self
                .refuse_after_access(caller, "budgets:write", Some(&funding.scope), refusal)
                .await;
        }
        let scope = funding.scope.path();
        let scope_tenant = scope.value(Level::Tenant).unwrap_or_default();
        let tenant = match (caller, funding.tenant_id.as_deref()) {
            (Caller::Tenant(caller), _) => caller.tenant.clone(),
            (Caller::Admin(_), None) => return refuse(AdminRefusal::TenantIdMissing),
            (Caller::Admin(_), Some(text)) => match TenantId::parse(text) {
                Some(tenant) => tenant,
                // No tenant has such an id, so it owns no ledger.
                None if scope_tenant == text => return refuse(AdminRefusal::BudgetNotFound),
                None => return refuse(AdminRefusal::ForeignBudget),
            },
        };
        let target = format!("{scope}:{}", funding.unit);
        let mut audit = entry(request.cause, "fundBudget", "budget", &target);
        audit.extend([
            ("status", "200".to_owned()),
            ("metadata.scope", scope.to_string()),
            ("metadata.unit", funding.unit.to_string()),
            (
                "metadata.funding_operation",
                funding.operation.as_str().to_owned(),
            ),
            ("metadata.amount", funding.amount.value().to_string()),
        ]);
        audit.extend(
            funding
                .reason
                .clone()
                .map(|reason| ("metadata.reason", reason)),
        );
        let key = request.idempotency_key.map(|key| key.to_string());
        audit.extend(key.map(|key| ("metadata.idempotency_key", key)));
        if is_reset {
            audit.push((
                "metadata.spent_override_provided",
                funding.spent.is_some().to_string(),
            ));
        }
        push_actor_type(&mut audit, caller);
        let parts = Parts::of(request, "fundBudget", audit);
        let funding = FundingRequest {
            tenant: &tenant,
            scope,
            foreign: scope_tenant != tenant.as_str(),
            operation: funding.operation,
            amount: funding.amount,
            spent: funding.spent.map(Amount::value),
            reason: funding.reason.as_deref(),
        };
        self.store
            .fund_budget(caller, &funding, &parts.change())
            .await
    }

    /// Reads one ledger.
    ///
    /// # Errors
    /// Refusals: of the key and its scopes; another tenant's scope, whether it has a ledger or not; no ledger.
    pub async fn lookup_budget(
        &self,
        caller: &Caller,
        scope: &BudgetScope,
        unit: Unit,
    ) -> Result<BudgetLedger, AdminError> {
        let path = scope.path();
        let scope_tenant = path.value(Level::Tenant).unwrap_or_default();
        let tenant = match caller {
            Caller::Tenant(caller) => caller.tenant.clone(),
            Caller::Admin(_) => match TenantId::parse(scope_tenant) {
                Some(tenant) => tenant,
                None => return refuse(AdminRefusal::BudgetNotFound),
            },
        };
        let foreign = scope_tenant != tenant.as_str();
        let record = self
            .store
            .lookup_budget(caller, &tenant, path, unit, foreign)
            .await?;
        Ok(BudgetLedger::from_record(&record)?)
    }

    /// For a request that fails before its own script: a caller who may not ask at all learns that first.
    ///
    /// # Errors
    /// What stands against the key; nothing for the admin key, which was judged before.
    pub async fn check_access(
        &self,
        caller: &Caller,
        permission: &str,
        scope: Option<&BudgetScope>,
    ) -> Result<(), AdminError> {
        let Caller::Tenant(caller) = caller else {
            return Ok(());
        };
        let scope = scope.map_or("", |scope| scope.path().as_str());
        self.store.admin_access(caller, permission, scope).await
    }

    async fn refuse_after_access<T>(
        &self,
        caller: &Caller,
        permission: &str,
        scope: Option<&BudgetScope>,
        refusal: AdminRefusal,
    ) -> Result<T, AdminError> {
        self.check_access(caller, permission, scope).await?;
        refuse(refusal)
    }
}

/// For whom a ledger is opened.
fn creation_tenant(caller: &Caller, new: &NewBudget) -> Result<TenantId, AdminRefusal> {
    let text = match (caller, new.tenant_id.as_deref()) {
        (Caller::Tenant(_), Some(_)) => return Err(AdminRefusal::TenantIdPresent),
        (Caller::Tenant(caller), None) => caller.tenant.as_str(),
        (Caller::Admin(_), Some(text)) if !text.trim().is_empty() => text,
        (Caller::Admin(_), _) => return Err(AdminRefusal::TenantIdMissing),
    };
    if new.scope.tenant_as_sent() != text {
        return Err(AdminRefusal::ScopeOfOtherTenant);
    }
    TenantId::parse(text).ok_or(AdminRefusal::OwnerNotFound)
}

fn unit_mismatch(member: &'static str, scope: &BudgetScope, unit: Unit) -> AdminRefusal {
    AdminRefusal::UnitMismatch {
        member,
        scope: scope.path().to_string(),
        unit,
    }
}

fn push_actor_type(audit: &mut Pairs, caller: &Caller) {
    let actor_type = match caller {
        Caller::Tenant(_) => "api_key",
        Caller::Admin(_) => "admin_on_behalf_of",
    };
    audit.push(("metadata.actor_type", actor_type.to_owned()));
}
