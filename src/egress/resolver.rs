//! Resolves host names.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

/// How long a look-up may take.
const LIMIT: Duration = Duration::from_secs(5);

/// How long a name waits while as many as allowed are looked up.
const PERMIT_LIMIT: Duration = Duration::from_secs(2);

/// Why there are no addresses.
#[derive(Debug)]
pub(super) enum LookUpError {
    /// Too many names are looked up at the same time; this one was not.
    Busy,
    /// The name has no address, or the resolver takes too long.
    NotFound,
}

type Addresses = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// The result of a look-up, for everybody who waits for it; `None` while it runs.
type LookUp = watch::Receiver<Option<Vec<IpAddr>>>;

/// An owner's share of the look-ups at a time: one in this number.
const SHARES: usize = 4;

/// The part of the look-ups at a time of which each owner has one at most, so that the names of a few owners do not take all.
const RESERVE: usize = 2;

/// A name whose last look-up took longer is slow. Slow ones have half of their owner's share, and nothing of the reserve.
const SLOW: Duration = Duration::from_secs(1);

/// Slow names that are remembered.
const SLOW_MAX: usize = 10_000;

/// Resolves names. Cheap to clone.
#[derive(Clone)]
pub struct Resolver {
    resolve: Arc<dyn Fn(String) -> Addresses + Send + Sync>,
    at_a_time: usize,
    permits: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    slow: Arc<Cache<String, ()>>,
    slow_after: Duration,
    active: Arc<Mutex<ActiveLookUps>>,
}

/// Look-ups that run now.
#[derive(Default)]
struct ActiveLookUps {
    names: HashMap<String, LookUp>,
    /// The shares of the owners that look names up.
    owners: HashMap<String, Weak<OwnerShare>>,
}

/// The look-ups that one owner may run at a time.
struct OwnerShare {
    all: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    of_reserve: Arc<Semaphore>,
}

/// The right to look up one name, until it is dropped: permits of the owner's share, of its parts for slow names and in the reserve, and
/// of all. The owner has a share while it uses some of it.
type Permits = (Vec<OwnedSemaphorePermit>, Arc<OwnerShare>);

impl Resolver {
    /// The system's resolver: hosts file and name servers.
    pub fn system() -> Self {
        Self::of(|host| async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }

    /// A resolver that calls a function, for tests.
    pub fn of<F>(resolve: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self {
            resolve: Arc::new(move |host| Box::pin(resolve(host))),
            at_a_time: Semaphore::MAX_PERMITS,
            permits: Arc::new(Semaphore::new(0)),
            reserve: Arc::new(Semaphore::new(0)),
            slow: Arc::new(Cache::new(SLOW_MAX)),
            slow_after: SLOW,
            active: Arc::default(),
        }
        .limited(Semaphore::MAX_PERMITS)
    }

    /// The same, with a maximum of look-ups at a time: each of the system takes a thread, until the system gives up. Nobody has
    /// more than a quarter, and each has one at most of the half that is a reserve. So names that never resolve do not delay those of
    /// others; nor, once they are known to be slow, the other names of their owner.
    pub fn limited(mut self, at_a_time: usize) -> Self {
        let reserve = at_a_time / RESERVE;
        self.at_a_time = at_a_time;
        self.permits = Arc::new(Semaphore::new(at_a_time - reserve));
        self.reserve = Arc::new(Semaphore::new(reserve));
        self
    }

    /// All addresses of a name; at least one. `owner`: for whom. Concurrent look-ups of a name share one result.
    ///
    /// # Errors
    /// [`LookUpError`].
    pub(super) async fn addresses(
        &self,
        host: &str,
        owner: &str,
    ) -> Result<Vec<IpAddr>, LookUpError> {
        let active = self.active.lock().look_up_of(host);
        let mut found = match active {
            Some(found) => found,
            None => {
                let permits = timeout(PERMIT_LIMIT, self.permits_for(host, owner)).await;
                let permits = permits.map_err(|_| LookUpError::Busy)?;
                self.look_up(host, permits)
            }
        };
        let found = timeout(LIMIT, found.wait_for(Option::is_some)).await;
        let mut found = match found {
            Ok(Ok(found)) => found.clone().unwrap_or_default(),
            _ => Vec::new(),
        };
        found.dedup();
        match found.is_empty() {
            true => Err(LookUpError::NotFound),
            false => Ok(found),
        }
    }

    /// The right to look up a name for an owner. An owner that has used up its share delays no other.
    async fn permits_for(&self, host: &str, owner: &str) -> Permits {
        let most = self.at_a_time.div_ceil(SHARES);
        let share = self.active.lock().share_of(owner, most);
        let is_slow = self.slow.get(host).is_some();
        let mut held = Vec::with_capacity(3);
        if is_slow {
            held.extend(acquired(&share.slow).await);
        }
        held.extend(acquired(&share.all).await);
        let of_reserve = async {
            let of_owner = acquired(&share.of_reserve).await;
            (of_owner, acquired(&self.reserve).await)
        };
        tokio::select! {
            biased;
            permit = acquired(&self.permits) => held.extend(permit),
            (of_owner, permit) = of_reserve, if !is_slow => held.extend(of_owner.into_iter().chain(permit)),
        }
        (held, share)
    }

    /// Looks a name up, unless another has started to meanwhile.
    fn look_up(&self, host: &str, permits: Permits) -> LookUp {
        let mut active = self.active.lock();
        if let Some(found) = active.look_up_of(host) {
            return found;
        }
        let (sender, found) = watch::channel(None);
        active.names.insert(host.to_owned(), found.clone());
        let (this, host) = (self.clone(), host.to_owned());
        // The system continues when nobody waits for the result any more; the permits last until it ends.
        tokio::spawn(async move {
            let started = Instant::now();
            let resolved = (this.resolve)(host.clone()).await;
            match started.elapsed() > this.slow_after {
                true => this.slow.insert(host.clone(), ()),
                false => drop(this.slow.remove(&host)),
            }
            this.active.lock().names.remove(&host);
            sender.send_replace(Some(resolved.unwrap_or_default()));
            drop(permits);
        });
        found
    }
}

impl ActiveLookUps {
    fn look_up_of(&self, host: &str) -> Option<LookUp> {
        let found = self.names.get(host)?;
        // A look-up that panicked has no result.
        found.has_changed().is_ok().then(|| found.clone())
    }

    fn share_of(&mut self, owner: &str, most: usize) -> Arc<OwnerShare> {
        if let Some(share) = self.owners.get(owner).and_then(Weak::upgrade) {
            return share;
        }
        self.owners.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(OwnerShare {
            all: Arc::new(Semaphore::new(most)),
            slow: Arc::new(Semaphore::new((most / 2).max(1))),
            of_reserve: Arc::new(Semaphore::new(1)),
        });
        self.owners.insert(owner.to_owned(), Arc::downgrade(&share));
        share
    }
}

/// A permit of a semaphore, which is never closed.
async fn acquired(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(semaphore).acquire_owned().await.ok()
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

#[cfg(test)]
mod tests;
