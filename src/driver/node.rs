//! One Redis server: a few shared connections for requests, a small pool for everything else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deadpool::managed::{Pool, PoolError};
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, ConnectionInfo, Pipeline, RedisError, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use super::link::{Dialer, Link, Live};
use super::pool::{Opener, Pooled, pool};
use super::script::Script;

/// Which connections a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The shared, pipelined connections. For requests and probes, and short work only: a long reply delays all that come
    /// after it.
    Request,
    /// A connection of its own from the pool: lists, workers.
    Background,
}

/// Why a node gave no reply at all.
#[derive(Debug)]
pub(crate) enum Silence {
    /// Nothing was sent.
    NotConnected(Option<RedisError>),
    /// Something was sent; whether it ran is unknown.
    ReplyLost(RedisError),
    /// The same, because the deadline passed.
    NoReply,
}

/// A connection that is ready to send.
pub(crate) enum Open {
    Shared(Live),
    Pooled(Pooled),
}

/// See the module documentation.
pub(crate) struct Node {
    /// For messages and to compare nodes: host and port, or the socket's path.
    pub address: String,
    pub info: ConnectionInfo,
    links: Box<[Link]>,
    next: AtomicUsize,
    pool: Pool<Opener>,
    lost: Arc<AtomicBool>,
    gates: Mutex<HashMap<&'static str, Arc<Gate>>>,
}

/// Lets one caller at a time load a script; the others find it loaded.
type Gate = tokio::sync::Mutex<Option<Instant>>;

impl Node {
    /// Prepares the connections; opens none.
    ///
    /// # Errors
    /// When the address or its TLS settings cannot be used at all.
    pub(crate) fn new(info: ConnectionInfo, dialer: &Dialer) -> RedisResult<Self> {
        let lost = Arc::new(AtomicBool::new(false));
        let client = Client::open(info.clone())?;
        let links = (0..dialer.links.max(1))
            .map(|_| Link::new(client.clone(), dialer.clone(), Arc::clone(&lost)))
            .collect();
        Ok(Self {
            address: info.addr().to_string(),
            pool: pool(info.clone(), dialer)?,
            info,
            links,
            next: AtomicUsize::new(0),
            lost,
            gates: Mutex::default(),
        })
    }

    /// Whether a connection to this node has ever broken, or an answer showed that it is no longer the right one.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(crate) fn mark_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// A connection, opened if need be.
    pub(crate) async fn open(&self, lane: Lane, deadline: Instant) -> Result<Open, Silence> {
        match lane {
            Lane::Request => {
                let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.links.len();
                let live = self.links[turn].connect(deadline).await;
                live.map(Open::Shared).map_err(Silence::NotConnected)
            }
            Lane::Background => match timeout_at(deadline, self.pool.get()).await {
                Ok(Ok(connection)) => Ok(Open::Pooled(connection)),
                Ok(Err(PoolError::Backend(error))) => Err(Silence::NotConnected(Some(error))),
                Ok(Err(_)) | Err(_) => Err(Silence::NotConnected(None)),
            },
        }
    }

    /// Makes sure that the node knows `script`, which it did not at `asked_at`. Concurrent callers load it once.
    pub(crate) async fn load(
        &self,
        script: &Script,
        asked_at: Instant,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Value, Silence> {
        let gate = {
            let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(gates.entry(script.name()).or_default())
        };
        let Ok(mut loaded_at) = timeout_at(deadline, gate.lock()).await else {
            return Err(Silence::NotConnected(None));
        };
        if loaded_at.is_some_and(|loaded_at| loaded_at >= asked_at) {
            return Ok(Value::Okay);
        }
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(script.source());
        let open = self.open(lane, deadline).await?;
        // Of what happened since, a loss of the script above all, this load may know nothing.
        let sent_at = Instant::now();
        let reply = open.send(&command, deadline).await?;
        if !matches!(reply, Value::ServerError(_)) {
            *loaded_at = Some(sent_at);
        }
        Ok(reply)
    }
}

impl Open {
    /// Sends one command and waits for its reply; an error reply is `Ok(Value::ServerError)`.
    pub(crate) async fn send(self, command: &Cmd, deadline: Instant) -> Result<Value, Silence> {
        let mut connection = self.connection();
        let reply = timeout_at(deadline, connection.send_packed_command(command)).await;
        self.settle(reply)
    }

    /// Sends a pipeline; the replies come in order, error replies among them.
    pub(crate) async fn send_all(
        self,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, Silence> {
        let mut connection = self.connection();
        let count = pipeline.len();
        let reply = timeout_at(
            deadline,
            connection.send_packed_commands(pipeline, 0, count),
        )
        .await;
        self.settle(reply)
    }

    fn connection(&self) -> MultiplexedConnection {
        match self {
            Self::Shared(live) => live.connection.clone(),
            Self::Pooled(pooled) => MultiplexedConnection::clone(pooled),
        }
    }

    /// A connection that broke or fell silent is not used again.
    fn settle<T>(
        self,
        reply: Result<RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T, Silence> {
        match reply {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                self.discard();
                Err(Silence::ReplyLost(error))
            }
            Err(_) => {
                self.discard();
                Err(Silence::NoReply)
            }
        }
    }

    fn discard(self) {
        match self {
            Self::Shared(live) => live.discard(),
            Self::Pooled(pooled) => drop(Pooled::take(pooled)),
        }
    }
}
