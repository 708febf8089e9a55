//! Probes and metrics. The probes are public and on the API's address; metrics have an address of their own.
//!
//! | path | response |
//! |---|---|
//! | `/live`, `/actuator/health/liveness` | 200 while the process runs |
//! | `/ready`, `/actuator/health/readiness`, `/actuator/health` | 200 while requests can be served, else 503. `/ready` also warns while memory is short, or a file must be rewritten |
//! | `/metrics` | the Prometheus text format |
//!
//! A store outage drains traffic; it does not restart processes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::warn;

use crate::api::auth::authenticate::host_problem;
use crate::shutdown::Shutdown;
use crate::store::{MemoryStep, REFUSE_PERCENT, Store, StoreError};
use crate::telemetry::{Telemetry, error_chain};

/// A probe waits this long for Redis.
const PROBE_LIMIT: Duration = Duration::from_millis(1_000);

/// How long a node may take to say that it is there: well below the timeout of those who probe, because one silent node
/// is no reason to take the replica away from all others.
const PING_LIMIT: Duration = Duration::from_millis(500);

/// How long the nodes count as checked. Probes are public, so each must not cost a call of every node.
const CHECKED_FOR: Duration = Duration::from_secs(1);

/// The state that the probes check.
#[derive(Clone)]
pub struct Probes {
    store: Store,
    shutdown: Shutdown,
    /// When a script ran, and no node was found to evict keys. The lock lets one probe check at a time.
    checked: Arc<Mutex<Option<Instant>>>,
}

impl Probes {
    /// Probes of a process that serves from `store` until `shutdown`.
    pub fn new(store: Store, shutdown: Shutdown) -> Self {
        Self {
            store,
            shutdown,
            checked: Arc::default(),
        }
    }

    /// The probes' routes.
    pub fn router(self) -> Router {
        Router::new()
            .route("/live", get(live))
            .route("/ready", get(ready))
            .route("/actuator/health", get(readiness))
            .route("/actuator/health/liveness", get(live))
            .route("/actuator/health/readiness", get(readiness))
            .layer(from_fn(require_host))
            .with_state(self)
    }

    async fn check_nodes(&self) -> Result<(), StoreError> {
        let mut checked = self.checked.lock().await;
        if checked.is_none_or(|at| at.elapsed() >= CHECKED_FOR) {
            let scripts = self.store.check_scripts(PING_LIMIT);
            tokio::try_join!(scripts, self.store.check_eviction(PING_LIMIT))?;
            *checked = Some(Instant::now());
        }
        Ok(())
    }

    /// The warning of readiness while the fullest node is short of memory.
    fn memory_warning(&self) -> Option<String> {
        let share = self.store.fullest_share();
        let percent = share.percent();
        (MemoryStep::at(share) > MemoryStep::Enough).then(|| {
            format!("Redis uses {percent} % of maxmemory; from {REFUSE_PERCENT} % on, creates, events and decisions are refused")
        })
    }

    /// The warning while the next restart of Redis may bring half of a transaction back.
    fn file_warning(&self) -> Option<String> {
        let warning = "Redis may not have rewritten its append-only file since it started: allow BGREWRITEAOF, or run it before the \
                       next restart";
        self.store.has_file_as_found().then(|| warning.to_owned())
    }

    /// Whether a request would be served now: not stopping, the right deployment, a node that answers, no ACL that forbids scripts,
    /// and no node that evicts keys.
    async fn is_ready(&self) -> bool {
        if self.shutdown.has_begun() {
            return false;
        }
        let probe = async {
            self.store.secret().await?;
            tokio::try_join!(self.store.ping(PING_LIMIT), self.check_nodes())
        };
        match tokio::time::timeout(PROBE_LIMIT, probe).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                let error = error_chain(&error);
                warn!(error, "not ready: {error}");
                false
            }
            Err(_) => {
                warn!("not ready: Redis did not respond in time");
                false
            }
        }
    }
}

/// Refuses a request without a clear `Host`, as every other path does.
async fn require_host(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match host_problem(&parts) {
        Some(problem) => (StatusCode::BAD_REQUEST, problem).into_response(),
        None => next.run(Request::from_parts(parts, body)).await,
    }
}

async fn live() -> Response {
    health(StatusCode::OK, UP)
}

async fn readiness(State(probes): State<Probes>) -> Response {
    match probes.is_ready().await {
        true => health(StatusCode::OK, UP),
        false => health(StatusCode::SERVICE_UNAVAILABLE, DOWN),
    }
}

/// Readiness that warns. A replica whose Redis is short of memory, or must not be restarted, stays ready: others would fare no
/// better, and commits and releases must get through.
async fn ready(State(probes): State<Probes>) -> Response {
    let response = readiness(State(probes.clone())).await;
    let warnings = [probes.memory_warning(), probes.file_warning()];
    let warnings: Vec<_> = warnings.into_iter().flatten().collect();
    if response.status() != StatusCode::OK || warnings.is_empty() {
        return response;
    }
    let body = json!({"status": "UP", "warning": warnings.join(". ")});
    health(StatusCode::OK, body.to_string())
}

const UP: &str = r#"{"status":"UP"}"#;
const DOWN: &str = r#"{"status":"DOWN"}"#;

fn health(status: StatusCode, body: impl IntoResponse) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, body).into_response()
}

/// The route of `/metrics`, for its own address.
pub fn metrics_router(telemetry: Telemetry) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(telemetry)
}

async fn metrics(State(telemetry): State<Telemetry>) -> Response {
    match telemetry.render() {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => {
            warn!(error = %error, "the metrics cannot be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
