//! The connections that are kept for the next request.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::connection::{Connection, Ticket};
use super::target::Target;

/// How long connections are kept, and how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// Unused connections of one recipient to one address.
    pub idle_per_key: usize,
    /// Connections in all, as far as closing unused ones can achieve it.
    pub in_all: usize,
}

/// Unused connections in all.
pub const KEPT_MAX: usize = 4_000;

pub(super) const BOUNDS: Bounds = Bounds {
    idle: Duration::from_secs(30),
    idle_per_key: 64,
    in_all: KEPT_MAX,
};

/// Which requests may share a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    to: String,
    plain: bool,
    host: String,
    address: SocketAddr,
}

/// Unused connections, each to the address that was checked for the request that opened it.
pub(super) struct Kept {
    bounds: Bounds,
    ticket: Ticket,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// In the order of their numbers.
    by_key: HashMap<Arc<Key>, VecDeque<Unused>>,
    /// The same by number: the first is unused for the longest time.
    by_number: BTreeMap<u64, Arc<Key>>,
    next_number: u64,
    closer: Option<AbortHandle>,
}

struct Unused {
    number: u64,
    since: Instant,
    connection: Connection,
}

impl Kept {
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            ticket: Ticket::default(),
            idle: Mutex::default(),
        })
    }

    /// The connection to one of the target's addresses that was used last, if any is still open.
    pub fn take(&self, to: &str, target: &Target) -> Option<Connection> {
        let mut idle = self.idle();
        if idle.by_number.is_empty() {
            return None;
        }
        let mut key = Key::new(to, target, *target.addresses.first()?);
        for address in &target.addresses {
            key.address = *address;
            while let Some(mut unused) = idle.pop_last(&key) {
                if unused.since.elapsed() < self.bounds.idle && unused.connection.is_silent() {
                    return Some(unused.connection);
                }
            }
        }
        None
    }

    /// Keeps a connection for the next request.
    pub fn keep(self: &Arc<Self>, to: &str, target: &Target, connection: Connection) {
        let key = Key::new(to, target, connection.address);
        let mut idle = self.idle();
        idle.push(key, connection, self.bounds.idle_per_key);
        if idle.closer.as_ref().is_none_or(AbortHandle::is_finished) {
            let closer = tokio::spawn(close_unused(Arc::downgrade(self)));
            idle.closer = Some(closer.abort_handle());
        }
    }

    /// A ticket for a further connection. Closes the one that is unused for the longest time when there are too many.
    pub fn ticket(&self) -> Ticket {
        let mut idle = self.idle();
        let ticket = Arc::clone(&self.ticket);
        while Arc::strong_count(&self.ticket) > self.bounds.in_all + 1 && idle.pop_oldest() {}
        ticket
    }

    /// Closes what is unused for too long. Returns when to look again; `None` when nothing is left.
    fn close_unused(&self) -> Option<Instant> {
        let mut idle = self.idle();
        while let Some(since) = idle.oldest() {
            if since.elapsed() < self.bounds.idle {
                // Not once per connection.
                let soonest = Instant::now() + self.bounds.idle / 10;
                return Some(soonest.max(since + self.bounds.idle));
            }
            idle.pop_oldest();
        }
        idle.closer = None;
        None
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(closer) = self.idle().closer.take() {
            closer.abort();
        }
    }
}

impl Key {
    fn new(to: &str, target: &Target, address: SocketAddr) -> Self {
        Self {
            to: to.to_owned(),
            plain: target.url.is_plain(),
            host: target.url.host().to_owned(),
            address,
        }
    }
}

impl Idle {
    fn push(&mut self, key: Key, connection: Connection, most: usize) {
        let (key, number) = (Arc::new(key), self.next_number);
        self.next_number += 1;
        self.by_number.insert(number, Arc::clone(&key));
        let of_key = self.by_key.entry(key).or_default();
        of_key.push_back(Unused {
            number,
            since: Instant::now(),
            connection,
        });
        if of_key.len() > most
            && let Some(oldest) = of_key.pop_front()
        {
            self.by_number.remove(&oldest.number);
        }
    }

    fn pop_last(&mut self, key: &Key) -> Option<Unused> {
        let of_key = self.by_key.get_mut(key)?;
        let unused = of_key.pop_back();
        if of_key.is_empty() {
            self.by_key.remove(key);
        }
        let unused = unused?;
        self.by_number.remove(&unused.number);
        Some(unused)
    }

    fn oldest(&self) -> Option<Instant> {
        let (_, key) = self.by_number.first_key_value()?;
        Some(self.by_key.get(key)?.front()?.since)
    }

    /// Closes the connection that is unused for the longest time. Returns whether there was one.
    fn pop_oldest(&mut self) -> bool {
        let Some((_, key)) = self.by_number.pop_first() else {
            return false;
        };
        if let Some(of_key) = self.by_key.get_mut(&key) {
            of_key.pop_front();
            if of_key.is_empty() {
                self.by_key.remove(&key);
            }
        }
        true
    }
}

/// Closes unused connections in time. Ends when none is left, or with the egress.
async fn close_unused(kept: Weak<Kept>) {
    loop {
        let next = kept.upgrade().and_then(|kept| kept.close_unused());
        match next {
            Some(at) => sleep_until(at).await,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::egress::{Egress, Resolver, SecurityPolicy, TrustedRoots};

    struct Fixture {
        egress: Egress,
        listener: TcpListener,
        target: Target,
    }

    impl Fixture {
        async fn with(bounds: Bounds) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}/", listener.local_addr().expect("bound"));
            let mut egress = Egress::new(Resolver::system(), &TrustedRoots::public());
            egress.kept = Kept::new(bounds);
            let policy = SecurityPolicy {
                blocked: Vec::new(),
                patterns: Vec::new(),
                allow_http: true,
            };
            let target = egress.admit(&url, &policy, "acme").await.expect("admitted");
            Self {
                egress,
                listener,
                target,
            }
        }

        async fn open(&self) -> Connection {
            let by = Instant::now() + Duration::from_secs(10);
            let opened = self.egress.open(&self.target, by).await;
            opened.unwrap_or_else(|error| panic!("{error}"))
        }

        async fn keep(&self, to: &str) {
            let connection = self.open().await;
            self.egress.kept.keep(to, &self.target, connection);
        }

        /// Takes all connections of a recipient.
        fn take(&self, to: &str) -> usize {
            std::iter::from_fn(|| self.egress.kept.take(to, &self.target)).count()
        }

        fn unused(&self) -> usize {
            let idle = self.egress.kept.idle();
            let by_key: usize = idle.by_key.values().map(VecDeque::len).sum();
            assert_eq!(by_key, idle.by_number.len());
            assert!(idle.by_key.values().all(|of_key| !of_key.is_empty()));
            by_key
        }
    }

    #[tokio::test]
    async fn what_is_unused_for_the_longest_time_is_closed_when_there_are_too_many() {
        let fixture = Fixture::with(Bounds {
            idle_per_key: 2,
            in_all: 4,
            ..BOUNDS
        });
        let fixture = fixture.await;
        for to in ["a", "b", "a", "a"] {
            fixture.keep(to).await;
        }
        assert_eq!(fixture.unused(), 3);
        let (one, two) = (fixture.open().await, fixture.open().await);
        // Five would be too many: that of `b` had to go.
        assert_eq!((fixture.unused(), fixture.take("b")), (2, 0));
        let more = [
            fixture.open().await,
            fixture.open().await,
            fixture.open().await,
        ];
        assert_eq!(fixture.unused(), 0);
        drop((one, two, more));
        fixture.keep("c").await;
        assert_eq!((fixture.take("c"), fixture.unused()), (1, 0));
    }

    #[tokio::test]
    async fn an_unused_connection_is_closed_in_time_and_then_nothing_runs_any_more() {
        let fixture = Fixture::with(Bounds {
            idle: Duration::from_millis(100),
            ..BOUNDS
        });
        let fixture = fixture.await;
        for to in ["a", "b"] {
            fixture.keep(to).await;
            let (mut stream, _) = fixture.listener.accept().await.expect("a connection");
            assert_eq!(stream.read(&mut [0]).await.expect("its end"), 0);
            while fixture.egress.kept.idle().closer.is_some() {
                tokio::task::yield_now().await;
            }
            assert_eq!((fixture.unused(), fixture.take(to)), (0, 0));
        }
    }
}
