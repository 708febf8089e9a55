//! Runs the API: binds, serves until told to stop, and loses no request that it accepted.
//!
//! The end comes in steps. Readiness turns red at once and each answer carries `Connection: close`, so that load
//! balancers turn away and their idle connections go. All is served as before for `BUDGET_SHUTDOWN_DELAY_MS`: where
//! balancers follow a list of endpoints, as in Kubernetes, new connections come until that list has reached them all.
//! Only then no connection is accepted any more, which the last of them notice; [`LAST_CALL`] later idle connections
//! are closed, and requests in flight have `BUDGET_SHUTDOWN_GRACE_MS` to finish. So a balancer does not send into a
//! connection that is just being closed.

mod server;
mod timeouts;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::net::TcpListener;
use tracing::{info, warn};

use crate::api::Planes;
use crate::api::auth::failures::AuthFailures;
use crate::api::ops::{Probes, metrics_router};
use crate::config::{ConfigError, ProcessConfig, ServeConfig};
use crate::shutdown::Shutdown;
use crate::store::{Store, StoreError};
use crate::telemetry::{Telemetry, measure};
use server::{Phase, Server};

/// How long idle connections stay open once no new ones are accepted; never longer than the delay before.
const LAST_CALL: Duration = Duration::from_secs(1);

/// Bound sockets. Port 0 in the configuration picks a free one.
#[derive(Debug)]
pub struct Listeners {
    /// The API; the admin plane as well, unless that has its own.
    pub api: TcpListener,
    /// The admin plane's own address.
    pub admin: Option<TcpListener>,
    /// Metrics.
    pub metrics: Option<TcpListener>,
}

/// Why the service could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error("{variable}: cannot listen on {address}")]
    Bind {
        /// The setting that names the address.
        variable: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The data in Redis belongs to another kind of deployment.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system refuses something else.
    #[error(transparent)]
    Io(#[from] io::Error),
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
    bound.map_err(|source| ServeError::Bind {
        variable,
        address,
        source,
    })
}

/// Serves until `shutdown`, then lets accepted requests finish.
///
/// # Errors
/// [`ServeError::Store`] as soon as the data in Redis turns out to be another deployment's. A Redis that is not there
/// yet is no error: readiness is red until it is.
pub async fn run(
    listeners: Listeners,
    planes: Planes,
    store: Store,
    telemetry: Telemetry,
    config: &ServeConfig,
    shutdown: Shutdown,
) -> Result<(), ServeError> {
    if config.http.admin_keys.is_empty() {
        warn!("BUDGET_ADMIN_KEYS is empty: the admin plane refuses everybody");
    }
    let probes = Probes::new(store.clone(), shutdown.clone()).router();
    let measured = |router: Router| {
        let router = router.merge(probes.clone());
        router.layer(from_fn_with_state(telemetry.http.clone(), measure))
    };
    let server = Server::new(config.process.connections);
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
    let clock = store.clone();
    let telling = tokio::spawn(tell_auth_failures(
        clock,
        planes.auth_failures.clone(),
        shutdown.clone(),
    ));
    let (delay, grace) = (config.http.shutdown_delay, config.process.shutdown_grace);
    let outcome = until_shutdown(server, &store, (delay, grace), &shutdown).await;
    // Once more when the last request is answered, so that no count is lost.
    let last = async {
        let _ = telling.await;
        planes.auth_failures.run_last().await
    };
    match tokio::time::timeout(grace, last).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            warn!(error = %error, "the last refused keys could not be told: {error}")
        }
        Err(_) => warn!("the last refused keys could not be told in time"),
    }
    outcome
}

/// How often to look whether counts of refused keys are to be told.
const TELL_PERIOD: Duration = Duration::from_secs(1);

async fn tell_auth_failures(store: Store, auth_failures: AuthFailures, shutdown: Shutdown) {
    let mut failed = false;
    while !shutdown.has_begun() {
        let outcome = auth_failures.run_once(store.clock().now_ms()).await;
        if let Err(error) = &outcome
            && !failed
        {
            warn!(error = %error, "refused keys could not be told, and are tried again: {error}");
        }
        failed = outcome.is_err();
        tokio::select! {
            () = auth_failures.fresh() => {}
            () = tokio::time::sleep(TELL_PERIOD) => {}
            () = shutdown.begun() => {}
        }
    }
}

/// Serves metrics and probes alone until `shutdown`, for a process without an API. No load balancer sends to it, so it
/// ends without delay.
///
/// # Errors
/// As for [`run`].
pub async fn run_without_api(
    metrics: Option<TcpListener>,
    store: Store,
    telemetry: Telemetry,
    process: &ProcessConfig,
    shutdown: Shutdown,
) -> Result<(), ServeError> {
    let server = Server::new(process.connections);
    if let Some(listener) = metrics {
        announce("metrics", &listener);
        let probes = Probes::new(store.clone(), shutdown.clone()).router();
        server.serve(listener, metrics_router(telemetry).merge(probes));
    }
    let patience = (Duration::ZERO, process.shutdown_grace);
    until_shutdown(server, &store, patience, &shutdown).await
}

async fn until_shutdown(
    server: Server,
    store: &Store,
    (delay, grace): (Duration, Duration),
    shutdown: &Shutdown,
) -> Result<(), ServeError> {
    let outcome = tokio::select! {
        () = shutdown.begun() => Ok(()),
        refused = watch_deployment(store) => {
            shutdown.begin_at_once();
            Err(refused.into())
        }
    };
    let turning_away = async {
        server.enter(Phase::Stopping);
        tokio::time::sleep(delay).await;
        server.enter(Phase::Refusing);
        server.all_closed(LAST_CALL.min(delay)).await;
    };
    tokio::select! {
        biased;
        () = shutdown.begun_at_once() => {}
        () = turning_away => {}
    }
    server.enter(Phase::Draining);
    match server.finished(grace).await {
        true => info!("stopped; every accepted request was answered"),
        false => warn!("stopped; the grace period was too short for some requests"),
    }
    outcome
}

fn announce(what: &str, listener: &TcpListener) {
    if let Ok(address) = listener.local_addr() {
        info!(listen = %address, "{what} on http://{address}");
    }
}

/// Ends only when the deployment does not fit. Warns once about a Redis that is absent or set up dangerously.
async fn watch_deployment(store: &Store) -> StoreError {
    let mut warned = false;
    loop {
        match store.deployment().await {
            Ok(_) => break,
            Err(error @ (StoreError::Unavailable(_) | StoreError::Full)) => {
                if !std::mem::replace(&mut warned, true) {
                    warn!(error = %error, "waiting for Redis: {error}");
                }
            }
            Err(refused) => return refused,
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    match store.inspect().await {
        Ok(findings) => {
            for finding in findings {
                warn!(redis.address = %finding.node, "Redis at {}: {}", finding.node, finding.message);
            }
        }
        Err(error) => warn!(error = %error, "the settings of Redis could not be checked: {error}"),
    }
    pending().await
}
