//! Budgets: create, fund, look up, list, change and freeze them; with a tenant's key those of its tenant, with the admin key
//! any.

pub(crate) mod list;
pub(crate) mod states;

use uuid::Uuid;

use super::audit::entry;
use super::{Admin, AdminError, Parts, Request, refuse};
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::funding::FundingOperation;
use crate::domain::budget::ledger::{BudgetCreateRequest, BudgetLedger};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::record::set_fields;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::{BudgetScope, Level};
pub use crate::store::admin::budgets::FundedLedger as Funded;
use crate::store::admin::budgets::{
    CreateBudget, CreateBudgetReply, Fund, FundReply, LookupBudget, LookupBudgetReply,
};
use crate::store::admin::{Pairs, creation_refused};
use crate::store::signature::Counted;

/// A funding operation.
#[derive(Debug)]
pub struct Funding {
    /// As it was sent: for the admin key alone, ignored from a tenant's.
    pub tenant_id: Option<String>,
    /// Which scope.
    pub scope: BudgetScope,
    /// What is done.
    pub operation: FundingOperation,
    /// By how much, in the ledger's unit.
    pub amount: Amount,
    /// What RESET_SPENT starts from, in the same unit; `None`: nothing was said, so 0.
    pub spent: Option<i64>,
    /// Told by event and audit entry.
    pub reason: Option<String>,
}

impl Admin {
    /// Opens a ledger.
    ///
    /// # Errors
    /// Refusals, in this order: of the key and its scopes; a `tenant_id` that is missing or must not be there; a scope of another tenant; tenant closed, unknown or suspended; a ledger that exists.
    pub async fn create_budget(
        &self,
        caller: &Caller,
        new: &BudgetCreateRequest,
        scope: &BudgetScope,
        request: &Request<'_>,
    ) -> Result<BudgetLedger, AdminError> {
        let tenant = match creation_tenant(caller, new, scope) {
            Ok(tenant) => tenant,
            Err(refusal) => {
                return self
                    .refuse_after_access(caller, "budgets:write", Some(scope), refusal)
                    .await;
            }
        };
        let (scope, unit) = (scope.path(), new.allocated.unit());
        let ledger_id = Uuid::new_v4().to_string();
        let mut audit = entry(request.cause, "createBudget", "budget", &ledger_id);
        audit.extend([
            ("status", "201".to_owned()),
            ("metadata.scope", scope.to_string()),
            ("metadata.unit", unit.to_string()),
            ("metadata.allocated", new.allocated.value().to_string()),
        ]);
        push_actor_type(&mut audit, caller);
        let parts = Parts::of(request, "createBudget", audit);
        let call = CreateBudget {
            partition: tenant.partition(),
            caller: caller.into(),
            change: &parts.change(),
            tenant: tenant.as_str(),
            scope: scope.as_str(),
            unit: unit.as_str(),
            member: format!("{scope} {} {unit}", unit.index()),
            ledger_id: &ledger_id,
            allocated: new.allocated.value(),
            overdraft_limit: new.overdraft_limit.map_or(0, Amount::value),
            fields: Counted(&set_fields(new.fields())),
        };
        let created = self.store.run(&call).await?;
        let CreateBudgetReply::Created { record } =
            created.map_err(|refused| creation_refused(caller, refused))?;
        Ok(BudgetLedger::from_record(&record.0)?)
    }

    /// Funds a ledger.
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
    ) -> Result<Funded, AdminError> {
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
        let unit = funding.amount.unit();
        let target = format!("{scope}:{unit}");
        let mut audit = entry(request.cause, "fundBudget", "budget", &target);
        audit.extend([
            ("status", "200".to_owned()),
            ("metadata.scope", scope.to_string()),
            ("metadata.unit", unit.to_string()),
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
        if funding.operation == FundingOperation::ResetSpent {
            audit.push((
                "metadata.spent_override_provided",
                funding.spent.is_some().to_string(),
            ));
        }
        push_actor_type(&mut audit, caller);
        let parts = Parts::of(request, "fundBudget", audit);
        let call = Fund {
            partition: tenant.partition(),
            caller: caller.into(),
            change: &parts.change(),
            tenant: tenant.as_str(),
            scope: scope.as_str(),
            unit: unit.as_str(),
            operation: funding.operation.as_str(),
            amount: funding.amount.value(),
            spent: funding.spent,
            reason: funding.reason.as_deref(),
            foreign: scope_tenant != tenant.as_str(),
        };
        let FundReply::Funded {
            at,
            allocated,
            remaining,
            debt,
            spent,
        } = self.store.run(&call).await??;
        Ok(Funded {
            at,
            allocated,
            remaining,
            debt,
            spent,
        })
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
        let call = LookupBudget {
            partition: tenant.partition(),
            caller: caller.into(),
            tenant: tenant.as_str(),
            scope: path.as_str(),
            unit: unit.as_str(),
            foreign: scope_tenant != tenant.as_str(),
        };
        let LookupBudgetReply::Found { record } = self.store.run(&call).await??;
        Ok(BudgetLedger::from_record(&record.0)?)
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
fn creation_tenant(
    caller: &Caller,
    new: &BudgetCreateRequest,
    scope: &BudgetScope,
) -> Result<TenantId, AdminRefusal> {
    let text = match (caller, new.tenant_id.as_deref()) {
        (Caller::Tenant(_), Some(_)) => return Err(AdminRefusal::TenantIdPresent),
        (Caller::Tenant(caller), None) => caller.tenant.as_str(),
        (Caller::Admin(_), Some(text)) if !text.trim().is_empty() => text,
        (Caller::Admin(_), _) => return Err(AdminRefusal::TenantIdMissing),
    };
    if scope.tenant_as_sent() != text {
        return Err(AdminRefusal::ScopeOfOtherTenant);
    }
    TenantId::parse(text).ok_or(AdminRefusal::OwnerNotFound)
}

/// How a request came by its right, on operations that two kinds of key open.
pub(super) fn push_actor_type(audit: &mut Pairs, caller: &Caller) {
    let actor_type = match caller {
        Caller::Tenant(_) => "api_key",
        Caller::Admin(_) => "admin_on_behalf_of",
    };
    audit.push(("metadata.actor_type", actor_type.to_owned()));
}
