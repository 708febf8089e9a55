//! The partitions that this dispatcher works on.
//!
//! Every dispatcher sends a heartbeat twice a second, computes its share of the partitions from the list of live
//! dispatchers, releases leases beyond its share, and takes or renews the rest. Leases only avoid duplicate work: the
//! scripts are correct without them, and refuse the fencing token of a former owner.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use tracing::{info, warn};

use super::metrics::LeaseMetrics;
use crate::domain::ids::Partition;
use crate::store::dispatcher::lease::{Lease, Taken};
use crate::store::{Store, StoreError};

/// How often a dispatcher sends a heartbeat.
pub const HEARTBEAT: Duration = Duration::from_millis(500);

/// A dispatcher without a heartbeat for this long counts as dead, and others take its partitions over.
pub const ALIVE: Duration = Duration::from_secs(10);

/// A lease lapses after this long without renewal, whether or not the heartbeats can be read.
pub const LEASE: Duration = Duration::from_secs(30);

/// How often a lease is renewed within its duration; each renewal is a write.
const RENEWALS: u32 = 3;

/// How soon to retry partitions that another dispatcher has not released yet.
const HANDOVER: Duration = Duration::from_millis(500);

/// Work under a lease stops this long before it lapses, because clocks drift.
const MARGIN: Duration = Duration::from_secs(1);

/// The leases of this dispatcher. Cheap to clone; workers read it, the keeper writes it.
#[derive(Debug, Clone, Default)]
pub struct Leases {
    /// With their tokens, and until when they are valid.
    held: Arc<RwLock<BTreeMap<Partition, (i64, Instant)>>>,
}

impl Leases {
    /// The leases that are valid now, in the order of partitions.
    pub fn current(&self) -> Vec<Lease> {
        let now = Instant::now();
        let held = self.held.read();
        let valid = held.iter().filter(|(_, (_, until))| *until > now);
        let lease = |(&partition, &(token, _))| Lease { partition, token };
        valid.map(lease).collect()
    }

    /// Drops a lease that a script refused because another dispatcher holds it.
    pub fn lost(&self, lease: Lease) {
        let is_lost = |partition, token| partition == lease.partition && token == lease.token;
        let mut held = self.held.write();
        held.retain(|partition, (token, _)| !is_lost(*partition, *token));
    }

    /// Returns whether the partition was not held before, or by a lease that is over.
    fn take(&self, Lease { partition, token }: Lease, valid_until: Instant) -> bool {
        let mut held = self.held.write();
        let before = held.insert(partition, (token, valid_until));
        before.is_none_or(|(before, until)| before != token || until <= Instant::now())
    }

    fn drop_all(&self, partitions: &[Partition]) {
        let mut held = self.held.write();
        held.retain(|partition, _| !partitions.contains(partition));
    }

    fn partitions(&self) -> Vec<Partition> {
        self.held.read().keys().copied().collect()
    }
}

/// Result of one pass of the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Renewal {
    /// Dispatchers alive, this one included.
    pub dispatchers: usize,
    /// Partitions held now.
    pub held: usize,
    /// Partitions of its share that another dispatcher still holds.
    pub waiting: usize,
    /// Whether it holds partitions that it did not hold before.
    pub gained: bool,
}

/// Takes, renews and releases leases for one dispatcher.
pub struct LeaseKeeper {
    store: Store,
    name: String,
    leases: Leases,
    metrics: LeaseMetrics,
    lease: Duration,
    last: Mutex<Option<LastRenewal>>,
    /// Start of the period in which the list of dispatchers is readable; `None` where it was not at the last pass.
    readable: Mutex<Option<Instant>>,
}

/// The last pass that took or renewed leases.
struct LastRenewal {
    at: Instant,
    dispatchers: Vec<String>,
    share: usize,
}

impl LeaseKeeper {
    /// A keeper under a name that no other dispatcher has, of leases that lapse `lease` after their last renewal.
    pub fn new(store: Store, name: String, lease: Duration, metrics: LeaseMetrics) -> Self {
        Self {
            store,
            name,
            leases: Leases::default(),
            metrics,
            lease,
            last: Mutex::default(),
            readable: Mutex::default(),
        }
    }

    /// The leases that it keeps.
    pub fn leases(&self) -> Leases {
        self.leases.clone()
    }

    /// Sends a heartbeat. When a renewal is due or the list of dispatchers changed, renews the leases of its share and
    /// releases the others. When the list cannot be read, it keeps to the list that it last read, because the nodes of its
    /// leases may still answer.
    ///
    /// # Errors
    /// [`StoreError`]; the leases stay valid until they lapse.
    pub async fn run_once(&self) -> Result<Renewal, StoreError> {
        let begun = Instant::now();
        let alive = Some(self.alive_for());
        let heartbeat = self.store.heartbeat(&self.name, alive).await;
        self.note_readable(heartbeat.is_ok().then_some(begun));
        match heartbeat {
            Ok(dispatchers) => self.share_among(dispatchers, begun).await,
            Err(error) => {
                if let Some(dispatchers) = self.last_dispatchers() {
                    self.share_among(dispatchers, begun).await?;
                }
                Err(error)
            }
        }
    }

    /// Renews and releases leases by this dispatcher's share among `dispatchers`, itself included.
    async fn share_among(
        &self,
        dispatchers: Vec<String>,
        begun: Instant,
    ) -> Result<Renewal, StoreError> {
        if self.is_current(&dispatchers) {
            return Ok(Renewal {
                dispatchers: dispatchers.len(),
                held: self.leases.current().len(),
                ..Renewal::default()
            });
        }
        let alive = self.alive_for();
        let share = share_of(&self.name, &dispatchers);
        let wanted: HashSet<_> = share.iter().copied().collect();
        let mut surplus = self.leases.partitions();
        surplus.retain(|partition| !wanted.contains(partition));
        if !surplus.is_empty() {
            let count = surplus.len();
            info!(partitions = count, "releasing {count} partitions");
            self.leases.drop_all(&surplus);
            self.store.release_leases(&self.name, &surplus).await?;
        }
        let valid_until = begun + self.lease.saturating_sub(MARGIN.min(self.lease / 4));
        let taken = self
            .store
            .take_leases(&self.name, self.lease, &dispatchers, alive, &share)
            .await?;
        let (mut waiting, mut gained) = (0, false);
        for (partition, taken) in share.iter().zip(taken) {
            match taken {
                Some(Taken::Mine(lease)) => gained |= self.leases.take(lease, valid_until),
                Some(Taken::Held) => {
                    waiting += 1;
                    self.leases.drop_all(&[*partition]);
                }
                None => {}
            }
        }
        let renewal = Renewal {
            dispatchers: dispatchers.len(),
            held: self.leases.current().len(),
            waiting,
            gained,
        };
        self.metrics.dispatchers.set(renewal.dispatchers as i64);
        self.metrics.partitions.set(renewal.held as i64);
        *self.last.lock() = Some(LastRenewal {
            at: begun,
            dispatchers,
            share: share.len(),
        });
        Ok(renewal)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The live dispatchers, for workers that end the claims of dead ones. `None` until the list has been readable for [`ALIVE`]: behind an
    /// outage of it, the others may not have had the time to say that they are.
    pub fn survivors(&self) -> Option<Vec<String>> {
        let readable = *self.readable.lock();
        let is_known = readable.is_some_and(|since| since.elapsed() >= self.alive_for());
        self.last_dispatchers().filter(|_| is_known)
    }

    fn note_readable(&self, at: Option<Instant>) {
        let mut readable = self.readable.lock();
        *readable = at.map(|at| readable.unwrap_or(at));
    }

    /// A dispatcher that is silent for this long counts as dead.
    fn alive_for(&self) -> Duration {
        ALIVE.min(self.lease)
    }

    fn last_dispatchers(&self) -> Option<Vec<String>> {
        self.last
            .lock()
            .as_ref()
            .map(|last| last.dispatchers.clone())
    }

    /// Whether nothing changed since the last pass, and no lease needs renewal yet.
    fn is_current(&self, dispatchers: &[String]) -> bool {
        self.last.lock().as_ref().is_some_and(|last| {
            let due = last.at.elapsed() >= self.lease / RENEWALS;
            // Fewer than its share: some were refused or lost since.
            !due && last.dispatchers == dispatchers && self.leases.current().len() == last.share
        })
    }

    /// How long to wait after a pass with this outcome.
    pub fn pause_after(&self, outcome: &Result<Renewal, StoreError>) -> Duration {
        match outcome {
            Ok(renewal) if renewal.waiting == 0 => HEARTBEAT.min(self.lease / RENEWALS),
            _ => HANDOVER,
        }
    }

    /// Releases all leases and leaves the list of dispatchers, so that others take over at once.
    pub async fn leave(&self) {
        let partitions = self.leases.partitions();
        let count = partitions.len();
        self.leases.drop_all(&partitions);
        self.metrics.partitions.set(0);
        let left = self.store.heartbeat(&self.name, None).await;
        let released = self.store.release_leases(&self.name, &partitions).await;
        match left.and(released) {
            Ok(()) => info!(partitions = count, "released {count} partitions"),
            Err(error) => {
                let lapse_in_ms = self.lease.as_millis() as u64;
                warn!(
                    error = %error, lapse_in_ms,
                    "the leases could not be released and lapse in {lapse_in_ms} ms: {error}"
                );
            }
        }
    }
}

/// This dispatcher's share: the partitions that `dispatcher` should own while `dispatchers` are alive.
///
/// Rendezvous hashing with a bound: each partition goes to the dispatcher that scores highest for it and has not reached
/// the average, rounded up. When a dispatcher comes or goes, few partitions change owners beyond its own.
fn share_of(dispatcher: &str, dispatchers: &[String]) -> Vec<Partition> {
    let limit = usize::from(Partition::COUNT).div_ceil(dispatchers.len().max(1));
    let mut loads = vec![0; dispatchers.len()];
    let mut share = Vec::with_capacity(limit);
    for partition in Partition::all() {
        let open = (0..dispatchers.len()).filter(|candidate| loads[*candidate] < limit);
        let Some(owner) = open.max_by_key(|candidate| score(&dispatchers[*candidate], partition))
        else {
            break;
        };
        loads[owner] += 1;
        if dispatchers[owner] == dispatcher {
            share.push(partition);
        }
    }
    share
}

/// FNV-1a, then mixed so that neighbouring partitions do not score alike. Fixed for all releases, because dispatchers of
/// two releases may run side by side.
fn score(dispatcher: &str, partition: Partition) -> u64 {
    let bytes = dispatcher.bytes().chain(partition.index().to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn dispatchers(count: usize) -> Vec<String> {
        (0..count)
            .map(|index| format!("dispatcher-{index}"))
            .collect()
    }

    #[test]
    fn every_partition_has_one_owner_and_no_dispatcher_exceeds_its_share() {
        for count in [1, 2, 3, 7, 50] {
            let dispatchers = dispatchers(count);
            let mut seen = HashSet::new();
            for dispatcher in &dispatchers {
                let share = share_of(dispatcher, &dispatchers);
                assert!(share.len() <= 1024_usize.div_ceil(count), "{count}");
                assert!(
                    count > 7 || share.len() + 8 >= 1024 / count,
                    "{count}: {}",
                    share.len()
                );
                for partition in share {
                    assert!(seen.insert(partition), "{count}: {partition} twice");
                }
            }
            assert_eq!(seen.len(), 1024, "{count}");
        }
    }

    #[test]
    fn a_new_dispatcher_moves_few_partitions_beyond_its_share() {
        let (before, after) = (dispatchers(4), dispatchers(5));
        let mut moved = 0;
        for dispatcher in &before {
            let now: HashSet<_> = share_of(dispatcher, &after).into_iter().collect();
            moved += share_of(dispatcher, &before)
                .iter()
                .filter(|p| !now.contains(p))
                .count();
        }
        assert!(
            (200..320).contains(&moved),
            "{moved} of 1024 changed owners; its share is 204"
        );
    }

    #[test]
    fn a_dead_dispatcher_has_no_share() {
        assert!(share_of("stranger", &dispatchers(2)).is_empty());
        assert!(share_of("stranger", &[]).is_empty());
    }
}
