//! Sends a command to the node that owns its key, within a deadline.
//!
//! A command that certainly did not run (no connection, NOSCRIPT, LOADING, READONLY, MOVED, ASK, TRYAGAIN) is retried with
//! jitter until the deadline. One that may have run is not: the caller gets [`Unavailable`] and its client decides.
//!
//! Rare steps (opening a connection, loading a script) are boxed: their state would otherwise be part of the future of
//! every request, which is moved several times.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, ServerError, TlsCertificates, Value};
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::batch::queue::BatchLimits;
use super::call::Request;
use super::cluster::{ClusterRouter, slot_of};
use super::error::{StoreError, Unavailable};
use super::link::Dialer;
use super::memory::MemoryShare;
use super::metrics::ExtraRoundTrip;
use super::node::{Lane, Node};
use super::open::SentReply;
use super::retry::{Action, action, backoff};
use super::script::Script;
use super::sentinel::SentinelRouter;
use super::url::{RedisUrlError, Topology};

/// Where Redis is, and time limits.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// The connection URL, see [`super::url`].
    pub url: secrecy::SecretString,
    /// A private certificate authority and a client certificate for TLS.
    pub tls: Option<TlsCertificates>,
    /// How long all calls of a request may take, waiting for connections included; outside a request, one call.
    pub timeout: Duration,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// Multiplexed connections per node.
    pub connections: usize,
    /// Connections per node for work off the request path.
    pub background_connections: usize,
    /// Whether a Redis that may lose records is used all the same.
    pub allow_unsafe: bool,
    /// Whether the data is meant to end with Redis, so that nobody is warned of it.
    pub ephemeral: bool,
    /// Whether a deployment without data is started; a tool only reads.
    pub may_start: bool,
    /// How many replicas must have what a request writes before it gets its response.
    pub wait: u16,
    /// How many calls go together, and how many are in flight.
    pub batches: BatchLimits,
    /// The part of `maxmemory` that the data of a tenant may take while memory is short, in percent.
    pub tenant_share_percent: u32,
}

impl RedisOptions {
    /// The default of `timeout`.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

    /// Default options: 2 s, 2 shared connections, 4 in the pool.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into().into(),
            tls: None,
            timeout: Self::DEFAULT_TIMEOUT,
            connect_timeout: Duration::from_secs(1),
            connections: 2,
            background_connections: 4,
            allow_unsafe: false,
            ephemeral: false,
            may_start: true,
            wait: 0,
            batches: BatchLimits::default(),
            tenant_share_percent: 25,
        }
    }

    /// Checks the URL without connecting.
    ///
    /// # Errors
    /// [`RedisUrlError`], which never holds the URL.
    pub fn check(&self) -> Result<(), RedisUrlError> {
        Topology::parse(self.url.expose_secret(), self.tls.as_ref()).map(drop)
    }
}

/// All connections of a store.
pub(crate) struct Connection {
    router: Router,
    dialer: Dialer,
}

enum Router {
    Standalone(Arc<Node>),
    Sentinel(Box<SentinelRouter>),
    Cluster(Arc<ClusterRouter>),
}

impl Connection {
    /// Prepares the connections; opens none.
    pub(crate) fn new(topology: Topology, mut dialer: Dialer) -> Result<Self, RedisUrlError> {
        dialer.verify_role = matches!(topology, Topology::Sentinel(_));
        let router = match topology {
            Topology::Standalone(info) => {
                let node = Node::new(info, &dialer)
                    .map_err(|error| RedisUrlError::Tls(error.to_string()))?;
                Router::Standalone(Arc::new(node))
            }
            Topology::Sentinel(master) => {
                Router::Sentinel(Box::new(SentinelRouter::new(master, dialer.clone())))
            }
            Topology::Cluster(seeds) => {
                Router::Cluster(Arc::new(ClusterRouter::new(seeds, dialer.clone())))
            }
        };
        Ok(Self { router, dialer })
    }

    /// Sends one request and returns its reply; the value is never `Value::ServerError`.
    pub(crate) async fn send(
        &self,
        request: Request<'_>,
        lane: Lane,
        deadline: Instant,
    ) -> Result<SentReply, StoreError> {
        let slot = slot_of(request.key.as_bytes());
        let mut ask_next: Option<Arc<Node>> = None;
        let mut failures = 0;
        let (mut loaded, mut with_source) = (false, None);
        let mut cause = None;
        loop {
            let (node, asking) = match ask_next.take() {
                Some(node) => (node, true),
                None => match self.route(slot, deadline).await {
                    Ok(node) => (node, false),
                    Err(unavailable) => {
                        failures += 1;
                        let unavailable = unavailable.with_cause(&mut cause);
                        self.reconnect(failures, deadline, unavailable).await?;
                        continue;
                    }
                },
            };
            let sent_at = Instant::now();
            let command = with_source.as_ref().unwrap_or(request.command);
            let request = Request { command, ..request };
            let reply = self.attempt(&node, request, asking, lane, deadline).await;
            let refusal = match reply {
                Ok(SentReply {
                    value: Value::ServerError(refusal),
                    ..
                }) => refusal,
                Ok(sent) => return Ok(sent),
                Err(unavailable) => {
                    self.distrust(&node);
                    failures += 1;
                    let unavailable = unavailable.with_cause(&mut cause);
                    // A command that was sent may have run. Other data does not change back soon.
                    if unavailable.effect_unknown()
                        || matches!(unavailable, Unavailable::OtherData(_))
                    {
                        return Err(unavailable.into());
                    }
                    self.reconnect(failures, deadline, unavailable).await?;
                    continue;
                }
            };
            // Redirects are followed at once at first.
            let (reason, pauses) = match action(&refusal) {
                Action::LoadScript => {
                    match request.script {
                        // When the load fails, the next attempt fails likewise.
                        Some(script) if !loaded => {
                            let load = node.load(script, sent_at, lane, deadline);
                            let _ = Box::pin(load).await;
                            loaded = true;
                        }
                        // The node forgot the script before it ran, so its source goes along.
                        Some(script) => with_source = Some(script.whole(request.command)),
                        None => return Err(failed(&refusal, None)),
                    }
                    (ExtraRoundTrip::NoScript, false)
                }
                Action::Moved(host, port) => {
                    if let Router::Cluster(cluster) = &self.router {
                        cluster.moved(slot, &host, port, &node);
                    }
                    (ExtraRoundTrip::Moved, failures >= 3)
                }
                // The next owner treats a key that has not arrived as missing. A script that builds key names waits until
                // the slot has moved.
                Action::Ask(..) if request.script.is_some_and(Script::builds_keys) => {
                    (ExtraRoundTrip::TryAgain, true)
                }
                Action::Ask(host, port) => {
                    if let Router::Cluster(cluster) = &self.router {
                        ask_next = cluster.at(&host, port, &node);
                    }
                    (ExtraRoundTrip::Ask, failures >= 3)
                }
                Action::Retry(reason) => {
                    self.distrust(&node);
                    (reason, true)
                }
                Action::NotReady => return Err(not_ready(&node, refusal).into()),
                Action::Full => {
                    node.memory.note(MemoryShare::FULL);
                    return Err(StoreError::Full);
                }
                Action::Failed => return Err(failed(&refusal, request.script)),
            };
            self.dialer.metrics.extra_round_trip(reason);
            failures += 1;
            if pauses {
                pause(failures, deadline, not_ready(&node, refusal)).await?;
            }
        }
    }

    /// Waits before the next attempt to connect, and counts it.
    async fn reconnect(
        &self,
        failures: u32,
        deadline: Instant,
        unavailable: Unavailable,
    ) -> Result<(), StoreError> {
        pause(failures, deadline, unavailable).await?;
        self.dialer
            .metrics
            .extra_round_trip(ExtraRoundTrip::Reconnect);
        Ok(())
    }

    async fn attempt(
        &self,
        node: &Node,
        request: Request<'_>,
        asking: bool,
        lane: Lane,
        deadline: Instant,
    ) -> Result<SentReply, Unavailable> {
        let sent_at;
        let reply = if let Some(mark) = request.mark {
            sent_at = Instant::now();
            Box::pin(node.send_replicated(request.command, asking, mark, deadline)).await
        } else {
            let open = node.open(lane, deadline).await?;
            // Again, because a connection that was just opened may have found it.
            self.dialer.identity.check()?;
            sent_at = Instant::now();
            let value = if asking {
                let mut pipeline = Pipeline::with_capacity(2);
                pipeline.cmd("ASKING").add_command(request.command.clone());
                let replies = Box::pin(open.send_all(&pipeline, deadline)).await;
                replies.map(|mut replies| replies.pop().unwrap_or_default())
            } else {
                open.send(request.command, deadline).await
            };
            value.map(|value| SentReply {
                value,
                too_few: None,
                sent_at,
            })
        };
        if let Some(script) = request.script {
            let durations = &self.dialer.metrics.script_duration;
            let seconds = sent_at.elapsed().as_secs_f64();
            durations
                .with_label_values(&[script.metric_label()])
                .observe(seconds);
        }
        reply
    }

    /// The nodes that hold data: one, or each master of the cluster with slots.
    pub(crate) async fn nodes(&self, deadline: Instant) -> Result<Vec<Arc<Node>>, StoreError> {
        match &self.router {
            Router::Cluster(cluster) => Ok(cluster.nodes(deadline).await?),
            Router::Standalone(_) | Router::Sentinel(_) => Ok(vec![self.route(0, deadline).await?]),
        }
    }

    /// The node that owns `slot`.
    pub(crate) async fn route(
        &self,
        slot: u16,
        deadline: Instant,
    ) -> Result<Arc<Node>, Unavailable> {
        match &self.router {
            Router::Standalone(node) => Ok(Arc::clone(node)),
            Router::Sentinel(sentinel) => sentinel.node(deadline).await,
            Router::Cluster(cluster) => cluster.node(slot, deadline).await,
        }
    }

    /// How much of its memory the node of `slot` uses, as last seen; none while no node is known for it.
    pub(crate) fn memory_share(&self, slot: u16) -> MemoryShare {
        let node = match &self.router {
            Router::Standalone(node) => return node.memory.get(),
            Router::Sentinel(sentinel) => sentinel.current(),
            Router::Cluster(cluster) => cluster.known_owner(slot),
        };
        node.map_or_else(MemoryShare::default, |node| node.memory.get())
    }

    /// Looks for the owner again after a node gave no reply or a refusal.
    pub(crate) fn distrust(&self, node: &Node) {
        match &self.router {
            Router::Standalone(_) => {}
            Router::Sentinel(_) => node.mark_lost(),
            Router::Cluster(cluster) => cluster.refresh(),
        }
    }
}

/// Waits before the next attempt.
///
/// # Errors
/// `unavailable` when the deadline would pass meanwhile.
async fn pause(
    failures: u32,
    deadline: Instant,
    unavailable: Unavailable,
) -> Result<(), StoreError> {
    let wake_at = Instant::now() + backoff(failures);
    if wake_at >= deadline {
        return Err(unavailable.into());
    }
    tokio::time::sleep_until(wake_at).await;
    Ok(())
}

pub(crate) fn not_ready(node: &Node, refusal: ServerError) -> Unavailable {
    Unavailable::NotReady {
        node: node.address.clone(),
        refusal,
    }
}

pub(crate) fn failed(refusal: &ServerError, script: Option<&Script>) -> StoreError {
    let detail = refusal.details().unwrap_or("").to_owned();
    match script {
        Some(script) => script.error(refusal.code(), &detail),
        None => StoreError::ErrorReply {
            code: refusal.code().to_owned(),
            detail,
        },
    }
}
