//! The only module that names Redis: connections, scripts, keys and the clock.

mod assemble;
mod batch;
pub mod clock;
mod cluster;
pub mod commit;
mod connection;
pub mod decide;
pub mod denials;
pub mod deployment;
pub mod error;
pub mod event;
pub mod expire;
pub mod extend;
mod inspect;
pub mod keys;
pub mod lease;
mod link;
pub mod metrics;
mod node;
pub mod poll;
pub mod purge;
pub mod read;
pub mod release;
pub mod reply;
pub mod reserve;
mod retry;
pub mod runtime;
pub mod script;
mod sentinel;
mod slot;
mod url;
pub mod verify;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;
use tokio::time::Instant;

pub use clock::{Clock, Day};
pub use connection::RedisOptions;
pub use deployment::Deployment;
pub use error::{DeploymentError, StoreError, Unavailable};
pub use inspect::Finding;
pub use keys::Keys;
pub use lease::Lease;
pub use metrics::{ExtraTrip, StoreMetrics};
pub use node::Lane;
pub use reply::Reply;
pub use script::{Arg, Script};
pub use url::RedisUrlError;

use crate::domain::ids::DeploymentSecret;
use crate::script_args;
use connection::{Connection, Request, failed};
use link::Dialer;
use node::Silence;
use script::META;
use url::Topology;

/// A handle on the store; cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    keys: Keys,
    dialect: &'static str,
    clock: Arc<Clock>,
    metrics: StoreMetrics,
    connection: Connection,
    deployment: OnceCell<Deployment>,
}

impl Store {
    /// Prepares a store; nothing is sent before the first call.
    ///
    /// # Errors
    /// [`RedisUrlError`] when the URL or the TLS files cannot be used.
    pub fn new(
        options: &RedisOptions,
        keys: Keys,
        dialect: &'static str,
        metrics: StoreMetrics,
    ) -> Result<Self, RedisUrlError> {
        // TLS needs one provider per process; an error only says that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clock = Arc::new(Clock::default());
        let dialer = Dialer {
            connect_timeout: options.connect_timeout.min(options.timeout),
            links: options.connections,
            pooled: options.background_connections,
            verify_role: false,
            clock: Arc::clone(&clock),
            metrics: metrics.clone(),
        };
        let topology = Topology::parse(options.url.expose_secret(), options.tls.as_ref())?;
        let inner = Inner {
            keys,
            dialect,
            clock,
            metrics,
            connection: Connection::new(topology, dialer, options.timeout)?,
            deployment: OnceCell::new(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The keys of this deployment.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// What the store counts.
    pub fn metrics(&self) -> &StoreMetrics {
        &self.inner.metrics
    }

    /// The estimate of Redis's clock.
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Redis's present UTC day, as far as known.
    pub fn today(&self) -> Day {
        self.inner.clock.today()
    }

    /// How long a call may take in all.
    pub fn timeout(&self) -> Duration {
        self.inner.connection.timeout
    }

    /// The deployment's record. Read once, and created by the first process that ever asks.
    ///
    /// # Errors
    /// [`StoreError::Deployment`] when the data belongs to another kind of deployment.
    pub async fn deployment(&self) -> Result<&Deployment, StoreError> {
        let inner = &self.inner;
        let load = || async {
            let key = inner.keys.meta();
            let secret = Deployment::propose_secret();
            let args = script_args![
                deployment::LAYOUT,
                deployment::PARTITIONS,
                &secret,
                inner.dialect
            ];
            let reply = self.run(&META, &[&key], args, Lane::Background).await?;
            Deployment::check(reply, inner.keys.prefix(), inner.dialect)
        };
        inner.deployment.get_or_try_init(load).await
    }

    /// The deployment's secret, from which ids are derived.
    ///
    /// # Errors
    /// As for [`Store::deployment`].
    pub async fn secret(&self) -> Result<&DeploymentSecret, StoreError> {
        self.deployment().await.map(Deployment::secret)
    }

    /// Runs a script on the request path: one round trip on a shared connection.
    ///
    /// All keys share the first key's hash tag. Nothing is sent twice that may have run.
    ///
    /// # Errors
    /// See [`StoreError`]; an unavailable Redis is reported within [`Store::timeout`].
    pub async fn call<K: AsRef<[u8]>>(
        &self,
        script: &Script,
        keys: &[K],
        args: &[Arg<'_>],
    ) -> Result<Value, StoreError> {
        self.call_on(Lane::Request, script, keys, args).await
    }

    /// Runs a script on the given lane, see [`Store::call`].
    ///
    /// # Errors
    /// As for [`Store::call`].
    pub async fn call_on<K: AsRef<[u8]>>(
        &self,
        lane: Lane,
        script: &Script,
        keys: &[K],
        args: &[Arg<'_>],
    ) -> Result<Value, StoreError> {
        self.deployment().await?;
        self.run(script, keys, args, lane).await
    }

    /// Runs one plain command off the request path, on the node that owns `key`.
    ///
    /// # Errors
    /// As for [`Store::call`]; an error reply is [`StoreError::Refused`].
    pub async fn query(&self, key: &str, command: &Cmd) -> Result<Value, StoreError> {
        self.deployment().await?;
        let request = Request {
            key: key.as_bytes(),
            command,
            script: None,
        };
        self.inner
            .connection
            .send(request, Lane::Background, self.deadline())
            .await
    }

    /// Runs many plain commands off the request path, each on the node that owns its key; one pipeline per node.
    /// The replies come in the order of `commands`.
    ///
    /// For reads and other commands that may be repeated: what a moved slot refuses is sent again on its own.
    ///
    /// # Errors
    /// As for [`Store::query`], for the first command that failed.
    pub async fn query_all(&self, commands: &[(String, Cmd)]) -> Result<Vec<Value>, StoreError> {
        self.deployment().await?;
        let deadline = self.deadline();
        let connection = &self.inner.connection;
        let mut batches: Vec<(Arc<node::Node>, Vec<usize>)> = Vec::new();
        for (index, (key, _)) in commands.iter().enumerate() {
            let node = connection.route(slot::of(key.as_bytes()), deadline).await?;
            match batches
                .iter_mut()
                .find(|(other, _)| Arc::ptr_eq(other, &node))
            {
                Some((_, batch)) => batch.push(index),
                None => batches.push((node, vec![index])),
            }
        }
        let mut replies = vec![Value::Nil; commands.len()];
        for (node, batch) in batches {
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for index in &batch {
                pipeline.add_command(commands[*index].1.clone());
            }
            let answers = match node.open(Lane::Background, deadline).await {
                Ok(open) => open.send_all(&pipeline, deadline).await,
                Err(silence) => Err(silence),
            };
            let answers = answers.unwrap_or_else(|_| {
                connection.distrust(&node);
                Vec::new()
            });
            let mut answers = answers.into_iter();
            for index in batch {
                replies[index] = match answers.next() {
                    Some(Value::ServerError(_)) | None => {
                        let (key, command) = &commands[index];
                        self.query(key, command).await?
                    }
                    Some(reply) => reply,
                };
            }
        }
        Ok(replies)
    }

    /// Whether each node that holds data answers a `PING`.
    ///
    /// # Errors
    /// The first failure, within `limit`.
    pub async fn ping(&self, limit: Duration) -> Result<(), StoreError> {
        let deadline = Instant::now() + limit.min(self.timeout());
        self.everywhere(&redis::cmd("PING"), deadline)
            .await
            .map(drop)
    }

    /// Runs a command on each node that holds data; the replies come with the nodes' addresses.
    async fn everywhere(
        &self,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        let connection = &self.inner.connection;
        let mut replies = Vec::new();
        for node in connection.nodes(deadline).await? {
            let reply = self.ask(&node, command, deadline).await?;
            replies.push((node.address.clone(), reply));
        }
        Ok(replies)
    }

    /// Runs a command on one node.
    async fn ask(
        &self,
        node: &Arc<node::Node>,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let reply = match node.open(Lane::Background, deadline).await {
            Ok(open) => open.send(command, deadline).await,
            Err(silence) => Err(silence),
        };
        let silence = match reply {
            Ok(Value::ServerError(refusal)) => return Err(failed(&refusal, None)),
            Ok(reply) => return Ok(reply),
            Err(silence) => silence,
        };
        self.inner.connection.distrust(node);
        let node = node.address.clone();
        let unavailable = match silence {
            Silence::NotConnected(source) => Unavailable::NotConnected { node, source },
            Silence::ReplyLost(source) => Unavailable::ReplyLost { node, source },
            Silence::NoReply => Unavailable::NoReply { node },
        };
        Err(unavailable.into())
    }

    async fn run<K: AsRef<[u8]>>(
        &self,
        script: &Script,
        keys: &[K],
        args: &[Arg<'_>],
        lane: Lane,
    ) -> Result<Value, StoreError> {
        let command = script.command(keys, args);
        let request = Request {
            key: keys.first().map_or(&[], AsRef::as_ref),
            command: &command,
            script: Some(script),
        };
        let reply = self
            .inner
            .connection
            .send(request, lane, self.deadline())
            .await?;
        self.learn_clock(&reply);
        Ok(reply)
    }

    /// A script that was given the wrong day answers `{'clock', now_ms}`.
    fn learn_clock(&self, reply: &Value) {
        let Value::Array(fields) = reply else { return };
        if let [Value::BulkString(word), Value::Int(now_ms)] = &fields[..]
            && word == b"clock"
        {
            self.inner.clock.observe(*now_ms);
            self.inner.metrics.extra_trip(ExtraTrip::Clock);
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout()
    }
}
