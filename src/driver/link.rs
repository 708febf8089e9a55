//! One multiplexed connection: opened on first use, shared by all requests, reopened when it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, PushInfo, PushKind, RedisError,
    RedisResult, Value,
};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use super::clock::Clock;
use super::error::Unavailable;
use super::identity::Identity;
use super::metrics::StoreMetrics;
use super::retry::backoff;
use super::tls_mismatch::explain;

/// Commands that may wait in a connection's queue; further senders wait.
const QUEUE: usize = 1024;

/// A host that drops packets is as silent as a server without TLS that is spoken to with TLS.
const NO_HANDSHAKE: &str = "no handshake within the connect timeout; is the address right, and does the URL use TLS \
                            (rediss://) exactly if the server does?";

/// How many replicas must have a write, and how long that may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replicas {
    /// 0: no reply waits.
    pub wanted: u16,
    /// The timeout of `WAIT`.
    pub limit: Duration,
}

/// The settings and metrics that all connections of a store share.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    /// How long one attempt to connect may take, handshake included.
    pub connect_timeout: Duration,
    /// Multiplexed connections per node.
    pub links: usize,
    /// Connections per node for work off the request path.
    pub pooled: usize,
    /// Whether a node must report that it is a master before it is used, because a Sentinel named it.
    pub verify_role: bool,
    /// How many replicas must have a write before its reply.
    pub replicas: Replicas,
    pub clock: Arc<Clock>,
    pub identity: Arc<Identity>,
    pub metrics: StoreMetrics,
}

impl Dialer {
    /// Runs `opening` within the connect timeout; a failure is counted, and explained where it can be.
    pub(crate) async fn within_timeout<T>(
        &self,
        info: &ConnectionInfo,
        opening: impl Future<Output = RedisResult<T>>,
    ) -> RedisResult<T> {
        let opened = timeout(self.connect_timeout, opening).await;
        let failure = match opened.unwrap_or_else(|_| Err((ErrorKind::Io, NO_HANDSHAKE).into())) {
            Ok(opened) => return Ok(opened),
            Err(failure) => failure,
        };
        self.metrics.connection_failures.inc();
        Err(match explain(info, &failure).await {
            Some(mismatch) => (ErrorKind::Io, mismatch).into(),
            None => failure,
        })
    }

    /// Checks a new connection: that the node is a master, if a Sentinel named it, and that it holds the deployment's data.
    pub(crate) async fn admit(&self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        if self.verify_role {
            require_master(connection).await?;
        }
        self.identity.compare_over(connection).await
    }
}

/// A connection, and whether it is still open.
#[derive(Clone)]
pub(crate) struct LiveConnection {
    pub connection: MultiplexedConnection,
    alive: Arc<AtomicBool>,
}

impl LiveConnection {
    /// Makes the next request open a new connection; requests in flight keep this one.
    pub(crate) fn discard(&self) {
        self.alive.store(false, Ordering::Release);
    }
}

/// A shared connection that reopens.
pub(crate) struct Link {
    /// Address of the node.
    pub address: String,
    client: Client,
    dialer: Dialer,
    live: RwLock<Option<LiveConnection>>,
    dial: Mutex<DialState>,
    /// Notified after each attempt to connect.
    attempted: Notify,
    /// Set when a connection of this node breaks; never cleared.
    lost: Arc<AtomicBool>,
}

#[derive(Default)]
struct DialState {
    running: bool,
    failures: u32,
    last: Option<(Instant, RedisError)>,
}

impl Link {
    pub(crate) fn new(client: Client, dialer: Dialer, lost: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self {
            address: client.get_connection_info().addr().to_string(),
            client,
            dialer,
            live: RwLock::default(),
            dial: Mutex::default(),
            attempted: Notify::new(),
            lost,
        })
    }

    /// The connection, opened when there is none. All callers wait for the same attempt.
    ///
    /// # Errors
    /// [`Unavailable::NotConnected`] with the last failed attempt, or none when the deadline came before any failed.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<LiveConnection, Unavailable> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let attempted = self.attempted.notified();
        tokio::pin!(attempted);
        attempted.as_mut().enable();
        if let Some(live) = self.live() {
            return Ok(live);
        }
        self.start_dialing();
        let _ = timeout_at(deadline, attempted).await;
        self.live().ok_or_else(|| {
            let last = self.dial.lock().last.clone();
            Unavailable::NotConnected {
                node: self.address.clone(),
                source: last.map(|(_, error)| error),
            }
        })
    }

    /// Starts an attempt unless one is running, in a task of its own, so that a caller that gives up does not abort it.
    fn start_dialing(self: &Arc<Self>) {
        let mut dial = self.dial.lock();
        if dial.running {
            return;
        }
        dial.running = true;
        let wait = match &dial.last {
            Some((at, _)) => {
                (*at + backoff(dial.failures)).saturating_duration_since(Instant::now())
            }
            None => Duration::ZERO,
        };
        let link = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let result = link.dial().await;
            link.finish(result);
        });
    }

    fn live(&self) -> Option<LiveConnection> {
        let live = self.live.read();
        live.as_ref()
            .filter(|live| live.alive.load(Ordering::Acquire))
            .cloned()
    }

    async fn dial(&self) -> Result<LiveConnection, RedisError> {
        let alive = Arc::new(AtomicBool::new(true));
        let (flag, lost) = (Arc::clone(&alive), Arc::clone(&self.lost));
        let broken = move || {
            flag.store(false, Ordering::Release);
            lost.store(true, Ordering::Release);
        };
        let config = noticing(self.dialer.connect_timeout, broken).set_pipeline_buffer_size(QUEUE);
        let open = async {
            let mut connection = self
                .client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            self.dialer.admit(&mut connection).await?;
            let sent = Instant::now();
            let time: Vec<i64> = redis::cmd("TIME").query_async(&mut connection).await?;
            if let [seconds, micros] = time[..] {
                let time_ms = seconds * 1000 + micros / 1000;
                self.dialer.clock.observe(sent, Instant::now(), time_ms);
            }
            Ok::<_, RedisError>(connection)
        };
        let info = self.client.get_connection_info();
        let connection = self.dialer.within_timeout(info, open).await?;
        Ok(LiveConnection { connection, alive })
    }

    fn finish(&self, result: Result<LiveConnection, RedisError>) {
        let mut dial = self.dial.lock();
        dial.running = false;
        match result {
            Ok(live) => {
                dial.failures = 0;
                dial.last = None;
                *self.live.write() = Some(live);
                self.dialer.metrics.connections_opened.inc();
            }
            Err(error) => {
                dial.failures = dial.failures.saturating_add(1);
                dial.last = Some((Instant::now(), error));
            }
        }
        drop(dial);
        self.attempted.notify_waiters();
    }
}

/// Settings of every connection. The crate's reply timeout (500 ms) is off, because each call has a deadline.
pub(crate) fn async_config(connect_timeout: Duration) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(connect_timeout))
        .set_response_timeout(None)
}

/// The same settings, for a connection that calls `broken` when it breaks.
pub(crate) fn noticing(
    connect_timeout: Duration,
    broken: impl Fn() + Send + Sync + 'static,
) -> AsyncConnectionConfig {
    async_config(connect_timeout).set_push_sender(move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            broken();
        }
        Ok::<(), ()>(())
    })
}

/// Refuses a node that does not report that it is a master. When an ACL hides `ROLE`, the node is accepted.
async fn require_master(connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
    match connection.send_packed_command(&redis::cmd("ROLE")).await? {
        Value::Array(fields) => match fields.first() {
            Some(Value::BulkString(role)) if role == b"master" => Ok(()),
            _ => Err((ErrorKind::Io, "the node is not a master").into()),
        },
        _ => Ok(()),
    }
}
