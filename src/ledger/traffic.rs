//! Outcomes of tenants' requests of late, which detectors look at. A replica counts in memory and brings the counts to Redis
//! every few seconds, so no request pays for it. One that is killed loses the counts of these seconds.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::ids::TenantId;
use crate::domain::refusal::{Refusal, ReservationRefusal, TenantRefusal};
use crate::store::dispatcher::traffic::Tally;
use crate::store::{OperationError, Store, StoreError};

/// Tenants that are counted between two flushes, about 150 bytes each. Those beyond are not.
const TENANTS_MAX: usize = 65_536;

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
            error,
            OperationError::Refused(
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
        let (left, outcome) = self.store.count_traffic(counts).await;
        let mut seen = self.seen();
        for (tenant, tally) in left {
            match tenant {
                Some(tenant) => seen.of(&tenant, |since| since.add(&tally)),
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
    fn of(&mut self, tenant: &TenantId, count: impl FnOnce(&mut Tally)) {
        if let Some(tally) = self.tenants.get_mut(tenant) {
            return count(tally);
        }
        if self.tenants.len() < TENANTS_MAX {
            count(self.tenants.entry(tenant.clone()).or_default());
        }
    }
}
