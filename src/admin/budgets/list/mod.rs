//! Lists of budgets, of one tenant or of all. The order of scopes has an index; any other order examines all ledgers.

pub(in crate::admin) mod walk;

use crate::admin::{Admin, is_too_many, refuse};
use crate::domain::amount::Unit;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::budget::ledger::BudgetStatus;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::policy::OveragePolicy;
use crate::domain::refusal::TenantRefusal;
use crate::domain::search::Search;
use crate::listing::{Bounds, ListQuery, Page, gather, orders, page_along};
use crate::store::StoreError;
use walk::{BudgetWalk, TENANTS_MAX};

/// Ledgers that a sort without an index looks at.
const SORT_ROWS_MAX: usize = 10_000;

orders! {
    /// Sorts of the list of budgets.
    BudgetSort of ledger: BudgetLedger {
        rows: "budgets", advice: "narrow the list by tenant_id or scope_prefix, or sort by scope",
        id: ledger.ledger_id, default: Utilization
    }
    /// The tenant, then the scope; has an index.
    TenantId = "tenant_id": ledger.tenant_id.as_str(),
    /// The scope; has an index. Over several tenants: by tenant first.
    Scope = "scope": ledger.scope.as_str(),
    /// The unit.
    Unit = "unit": ledger.unit.as_str(),
    /// The status.
    Status = "status": ledger.status.as_str(),
    /// Overage policy; budgets that leave it to the tenant come last.
    CommitOveragePolicy = "commit_overage_policy": ledger.commit_overage_policy.map(OveragePolicy::as_str),
    /// Charged share of the allocation. The bits of nonnegative fractions have the same order.
    Utilization = "utilization": utilization(ledger).to_bits().cast_signed(),
    /// Amount charged beyond the available funds.
    Debt = "debt": ledger.debt.value(),
}

impl BudgetSort {
    fn has_index(self) -> bool {
        matches!(self, Self::TenantId | Self::Scope)
    }
}

/// Charged share of the allocation: 0 where nothing was allocated, above 1 where more was charged.
fn utilization(ledger: &BudgetLedger) -> f64 {
    match ledger.allocated.value() {
        0 => 0.0,
        allocated => ledger.spent.value() as f64 / allocated as f64,
    }
}

/// A filter of ledgers; all conditions must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BudgetFilter {
    /// As it was sent: for the admin key alone, ignored from a tenant's.
    pub tenant_id: Option<String>,
    /// Their scope starts so.
    pub scope_prefix: Option<String>,
    /// In this unit.
    pub unit: Option<Unit>,
    /// Of this status.
    pub status: Option<BudgetStatus>,
    /// Whether new reservations are refused until they are funded.
    pub over_limit: Option<bool>,
    /// Whether they owe something.
    pub has_debt: Option<bool>,
    /// Least utilization.
    pub utilization_min: Option<f64>,
    /// Greatest utilization.
    pub utilization_max: Option<f64>,
    /// A part of the tenant or scope.
    pub search: Option<Search>,
}

impl BudgetFilter {
    fn matches(&self, ledger: &BudgetLedger) -> bool {
        let used = utilization(ledger);
        let prefix = self.scope_prefix.as_deref().unwrap_or_default();
        let texts = [ledger.tenant_id.as_str(), ledger.scope.as_str()];
        let found = |search: &Search| search.finds_any(texts);
        ledger.scope.as_str().starts_with(prefix)
            && self.unit.is_none_or(|unit| ledger.unit == unit)
            && self.status.is_none_or(|status| ledger.status == status)
            && self
                .over_limit
                .is_none_or(|over| ledger.is_over_limit == over)
            && self
                .has_debt
                .is_none_or(|owes| (ledger.debt.value() > 0) == owes)
            && self.utilization_min.is_none_or(|least| used >= least)
            && self.utilization_max.is_none_or(|most| used <= most)
            && self.search.as_ref().is_none_or(found)
    }

    /// Whether all ledgers below the prefix are asked for.
    fn is_open(&self) -> bool {
        let open = Self {
            tenant_id: self.tenant_id.clone(),
            scope_prefix: self.scope_prefix.clone(),
            ..Self::default()
        };
        *self == open
    }
}

/// A query of the list of budgets. In the order of scopes a position has the tenant as its value, and as its id the entry
/// of the tenant's index, empty after the last one.
pub type BudgetQuery = ListQuery<BudgetFilter, BudgetSort>;

impl Admin {
    /// A page of the budgets of one tenant that the key may see; or of all tenants, for the admin key where the setting
    /// allows it.
    ///
    /// # Errors
    /// Refusals: of the key; a prefix outside of its scopes; a `tenant_id` that is missing;
    /// [`crate::domain::refusal::TooManyToSort`] for a sort that must be kept and has no index.
    pub async fn list_budgets(
        &self,
        caller: &Caller,
        query: &BudgetQuery,
    ) -> Result<Page<BudgetLedger, BudgetSort>, StoreError> {
        let filter = &query.filter;
        let prefix = filter.scope_prefix.as_deref().unwrap_or_default();
        let owner = match (caller, filter.tenant_id.as_deref()) {
            (Caller::Tenant(caller), _) => Some(caller.tenant.clone()),
            (Caller::Admin(_), None) if !self.cross_tenant_list => {
                return refuse(TenantRefusal::IdMissing);
            }
            (Caller::Admin(_), named) => {
                match named.or(whole_tenant(prefix)).map(TenantId::parse) {
                    // No tenant has such an id, so it owns no ledger.
                    Some(None) => return Ok(query.empty_page()),
                    owner => owner.flatten(),
                }
            }
        };
        let by = query.sort.by;
        let mut walk = BudgetWalk::new(&self.store, caller.into(), filter, owner.clone());
        if by.has_index() {
            walk.start_at(query);
            return page_along(&mut walk, query, by, Bounds::default()).await;
        }
        let sorted = self.sorted_budgets(&mut walk, query).await;
        if !(query.may_fall_back() && is_too_many(&sorted)) {
            return sorted;
        }
        let mut walk = BudgetWalk::new(&self.store, caller.into(), filter, owner);
        walk.start_at(query);
        page_along(&mut walk, query, BudgetSort::Scope, Bounds::default()).await
    }

    /// In an order without an index.
    async fn sorted_budgets(
        &self,
        walk: &mut BudgetWalk<'_>,
        query: &BudgetQuery,
    ) -> Result<Page<BudgetLedger, BudgetSort>, StoreError> {
        walk.check_count(SORT_ROWS_MAX).await?;
        let bounds = Bounds {
            rows: SORT_ROWS_MAX + TENANTS_MAX,
            ..Bounds::default()
        };
        self.store
            .serve_gathering(gather(walk, query, bounds))
            .await
    }
}

/// The tenant that a prefix of scopes is within: the one whose segment is complete.
fn whole_tenant(scope_prefix: &str) -> Option<&str> {
    let (tenant, _) = scope_prefix.strip_prefix("tenant:")?.split_once('/')?;
    Some(tenant)
}
