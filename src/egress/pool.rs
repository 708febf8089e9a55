//! Idle connections, for the next request to the same recipient.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::connection::{Connection, Ticket};
use super::url::AdmittedUrl;

/// How long connections stay idle, and how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolLimits {
    /// How long a connection stays idle before it is closed.
    pub idle: Duration,
    /// Idle connections of one recipient to one address.
    pub idle_per_key: usize,
    /// Open connections to aim for; only idle ones are closed to get there.
    pub open: usize,
}

/// Open connections of one process above which idle ones are closed.
pub const POOL_MAX: usize = 4_000;

pub(super) const LIMITS: PoolLimits = PoolLimits {
    idle: Duration::from_secs(30),
    idle_per_key: 64,
    open: POOL_MAX,
};

/// The key of requests that may share a connection.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    to: String,
    plain: bool,
    host: String,
    address: SocketAddr,
}

/// Idle connections, each to the address that was checked for the request that opened it.
pub(super) struct ConnectionPool {
    limits: PoolLimits,
    ticket: Ticket,
    idle: Mutex<IdleConnections>,
}

#[derive(Default)]
struct IdleConnections {
    /// Never empty; the one that was used last is at the end.
    by_key: HashMap<Key, VecDeque<IdleConnection>>,
    has_closer: bool,
}

struct IdleConnection {
    since: Instant,
    connection: Connection,
}

impl ConnectionPool {
    pub fn new(limits: PoolLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            ticket: Ticket::default(),
            idle: Mutex::default(),
        })
    }

    /// The connection to one of the URL's addresses that was used last, if any is still open.
    pub fn take(&self, to: &str, url: &AdmittedUrl) -> Option<Connection> {
        let mut idle = self.idle.lock();
        for address in &url.addresses {
            let Entry::Occupied(mut of_key) = idle.by_key.entry(Key::new(to, url, *address)) else {
                continue;
            };
            let found = std::iter::from_fn(|| of_key.get_mut().pop_back())
                .find_map(|idle| idle.connection_within(self.limits.idle));
            if of_key.get().is_empty() {
                of_key.remove();
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Keeps a connection for the next request.
    pub fn put(self: &Arc<Self>, to: &str, url: &AdmittedUrl, connection: Connection) {
        let mut idle = self.idle.lock();
        let key = Key::new(to, url, connection.address);
        let of_key = idle.by_key.entry(key).or_default();
        if of_key.len() == self.limits.idle_per_key {
            of_key.pop_front();
        }
        of_key.push_back(IdleConnection {
            since: Instant::now(),
            connection,
        });
        if !std::mem::replace(&mut idle.has_closer, true) {
            tokio::spawn(close_expired(Arc::downgrade(self)));
        }
    }

    /// A ticket for a further connection. When there are too many, closes those that are idle for the longest time, many at once.
    pub fn ticket(&self) -> Ticket {
        let ticket = Arc::clone(&self.ticket);
        if Arc::strong_count(&self.ticket) > self.limits.open + 1 {
            let closed = self.idle.lock().take_oldest(self.limits.open.div_ceil(16));
            // Closing takes time, and needs no lock.
            drop(closed);
        }
        ticket
    }

    /// Closes what is idle for too long. Returns when to look again; `None` when nothing is left.
    fn close_expired(&self) -> Option<Instant> {
        let mut idle = self.idle.lock();
        idle.by_key.retain(|_, of_key| {
            of_key.retain(|idle| idle.since.elapsed() < self.limits.idle);
            !of_key.is_empty()
        });
        idle.has_closer = !idle.by_key.is_empty();
        idle.has_closer
            .then(|| Instant::now() + self.limits.idle / 10)
    }
}

impl IdleConnections {
    /// Takes out about this many of the connections that are idle for the longest time.
    fn take_oldest(&mut self, count: usize) -> Vec<IdleConnection> {
        let all = self.by_key.values().flatten();
        let mut since: Vec<_> = all.map(|idle| idle.since).collect();
        since.sort_unstable();
        let last = since.iter().take(count).next_back();
        let mut oldest = Vec::new();
        self.by_key.retain(|_, of_key| {
            let taken = of_key.partition_point(|idle| Some(&idle.since) <= last);
            oldest.extend(of_key.drain(..taken));
            !of_key.is_empty()
        });
        oldest
    }
}

impl IdleConnection {
    /// The connection, if it is idle for less than this time and still open.
    fn connection_within(mut self, idle: Duration) -> Option<Connection> {
        let is_usable = self.since.elapsed() < idle && self.connection.is_silent();
        is_usable.then_some(self.connection)
    }
}

impl Key {
    fn new(to: &str, url: &AdmittedUrl, address: SocketAddr) -> Self {
        Self {
            to: to.to_owned(),
            plain: url.url.is_plain(),
            host: url.url.host().to_owned(),
            address,
        }
    }
}

/// Closes idle connections in time. Ends when none is left, or soon after the egress.
async fn close_expired(pool: Weak<ConnectionPool>) {
    loop {
        let next = pool.upgrade().and_then(|pool| pool.close_expired());
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
        url: AdmittedUrl,
    }

    impl Fixture {
        async fn with(limits: PoolLimits) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let text = format!("http://{}/", listener.local_addr().expect("bound"));
            let mut egress = Egress::new(Resolver::system(), &TrustedRoots::public());
            egress.pool = ConnectionPool::new(limits);
            let policy = SecurityPolicy {
                blocked: Vec::new(),
                patterns: Vec::new(),
                allow_http: true,
            };
            let url = egress
                .admit(&text, &policy, "acme")
                .await
                .expect("admitted");
            Self {
                egress,
                listener,
                url,
            }
        }

        async fn open(&self) -> Connection {
            let by = Instant::now() + Duration::from_secs(10);
            let opened = self.egress.open(&self.url, by).await;
            opened.unwrap_or_else(|error| panic!("{error}"))
        }

        async fn put(&self, to: &str) {
            let connection = self.open().await;
            self.egress.pool.put(to, &self.url, connection);
        }

        /// Takes all connections of a recipient.
        fn take(&self, to: &str) -> usize {
            std::iter::from_fn(|| self.egress.pool.take(to, &self.url)).count()
        }

        fn idle(&self) -> usize {
            let idle = self.egress.pool.idle.lock();
            idle.by_key.values().map(VecDeque::len).sum()
        }
    }

    #[tokio::test]
    async fn the_longest_idle_connection_is_closed_above_the_limit() {
        let fixture = Fixture::with(PoolLimits {
            idle_per_key: 2,
            open: 4,
            ..LIMITS
        });
        let fixture = fixture.await;
        for to in ["a", "b", "a", "a"] {
            fixture.put(to).await;
        }
        assert_eq!(fixture.idle(), 3);
        let (one, two) = (fixture.open().await, fixture.open().await);
        // Five would be too many: that of `b` had to go.
        assert_eq!((fixture.idle(), fixture.take("b")), (2, 0));
        let more = [
            fixture.open().await,
            fixture.open().await,
            fixture.open().await,
        ];
        assert_eq!(fixture.idle(), 0);
        drop((one, two, more));
        fixture.put("c").await;
        assert_eq!((fixture.take("c"), fixture.idle()), (1, 0));
    }

    #[tokio::test]
    async fn an_idle_connection_is_closed_in_time_and_leaves_no_task() {
        let fixture = Fixture::with(PoolLimits {
            idle: Duration::from_millis(100),
            ..LIMITS
        });
        let fixture = fixture.await;
        for to in ["a", "b"] {
            fixture.put(to).await;
            let (mut stream, _) = fixture.listener.accept().await.expect("a connection");
            assert_eq!(stream.read(&mut [0]).await.expect("its end"), 0);
            while fixture.egress.pool.idle.lock().has_closer {
                tokio::task::yield_now().await;
            }
            assert_eq!((fixture.idle(), fixture.take(to)), (0, 0));
        }
    }
}
