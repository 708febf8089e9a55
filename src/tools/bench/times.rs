//! Histograms of times.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Times, exact to three digits; those beyond two minutes count as two minutes.
#[derive(Debug)]
pub(super) struct Times(Histogram<u32>);

/// Counts and times of one operation.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Summary {
    pub operation: String,
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

    pub fn add(&mut self, other: &Self) {
        let added = self.0.add(&other.0);
        added.expect("all histograms have the same bounds");
    }

    /// Summarizes them over the measured time.
    pub fn summary(&self, operation: &str, measured: Duration) -> Summary {
        let us = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        Summary {
            operation: operation.to_owned(),
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

/// Microseconds with three digits, in the unit that fits.
pub(super) fn time(us: f64) -> String {
    let (number, unit) = match us {
        us if us < 1e3 => (us, "µs"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let decimals = if number < 10.0 {
        2
    } else {
        usize::from(number < 100.0)
    };
    format!("{number:.decimals$} {unit}")
}
