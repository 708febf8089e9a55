//! Exposes the figures of the budgets of some tenants as gauges.
//!
//! Only tenants that a setting lists have any, and only the dispatcher that leases a tenant's partition shows them. It reads a
//! tenant's budgets page by page once in an interval. A budget that a read does not find loses its gauges: budgets that are gone or closed,
//! and all of a tenant whose partition another dispatcher has by now.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use prometheus::{GaugeVec, Registry};
use tokio::time::Instant;

use super::workers::{Next, lease_worker};
use crate::config::TenantList;
use crate::domain::amount::Unit;
use crate::domain::budget::ledger::BudgetStatus;
use crate::domain::budget::projection::projected;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::metrics::metrics;
use crate::store::admin::budget_lists::FIELDS;
use crate::store::{Lease, Store, StoreError};

/// How often the worker looks which partitions it has, and whose budgets are to be read again.
const PERIOD: Duration = Duration::from_secs(1);

/// Budgets of one page.
const ROWS: usize = 100;

/// Tenants that one pass reads.
const TENANTS_PER_PASS: usize = 8;

/// How often the budgets of a tenant are read: as often as Prometheus scrapes by default.
const INTERVAL: Duration = Duration::from_secs(60);

/// Series in one dispatcher, of 250 budgets. Prometheus keeps each in memory, and a tenant may have thousands of budgets.
const SERIES_MAX: usize = 1_000;

/// Series of one budget.
const SERIES_PER_BUDGET: usize = 4;

metrics! {
    /// Metrics of the gauges of budgets.
    struct BudgetGaugeMetrics {
        /// Allocated amount.
        allocated: GaugeVec["tenant", "scope", "unit"] = "budget_allocated",
        /// Amount that can still be reserved; negative in debt.
        remaining: GaugeVec["tenant", "scope", "unit"] = "budget_remaining",
        /// Amount held by active reservations.
        reserved: GaugeVec["tenant", "scope", "unit"] = "budget_reserved",
        /// Amount charged beyond the available funds.
        debt: GaugeVec["tenant", "scope", "unit"] = "budget_debt",
        /// Budgets that a read left without gauges, since there would be too many series.
        left_out: IntCounter = "budget_gauges_left_out_total",
    }
}

impl BudgetGaugeMetrics {
    fn vectors(&self) -> [&GaugeVec; SERIES_PER_BUDGET] {
        [&self.allocated, &self.remaining, &self.reserved, &self.debt]
    }

    fn show(&self, tenant: &TenantId, (scope, unit): &BudgetName, figures: &Figures) {
        let labels = [tenant.as_str(), scope, unit.as_str()];
        for (vector, figure) in self.vectors().into_iter().zip(figures) {
            vector.with_label_values(&labels).set(*figure as f64);
        }
    }

    fn remove(&self, tenant: &TenantId, (scope, unit): &BudgetName) {
        for vector in self.vectors() {
            let _ = vector.remove_label_values(&[tenant.as_str(), scope, unit.as_str()]);
        }
    }
}

/// Scope and unit of a budget that has gauges.
type BudgetName = (String, Unit);

/// The values of a budget's gauges, in the order of [`FIGURES`].
type Figures = [i64; SERIES_PER_BUDGET];

const FIGURES: [&str; SERIES_PER_BUDGET] = ["allocated", "remaining", "reserved", "debt"];

/// The budgets of one tenant that have gauges.
struct OfTenant {
    budgets: BTreeSet<BudgetName>,
    read_at: Instant,
}

/// Keeps the gauges of budgets.
pub struct BudgetGauges {
    store: Store,
    listed: TenantList,
    interval: Duration,
    series_max: usize,
    metrics: BudgetGaugeMetrics,
    tenants: HashMap<TenantId, OfTenant>,
}

impl BudgetGauges {
    /// A worker over `store`. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(store: Store, listed: TenantList, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            store,
            listed,
            interval: INTERVAL,
            series_max: SERIES_MAX,
            metrics: BudgetGaugeMetrics::register(registry)?,
            tenants: HashMap::new(),
        })
    }

    /// The same with another interval and another number of series, for tests.
    #[must_use]
    pub fn limited(self, interval: Duration, series_max: usize) -> Self {
        Self {
            interval,
            series_max,
            ..self
        }
    }

    /// Reads the budgets of some listed tenants that are due, in the partitions of `leases`; whether others are due too.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; the gauges stay as they were.
    pub async fn run_once(&mut self, leases: &[Lease]) -> Result<Next, StoreError> {
        let is_ours = |tenant: &TenantId| {
            let partition = tenant.partition();
            leases.iter().any(|lease| lease.partition == partition)
        };
        let lost: Vec<_> = self
            .tenants
            .keys()
            .filter(|it| !is_ours(it))
            .cloned()
            .collect();
        for tenant in lost {
            self.show(&tenant, &BTreeMap::new());
            self.tenants.remove(&tenant);
        }
        let is_due = |tenant: &TenantId| {
            let known = self.tenants.get(tenant);
            known.is_none_or(|known| known.read_at.elapsed() >= self.interval)
        };
        let listed = self.listed.0.iter();
        let due: Vec<_> = listed
            .filter(|tenant| is_ours(tenant) && is_due(tenant))
            .take(TENANTS_PER_PASS)
            .cloned()
            .collect();
        for tenant in &due {
            let room = self.room(tenant);
            let budgets = self.read(tenant, room).await?;
            self.show(tenant, &budgets);
        }
        Ok(match due.len() {
            TENANTS_PER_PASS => Next::Now,
            _ => Next::Idle,
        })
    }

    /// How many budgets of a tenant may have gauges.
    fn room(&self, tenant: &TenantId) -> usize {
        let others = self.tenants.iter().filter(|(other, _)| *other != tenant);
        let taken: usize = others.map(|(_, known)| known.budgets.len()).sum();
        (self.series_max / SERIES_PER_BUDGET).saturating_sub(taken)
    }

    /// Reads up to a number of budgets of a tenant, in the order of their scopes, and counts those that are left out.
    async fn read(
        &self,
        tenant: &TenantId,
        room: usize,
    ) -> Result<BTreeMap<BudgetName, Figures>, StoreError> {
        let (mut budgets, mut looked_at, mut after) = (BTreeMap::new(), 0, None::<String>);
        let owner = [tenant.clone()];
        loop {
            let page = self
                .store
                .ledger_entries(&owner, "", after.as_deref(), false, ROWS);
            let page = page.await?;
            let entries = match page.into_iter().next() {
                // Other tenants' budgets are shown.
                Some(Err(damage)) if damage.is_wrong_type() => Vec::new(),
                page => page.transpose()?.unwrap_or_default(),
            };
            let is_last = entries.len() < ROWS;
            after = entries.last().cloned();
            let keys = entries.iter().map(|it| self.store.ledger_key(tenant, it));
            let records = self.store.records(keys, &FIELDS).await?;
            let now_ms = self.store.clock().trusted_now_ms();
            for (entry, record) in entries.iter().zip(records) {
                if budgets.len() == room {
                    break;
                }
                looked_at += 1;
                let record = record.ok();
                budgets.extend(record.and_then(|record| figures(entry, &record, now_ms)));
            }
            if budgets.len() == room {
                let all = self.store.count_ledgers(tenant, "").await?;
                let left_out = all.saturating_sub(looked_at);
                self.metrics.left_out.inc_by(left_out as u64);
                return Ok(budgets);
            }
            if is_last {
                return Ok(budgets);
            }
        }
    }

    /// Shows these budgets of a tenant, and no other.
    fn show(&mut self, tenant: &TenantId, budgets: &BTreeMap<BudgetName, Figures>) {
        if let Some(known) = self.tenants.get(tenant) {
            let gone = known.budgets.iter().filter(|it| !budgets.contains_key(it));
            gone.for_each(|gone| self.metrics.remove(tenant, gone));
        }
        for (budget, figures) in budgets {
            self.metrics.show(tenant, budget, figures);
        }
        let known = OfTenant {
            budgets: budgets.keys().cloned().collect(),
            read_at: Instant::now(),
        };
        self.tenants.insert(tenant.clone(), known);
    }
}

/// The figures of a ledger as it is at a time, in milliseconds since the epoch, by its entry `scope unit_index UNIT` and its record; `None`
/// where it is gone, closed or damaged.
fn figures(entry: &str, record: &Record, now_ms: i64) -> Option<(BudgetName, Figures)> {
    let mut words = entry.split(' ');
    let (scope, unit) = (words.next()?, words.nth(1).and_then(Unit::parse)?);
    if record.get("status")? == BudgetStatus::Closed.as_str() {
        return None;
    }
    let record = projected(record, now_ms).ok()?;
    let mut figures = Figures::default();
    for (figure, name) in figures.iter_mut().zip(FIGURES) {
        *figure = record.integer(name).ok()?;
    }
    Some(((scope.to_owned(), unit), figures))
}

lease_worker!(
    BudgetGauges: "budget_gauges", PERIOD,
    |worker, leases, _| worker.run_once(leases).await?
);
