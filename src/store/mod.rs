//! The only module that names Redis: connections, scripts, keys and the clock.

pub mod admin;
pub mod api_key_checks;
pub mod api_key_lists;
pub mod api_keys;
mod assemble;
pub mod audit_chain;
mod audit_failures;
pub mod audit_log;
pub mod auth_failed;
mod background;
mod batch;
pub mod budget_lists;
pub mod budget_states;
pub mod budgets;
pub mod bulk;
pub mod bulk_rows;
mod call;
pub mod clock;
pub mod closing;
mod cluster;
pub mod commit;
mod connection;
mod contract;
pub mod course;
pub mod decide;
mod denials;
pub mod deployment;
mod erase;
pub mod error;
pub mod event;
mod events;
pub mod expire;
mod expire_api_key;
pub mod extend;
mod inspect;
pub mod keys;
pub mod lease;
mod link;
pub mod logs;
pub mod metrics;
mod node;
pub mod outbox;
pub mod overview;
mod patience;
mod pipelines;
pub mod policies;
pub mod poll;
mod pool;
pub mod purge;
pub mod read;
pub mod recent;
pub mod release;
pub mod reply;
pub mod reserve;
mod retry;
pub mod runtime;
pub mod script;
mod sentinel;
mod slot;
pub mod statistics;
pub mod sums;
pub mod tenants;
mod url;
pub mod verify;
pub mod view_rows;
pub mod views;
pub mod watch;
pub mod webhook_deliveries;
pub mod webhook_lists;
pub mod webhook_replays;
pub mod webhook_security;
pub mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};

pub use call::{Call, Line};
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
pub use statistics::{CommandStatistics, Statistics};
pub use url::RedisUrlError;

use crate::domain::ids::DeploymentSecret;
use crate::script_args;
use connection::{Connection, Request};
use link::Dialer;
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

    /// How long a request may take in all; outside a request, a call.
    pub fn timeout(&self) -> Duration {
        self.inner.connection.timeout
    }

    /// The deployment's record. Read once, and created by the first process that ever asks.
    ///
    /// # Errors
    /// [`StoreError::Deployment`] when the data belongs to another kind of deployment.
    pub async fn deployment(&self) -> Result<&Deployment, StoreError> {
        let turn = self.turn()?;
        self.deployment_by(turn.deadline).await
    }

    /// The same before `deadline`. Callers queue for the first reading, so the wait in the queue counts as well.
    async fn deployment_by(&self, deadline: Instant) -> Result<&Deployment, StoreError> {
        let inner = &self.inner;
        if let Some(known) = inner.deployment.get() {
            return Ok(known);
        }
        let load = || async {
            let key = inner.keys.meta();
            let secret = Deployment::propose_secret();
            let args = script_args![
                deployment::LAYOUT,
                deployment::PARTITIONS,
                &secret,
                inner.dialect
            ];
            let command = META.command(&[&key], args);
            let reply = self
                .run(&META, key.as_bytes(), &command, Lane::Background, deadline)
                .await?;
            Deployment::check(reply, inner.keys.prefix(), inner.dialect)
        };
        let loaded = timeout_at(deadline, inner.deployment.get_or_try_init(load)).await;
        loaded.unwrap_or_else(|_| {
            Err(Unavailable::NotConnected {
                node: "Redis".to_owned(),
                source: None,
            }
            .into())
        })
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
    /// See [`StoreError`]; an unavailable Redis is reported within [`Store::timeout`], counted over all calls of a request.
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
        let turn = self.turn()?;
        self.deployment_by(turn.deadline).await?;
        let key = keys.first().map_or(&[][..], AsRef::as_ref);
        let command = script.command(keys, args);
        self.run(script, key, &command, lane, turn.deadline).await
    }

    async fn run(
        &self,
        script: &Script,
        key: &[u8],
        command: &Cmd,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Value, StoreError> {
        let request = Request {
            key,
            command,
            script: Some(script),
        };
        let sent = Instant::now();
        let reply = self.inner.connection.send(request, lane, deadline).await?;
        self.learn_clock(sent, &reply);
        Ok(reply)
    }

    /// A script that was given the wrong day answers `{'clock', now_ms}`, one that is short of funds `{'sweep_first',
    /// now_ms}`, one whose policy is another `{'stale', now_ms, …}`; what every reserve answers keeps the course of the clock known meanwhile.
    fn learn_clock(&self, sent: Instant, reply: &Value) {
        let Value::Array(fields) = reply else { return };
        let [Value::BulkString(word), Value::Int(now_ms), ..] = &fields[..] else {
            return;
        };
        if matches!(
            &word[..],
            b"clock" | b"stale" | b"sweep_first" | b"reserved"
        ) {
            self.inner.clock.observe(sent, Instant::now(), *now_ms);
        }
        if word == b"clock" {
            self.inner.metrics.extra_trip(ExtraTrip::Clock);
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout()
    }
}
