//! Metrics of HTTP requests: count, duration and result.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use prometheus::IntGauge;

use crate::metrics::metrics;

metrics! {
    /// Metrics of HTTP requests.
    pub struct HttpMetrics {
        // The operation is a method and a route, the status a class such as `2xx`.
        /// From the head of the request to the head of the response.
        pub duration: HistogramVec["operation", "status"] buckets [
            0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        ] = "budget_http_request_duration_seconds",
        /// Requests without a response.
        pub in_flight: IntGauge = "budget_http_requests_in_flight",
        /// Responses 401 by plane and reason.
        pub auth_failures: IntCounterVec["plane", "reason"] = "budget_auth_failures_total",
        /// Requests above a limit, by the setting that sets it.
        pub limit_refusals: IntCounterVec["setting"] = "budget_limit_refusals_total",
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

/// Marks a response to a request above a limit, for the metrics: the name of the limit's setting.
#[derive(Debug, Clone, Copy)]
pub struct RefusedLimit(pub &'static str);

/// Counts the request down, also when the client disconnects and the request is dropped.
struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Measures every request, as a layer.
pub async fn measure(State(metrics): State<HttpMetrics>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    metrics.in_flight.inc();
    let _in_flight = InFlight(metrics.in_flight.clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let operation = operation(request.method(), route.as_ref());
    let response = next.run(request).await;
    if let Some(refused) = response.extensions().get::<RefusedCredential>() {
        metrics
            .auth_failures
            .with_label_values(&[refused.plane, refused.reason])
            .inc();
    }
    if let Some(RefusedLimit(setting)) = response.extensions().get() {
        metrics.limit_refusals.with_label_values(&[*setting]).inc();
    }
    let status = match response.status().as_u16() {
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    };
    metrics
        .duration
        .with_label_values(&[operation.as_str(), status])
        .observe(started.elapsed().as_secs_f64());
    response
}

/// The `operation` label; method and route come from closed sets, whatever a client sends.
fn operation(method: &Method, route: Option<&MatchedPath>) -> String {
    let Some(route) = route else {
        return "unmatched".to_owned();
    };
    format!("{} {}", known_method(method), route.as_str())
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
