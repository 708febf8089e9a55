//! One line for each request, on request: `BUDGET_LOG=info,access_log=debug`. Not by default, because each
//! is a write to standard error, and a replica answers thousands of requests a second; metrics count them for less.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode};
use tracing::{Level, debug, enabled};

use super::trace::correlation::Correlation;
use crate::telemetry::known_method;

/// What the log calls these lines.
const TARGET: &str = "access_log";

/// A line that is to be written once the response is known. It holds the route, not the path, and nothing that a client
/// chose freely: no query, no header, no body.
pub struct Line {
    begun: Instant,
    method: Method,
    route: Option<MatchedPath>,
}

impl Line {
    /// Begins one, if the log takes any.
    pub fn begin(request: &Request) -> Option<Self> {
        enabled!(target: TARGET, Level::DEBUG).then(|| Self {
            begun: Instant::now(),
            method: request.method().clone(),
            route: request.extensions().get().cloned(),
        })
    }

    /// Writes it. The ids are part of it, so that it is complete whatever else is logged.
    pub fn write(self, status: StatusCode, correlation: &Correlation) {
        let duration_us = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let method = known_method(&self.method);
        let route = self.route.as_ref().map_or("unmatched", MatchedPath::as_str);
        let status = status.as_u16();
        debug!(
            target: TARGET,
            {
                http.method = method,
                http.route = route,
                http.status = status,
                duration_us,
                request.id = %correlation.request_id,
                trace.id = %correlation.trace_id,
            },
            "{method} {route} answered {status} after {duration_us} µs"
        );
    }
}
