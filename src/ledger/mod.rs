//! The operations of the runtime plane: each has a file with the call of its script.

mod balances;
mod calls;
mod commit;
mod decide;
mod decisions;
mod extend;
mod get;
mod list;
mod policies;
pub(crate) mod refund;
mod release;
mod reserve;
mod templates;
mod traffic;
mod usage;
mod usage_event;

pub use balances::{BalanceFilter, BalanceQuery};
pub use extend::{ExtendStatus, ReservationExtendRequest, ReservationExtendResponse};
pub use get::Reservation;
pub use list::{Include, ReservationFilter, ReservationPage, ReservationQuery, ReservationSort};
pub use list::{UsageEvent, UsageEventFilter, UsageEventPage, UsageEventQuery, UsageEventSort};
pub use refund::Charge;
pub use traffic::Traffic;
pub use usage::{UsageFilter, UsageGroups, UsageReport, UsageRow, UsageSum};
pub use usage_event::{EventCreateRequest, EventCreateResponse, EventStatus};

use std::collections::hash_map::RandomState;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::sync::Mutex;

use crate::domain::refusal::CountLimits;
use crate::domain::reservation::facts::Fact;
use crate::domain::usage::USAGE_MONTHS_DEFAULT;
use crate::evidence::{Attesting, Issuing};
use crate::store::Store;
use decisions::LedgerMetrics;
use policies::{LOCKS, PolicyCache};

/// Requests with at most this many bytes of their own choice are not counted; the rest of their record takes more.
const UNCOUNTED_BYTES: usize = 512;

/// The ledger: every operation of the runtime plane. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    store: Store,
    stored_bytes_max: i64,
    retention_days: i64,
    usage_months: i64,
    budgets_per_tenant: u32,
    policies: Arc<PolicyCache>,
    /// Locks that scopes share while their ledgers turn or are created, chosen by hash.
    first: Arc<(RandomState, [Mutex<()>; LOCKS])>,
    traffic: Traffic,
    metrics: LedgerMetrics,
    attesting: Attesting,
}

impl Ledger {
    /// `retention_days`: how long ended reservations are kept, which bounds how far back a list looks.
    pub fn new(store: Store, retention_days: i64) -> Self {
        Self {
            traffic: Traffic::new(store.clone()),
            attesting: Attesting::new(store.clone(), None, None),
            store,
            stored_bytes_max: 0,
            retention_days,
            usage_months: i64::from(USAGE_MONTHS_DEFAULT),
            budgets_per_tenant: CountLimits::DEFAULT.budgets,
            policies: Arc::new(PolicyCache::new()),
            first: Arc::new((RandomState::new(), std::array::from_fn(|_| Mutex::new(())))),
            metrics: LedgerMetrics::default(),
        }
    }

    /// With evidence of what is decided; `None` without. `retention`: how long envelopes are kept, `None` for ever.
    #[must_use]
    pub fn attesting(mut self, issuing: Option<Issuing>, retention: Option<Duration>) -> Self {
        self.attesting = Attesting::new(self.store.clone(), issuing, retention);
        self
    }

    /// Whether what is decided is attested.
    pub fn attests(&self) -> bool {
        self.attesting.is_on()
    }

    /// The counts for detectors.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Adds the metrics of the runtime plane to a registry: those of evidence while it is on.
    ///
    /// # Errors
    /// When a name is taken.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        registry.register(Box::new(self.metrics.decisions.clone()))?;
        registry.register(Box::new(self.metrics.commits.clone()))?;
        registry.register(Box::new(self.metrics.expired.clone()))?;
        match self.attests() {
            true => registry.register(Box::new(self.attesting.skipped.clone())),
            false => Ok(()),
        }
    }

    /// Sets the limit in bytes of metadata, action, subject and metrics, for each tenant and minute; 0 for none.
    #[must_use]
    pub fn stored_bytes_per_minute(mut self, limit: u64) -> Self {
        self.stored_bytes_max = i64::try_from(limit).unwrap_or(i64::MAX);
        self
    }

    /// Sets how many budgets a tenant may have, those that templates create included.
    #[must_use]
    pub fn budgets_per_tenant(mut self, limit: u32) -> Self {
        self.budgets_per_tenant = limit;
        self
    }

    /// Sets how many months of usage are kept.
    #[must_use]
    pub fn usage_months(mut self, months: u32) -> Self {
        self.usage_months = i64::from(months);
        self
    }

    /// `<bytes> <limit>` for the script of a request that stores these bytes; `None` if they are not counted.
    fn counted_bytes(&self, bytes: usize) -> Option<String> {
        let counts = self.stored_bytes_max > 0 && bytes > UNCOUNTED_BYTES;
        // The envelope of evidence repeats them.
        let copies = if self.attests() { 2 } else { 1 };
        counts.then(|| format!("{} {}", copies * bytes, self.stored_bytes_max))
    }
}

/// The bytes of values that a record keeps.
fn bytes_of(facts: &[Fact<'_>]) -> usize {
    facts.iter().map(|(_, value)| value.len()).sum()
}
