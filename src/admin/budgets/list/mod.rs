//! Lists of budgets: of one tenant, or of all. The order of scopes has an index; any other sort looks at all ledgers.

mod walk;

use std::cmp::Ordering;

use crate::admin::{Admin, AdminError, refuse};
use crate::domain::amount::Unit;
use crate::domain::budget::funding::BudgetStatus;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::caller::{AdminCaller, Caller};
use crate::domain::ids::TenantId;
use crate::domain::refusal::TooManyToSort;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::words::words;
use walk::{Row, Step, Walk};

/// Ledgers that a sort without an index looks at.
const SORT_ROWS_MAX: usize = 10_000;
/// Ledgers, and tenants without any, that one page in the order of scopes looks at; with a sparse filter it may be short, and
/// its cursor goes on.
const PAGE_ROWS_MAX: usize = 5_000;

words! {
    /// What a list of budgets can be sorted by.
    BudgetSort {
        /// The tenant, then the scope; has an index.
        TenantId = "tenant_id",
        /// The scope; has an index. Over several tenants: by tenant first.
        Scope = "scope",
        /// The unit.
        Unit = "unit",
        /// The status.
        Status = "status",
        /// What a commit above its estimate does; those that leave it to the tenant come last.
        CommitOveragePolicy = "commit_overage_policy",
        /// What was charged of what was allocated.
        Utilization = "utilization",
        /// What was charged beyond the funds.
        Debt = "debt",
    }
}

impl BudgetSort {
    fn has_index(self) -> bool {
        matches!(self, Self::TenantId | Self::Scope)
    }

    /// The text by which rows are compared; numbers with all their digits.
    fn value(self, ledger: &BudgetLedger) -> String {
        match self {
            Self::TenantId => ledger.tenant_id.to_string(),
            Self::Scope => ledger.scope.to_string(),
            Self::Unit => ledger.unit.to_string(),
            Self::Status => ledger.status.to_string(),
            Self::CommitOveragePolicy => match ledger.commit_overage_policy {
                Some(policy) => format!("0 {}", policy.as_str()),
                None => "1".to_owned(),
            },
            // Fractions that are not negative stand in the order of their bits.
            Self::Utilization => format!("{:020}", utilization(ledger).to_bits()),
            Self::Debt => format!("{:019}", ledger.debt),
        }
    }
}

/// What was charged of what was allocated: 0 where nothing was allocated, above 1 where more was charged.
fn utilization(ledger: &BudgetLedger) -> f64 {
    match ledger.allocated {
        0 => 0.0,
        allocated => ledger.spent as f64 / allocated as f64,
    }
}

/// Which of the ledgers are asked for; all of it must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BudgetFilter {
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
    /// What tenant or scope contains, whatever the case.
    pub search: Option<String>,
}

impl BudgetFilter {
    /// Whether a ledger is asked for.
    pub fn matches(&self, ledger: &BudgetLedger) -> bool {
        let used = utilization(ledger);
        let prefix = self.scope_prefix.as_deref().unwrap_or_default();
        ledger.scope.as_str().starts_with(prefix)
            && self.unit.is_none_or(|unit| ledger.unit == unit)
            && self.status.is_none_or(|status| ledger.status == status)
            && self
                .over_limit
                .is_none_or(|over| ledger.is_over_limit == over)
            && self.has_debt.is_none_or(|owes| (ledger.debt > 0) == owes)
            && self.utilization_min.is_none_or(|least| used >= least)
            && self.utilization_max.is_none_or(|most| used <= most)
            && self.search.as_ref().is_none_or(|search| {
                let search = search.to_lowercase();
                // Both are in lower case.
                ledger.tenant_id.as_str().contains(&search)
                    || ledger.scope.as_str().contains(&search)
            })
    }

    /// Whether all ledgers below the prefix are asked for.
    fn is_open(&self) -> bool {
        let prefix = self.scope_prefix.clone();
        *self
            == Self {
                scope_prefix: prefix,
                ..Self::default()
            }
    }
}

/// A row's place in the order of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetPlace {
    /// The row's value of what the list is sorted by; in the order of scopes the tenant.
    pub value: String,
    /// The ledger's id; in the order of scopes the entry of the tenant's index, empty behind its last.
    pub id: String,
}

/// Budgets that are asked for.
#[derive(Debug, Clone)]
pub struct BudgetQuery {
    /// As it was sent: for the admin key alone, ignored from a tenant's.
    pub tenant_id: Option<String>,
    /// Which of them.
    pub filter: BudgetFilter,
    /// The order.
    pub sort: BudgetSort,
    /// Largest first.
    pub descending: bool,
    /// Whether the order of scopes may stand in where there are too many to sort.
    pub any_order: bool,
    /// Where the last page ended, in the same order.
    pub after: Option<BudgetPlace>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

impl BudgetQuery {
    /// All that match, in the order of scopes.
    fn all(filter: BudgetFilter) -> Self {
        Self {
            tenant_id: None,
            filter,
            sort: BudgetSort::Scope,
            descending: false,
            any_order: false,
            after: None,
            limit: 1,
        }
    }
}

/// A page of budgets.
#[derive(Debug)]
pub struct BudgetPage {
    /// In order.
    pub ledgers: Vec<BudgetLedger>,
    /// The order that they stand in.
    pub sort: BudgetSort,
    /// Behind which place the next page starts, when there may be one.
    pub next: Option<BudgetPlace>,
}

impl Admin {
    /// A page of the budgets of one tenant that the key may see; or of all tenants, for the admin key where the setting
    /// allows it.
    ///
    /// # Errors
    /// Refusals: of the key; a prefix outside of its scopes; a `tenant_id` that is missing;
    /// [`AdminRefusal::TooManyToSort`] for a sort that must be kept and has no index.
    pub async fn list_budgets(
        &self,
        caller: &Caller,
        query: &BudgetQuery,
    ) -> Result<BudgetPage, AdminError> {
        let prefix = query.filter.scope_prefix.as_deref().unwrap_or_default();
        let owner = match (caller, query.tenant_id.as_deref()) {
            (Caller::Tenant(caller), _) => Some(caller.tenant.clone()),
            (Caller::Admin(_), None) if !self.cross_tenant_list => {
                return refuse(AdminRefusal::TenantIdMissing);
            }
            (Caller::Admin(_), named) => {
                match named.or(whole_tenant(prefix)).map(TenantId::parse) {
                    // No tenant has such an id, so it owns no ledger.
                    Some(None) => return Ok(page(Vec::new(), query)),
                    owner => owner.flatten(),
                }
            }
        };
        if query.sort.has_index() {
            return self.budgets_by_scope(caller, query, owner).await;
        }
        match self.matching_budgets(caller, query, owner.clone()).await? {
            Some(ledgers) => Ok(page(ledgers, query)),
            None if query.any_order && query.after.is_none() => {
                self.budgets_by_scope(caller, query, owner).await
            }
            None => Err(too_many(SORT_ROWS_MAX).into()),
        }
    }

    /// Along the index.
    async fn budgets_by_scope(
        &self,
        caller: &Caller,
        query: &BudgetQuery,
        owner: Option<TenantId>,
    ) -> Result<BudgetPage, AdminError> {
        let mut walk = Walk::new(&self.store, caller, query, owner);
        let mut page = BudgetPage {
            ledgers: Vec::new(),
            sort: if query.sort.has_index() {
                query.sort
            } else {
                BudgetSort::Scope
            },
            next: None,
        };
        let mut last = query.after.clone();
        while let Step::Rows(rows) = walk.step(None).await? {
            for Row { place, ledger } in rows {
                let ledger = ledger.filter(|ledger| query.filter.matches(ledger));
                if ledger.is_some() && page.ledgers.len() == query.limit {
                    page.next = last;
                    return Ok(page);
                }
                page.ledgers.extend(ledger);
                last = Some(place);
            }
            last = walk.reached().or(last);
            if walk.looked_at() >= PAGE_ROWS_MAX && !walk.is_complete() {
                page.next = last;
                return Ok(page);
            }
        }
        Ok(page)
    }

    /// Tells `found` of every ledger of a tenant that matches, however many there are. For operations of the admin key.
    pub(in crate::admin) async fn each_budget(
        &self,
        tenant: &TenantId,
        filter: &BudgetFilter,
        mut found: impl FnMut(&BudgetLedger),
    ) -> Result<(), AdminError> {
        let caller = Caller::Admin(AdminCaller::vouched());
        let query = BudgetQuery::all(filter.clone());
        let mut walk = Walk::gathering(&self.store, &caller, &query, Some(tenant.clone()));
        while let Step::Rows(rows) = walk.step(None).await? {
            let ledgers = rows.iter().filter_map(|row| row.ledger.as_ref());
            ledgers
                .filter(|ledger| filter.matches(ledger))
                .for_each(&mut found);
        }
        Ok(())
    }

    /// All that match, `None` where too many would have to be looked at.
    async fn matching_budgets(
        &self,
        caller: &Caller,
        query: &BudgetQuery,
        owner: Option<TenantId>,
    ) -> Result<Option<Vec<BudgetLedger>>, AdminError> {
        let mut walk = Walk::gathering(&self.store, caller, query, owner);
        if !walk.holds_at_most(SORT_ROWS_MAX).await? {
            return Ok(None);
        }
        let mut found = Vec::new();
        loop {
            let rows = match walk.step(Some(SORT_ROWS_MAX)).await? {
                Step::Rows(rows) => rows,
                Step::TooMany => return Ok(None),
                Step::End => return Ok(Some(found)),
            };
            let ledgers = rows.into_iter().filter_map(|row| row.ledger);
            found.extend(ledgers.filter(|ledger| query.filter.matches(ledger)));
        }
    }
}

fn too_many(bound: usize) -> TooManyToSort {
    TooManyToSort {
        rows: "budgets",
        bound,
        advice: "narrow the list by tenant_id or scope_prefix, or sort by scope",
    }
}

/// The tenant that a prefix of scopes is within: the one whose segment is complete.
fn whole_tenant(scope_prefix: &str) -> Option<&str> {
    let (tenant, _) = scope_prefix.strip_prefix("tenant:")?.split_once('/')?;
    Some(tenant)
}

/// The page behind the query's place. Equal values stand by id, in the same direction.
fn page(ledgers: Vec<BudgetLedger>, query: &BudgetQuery) -> BudgetPage {
    let order = |a: (&str, &str), b: (&str, &str)| match query.descending {
        true => b.cmp(&a),
        false => a.cmp(&b),
    };
    let mut rows: Vec<(String, BudgetLedger)> = ledgers
        .into_iter()
        .map(|ledger| (query.sort.value(&ledger), ledger))
        .collect();
    if let Some(after) = &query.after {
        let place = (after.value.as_str(), after.id.as_str());
        rows.retain(|(value, row)| order((value, &row.ledger_id), place) == Ordering::Greater);
    }
    rows.sort_by(|(a_value, a), (b_value, b)| {
        order((a_value, &a.ledger_id), (b_value, &b.ledger_id))
    });
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next = rows.last().filter(|_| more);
    let next = next.map(|(value, row)| BudgetPlace {
        value: value.clone(),
        id: row.ledger_id.clone(),
    });
    BudgetPage {
        ledgers: rows.into_iter().map(|(_, row)| row).collect(),
        sort: query.sort,
        next,
    }
}
