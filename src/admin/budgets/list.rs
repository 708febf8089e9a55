//! Lists of budgets, of one tenant or of all. The order of scopes has an index; any other order examines all ledgers.

use tracing::error;

use crate::admin::{Admin, records, refuse};
use crate::domain::amount::Unit;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::budget::ledger::BudgetStatus;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::policy::OveragePolicy;
use crate::domain::record::Record;
use crate::domain::refusal::TenantRefusal;
use crate::domain::scope::ScopeFilter;
use crate::domain::search::Search;
use crate::listing::{Bounds, ListQuery, Page, Position, Step, StepRange, Walk, orders};
use crate::store::admin::budget_lists::FIELDS;
use crate::store::{Store, StoreError};

/// A sort without an index examines 10,000 ledgers at most.
const BOUNDS: Bounds = Bounds {
    page_rows: 5_000,
    matches: 10_000,
    rows: 10_000,
};

orders! {
    /// Sorts of the list of budgets.
    BudgetSort of ledger: BudgetLedger {
        rows: "budgets", advice: "narrow the list by tenant_id or scope_prefix, or sort by scope",
        id: ledger.ledger_id, default: Utilization, indexed: [TenantId, Scope], fallback: Scope
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

/// What was charged of what was allocated: 0 where nothing was allocated, above 1 where more was charged.
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
    /// Prefix of their scope.
    pub scope_prefix: Option<String>,
    /// In this unit.
    pub unit: Option<Unit>,
    /// Of this status.
    pub status: Option<BudgetStatus>,
    /// Whether new reservations are refused until they are funded.
    pub over_limit: Option<bool>,
    /// Whether they are in debt.
    pub has_debt: Option<bool>,
    /// Minimum utilization.
    pub utilization_min: Option<f64>,
    /// Maximum utilization.
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
        let scope = prefix.to_ascii_lowercase();
        let scopes = self.store.admin_access(caller, "budgets:read", &scope);
        let mut walk = BudgetWalk {
            store: &self.store,
            filter,
            owner,
            scopes: scopes.await?,
        };
        records::page(&self.store, &mut walk, query, BOUNDS).await
    }
}

/// The tenant that a prefix of scopes is within: the one whose segment is complete.
fn whole_tenant(scope_prefix: &str) -> Option<&str> {
    let (tenant, _) = scope_prefix.strip_prefix("tenant:")?.split_once('/')?;
    Some(tenant)
}

/// A walk along the ledgers of one tenant, or of all, in the order of tenants and scopes.
pub(in crate::admin) struct BudgetWalk<'a> {
    store: &'a Store,
    filter: &'a BudgetFilter,
    /// The one tenant; `None`: all.
    owner: Option<TenantId>,
    /// The scopes of the caller's key.
    scopes: ScopeFilter,
}

impl<'a> BudgetWalk<'a> {
    /// Along the ledgers of one tenant, for the admin key.
    pub fn new(store: &'a Store, filter: &'a BudgetFilter, owner: TenantId) -> Self {
        Self {
            store,
            filter,
            owner: Some(owner),
            scopes: ScopeFilter::default(),
        }
    }
}

impl Walk for BudgetWalk<'_> {
    type Row = BudgetLedger;
    type Error = StoreError;

    fn is_filtered(&self) -> bool {
        // A restricted key most often sees what it asks for.
        !self.filter.is_open()
    }

    async fn count(&self) -> Result<Option<usize>, StoreError> {
        let Some(owner) = &self.owner else {
            return Ok(None);
        };
        let prefix = self.filter.scope_prefix.as_deref().unwrap_or_default();
        self.store.count_ledgers(owner, prefix).await.map(Some)
    }

    /// Examines the next tenants, and at most `range.rows` of their ledgers.
    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<BudgetLedger>, StoreError> {
        let (store, filter, rows) = (self.store, self.filter, range.rows);
        // After an entry, its tenant may have more.
        let after = range.after_id().filter(|entry| !entry.is_empty());
        let mut tenants: Vec<TenantId> = self.owner.iter().cloned().collect();
        let (mut complete, mut end) = (true, None);
        if self.owner.is_none() {
            let beyond = range.after.and_then(Position::text);
            tenants.extend(after.and(beyond).and_then(TenantId::parse));
            let directory = store.directory_page(beyond, range.descending, rows).await?;
            complete = directory.len() < rows;
            tenants.extend(directory.iter().filter_map(|id| TenantId::parse(id)));
            let last = directory.last().map(String::as_str).or(beyond);
            end = last.map(|tenant| Position::new(tenant, ""));
        }
        let prefix = filter.scope_prefix.as_deref().unwrap_or_default();
        let lists = store.ledger_entries(&tenants, prefix, after, range.descending, rows);
        let mut entries = Vec::new();
        for (tenant, list) in tenants.iter().zip(lists.await?) {
            let list = match list {
                // The others are shown.
                Err(damage) if self.owner.is_none() && damage.is_wrong_type() => {
                    error!(tenant.id = %tenant, "the ledgers of `{tenant}` are left out of a list: {damage}");
                    continue;
                }
                list => list?,
            };
            let is_full = list.len() == rows;
            let position = |entry| Position::new(tenant.as_str(), entry);
            entries.extend(list.into_iter().map(position));
            if is_full || entries.len() >= rows {
                // There may be more of this tenant.
                (complete, end) = (false, None);
                break;
            }
        }
        entries.truncate(rows);
        let passed = tenants.len().saturating_sub(entries.len());
        let key = |entry: &Position| {
            let tenant = entry.text().and_then(TenantId::parse)?;
            Some(store.ledger_key(&tenant, &entry.id))
        };
        let now_ms = store.clock().trusted_now_ms();
        let read = |_: &Position, record: &Record| BudgetLedger::at(record, now_ms);
        let step = records::step(store, "ledger", (entries, complete), (key, &FIELDS), read);
        let scopes = &self.scopes;
        let is_listed =
            |ledger: &BudgetLedger| scopes.admits(ledger.scope.as_str()) && filter.matches(ledger);
        Ok(Step {
            passed,
            reached: end,
            ..step.await?.filter(is_listed)
        })
    }
}
