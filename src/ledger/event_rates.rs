//! Bounds how many events the requests of a tenant cause at this replica: a reservation that crosses 64 thresholds takes Redis as
//! long as dozens that cross none.
//!
//! Of a tenant that causes more, reservations and usage events go one after the other, and wait until what was caused is made
//! up for. Only keys wait with which events were caused, so that nobody who never had a valid key gets into a tenant's way.
//!
//! What is caused is known from the reply, which comes although a client hangs up: its request is carried out.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::Ledger;
use crate::domain::api_key::secret::KeyHash;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::TenantId;
use crate::domain::refusal::ReservationRefusal;
use crate::store::OperationError;

/// A request that causes no more events than this is not counted: it takes Redis hardly longer than one without events.
const UNCOUNTED: i64 = 8;
/// How long a request waits for those before it.
const WAIT: Duration = Duration::from_secs(1);
/// A tenant is forgotten so long after all is made up for.
const IDLE: Duration = Duration::from_secs(1);

/// The rate of each tenant that has caused many events of late. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct EventRates {
    /// 0: without a bound.
    per_second: u32,
    /// Whether there is any tenant: else requests take no lock.
    is_any: Arc<AtomicBool>,
    of_tenants: Arc<Mutex<HashMap<TenantId, EventRate>>>,
}

#[derive(Debug)]
struct EventRate {
    /// When what the tenant has caused is made up for.
    until: Instant,
    /// One permit: requests go one after the other.
    one: Arc<Semaphore>,
    /// With which events were caused.
    keys: HashSet<KeyHash>,
}

impl EventRate {
    /// Whether it is still needed: something is to be made up for, was so a moment ago, or a request goes on.
    fn is_present(&self, now: Instant) -> bool {
        self.until + IDLE > now || self.one.available_permits() == 0
    }
}

impl Ledger {
    /// With a limit of events that a tenant's requests may cause at this replica in a second; 0 for none.
    #[must_use]
    pub fn events_per_second(mut self, limit: u32) -> Self {
        self.event_rates.per_second = limit;
        self
    }
}

impl EventRates {
    /// Waits until the caller may go, where it must: no other one goes until the permit is dropped.
    ///
    /// # Errors
    /// [`ReservationRefusal::CausedTooMuch`] where that would take more than a second.
    pub async fn admit(
        &self,
        caller: &RuntimeCaller,
    ) -> Result<Option<OwnedSemaphorePermit>, OperationError> {
        if !self.is_any.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(one) = self.waiting(caller) else {
            return Ok(None);
        };
        let deadline = Instant::now() + WAIT;
        let refusal = || OperationError::from(self.refusal(&caller.tenant));
        let permit = timeout(WAIT, one.acquire_owned()).await;
        let permit = permit.ok().and_then(Result::ok).ok_or_else(refusal)?;
        loop {
            // Meanwhile others may cause more, such as by a release.
            let pause = self.to_make_up(&caller.tenant);
            if pause.is_zero() {
                return Ok(Some(permit));
            }
            if Instant::now() + pause > deadline {
                return Err(refusal());
            }
            sleep(pause).await;
        }
    }

    /// Lets a key that is not valid any more wait no longer.
    pub fn forget(&self, caller: &RuntimeCaller) {
        if let Some(rate) = self.of_tenants().get_mut(&caller.tenant) {
            rate.keys.remove(&caller.key_hash);
        }
    }

    /// Counts the events that a request has caused. `caller`: whose key proved valid; `None` for an operator.
    pub fn count(&self, tenant: &TenantId, caller: Option<&RuntimeCaller>, events: i64) {
        let Some(each) = Duration::from_secs(1).checked_div(self.per_second) else {
            return;
        };
        if events <= UNCOUNTED {
            return;
        }
        let (now, mut rates) = (Instant::now(), self.of_tenants());
        rates.retain(|_, rate| rate.is_present(now));
        let rate = rates.entry(tenant.clone()).or_insert_with(|| EventRate {
            until: now,
            one: Arc::new(Semaphore::new(1)),
            keys: HashSet::new(),
        });
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        rate.until = rate.until.max(now) + each * events;
        rate.keys
            .extend(caller.map(|caller| caller.key_hash.clone()));
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// What the caller waits for, if it must.
    fn waiting(&self, caller: &RuntimeCaller) -> Option<Arc<Semaphore>> {
        let mut rates = self.of_tenants();
        let now = Instant::now();
        rates.retain(|_, rate| rate.is_present(now));
        self.is_any.store(!rates.is_empty(), Ordering::Relaxed);
        let rate = rates.get(&caller.tenant)?;
        let waits = rate.keys.contains(&caller.key_hash);
        waits.then(|| Arc::clone(&rate.one))
    }

    /// How long it takes until what the tenant has caused is made up for.
    fn to_make_up(&self, tenant: &TenantId) -> Duration {
        let until = self.of_tenants().get(tenant).map(|rate| rate.until);
        until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    fn refusal(&self, tenant: &TenantId) -> ReservationRefusal {
        let retry_in_ms = i64::try_from(self.to_make_up(tenant).as_millis()).unwrap_or(i64::MAX);
        let limit = i64::from(self.per_second);
        ReservationRefusal::CausedTooMuch {
            limit,
            present: limit.saturating_add(limit.saturating_mul(retry_in_ms) / 1_000),
            retry_in_ms,
        }
    }

    fn of_tenants(&self) -> MutexGuard<'_, HashMap<TenantId, EventRate>> {
        // Nothing is left half-done by a panic under the lock.
        self.of_tenants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
