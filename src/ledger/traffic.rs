//! Outcomes of tenants' requests of late, which detectors look at. A replica counts in memory and brings the counts to Redis
//! every few seconds, so no request pays for it. One that is killed loses the counts of these seconds.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::ids::TenantId;
use crate::domain::refusal::{Refusal, ReservationRefusal, TenantRefusal};
use crate::store::dispatcher::burn::Charges;
use crate::store::dispatcher::traffic::{CountedTraffic, Tally};
use crate::store::{OperationError, Store, StoreError};

/// Tenants that are counted between two flushes, about 150 bytes each. Those beyond are not.
const TENANTS_MAX: usize = 65_536;

/// Ledgers whose charges are counted between two flushes, about 200 bytes each. Those beyond are not.
const LEDGERS_MAX: usize = 50_000;

/// Counts that Redis does not know of yet. Cheap to clone.
#[derive(Clone)]
pub struct Traffic {
    store: Store,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    tenants: HashMap<TenantId, Tally>,
    /// All attempts with API keys and admin keys, and those that were refused as nobody's.
    all: Tally,
    /// What ledgers were charged.
    charges: HashMap<TenantId, Charges>,
    ledgers: usize,
    /// Tenants whose burn rates nobody watched at the last flush.
    unwatched: HashSet<TenantId>,
}

impl std::fmt::Debug for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Traffic").finish_non_exhaustive()
    }
}

impl Traffic {
    /// Nothing counted yet.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            seen: Arc::default(),
        }
    }

    /// Counts a decision, or the outcome of a create.
    pub(super) fn decided(&self, tenant: &TenantId, denied: bool) {
        self.seen().of(tenant, |tally| {
            tally.decided += 1;
            tally.denied += u64::from(denied);
        });
    }

    /// Counts a create that was refused, if that is a denial.
    pub(super) fn refused(&self, tenant: &TenantId, error: &OperationError) {
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
        self.seen().of(tenant, |tally| tally.ended += 1);
    }

    /// Counts what a commit or usage event charged to each of these ledgers.
    pub(super) fn charged(&self, tenant: &TenantId, unit: Unit, charged: i64, ledgers: &[Balance]) {
        let mut seen = self.seen();
        let charged = u128::from(charged.max(0).unsigned_abs());
        if charged == 0 || seen.unwatched.contains(tenant) || seen.ledgers >= LEDGERS_MAX {
            return;
        }
        for ledger in ledgers {
            seen.add(tenant, (unit, ledger.scope_path.to_string()), charged);
        }
    }

    /// Counts an attempt to authenticate; `tenant` where the key is a tenant's.
    pub fn tried(&self, tenant: Option<&TenantId>, refused: bool) {
        let mut seen = self.seen();
        seen.all.tried += 1;
        match tenant {
            Some(tenant) => seen.of(tenant, |tally| {
                tally.tried += 1;
                tally.refused += u64::from(refused);
            }),
            None => seen.all.refused += u64::from(refused),
        }
    }

    /// Brings the counts to Redis. What it does not take is kept.
    ///
    /// # Errors
    /// [`StoreError`], the first.
    pub async fn run_once(&self) -> Result<(), StoreError> {
        let taken = mem::take(&mut *self.seen());
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
            // What fails here is lost: perhaps it was counted.
            if let Some((tenant, charges)) = tenant.and_then(|it| charges.remove_entry(&it)) {
                outcome = self.store.count_burn(&tenant, &charges).await;
            }
        }
        let mut seen = self.seen();
        let unwatched = names
            .into_iter()
            .filter(|it| !burning.iter().any(|name| name == it.as_str()));
        seen.unwatched = unwatched.collect();
        for (tenant, tally) in left {
            match tenant {
                Some(tenant) => {
                    seen.unwatched.remove(&tenant);
                    for (ledger, charged) in charges.remove(&tenant).unwrap_or_default() {
                        seen.add(&tenant, ledger, charged);
                    }
                    seen.of(&tenant, |since| since.add(&tally));
                }
                None => seen.all.add(&tally),
            }
        }
        outcome
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing is left half-done by a panic under the lock.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
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
