//! Logs and metrics.

mod around;
mod http;
mod process;

use std::error::Error;
use std::io::IsTerminal as _;

use prometheus::{Registry, TextEncoder};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use around::{Around, Next, Served, pass};
pub use http::{
    HttpMetrics, Measured, Meter, OTHER as MEASURED_OTHER, RefusedCredential, RefusedLimit,
    known_method, measure,
};
use process::ProcessMetrics;

use crate::config::{LogArgs, LogFormat};

/// Starts the log on standard error, unless the process has one.
pub fn start_log(args: &LogArgs) {
    let registry = tracing_subscriber::registry().with(args.log.clone());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let _ = match args.log_format {
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
        LogFormat::Text => registry.with(lines.compact().with_target(false)).try_init(),
    };
}

/// An error and its causes on one line, without causes whose text an earlier one contains.
pub fn error_chain(error: &dyn Error) -> String {
    let mut chain = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !chain.contains(&text) {
            chain.push_str(": ");
            chain.push_str(&text);
        }
        source = cause.source();
    }
    chain
}

/// The metrics of one process.
#[derive(Clone)]
pub struct Telemetry {
    registry: Registry,
    /// Requests of the API.
    pub http: HttpMetrics,
    process: ProcessMetrics,
}

impl Telemetry {
    /// Creates the metrics in a new registry.
    ///
    /// # Errors
    /// When a name is taken, which is a bug.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        Ok(Self {
            http: HttpMetrics::register(&registry)?,
            process: ProcessMetrics::start(&registry)?,
            registry,
        })
    }

    /// The registry, to which other modules add their metrics.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// All metrics in the Prometheus text format.
    ///
    /// # Errors
    /// When a metric is not consistent.
    pub fn render(&self) -> prometheus::Result<String> {
        self.process.update();
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ExtraRoundTrip, StoreMetrics};

    #[tokio::test]
    async fn memory_and_round_trips_are_rendered() {
        let telemetry = Telemetry::new().expect("distinct names");
        let store = StoreMetrics::register(telemetry.registry()).expect("distinct names");
        store.extra_round_trip(ExtraRoundTrip::Clock);
        let text = telemetry.render().expect("consistent metrics");
        assert!(
            text.contains("budget_extra_round_trips_total{reason=\"clock\"} 1"),
            "{text}"
        );
        let memory = text
            .lines()
            .find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        let bytes: f64 = memory
            .and_then(|bytes| bytes.parse().ok())
            .expect("a number");
        assert!(bytes > 1_000_000.0, "{bytes}");
    }
}
