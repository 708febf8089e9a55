//! Resolves host names.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

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

/// What a look-up has found; `None` while it runs.
type Found = watch::Receiver<Option<Vec<IpAddr>>>;

/// An owner's share of the look-ups at a time: one part of so many.
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
    running: Arc<Mutex<Running>>,
}

/// Look-ups under way.
#[derive(Default)]
struct Running {
    names: HashMap<String, Found>,
    /// The shares of those for whom names are looked up.
    owners: HashMap<String, Weak<Share>>,
}

/// What one owner may have.
struct Share {
    all: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    of_reserve: Arc<Semaphore>,
}

/// The right to look up one name, until it is dropped.
struct Permits {
    /// Of the owner's share, of its parts for slow names and in the reserve, and of all.
    _held: Vec<OwnedSemaphorePermit>,
    /// The owner has a share while it uses some of it.
    _share: Arc<Share>,
}

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
            running: Arc::default(),
        }
        .limited(Semaphore::MAX_PERMITS)
    }

    /// The same, with at most so many look-ups at a time: each of the system takes a thread, until the system gives up. Nobody has
    /// more than a quarter, and each has one at most of the half that is a reserve. So names that never resolve do not delay those of
    /// others; nor, once they are known to be slow, the other names of their owner.
    pub fn limited(mut self, at_a_time: usize) -> Self {
        let reserve = at_a_time / RESERVE;
        self.at_a_time = at_a_time;
        self.permits = Arc::new(Semaphore::new(at_a_time - reserve));
        self.reserve = Arc::new(Semaphore::new(reserve));
        self
    }

    /// All addresses of a name; at least one. `owner`: for whom. Who asks for a name while it is looked up gets the same result.
    ///
    /// # Errors
    /// [`LookUpError`].
    pub(super) async fn addresses(
        &self,
        host: &str,
        owner: &str,
    ) -> Result<Vec<IpAddr>, LookUpError> {
        let running = self.running().look_up_of(host);
        let mut found = match running {
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

    /// The right to look up a name for an owner. Who has used up its share does not stand in the way of others.
    async fn permits_for(&self, host: &str, owner: &str) -> Permits {
        let most = self.at_a_time.div_ceil(SHARES);
        let share = self.running().share_of(owner, most);
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
        Permits {
            _held: held,
            _share: share,
        }
    }

    /// Looks a name up, unless another has begun to meanwhile.
    fn look_up(&self, host: &str, permits: Permits) -> Found {
        let mut running = self.running();
        if let Some(found) = running.look_up_of(host) {
            return found;
        }
        let (sender, found) = watch::channel(None);
        running.names.insert(host.to_owned(), found.clone());
        let (this, host) = (self.clone(), host.to_owned());
        // The system goes on when nobody waits for the result any more, and the permits end only then.
        tokio::spawn(async move {
            let begun = Instant::now();
            let resolved = (this.resolve)(host.clone()).await;
            match begun.elapsed() > this.slow_after {
                true => this.slow.insert(host.clone(), ()),
                false => drop(this.slow.remove(&host)),
            }
            this.running().names.remove(&host);
            sender.send_replace(Some(resolved.unwrap_or_default()));
            drop(permits);
        });
        found
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn look_up_of(&self, host: &str) -> Option<Found> {
        let found = self.names.get(host)?;
        // One that panicked has no result.
        found.has_changed().is_ok().then(|| found.clone())
    }

    fn share_of(&mut self, owner: &str, most: usize) -> Arc<Share> {
        if let Some(share) = self.owners.get(owner).and_then(Weak::upgrade) {
            return share;
        }
        self.owners.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Share {
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn so_many_names_are_resolved_at_a_time_and_no_more() {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (noted, peak) = (Arc::clone(&running), Arc::clone(&most));
        let resolver = Resolver::of(move |_| {
            let noted = Arc::clone(&noted);
            peak.fetch_max(noted.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            async move {
                tokio::task::yield_now().await;
                noted.fetch_sub(1, Ordering::Relaxed);
                Ok(vec![IpAddr::from([93, 184, 216, 34])])
            }
        })
        .limited(2);
        let look_up = |host| resolver.addresses(host, host);
        let found = tokio::join!(look_up("a"), look_up("b"), look_up("c"), look_up("d"));
        assert!(found.0.is_ok() && found.1.is_ok() && found.2.is_ok() && found.3.is_ok());
        assert_eq!(most.load(Ordering::Relaxed), 2);
        // A look-up that nobody waits for any more keeps its permit until it ends.
        for (host, left) in [("a", 1), ("b", 0)] {
            tokio::select! {
                biased;
                _ = look_up(host) => panic!("it takes a moment"),
                () = std::future::ready(()) => {}
            }
            assert_eq!(free(&resolver), left);
        }
        assert!(look_up("c").await.is_ok());
        assert_eq!(running.load(Ordering::Relaxed), 0);
    }

    fn free(resolver: &Resolver) -> usize {
        resolver.permits.available_permits() + resolver.reserve.available_permits()
    }

    /// Names that begin with `slow` never resolve. Counts the look-ups.
    fn slow_names(at_a_time: usize) -> (Resolver, Arc<AtomicUsize>) {
        let begun = Arc::new(AtomicUsize::new(0));
        let noted = Arc::clone(&begun);
        let resolver = Resolver::of(move |host| {
            noted.fetch_add(1, Ordering::Relaxed);
            async move {
                if host.starts_with("slow") {
                    std::future::pending::<()>().await;
                }
                Ok(vec![IpAddr::from([93, 184, 216, 34])])
            }
        });
        (resolver.limited(at_a_time), begun)
    }

    #[tokio::test]
    async fn names_of_one_owner_that_never_resolve_do_not_delay_another() {
        let (resolver, begun) = slow_names(8);
        let _hostile = dead_names(&resolver, &["hostile"]);
        while begun.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        for number in 0..100 {
            let host = format!("good-{number}");
            assert!(resolver.addresses(&host, "good").await.is_ok());
        }
        assert_eq!(begun.load(Ordering::Relaxed), 102);
        assert_eq!(free(&resolver), 6);
    }

    /// Each of these owners has many names that never resolve.
    fn dead_names(resolver: &Resolver, owners: &[&'static str]) -> JoinSet<bool> {
        let mut hostile = JoinSet::new();
        for (owner, number) in owners
            .iter()
            .flat_map(|it| (0..100).map(move |no| (*it, no)))
        {
            let resolver = resolver.clone();
            hostile.spawn(async move {
                let host = format!("slow-{owner}-{number}");
                resolver.addresses(&host, owner).await.is_ok()
            });
        }
        hostile
    }

    #[tokio::test]
    async fn names_of_some_owners_that_never_resolve_delay_no_other_owner() {
        let (resolver, begun) = slow_names(32);
        let _hostile = dead_names(&resolver, &["a", "b", "c", "d", "e", "f"]);
        // Two have a quarter each, and the others one of the reserve.
        while begun.load(Ordering::Relaxed) < 16 + 4 {
            tokio::task::yield_now().await;
        }
        for number in 0..100 {
            let [one, other] = ["one", "other"].map(|it| format!("good-{it}-{number}"));
            let found = tokio::join!(
                resolver.addresses(&one, "one"),
                resolver.addresses(&other, "other")
            );
            assert!(found.0.is_ok() && found.1.is_ok());
        }
        assert_eq!(begun.load(Ordering::Relaxed), 20 + 200);
        assert_eq!(free(&resolver), 12);
    }

    #[tokio::test]
    async fn names_that_were_slow_leave_room_for_the_others_of_their_owner() {
        let begun = Arc::new(AtomicUsize::new(0));
        let noted = Arc::clone(&begun);
        let mut resolver = Resolver::of(move |host| {
            let earlier = noted.fetch_add(1, Ordering::Relaxed);
            async move {
                match (host.starts_with("dead"), earlier) {
                    (true, 0..16) => tokio::time::sleep(Duration::from_millis(20)).await,
                    (true, _) => std::future::pending().await,
                    (false, _) => {}
                }
                Ok(Vec::from_iter(
                    host.strip_prefix("good").map(|_| [93, 184, 216, 34].into()),
                ))
            }
        })
        .limited(32);
        resolver.slow_after = Duration::from_millis(10);
        let names: Vec<_> = (0..16).map(|number| format!("dead-{number}")).collect();
        let look_up = |name: &String| {
            let (resolver, name) = (resolver.clone(), name.clone());
            async move { resolver.addresses(&name, "acme").await.is_ok() }
        };
        let first = JoinSet::from_iter(names.iter().map(look_up))
            .join_all()
            .await;
        assert!(first.iter().all(|found| !found));
        let _again = JoinSet::from_iter(names.iter().map(look_up));
        while begun.load(Ordering::Relaxed) < 16 + 4 {
            tokio::task::yield_now().await;
        }
        for number in 0..50 {
            assert!(look_up(&format!("good-{number}")).await);
        }
        assert_eq!(begun.load(Ordering::Relaxed), 16 + 4 + 50);
        assert_eq!(resolver.reserve.available_permits(), 16);
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_for_all_who_ask_at_the_same_time() {
        let (resolver, begun) = slow_names(8);
        let of = |owner| resolver.addresses("good", owner);
        let found = tokio::join!(of("a"), of("b"), of("b"), of("b"));
        assert!(found.0.is_ok() && found.1.is_ok() && found.2.is_ok() && found.3.is_ok());
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        assert!(of("a").await.is_ok());
        assert_eq!(
            begun.load(Ordering::Relaxed),
            2,
            "what was found is not kept"
        );
        assert!(resolver.running().names.is_empty());
    }
}
