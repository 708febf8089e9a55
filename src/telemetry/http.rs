//! Requests of the API: how many, how long, with which result.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

/// Metrics of HTTP requests.
#[derive(Debug, Clone)]
pub struct HttpMetrics {
    /// `budget_http_request_duration_seconds{operation,status}`: from the request's head to the response's head.
    /// `operation` is a method and a route of the table, `status` a class such as `2xx`.
    pub duration: HistogramVec,
    /// `budget_http_requests_in_flight`: requests that have no response yet.
    pub in_flight: IntGauge,
    /// `budget_auth_failures_total{plane,reason}`: answers 401 by what was wrong with the credential.
    pub auth_failures: IntCounterVec,
}

/// Marks a response that refuses a credential. Both words come from closed sets.
#[derive(Debug, Clone, Copy)]
pub struct RefusedCredential {
    /// Which plane refused.
    pub plane: &'static str,
    /// What was wrong.
    pub reason: &'static str,
}

impl HttpMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let duration = HistogramOpts::new(
            "budget_http_request_duration_seconds",
            "From the head of the request to the head of the response.",
        )
        .buckets(vec![
            0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        ]);
        let metrics = Self {
            duration: HistogramVec::new(duration, &["operation", "status"])?,
            in_flight: IntGauge::new(
                "budget_http_requests_in_flight",
                "Requests that have no response yet.",
            )?,
            auth_failures: IntCounterVec::new(
                Opts::new(
                    "budget_auth_failures_total",
                    "Answers 401 by what was wrong with the credential.",
                ),
                &["plane", "reason"],
            )?,
        };
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.auth_failures.clone()))?;
        Ok(metrics)
    }
}

/// Leaves the gauge right also when the client goes away and the request is dropped half-way.
struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A layer that measures every request.
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

/// Both parts come from closed sets, whatever a client sends.
fn operation(method: &Method, route: Option<&MatchedPath>) -> String {
    let Some(route) = route else {
        return "unmatched".to_owned();
    };
    format!("{} {}", known_method(method), route.as_str())
}

/// The name of a method that HTTP defines, or `OTHER`: a client may send any word.
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
