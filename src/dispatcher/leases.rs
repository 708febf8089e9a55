//! Which partitions this dispatcher works on.
//!
//! Every dispatcher tells every few seconds that it is alive, computes from the list of the living which partitions
//! should be its own, gives back what should not, and takes or renews the rest. Leases save work: what is done under one is
//! right without it, and the scripts refuse the fencing token of a former owner.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::metrics::LeaseMetrics;
use crate::dispatcher::shares::share_of;
use crate::domain::ids::Partition;
use crate::store::dispatcher::lease::{Lease, Taken};
use crate::store::{Store, StoreError};

/// How often a dispatcher tells that it is alive.
pub const BEAT: Duration = Duration::from_secs(3);

/// A dispatcher that was silent for so long is taken for dead, and its partitions are taken over.
pub const ALIVE: Duration = Duration::from_secs(10);

/// A lease lapses after this long without renewal, also where nobody can tell whether its owner is alive.
pub const LEASE: Duration = Duration::from_secs(30);

/// How often a lease is renewed within its duration: each renewal is a write of its own.
const RENEWALS: u32 = 3;

/// How soon to try again for partitions that another dispatcher has not given back yet.
const HANDOVER: Duration = Duration::from_millis(500);

/// Work under a lease stops this long before it lapses, in case the clocks do not run alike.
const MARGIN: Duration = Duration::from_secs(1);

/// The leases that are held now. Cheap to clone; workers read it, the keeper writes it.
#[derive(Debug, Clone, Default)]
pub struct Leases {
    held: Arc<RwLock<BTreeMap<Partition, Held>>>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    token: i64,
    valid_until: Instant,
}

impl Leases {
    /// The leases that may be worked under now, in the order of partitions.
    pub fn current(&self) -> Vec<Lease> {
        let now = Instant::now();
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        let valid = held.iter().filter(|(_, held)| held.valid_until > now);
        let lease = |(partition, held): (&Partition, &Held)| Lease {
            partition: *partition,
            token: held.token,
        };
        valid.map(lease).collect()
    }

    /// A script said that this lease is another's by now.
    pub fn lost(&self, lease: Lease) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if held
            .get(&lease.partition)
            .is_some_and(|held| held.token == lease.token)
        {
            held.remove(&lease.partition);
        }
    }

    fn take(&self, lease: Lease, valid_until: Instant) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let token = lease.token;
        held.insert(lease.partition, Held { token, valid_until });
    }

    fn drop_all(&self, partitions: &[Partition]) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        for partition in partitions {
            held.remove(partition);
        }
    }

    fn partitions(&self) -> Vec<Partition> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.keys().copied().collect()
    }
}

/// What one pass of the keeper came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Renewal {
    /// Dispatchers alive, this one included.
    pub dispatchers: usize,
    /// Partitions held now.
    pub held: usize,
    /// Of its share, partitions that another dispatcher still holds.
    pub waiting: usize,
}

/// Takes, renews and gives back leases for one dispatcher.
pub struct LeaseKeeper {
    store: Store,
    name: String,
    leases: Leases,
    metrics: LeaseMetrics,
    lease: Duration,
    last: Mutex<Option<Last>>,
}

/// The last pass that took or renewed leases.
struct Last {
    at: Instant,
    members: Vec<String>,
    share: usize,
}

impl LeaseKeeper {
    /// A keeper under a name that no other dispatcher has.
    pub fn new(store: Store, name: String, metrics: LeaseMetrics) -> Self {
        Self {
            store,
            name,
            leases: Leases::default(),
            metrics,
            lease: LEASE,
            last: Mutex::default(),
        }
    }

    /// The same with leases of another duration, for tests that wait until one lapses.
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The leases that it keeps.
    pub fn leases(&self) -> Leases {
        self.leases.clone()
    }

    /// Tells that it is alive. Where that is due, or others came or went, renews what it should hold and gives back what
    /// it should not. Where the list of dispatchers is out of reach, it goes on with those that it last knew of: the
    /// node of the list is one of several, and those of its leases may well answer.
    ///
    /// # Errors
    /// [`StoreError`]; the leases that are held stay so until they lapse.
    pub async fn run_once(&self) -> Result<Renewal, StoreError> {
        let begun = Instant::now();
        match self
            .store
            .stay_member(&self.name, ALIVE.min(self.lease))
            .await
        {
            Ok(members) => self.share_among(members, begun).await,
            Err(error) => {
                if let Some(members) = self.last_members() {
                    self.share_among(members, begun).await?;
                }
                Err(error)
            }
        }
    }

    /// Renews and gives back as it should among these dispatchers, this one included.
    async fn share_among(
        &self,
        members: Vec<String>,
        begun: Instant,
    ) -> Result<Renewal, StoreError> {
        if self.holds_still(&members) {
            return Ok(Renewal {
                dispatchers: members.len(),
                held: self.leases.current().len(),
                waiting: 0,
            });
        }
        let alive = ALIVE.min(self.lease);
        let share = share_of(&self.name, &members);
        let wanted: HashSet<_> = share.iter().copied().collect();
        let mut surplus = self.leases.partitions();
        surplus.retain(|partition| !wanted.contains(partition));
        if !surplus.is_empty() {
            info!(
                partitions = surplus.len(),
                "giving {} partitions back",
                surplus.len()
            );
            self.leases.drop_all(&surplus);
            self.store.release_leases(&self.name, &surplus).await?;
        }
        let valid_until = begun + self.lease.saturating_sub(MARGIN.min(self.lease / 4));
        let taken = self
            .store
            .take_leases(&self.name, self.lease, &members, alive, &share)
            .await?;
        let mut waiting = 0;
        for (partition, taken) in share.iter().zip(taken) {
            match taken {
                Some(Taken::Mine(lease)) => {
                    self.leases.take(lease, valid_until);
                }
                Some(Taken::Held) => {
                    waiting += 1;
                    self.leases.drop_all(&[*partition]);
                }
                None => {}
            }
        }
        let renewal = Renewal {
            dispatchers: members.len(),
            held: self.leases.current().len(),
            waiting,
        };
        self.metrics.dispatchers.set(renewal.dispatchers as i64);
        self.metrics.partitions.set(renewal.held as i64);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Last {
            at: begun,
            members,
            share: share.len(),
        });
        Ok(renewal)
    }

    fn last_members(&self) -> Option<Vec<String>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|last| last.members.clone())
    }

    /// Whether everything is as the last pass left it, and no lease needs renewal yet.
    fn holds_still(&self, members: &[String]) -> bool {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().is_some_and(|last| {
            let due = last.at.elapsed() >= self.lease / RENEWALS;
            // Fewer than its share: some were refused, or lost since.
            !due && last.members == members && self.leases.current().len() == last.share
        })
    }

    /// When to come back, after a pass with this outcome.
    pub fn pause_after(&self, outcome: &Result<Renewal, StoreError>) -> Duration {
        match outcome {
            Ok(renewal) if renewal.waiting == 0 => BEAT.min(self.lease / RENEWALS),
            _ => HANDOVER,
        }
    }

    /// Gives everything back and leaves, so that others take over at once.
    pub async fn leave(&self) {
        let partitions = self.leases.partitions();
        self.leases.drop_all(&partitions);
        self.metrics.partitions.set(0);
        let left = self.store.leave_members(&self.name).await;
        let given_back = self.store.release_leases(&self.name, &partitions).await;
        match left.and(given_back) {
            Ok(()) => info!(
                partitions = partitions.len(),
                "gave {} partitions back",
                partitions.len()
            ),
            Err(error) => {
                let lapse_in_ms = self.lease.as_millis() as u64;
                warn!(
                    error = %error, lapse_in_ms,
                    "the leases could not be given back and lapse in {lapse_in_ms} ms: {error}"
                );
            }
        }
    }
}
