//! Metrics of HTTP requests: count, duration and result.
//!
//! The counters of every operation are created at the start. So each series exists before its first request, and no client can
//! create one: a request that matches no operation counts as `unmatched`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use prometheus::{Histogram, IntCounter, IntGauge};

use super::around::{Next, Served};
use crate::metrics::metrics;

metrics! {
    /// Metrics of HTTP requests.
    pub struct HttpMetrics {
        // The operation is a method and a path, the status a class such as `2xx`.
        /// Requests by operation and status.
        requests: IntCounterVec["operation", "status"] = "budget_http_requests_total",
        /// From the head of the request to the head of the response. Those of the admin plane are taken together.
        duration: HistogramVec["operation"] buckets [
            0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        ] = "budget_http_request_duration_seconds",
        /// Requests without a response.
        pub in_flight: IntGauge = "budget_http_requests_in_flight",
        /// Responses 401 by plane and reason.
        pub auth_failures: IntCounterVec["plane", "reason"] = "budget_auth_failures_total",
        /// Requests above a limit: the setting that sets it, or the name of a constant one.
        pub limit_refusals: IntCounterVec["limit"] = "budget_limit_refusals_total",
    }
}

/// Marks a 401 response, for the metrics. Both labels come from closed sets.
#[derive(Debug, Clone, Copy)]
pub struct RefusedCredential {
    /// `runtime` or `admin`.
    pub plane: &'static str,
    /// Why the credential was refused.
    pub reason: &'static str,
}

/// Marks a response to a request above a limit, for the metrics, with the label of the limit.
#[derive(Debug, Clone, Copy)]
pub struct RefusedLimit(pub &'static str);

/// An operation to measure: a method on a path of the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// The method; `HEAD` counts as `GET`.
    pub method: Method,
    /// The path as the router has it.
    pub path: String,
    /// Label of the counter; by default method and path.
    pub name: String,
    /// Label of the duration, which operations may share.
    pub timed_as: String,
}

/// Label of requests that match no operation.
const UNMATCHED: &str = "unmatched";

/// Label of the durations of probes, documents and requests that match no operation.
pub const OTHER: &str = "other";

/// Measures requests. Cheap to clone.
#[derive(Clone)]
pub struct Meter(Arc<Meters>);

struct Meters {
    metrics: HttpMetrics,
    operations: HashMap<String, Vec<(Method, Cells)>>,
    unmatched: Cells,
}

/// The metrics of one operation.
struct Cells {
    duration: Histogram,
    /// By class of status.
    requests: [IntCounter; CLASSES.len()],
}

/// Classes of statuses. Nothing responds 1xx here; a 304, which public evidence alone has, is a success too.
const CLASSES: [&str; 3] = ["2xx", "4xx", "5xx"];

impl Meter {
    /// Measures these operations.
    pub fn new(metrics: HttpMetrics, operations: Vec<Measured>) -> Self {
        let cells = |name: &str, timed_as: &str| Cells {
            duration: metrics.duration.with_label_values(&[timed_as]),
            requests: CLASSES.map(|class| metrics.requests.with_label_values(&[name, class])),
        };
        let mut by_path = HashMap::<String, Vec<_>>::new();
        for one in operations {
            let cells = cells(&one.name, &one.timed_as);
            by_path
                .entry(one.path)
                .or_default()
                .push((one.method, cells));
        }
        Self(Arc::new(Meters {
            unmatched: cells(UNMATCHED, OTHER),
            operations: by_path,
            metrics,
        }))
    }
}

impl Meters {
    fn cells(&self, method: &Method, route: Option<&MatchedPath>) -> &Cells {
        let method = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let on_path = route.and_then(|route| self.operations.get(route.as_str()));
        let found = on_path.and_then(|all| all.iter().find(|(of, _)| of == method));
        found.map_or(&self.unmatched, |(_, cells)| cells)
    }
}

impl Cells {
    fn count(&self, status: StatusCode, started: Instant) {
        let class = match status.as_u16() {
            ..400 => 0,
            400..500 => 1,
            500.. => 2,
        };
        self.requests[class].inc();
        self.duration.observe(started.elapsed().as_secs_f64());
    }
}

/// Decrements the gauge, also when the client disconnects and the request is dropped.
struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Measures every request, as a layer.
pub async fn measure(Meter(meters): Meter, request: Request, next: Next) -> Served {
    let started = Instant::now();
    let metrics = &meters.metrics;
    metrics.in_flight.inc();
    let _in_flight = InFlight(metrics.in_flight.clone());
    let cells = meters.cells(request.method(), request.extensions().get());
    let response = next.run(request).await;
    if let Some(refused) = response.extensions().get::<RefusedCredential>() {
        metrics
            .auth_failures
            .with_label_values(&[refused.plane, refused.reason])
            .inc();
    }
    if let Some(RefusedLimit(limit)) = response.extensions().get() {
        metrics.limit_refusals.with_label_values(&[*limit]).inc();
    }
    cells.count(response.status(), started);
    Ok(response)
}

/// The name of a method that HTTP defines, or `OTHER`, because a client may send any text.
pub fn known_method(method: &Method) -> &str {
    match *method {
        Method::GET
        | Method::POST
        | Method::PUT
        | Method::PATCH
        | Method::DELETE
        | Method::OPTIONS
        | Method::HEAD => method.as_str(),
        _ => "OTHER",
    }
}
