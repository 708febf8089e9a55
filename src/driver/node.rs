//! One Redis server: a few shared connections for requests, a small pool for background work.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use deadpool::managed::{Pool, PoolError};
use parking_lot::Mutex;
use redis::{Client, Cmd, ConnectionInfo, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use super::error::Unavailable;
use super::link::{Dialer, Link};
use super::memory::SeenShare;
use super::open::{OpenConnection, SentReply, Source};
use super::pool::{Opener, pool};
use super::replicated::ReplicatedLink;
use super::script::Script;

/// The connections that a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// A shared, pipelined connection, for requests and probes. Only for short replies, because a long one delays those
    /// after it.
    Request,
    /// An exclusive connection from the pool, for lists and workers.
    Background,
    /// A shared, pipelined connection of its own, for what anybody may read without a key: strangers wait for one another, and
    /// neither requests nor lists wait for them.
    Public,
}

/// One Redis server and its connections.
pub(crate) struct Node {
    /// Host and port, or the socket's path; identifies the node.
    pub address: String,
    pub info: ConnectionInfo,
    /// How much of its memory is used.
    pub memory: SeenShare,
    links: Box<[Arc<Link>]>,
    /// For writes whose replies wait for replicas; as many as `links`, none where no reply waits.
    replicated: Box<[Arc<ReplicatedLink>]>,
    next: AtomicUsize,
    public: Arc<Link>,
    pool: Pool<Opener>,
    lost: Arc<AtomicBool>,
    gates: Mutex<HashMap<&'static str, Arc<Gate>>>,
}

/// Lets one caller at a time load a script; holds when it was last loaded.
type Gate = tokio::sync::Mutex<Option<Instant>>;

impl Node {
    /// Prepares the connections; opens none.
    ///
    /// # Errors
    /// When the address or its TLS settings cannot be used at all.
    pub(crate) fn new(info: ConnectionInfo, dialer: &Dialer) -> RedisResult<Self> {
        let lost = Arc::new(AtomicBool::new(false));
        let client = Client::open(info.clone())?;
        let link = || Link::new(client.clone(), dialer.clone(), Arc::clone(&lost));
        let count = dialer.links.max(1);
        let waiting = if dialer.replicas.wanted > 0 { count } else { 0 };
        let replicated = (0..waiting).map(|_| ReplicatedLink::new(link(), dialer.clone()));
        Ok(Self {
            address: info.addr().to_string(),
            pool: pool(info.clone(), dialer)?,
            info,
            memory: SeenShare::default(),
            links: (0..count).map(|_| link()).collect(),
            replicated: replicated.collect(),
            next: AtomicUsize::new(0),
            public: link(),
            lost,
            gates: Mutex::default(),
        })
    }

    /// Whether a connection to this node has ever broken, or a reply showed that it is no longer the master.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(crate) fn mark_lost(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// A connection, opened if need be.
    pub(crate) async fn open(
        &self,
        lane: Lane,
        deadline: Instant,
    ) -> Result<OpenConnection<'_>, Unavailable> {
        let node = &self.address;
        let source = match lane {
            Lane::Request => {
                let index = self.next.fetch_add(1, Ordering::Relaxed) % self.links.len();
                Source::Shared(self.links[index].connect(deadline).await?)
            }
            Lane::Public => Source::Shared(self.public.connect(deadline).await?),
            Lane::Background => match timeout_at(deadline, Box::pin(self.pool.get())).await {
                Ok(Ok(connection)) => Source::Pooled(connection),
                Ok(Err(PoolError::Backend(error))) => {
                    return Err(Unavailable::NotConnected {
                        node: node.clone(),
                        source: Some(error),
                    });
                }
                Ok(Err(_)) | Err(_) => return Err(Unavailable::not_connected(node)),
            },
        };
        Ok(OpenConnection { node, source })
    }

    /// Sends a write whose reply waits for replicas; `mark` is a key in the same slot.
    pub(crate) async fn send_replicated(
        &self,
        command: &Cmd,
        asking: bool,
        mark: &str,
        deadline: Instant,
    ) -> Result<SentReply, Unavailable> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        match self.replicated.get(next % self.replicated.len().max(1)) {
            Some(link) => link.send(command, asking, mark, deadline).await,
            None => Err(Unavailable::not_connected(&self.address)),
        }
    }

    /// Sends one command; an error reply is `Ok(Value::ServerError)`.
    pub(crate) async fn send(
        &self,
        lane: Lane,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, Unavailable> {
        self.open(lane, deadline)
            .await?
            .send(command, deadline)
            .await
    }

    /// Loads `script`, which the node did not know at `missed_at`. Concurrent callers load it once.
    pub(crate) async fn load(
        &self,
        script: &Script,
        missed_at: Instant,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Value, Unavailable> {
        let gate = {
            let mut gates = self.gates.lock();
            Arc::clone(gates.entry(script.name()).or_default())
        };
        let Ok(mut loaded_at) = timeout_at(deadline, gate.lock()).await else {
            return Err(Unavailable::not_connected(&self.address));
        };
        if loaded_at.is_some_and(|loaded_at| loaded_at >= missed_at) {
            return Ok(Value::Okay);
        }
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(script.source());
        let open = self.open(lane, deadline).await?;
        // The time of sending, because the node may lose the script again after that.
        let sent_at = Instant::now();
        let reply = open.send(&command, deadline).await?;
        if !matches!(reply, Value::ServerError(_)) {
            *loaded_at = Some(sent_at);
        }
        Ok(reply)
    }
}
