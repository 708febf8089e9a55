//! Resolves host names.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

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

/// Resolves names. Cheap to clone.
#[derive(Clone)]
pub struct Resolver {
    resolve: Arc<dyn Fn(String) -> Addresses + Send + Sync>,
    permits: Arc<Semaphore>,
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
            permits: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    /// The same, with at most so many look-ups at a time: each of the system takes a thread.
    pub fn limited(mut self, at_a_time: usize) -> Self {
        self.permits = Arc::new(Semaphore::new(at_a_time));
        self
    }

    /// All addresses of a name; at least one.
    ///
    /// # Errors
    /// [`LookUpError`].
    pub(super) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, LookUpError> {
        let permit = Arc::clone(&self.permits).acquire_owned();
        let Ok(Ok(permit)) = timeout(PERMIT_LIMIT, permit).await else {
            return Err(LookUpError::Busy);
        };
        let (resolve, host) = (Arc::clone(&self.resolve), host.to_owned());
        // The system goes on when nobody waits for the result any more, and the permit ends only then.
        let running = tokio::spawn(async move {
            let found = resolve(host).await;
            drop(permit);
            found
        });
        match timeout(LIMIT, running).await {
            Ok(Ok(Ok(mut found))) if !found.is_empty() => {
                found.dedup();
                Ok(found)
            }
            _ => Err(LookUpError::NotFound),
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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
        let look_up = || resolver.addresses("a.example");
        let found = tokio::join!(look_up(), look_up(), look_up(), look_up());
        assert!(found.0.is_ok() && found.1.is_ok() && found.2.is_ok() && found.3.is_ok());
        assert_eq!(most.load(Ordering::Relaxed), 2);
        // A look-up that nobody waits for any more keeps its permit until it ends.
        for left in [1, 0] {
            tokio::select! {
                biased;
                _ = look_up() => panic!("it takes a moment"),
                () = std::future::ready(()) => {}
            }
            assert_eq!(resolver.permits.available_permits(), left);
        }
        assert!(look_up().await.is_ok());
        assert_eq!(running.load(Ordering::Relaxed), 0);
    }
}
