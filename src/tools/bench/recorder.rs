//! Counts and times of operations.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::service::Change;

/// One request of the runtime plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Operation {
    Reserve,
    Commit,
    Release,
    Decide,
    Event,
}

/// A response without the expected outcome, or none at all.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Failure {
    /// The HTTP status; 0 without a response.
    pub status: u16,
    /// The error code, or another name of the failure.
    pub code: String,
    pub message: String,
    /// How often there was one of this status and code; the message is that of the first.
    pub count: u64,
}

impl Failure {
    pub fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.into(),
            count: 1,
        }
    }
}

/// Counts and times of the operations of all clients. They share it, because a set of histograms per client would cost the
/// generator cache misses.
#[derive(Default)]
pub(super) struct Recorder {
    pub times: BTreeMap<Operation, Times>,
    /// By status and code.
    pub errors: BTreeMap<(u16, String), Failure>,
    /// The change of the ledgers by the operations.
    pub change: Change,
    /// Requests sent, warm-up and retries included.
    pub attempts: u64,
    /// Requests without the expected response.
    pub failed: u64,
    /// Operations without a known outcome.
    pub unresolved: u64,
    pub contradictions: u64,
    pub first_contradiction: Option<String>,
    /// From the end of the warm-up to the last response.
    pub elapsed: Duration,
    /// Processor time of the generator; `None` where the system does not report it.
    pub generator_us_per_request: Option<f64>,
}

impl Recorder {
    /// Counts a request that failed.
    pub fn fail(&mut self, failure: &Failure) {
        self.failed += 1;
        self.errors
            .entry((failure.status, failure.code.clone()))
            .and_modify(|first| first.count += 1)
            .or_insert_with(|| failure.clone());
    }

    /// Counts a response that contradicts the request or an earlier response.
    pub fn contradict(&mut self, example: String) {
        self.contradictions += 1;
        self.first_contradiction.get_or_insert(example);
    }

    /// A summary of each operation that occurred, then of all together, over the measured time.
    pub fn summaries(&self) -> Vec<Summary> {
        let (mut all, mut summaries) = (Times::default(), Vec::new());
        for (operation, times) in &self.times {
            all.0.add(&times.0).expect("all have the same bounds");
            summaries.push(times.summary(operation.into(), self.elapsed));
        }
        summaries.push(all.summary("all", self.elapsed));
        summaries
    }
}

/// Times, exact to three digits; those beyond two minutes count as two minutes.
pub(super) struct Times(Histogram<u32>);

/// Counts and times of one operation.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Summary {
    pub operation: &'static str,
    pub count: u64,
    pub per_second: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

impl Default for Times {
    fn default() -> Self {
        let nanoseconds = Histogram::new_with_bounds(1, 120_000_000_000, 3);
        Self(nanoseconds.expect("the bounds are valid"))
    }
}

impl Times {
    pub fn record(&mut self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(took_ns.max(1));
    }

    /// Summarizes them over the measured time.
    pub fn summary(&self, operation: &'static str, measured: Duration) -> Summary {
        let us = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        Summary {
            operation,
            count: self.0.len(),
            per_second: self.0.len() as f64 / measured.as_secs_f64().max(1e-9),
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: us(1.0),
        }
    }
}

/// Microseconds in the unit that fits.
pub(super) fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => digits(us) + " µs",
        us if us < 1e6 => digits(us / 1e3) + " ms",
        us => digits(us / 1e6) + " s",
    }
}

/// A number with three digits, or with all before the point.
pub(super) fn digits(number: f64) -> String {
    let size = number.abs();
    let decimals = usize::from(size < 10.0) + usize::from(size < 100.0);
    format!("{number:.decimals$}")
}
