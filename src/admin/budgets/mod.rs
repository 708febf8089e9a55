//! Budgets: create, fund, look up, list, change and freeze them; with a tenant's key those of its tenant, with the admin key
//! any.

mod funding;
mod increases;
pub(super) mod list;

use serde::Serialize;
use uuid::Uuid;

pub use funding::Funding;

use super::{Admin, Change, Request, refuse};
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::budget::ledger::BudgetStatus;
use crate::domain::budget::ledger::{BudgetCreateRequest, BudgetLedger, BudgetUpdateRequest};
use crate::domain::budget::limit::{BudgetLimit, Windows};
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::fields::{Patch, Read};
use crate::domain::ids::TenantId;
use crate::domain::record::{Record, RecordError, audited};
use crate::domain::refusal::{BudgetName, BudgetRefusal, Refusal};
use crate::domain::scope::{BudgetScope, Level};
use crate::store::admin::budget_creation::BudgetCreation;
use crate::store::admin::budgets::{
    FreezeBudget, FreezeBudgetReply, LookupBudget, LookupBudgetReply, UpdateBudget,
    UpdateBudgetReply,
};
use crate::store::admin::changes_of;
use crate::store::signature::{Refused, ScriptCall};
use crate::store::target::{Creation, Target};
use crate::store::{Lane, ScriptError, StoreError};

/// A budget of a tenant, as requests name it.
pub(super) struct BudgetTarget {
    pub(super) tenant: TenantId,
    pub(super) budget: BudgetName,
    /// How much is to be added or taken away.
    pub(super) requested: Option<i64>,
    /// The increase that is to end.
    pub(super) increase_id: Option<String>,
}

impl BudgetTarget {
    fn new(tenant: TenantId, budget: BudgetName) -> Self {
        Self {
            tenant,
            budget,
            requested: None,
            increase_id: None,
        }
    }

    /// The budget at a scope, of the tenant whose scope it is.
    fn of_scope(scope: &BudgetScope, unit: Unit) -> Result<Self, StoreError> {
        let budget = name(scope, unit);
        match TenantId::parse(tenant_of(scope)) {
            Some(tenant) => Ok(Self::new(tenant, budget)),
            // No tenant has such an id, so it owns no ledger.
            None => refuse(BudgetRefusal::NotFound(budget)),
        }
    }

    /// The budget at a scope, of the tenant that calls; with the admin key, of the tenant whose scope it is.
    fn of_caller(caller: &Caller, scope: &BudgetScope, unit: Unit) -> Result<Self, StoreError> {
        match caller {
            Caller::Tenant(caller) => Ok(Self::new(caller.tenant.clone(), name(scope, unit))),
            Caller::Admin(_) => Self::of_scope(scope, unit),
        }
    }

    /// What the script is given of a change. Only the script knows the ledger's id, unless it is new.
    fn change<'a>(
        &self,
        request: &Request<'a>,
        operation: &'static str,
        status: u16,
        resource_id: &str,
    ) -> Change<'a> {
        let mut change = Change::new(request, operation, ("budget", resource_id), Some(status));
        change.audit.extend([
            ("metadata.scope", self.budget.scope.to_string()),
            ("metadata.unit", self.budget.unit.to_string()),
        ]);
        change
    }
}

impl Target for BudgetTarget {
    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    fn refusal(&self, refused: &Refused) -> Option<Refusal> {
        use BudgetRefusal as R;
        let budget = self.budget.clone();
        let refusal = match *refused {
            Refused::BudgetNotFound => R::NotFound(budget),
            Refused::DuplicateBudget => R::Duplicate(budget),
            Refused::BudgetFrozen => R::Frozen(budget),
            Refused::BudgetClosed => R::Closed(budget),
            Refused::ForeignBudget => R::OfOtherTenant(budget.scope),
            Refused::OutOfRange => R::OutOfRange(budget),
            Refused::UntilOutOfRange => R::UntilOutOfRange,
            Refused::IncreaseNotFound => {
                let increase_id = self.increase_id.clone()?;
                R::IncreaseNotFound {
                    increase_id,
                    budget,
                }
            }
            Refused::CarryLimitAlone => R::CarryLimitAlone,
            Refused::BudgetExceeded { ref snapshot } => R::Exceeded {
                requested: self.requested?,
                balance: Box::new(Balance::from_snapshot(
                    budget.scope.clone(),
                    budget.unit,
                    snapshot,
                )?),
                budget,
            },
            _ => return None,
        };
        Some(refusal.into())
    }
}

fn name(scope: &BudgetScope, unit: Unit) -> BudgetName {
    BudgetName {
        scope: scope.path().clone(),
        unit,
    }
}

/// A ledger as a change has left it: the same for a replay.
fn changed_ledger(record: &Record) -> Result<BudgetLedger, RecordError> {
    BudgetLedger::at(record, record.integer("updated_at_ms")?)
}

/// What is replaced as a whole, as audit entries have it; `cleared` where it is removed.
fn audited_whole<T: Read + Serialize>(change: &Patch<T>, cleared: &str) -> Option<String> {
    match change {
        Patch::Keep => None,
        Patch::Clear => Some(cleared.to_owned()),
        Patch::Set(whole) => Some(whole.to_json()),
    }
}

/// The tenant whose scope it is, as the scope names it.
fn tenant_of(scope: &BudgetScope) -> &str {
    scope.path().value(Level::Tenant).unwrap_or_default()
}

impl Admin {
    /// Opens a ledger.
    ///
    /// # Errors
    /// Refusals, in this order: of the key and its scopes; a `tenant_id` that is missing or must not be there; a scope of another tenant; tenant closed, unknown or suspended; a ledger that exists; as many as the tenant may have.
    pub async fn create_budget(
        &self,
        caller: &Caller,
        new: &BudgetCreateRequest,
        scope: &BudgetScope,
        request: &Request<'_>,
    ) -> Result<BudgetLedger, StoreError> {
        let unit = new.allocated.unit();
        let requested = ("scope", scope.path().as_str(), scope.tenant_as_sent());
        let tenant = new.tenant_id.as_deref();
        let tenant = self.tenant_of_new(caller, "budgets:write", tenant, requested);
        let target = BudgetTarget::new(tenant.await?, name(scope, unit));
        let ledger_id = Uuid::new_v4().to_string();
        let mut change = target.change(request, "createBudget", 201, &ledger_id);
        let allocated = new.allocated.value();
        change.add("metadata.allocated", Some(allocated));
        let creation = BudgetCreation {
            caller: caller.into(),
            tenant: &target.tenant,
            scope: scope.path(),
            new,
            ledger_id: &ledger_id,
            limit: self.limits.budgets,
            template: None,
        };
        let created = creation.run(&self.store, &change).await;
        let created = Creation::new(caller.is_admin(), &target).outcome(created);
        target.about(changed_ledger(&created?))
    }

    /// Limits of which nothing is used yet.
    fn windows(&self, limits: &[BudgetLimit]) -> Windows {
        Windows::of(limits, self.store.clock().trusted_now_ms())
    }

    /// Runs the script of a change. While ledgers must turn first, they do, and it runs again.
    async fn turning<C: ScriptCall>(
        &self,
        target: &BudgetTarget,
        cause: &Cause,
        call: impl Fn(Option<i64>) -> C,
    ) -> Result<C::Outcome, StoreError> {
        let mut until_ms = None;
        loop {
            let outcome = self.store.run(Lane::Request, &call(until_ms)).await;
            let Err(ScriptError::Refused(Refused::TurnFirst { now_ms, ledgers }, _)) = outcome
            else {
                return target.outcome(outcome);
            };
            let trusted = || self.store.clock().trusted_ms(now_ms);
            let until_ms = *until_ms.get_or_insert_with(trusted);
            let turned = self
                .store
                .turn_first(&target.tenant, &ledgers, until_ms, cause);
            turned.await?;
        }
    }

    /// A ledger as it is now.
    fn ledger(&self, record: &Record) -> Result<BudgetLedger, RecordError> {
        BudgetLedger::at(record, self.store.clock().trusted_now_ms())
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
    ) -> Result<BudgetLedger, StoreError> {
        let target = BudgetTarget::of_caller(caller, scope, unit)?;
        let call = LookupBudget {
            caller: caller.into(),
            tenant: &target.tenant,
            scope: scope.path().as_str(),
            unit: unit.as_str(),
            foreign: tenant_of(scope) != target.tenant.as_str(),
        };
        let LookupBudgetReply::Found { record } = target.run(&self.store, &call).await?;
        target.about(self.ledger(&record.0))
    }

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
        let mut change = target.change(request, "updateBudget", 200, "");
        let limit = update.overdraft_limit.map(Amount::value);
        change.add("metadata.overdraft_limit", limit);
        let audited = audited(update.fields()).into_iter();
        // Its fields share a name.
        let whole = audited.filter(|(name, _)| *name != "metadata.period");
        change.audit.extend(whole);
        change.add("metadata.period", audited_whole(&update.period, ""));
        change.add("metadata.limits", audited_whole(&update.limits, "[]"));
        let bounds = match &update.period {
            Patch::Keep => None,
            Patch::Clear => Some("none".to_owned()),
            Patch::Set(period) => {
                let [start, end] = period.bounds(self.store.clock().trusted_now_ms())?;
                Some(format!("{start} {end}"))
            }
        };
        let limits = match &update.limits {
            Patch::Keep => None,
            Patch::Set(limits) if !limits.is_empty() => Some(self.windows(limits).to_string()),
            Patch::Set(_) | Patch::Clear => Some("none".to_owned()),
        };
        let mut changes = update.fields();
        for change in &mut changes {
            // The script knows what is allocated.
            if change.field == "period_allocated" && matches!(update.period, Patch::Set(_)) {
                change.value.get_or_insert_with(|| "allocated".to_owned());
            }
        }
        let changes = changes_of(&changes);
        let call = |until_ms| UpdateBudget {
            change: &change,
            tenant: &target.tenant,
            scope: scope.path().as_str(),
            unit: unit.as_str(),
            overdraft_limit: limit,
            until_ms,
            bounds: bounds.clone(),
            limits: limits.clone(),
            changes: changes.clone(),
        };
        let updated = self.turning(&target, request.cause, call).await?;
        let UpdateBudgetReply::Updated { record } = updated;
        target.about(changed_ledger(&record.0))
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
        let mut change = target.change(request, operation, 200, "");
        change.add("metadata.reason", reason);
        let call = FreezeBudget {
            change: &change,
            tenant: &target.tenant,
            scope: scope.path().as_str(),
            unit: unit.as_str(),
            wanted: wanted.as_str(),
            reason,
        };
        let changed = target.run(&self.store, &call).await?;
        target.about(match (changed, frozen) {
            (FreezeBudgetReply::Changed { record }, _) => {
                changed_ledger(&record.0).map_err(StoreError::from)
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
