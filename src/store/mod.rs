//! The data in Redis: every key, every script, and a call for each script. Connections, retries and the estimate of Redis's
//! clock are in [`crate::driver`].

pub mod admin;
mod append_only;
mod calls;
pub mod console;
mod deadline;
pub mod deployment;
pub mod dispatcher;
mod error;
pub mod evidence;
pub mod fragments;
pub mod keys;
mod memory;
mod primaries;
mod records;
pub mod runtime;
pub mod signature;
mod stock;
pub(crate) mod target;
pub mod tools;
mod unreadable;
mod usage;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use secrecy::ExposeSecret;
use tokio::sync::OnceCell;

pub use crate::driver::batch::queue::BatchLimits;
pub use crate::driver::call::{Call, Request};
pub use crate::driver::clock::{Clock, Day};
pub use crate::driver::connection::RedisOptions;
pub use crate::driver::error::{StoreError, Unavailable};
pub use crate::driver::memory::{MemoryShare, MemoryStep, REFUSE_PERCENT};
pub use crate::driver::metrics::{ExtraRoundTrip, StoreMetrics};
pub use crate::driver::node::Lane;
pub use crate::driver::reply::Reply;
pub use crate::driver::script::{Counted, Script};
pub use crate::driver::url::RedisUrlError;
pub use crate::store::dispatcher::lease::Lease;
pub use crate::store::tools::inspect::Finding;
pub use crate::store::tools::statistics::{CommandStatistics, Statistics};
pub use calls::OnFailure;
pub use console::SESSION_MS;
pub use deadline::is_replay;
pub(crate) use error::{ScriptError, outcome, unless_fenced};
pub use keys::Keys;
pub use memory::FullestNode;
pub use stock::Stock;
pub use usage::{MergedMonth, USAGE_HASHES, UsageOf};

use crate::domain::ids::DeploymentSecret;
use crate::driver::batch::Batches;
use crate::driver::connection::Connection;
use crate::driver::identity::Identity;
use crate::driver::link::{Dialer, Replicas};
use crate::driver::memory::SeenShare;
use crate::driver::url::Topology;
use crate::store::append_only::FilesAsFound;
use crate::store::primaries::Primaries;
use crate::store::stock::SeenStocks;
use crate::store::unreadable::Unreadable;

/// The share of a request's time that replicas have for a write: a request may wait for the group before its own as well.
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
    options: RedisOptions,
    connection: Arc<Connection>,
    batches: Arc<Batches>,
    secret: OnceCell<DeploymentSecret>,
    usage_from_ms: OnceLock<i64>,
    identity: Arc<Identity>,
    fullest: SeenShare,
    stocks: SeenStocks,
    unreadable: Unreadable,
    primaries: Primaries,
    files_as_found: FilesAsFound,
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
        let connection = Arc::new(Connection::new(topology, dialer)?);
        let inner = Inner {
            keys,
            dialect,
            clock,
            batches: Batches::new(Arc::clone(&connection), metrics.clone(), options.batches),
            metrics,
            options: options.clone(),
            connection,
            secret: OnceCell::new(),
            usage_from_ms: OnceLock::new(),
            identity,
            fullest: SeenShare::default(),
            stocks: SeenStocks::default(),
            unreadable: Unreadable::default(),
            primaries: Primaries::default(),
            files_as_found: FilesAsFound::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The keys of this deployment.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// Metrics of the store.
    pub fn metrics(&self) -> &StoreMetrics {
        &self.inner.metrics
    }

    /// Counts one more round trip of a request.
    pub fn extra_round_trip(&self, reason: ExtraRoundTrip) {
        self.inner.metrics.extra_round_trip(reason);
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
        self.inner.options.timeout
    }
}
