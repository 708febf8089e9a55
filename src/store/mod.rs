//! The data in Redis: every key, every script, and a call for each script. Connections, retries and the estimate of Redis's
//! clock are in [`crate::driver`].

pub mod admin;
mod background;
mod batch;
mod call;
mod deadline;
pub mod deployment;
pub mod dispatcher;
mod error;
mod evidence;
pub mod fragments;
pub mod issuers;
pub mod keys;
mod memory;
mod pipelines;
mod primaries;
mod records;
pub mod runtime;
pub mod scripts;
pub mod signature;
pub mod tools;
mod unreadable;

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;
use tokio::time::Instant;

pub use crate::driver::call::Call;
pub use crate::driver::clock::{Clock, Day};
pub use crate::driver::connection::RedisOptions;
pub use crate::driver::error::{StoreError, Unavailable};
pub use crate::driver::memory::{MemoryShare, MemoryStep, REFUSE_PERCENT};
pub use crate::driver::metrics::{ExtraTrip, StoreMetrics};
pub use crate::driver::node::Lane;
pub use crate::driver::reply::Reply;
pub use crate::driver::script::{Arg, Counted, Script};
pub use crate::driver::url::RedisUrlError;
pub use crate::store::dispatcher::lease::Lease;
pub use crate::store::tools::inspect::Finding;
pub use crate::store::tools::statistics::{CommandStatistics, Statistics};
pub use deployment::Deployment;
pub use error::OperationError;
pub use issuers::Issuing;
pub use keys::Keys;
pub use memory::FullestNode;

use crate::driver::connection::{Connection, Request, Sent};
use crate::driver::identity::Identity;
use crate::driver::link::{Dialer, Replicas};
use crate::driver::memory::SeenShare;
use crate::driver::url::Topology;
use crate::spans::{self, ScriptSpan};
use crate::store::primaries::Primaries;
use crate::store::signature::{Refused, ScriptCall};
use crate::store::unreadable::Unreadable;

/// How often a call is repeated with another day. Once may not do around midnight: the day can end between two calls.
const DAY_REPEATS: usize = 3;

/// Which part of the time of a request replicas have to take a write: a request may wait for the group before its own as well.
const WAIT_SHARE: u32 = 4;

/// A name and its value.
pub type Pair = (&'static str, String);

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
    identity: Arc<Identity>,
    allow_unsafe: bool,
    ephemeral: bool,
    fullest: SeenShare,
    unreadable: Unreadable,
    may_start: bool,
    wait: u16,
    primaries: Primaries,
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
        metrics.show_reasons();
        let clock = Arc::new(Clock::default());
        let identity = Arc::new(Identity::new(keys.meta(), metrics.clone()));
        let dialer = Dialer {
            connect_timeout: options.connect_timeout.min(options.timeout),
            links: options.connections,
            pooled: options.background_connections,
            verify_role: false,
            replicas: Replicas {
                wanted: options.wait,
                limit: options.timeout / WAIT_SHARE,
            },
            clock: Arc::clone(&clock),
            identity: Arc::clone(&identity),
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
            identity,
            allow_unsafe: options.allow_unsafe,
            ephemeral: options.ephemeral,
            fullest: SeenShare::default(),
            unreadable: Unreadable::default(),
            may_start: options.may_start,
            wait: options.wait,
            primaries: Primaries::default(),
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

    /// Runs a script on a lane. One that replies that its clock is in another day is called again, with that day.
    pub(crate) async fn run_on<C: ScriptCall>(
        &self,
        lane: Lane,
        call: &C,
    ) -> Result<Result<C::Outcome, Refused>, StoreError> {
        let (mut day, mut repeats) = (self.today(), 0..DAY_REPEATS);
        loop {
            let on_day = call.on(self.keys(), day);
            let Sent { value, too_few } = self.exchange(lane, &on_day).await?;
            match (C::read(value)?, too_few) {
                (Err(Refused::Clock { now_ms }), _) if repeats.next().is_some() => {
                    day = Day::of_ms(now_ms);
                }
                (Ok(_), Some(too_few)) => {
                    self.inner.metrics.too_few_replicas.inc();
                    return Err(too_few.into());
                }
                // A refusal has written nothing that its caller counts on.
                (outcome, _) => return Ok(outcome),
            }
        }
    }

    /// Runs a script under a lease; `None` where another dispatcher holds the lease by now.
    pub(crate) async fn run_leased<C: ScriptCall>(
        &self,
        lane: Lane,
        call: &C,
    ) -> Result<Option<C::Outcome>, StoreError> {
        match self.run_on(lane, call).await? {
            Ok(outcome) => Ok(Some(outcome)),
            Err(Refused::Fenced) => Ok(None),
            Err(refused) => Err(refused.unexpected(C::SIGNATURE)),
        }
    }

    /// Runs a script on the request path, see [`Store::run_on`].
    pub(crate) async fn run<C: ScriptCall>(
        &self,
        call: &C,
    ) -> Result<Result<C::Outcome, Refused>, StoreError> {
        self.run_on(Lane::Request, call).await
    }

    /// Runs a script that refuses nothing, on the request path.
    pub(crate) async fn outcome<C: ScriptCall>(&self, call: &C) -> Result<C::Outcome, StoreError> {
        self.outcome_on(Lane::Request, call).await
    }

    /// The same on a lane.
    pub(crate) async fn outcome_on<C: ScriptCall>(
        &self,
        lane: Lane,
        call: &C,
    ) -> Result<C::Outcome, StoreError> {
        let outcome = self.run_on(lane, call).await?;
        outcome.map_err(|refused| refused.unexpected(C::SIGNATURE))
    }

    async fn execute(
        &self,
        call: &Call,
        lane: Lane,
        deadline: Instant,
    ) -> Result<Sent, StoreError> {
        let waits = self.inner.wait > 0 && lane == Lane::Request && call.script.writes();
        let mark = waits.then(|| self.keys().replicated_beside(&call.key));
        let request = Request {
            key: call.key.as_bytes(),
            command: &call.command,
            script: Some(call.script),
            mark: mark.as_deref(),
        };
        let span = spans::are_exported()
            .then(|| ScriptSpan::begin(call.script.name()))
            .flatten();
        let sent = Instant::now();
        let reply = self.inner.connection.send(request, lane, deadline).await;
        if let Some(span) = span {
            span.end(reply.as_ref().err().map(ToString::to_string));
        }
        let reply = reply?;
        self.learn_clock(sent, &reply.value);
        Ok(reply)
    }

    /// Corrects the estimate of Redis's clock by replies that carry it: `clock`, `sweep_first` and `stale`, after which the
    /// script is called again, and `reserved`, so that the clock monitor sees every reserve.
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
