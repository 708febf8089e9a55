//! Counts recent outcomes of tenants' requests for the detectors. A replica counts in memory and sends the counts to Redis
//! every few seconds, so no request pays for it. A replica that is killed loses the counts of these seconds.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::ids::TenantId;
use crate::domain::refusal::{Refusal, ReservationRefusal, TenantRefusal};
use crate::store::dispatcher::traffic::{Charges, CountedTraffic, Tally};
use crate::store::{Store, StoreError};

/// Tenants that are counted between two flushes, about 150 bytes each. Those beyond are not.
const TENANTS_MAX: usize = 65_536;

/// Ledgers whose charges are counted between two flushes, about 200 bytes each. Those beyond are not.
const LEDGERS_MAX: usize = 50_000;

/// Counts that are not in Redis yet. Cheap to clone.
#[derive(Clone)]
pub struct Traffic {
    store: Store,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    tenants: HashMap<TenantId, Tally>,
    /// All attempts with API keys and admin keys, and refused ones without a tenant.
    all: Tally,
    /// Amounts charged, by ledger.
    charges: HashMap<TenantId, Charges>,
    ledgers: usize,
    /// Tenants whose burn rates were not watched at the last flush.
    unwatched: HashSet<TenantId>,
}

impl Traffic {
    /// Nothing counted yet.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            counts: Arc::default(),
        }
    }

    /// Counts a decision, or the outcome of a create.
    pub(super) fn decided(&self, tenant: &TenantId, denied: bool) {
        self.counts.lock().of(tenant, |tally| {
            tally.decided += 1;
            tally.denied += u64::from(denied);
        });
    }

    /// Counts a create that was refused, if that is a denial.
    pub(super) fn refused(&self, tenant: &TenantId, error: &StoreError) {
        let is_denial = matches!(
            error.refusal(),
            Some(
                Refusal::Reservation(ReservationRefusal::Denied { .. })
                    | Refusal::Tenant(TenantRefusal::Closed(_))
            )
        );
        if is_denial {
            self.decided(tenant, true);
        }
    }

    /// Counts a reservation that was committed or released.
    pub(super) fn ended(&self, tenant: &TenantId) {
        self.counts.lock().of(tenant, |tally| tally.ended += 1);
    }

    /// Counts the charge of a commit or usage event, on each of its ledgers.
    pub(super) fn charged(&self, tenant: &TenantId, unit: Unit, charged: i64, ledgers: &[Balance]) {
        let mut counts = self.counts.lock();
        let charged = u128::from(charged.max(0).unsigned_abs());
        if charged == 0 || counts.unwatched.contains(tenant) || counts.ledgers >= LEDGERS_MAX {
            return;
        }
        for ledger in ledgers {
            counts.add(tenant, (unit, ledger.scope_path.to_string()), charged);
        }
    }

    /// Counts an attempt to authenticate; `tenant` if the key belongs to one.
    pub fn tried(&self, tenant: Option<&TenantId>, refused: bool) {
        let mut counts = self.counts.lock();
        counts.all.tried += 1;
        match tenant {
            Some(tenant) => counts.of(tenant, |tally| {
                tally.tried += 1;
                tally.refused += u64::from(refused);
            }),
            None => counts.all.refused += u64::from(refused),
        }
    }

    /// Sends the counts to Redis. Counts that could not be sent are kept.
    ///
    /// # Errors
    /// [`StoreError`], the first.
    pub async fn run_once(&self) -> Result<(), StoreError> {
        let taken = mem::take(&mut *self.counts.lock());
        let tenants = taken.tenants.into_iter();
        let mut counts: Vec<_> = tenants
            .map(|(tenant, tally)| (Some(tenant), tally))
            .collect();
        if taken.all != Tally::default() {
            counts.push((None, taken.all));
        }
        let names: Vec<TenantId> = counts
            .iter()
            .filter_map(|(tenant, _)| tenant.clone())
            .collect();
        let CountedTraffic {
            left,
            burning,
            mut outcome,
        } = self.store.count_traffic(counts).await;
        let mut charges = taken.charges;
        for tenant in &burning {
            let tenant = TenantId::parse(tenant).filter(|_| outcome.is_ok());
            // A failed call may have counted them, so they are not sent again.
            if let Some((tenant, charges)) = tenant.and_then(|it| charges.remove_entry(&it)) {
                outcome = self.store.count_burn(&tenant, &charges).await;
            }
        }
        let mut counts = self.counts.lock();
        let unwatched = names
            .into_iter()
            .filter(|it| !burning.iter().any(|name| name == it.as_str()));
        counts.unwatched = unwatched.collect();
        for (tenant, tally) in left {
            match tenant {
                Some(tenant) => {
                    counts.unwatched.remove(&tenant);
                    for (ledger, charged) in charges.remove(&tenant).unwrap_or_default() {
                        counts.add(&tenant, ledger, charged);
                    }
                    counts.of(&tenant, |since| since.add(&tally));
                }
                None => counts.all.add(&tally),
            }
        }
        outcome
    }
}

impl Counts {
    fn add(&mut self, tenant: &TenantId, ledger: (Unit, String), charged: u128) {
        let charges = self.charges.entry(tenant.clone()).or_default();
        let before = charges.len();
        *charges.entry(ledger).or_default() += charged;
        self.ledgers += charges.len() - before;
    }

    fn of(&mut self, tenant: &TenantId, count: impl FnOnce(&mut Tally)) {
        if let Some(tally) = self.tenants.get_mut(tenant) {
            return count(tally);
        }
        if self.tenants.len() < TENANTS_MAX {
            count(self.tenants.entry(tenant.clone()).or_default());
        }
    }
}
