//! Runs the API: binds, serves until shutdown, and finishes every accepted request.
//!
//! The shutdown has steps, so that no load balancer sends into a connection that is about to close:
//! 1. Readiness fails and each response carries `Connection: close`. Requests are served for `BUDGET_SHUTDOWN_DELAY_MS`
//!    more, because in Kubernetes new connections arrive until every balancer has the new list of endpoints.
//! 2. No connection is accepted. [`LAST_CALL`] later, idle connections are closed.
//! 3. Requests in flight have `BUDGET_SHUTDOWN_GRACE_MS` to finish.

mod connections;
mod detach;
mod server;
mod timeouts;
mod unread;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;
use tracing::{debug, info, warn};

use crate::api::auth::client_address::TrustedProxies;
use crate::api::probes::{Probes, metrics_router};
use crate::api::state::AppState;
use crate::api::{Planes, measured};
use crate::config::{ConfigError, ProcessConfig, ServeConfig};
use crate::console;
use crate::evidence::Issuing;
use crate::shutdown::Shutdown;
use crate::spans::SpansError;
use crate::store::{Store, StoreError};
use crate::telemetry::{Around, Meter, Telemetry, measure};
use connections::Bounds;
pub use connections::raise_limit;
use detach::Phase;
use server::Server;
use watch::watch_deployment;

/// How long idle connections stay open after the listener closed; never longer than the shutdown delay.
const LAST_CALL: Duration = Duration::from_secs(1);

/// Bound sockets. Port 0 in the configuration picks a free one.
#[derive(Debug)]
pub struct Listeners {
    /// The API: both planes, unless the admin plane has its own address.
    pub api: TcpListener,
    /// The admin plane's own address.
    pub admin: Option<TcpListener>,
    /// Metrics.
    pub metrics: Option<TcpListener>,
}

/// Why the service could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error("{variable}: cannot listen on {address}: {}", advice(.reason))]
    Bind {
        /// The setting that names the address.
        variable: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error, which the message contains.
        reason: io::Error,
    },
    /// The data in Redis belongs to another kind of deployment.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another system error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Spans cannot be exported as the environment says.
    #[error(transparent)]
    Spans(#[from] SpansError),
    /// A metric is defined twice.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
}

impl Listeners {
    /// Binds the addresses of the configuration.
    ///
    /// # Errors
    /// [`ServeError::Bind`], naming the setting.
    pub async fn bind(config: &ServeConfig) -> Result<Self, ServeError> {
        let admin = config.http.admin_listen;
        Ok(Self {
            api: bind("BUDGET_LISTEN", config.http.listen).await?,
            admin: bind_some("BUDGET_ADMIN_LISTEN", admin).await?,
            metrics: bind_some("BUDGET_METRICS_LISTEN", config.process.metrics_listen).await?,
        })
    }
}

/// Binds an address if there is one; see [`bind`].
///
/// # Errors
/// [`ServeError::Bind`].
pub async fn bind_some(
    variable: &'static str,
    address: Option<SocketAddr>,
) -> Result<Option<TcpListener>, ServeError> {
    match address {
        Some(address) => bind(variable, address).await.map(Some),
        None => Ok(None),
    }
}

/// Binds one address; `variable` is the setting to name in the error.
///
/// # Errors
/// [`ServeError::Bind`].
pub async fn bind(variable: &'static str, address: SocketAddr) -> Result<TcpListener, ServeError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|reason| ServeError::Bind {
        variable,
        address,
        reason,
    })
}

/// Why an address cannot be listened on, and what to do where that is known.
fn advice(reason: &io::Error) -> String {
    match reason.kind() {
        io::ErrorKind::AddrInUse => {
            "another process listens there; stop that one, or choose another address".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("{reason}; choose an address of this machine")
        }
        io::ErrorKind::PermissionDenied => format!("{reason}; choose a port above 1023"),
        _ => reason.to_string(),
    }
}

/// Serves until `shutdown`, then lets accepted requests finish.
///
/// # Errors
/// [`ServeError::Store`] as soon as the data in Redis belongs to another deployment. Readiness fails until
/// Redis is reachable.
pub async fn run(
    listeners: Listeners,
    planes: Planes,
    store: Store,
    telemetry: Telemetry,
    config: &ServeConfig,
    shutdown: Shutdown,
) -> Result<(), ServeError> {
    if config.admin_keys.is_empty() {
        warn!("BUDGET_ADMIN_KEYS is empty: the admin plane refuses every request");
    }
    raise_limit(config.process.connections.open_max);
    let planes = match config.http.console {
        true => console::added_to(planes),
        false => planes,
    };
    let state = planes.state;
    state.ledger.register(telemetry.registry())?;
    let counting = tokio::spawn(store_counts(Arc::clone(&state), shutdown.clone()));
    let operations = measured(config.store.dialect);
    let meter = Meter::new(telemetry.http.clone(), operations);
    let probes = Probes::new(store.clone(), shutdown.clone()).router();
    let measured = |router: Router| {
        let router = router.merge(probes.clone());
        router.layer(Around(meter.clone(), measure))
    };
    let trusted = config.http.trusted_proxies.clone().into();
    let bounds = bounds(&config.process, trusted, &telemetry);
    let server = Server::new(bounds);
    announce("API", &listeners.api);
    server.serve(listeners.api, measured(planes.api));
    if let (Some(listener), Some(router)) = (listeners.admin, planes.admin) {
        announce("admin plane", &listener);
        server.serve(listener, measured(router));
    }
    if let Some(listener) = listeners.metrics {
        announce("metrics", &listener);
        server.serve(listener, metrics_router(telemetry).merge(probes));
    }
    let (delay, grace) = (config.http.shutdown_delay, config.process.shutdown_grace);
    let issuing = state.issuing.as_ref();
    let outcome = until_shutdown(server, &store, issuing, (delay, grace), &shutdown).await;
    // Once more after the last response, so that no count is lost.
    let last = async {
        let _ = counting.await;
        let counted = state.ledger.traffic().run_once().await;
        state.auth_failures.run_last().await.and(counted)
    };
    match tokio::time::timeout(grace, last).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            warn!(error = %error, "cannot store the last counts: {error}")
        }
        Err(_) => warn!("could not store the last counts in time"),
    }
    outcome
}

/// How often to check whether counts of refused keys are due.
const AUTH_FAILURES_PERIOD: Duration = Duration::from_secs(1);
/// How often to store the counts for detectors.
const TRAFFIC_PERIOD: Duration = Duration::from_secs(5);

/// Stores the counts of refused keys and those for detectors until shutdown. Counts that Redis does not take are kept for the next
/// time.
async fn store_counts(state: AppState, shutdown: Shutdown) {
    let mut traffic_due = tokio::time::interval(TRAFFIC_PERIOD);
    traffic_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    traffic_due.reset();
    let mut failed = false;
    while !shutdown.has_begun() {
        let now_ms = state.store.clock().now_ms();
        let outcome = state.auth_failures.run_once(now_ms).await;
        if let Err(error) = &outcome
            && !failed
        {
            warn!(error = %error, "cannot emit refused keys; it is retried: {error}");
        }
        failed = outcome.is_err();
        tokio::select! {
            () = state.auth_failures.fresh() => {}
            () = tokio::time::sleep(AUTH_FAILURES_PERIOD) => {}
            () = shutdown.begun() => {}
            _ = traffic_due.tick() => {
                // Other metrics report the outage.
                if let Err(error) = state.ledger.traffic().run_once().await {
                    debug!(error = %error, "cannot store the counts for detectors; it is retried: {error}");
                }
            }
        }
    }
}

/// Serves only metrics and probes until `shutdown`, for a process without an API. No load balancer sends to it, so it
/// stops without delay.
///
/// # Errors
/// As for [`run`].
pub async fn run_without_api(
    metrics: Option<TcpListener>,
    store: Store,
    issuing: Option<Issuing>,
    telemetry: Telemetry,
    process: &ProcessConfig,
    shutdown: Shutdown,
) -> Result<(), ServeError> {
    let bounds = bounds(process, [].into(), &telemetry);
    let server = Server::new(bounds);
    if let Some(listener) = metrics {
        announce("metrics", &listener);
        let probes = Probes::new(store.clone(), shutdown.clone()).router();
        server.serve(listener, metrics_router(telemetry).merge(probes));
    }
    let limits = (Duration::ZERO, process.shutdown_grace);
    until_shutdown(server, &store, issuing.as_ref(), limits, &shutdown).await
}

fn bounds(process: &ProcessConfig, trusted: TrustedProxies, telemetry: &Telemetry) -> Bounds {
    Bounds {
        limits: process.connections,
        per_client_max: process.connections_per_address,
        trusted,
        metrics: telemetry.http.clone(),
    }
}

async fn until_shutdown(
    server: Server,
    store: &Store,
    issuing: Option<&Issuing>,
    (delay, grace): (Duration, Duration),
    shutdown: &Shutdown,
) -> Result<(), ServeError> {
    let outcome = tokio::select! {
        () = shutdown.begun() => Ok(()),
        refused = watch_deployment(store, issuing) => {
            shutdown.begin_at_once();
            Err(refused.into())
        }
    };
    let draining = async {
        server.enter(Phase::Stopping);
        tokio::time::sleep(delay).await;
        server.enter(Phase::Refusing);
        server.all_closed(LAST_CALL.min(delay)).await;
    };
    tokio::select! {
        biased;
        () = shutdown.begun_at_once() => {}
        () = draining => {}
    }
    server.enter(Phase::Draining);
    match server.finished(grace).await {
        true => info!("stopped; every accepted request has its response"),
        false => warn!("stopped; the grace period was too short for some requests"),
    }
    outcome
}

fn announce(what: &str, listener: &TcpListener) {
    if let Ok(address) = listener.local_addr() {
        info!(listen = %address, "{what} on http://{address}");
    }
}
