//! Resolves host names.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long the system may take to resolve a name.
const LIMIT: Duration = Duration::from_secs(5);

type Addresses = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Resolves names. Cheap to clone.
#[derive(Clone)]
pub struct Resolver {
    resolve: Arc<dyn Fn(String) -> Addresses + Send + Sync>,
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
        }
    }

    /// All addresses of a name; at least one.
    ///
    /// # Errors
    /// When the name has no address, or the resolver takes too long.
    pub(super) async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::time::timeout(LIMIT, (self.resolve)(host.to_owned())).await;
        let mut found = found.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        found.dedup();
        match found.is_empty() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(found),
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
