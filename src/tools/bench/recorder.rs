//! Counts and times the operations of all clients. They share one recorder, because a set of histograms per client would
//! cost the generator cache misses.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::args::Operation;
use super::ledger::Totals;
use super::response::Failure;

/// The longest time recorded, in nanoseconds; longer ones count as this long.
const LONGEST_NS: u64 = 120_000_000_000;

/// Exact digits of a recorded time.
const DIGITS: u8 = 3;

/// Counts and times of operations.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    latency: [Option<Histogram<u32>>; Operation::ALL.len()],
    errors: BTreeMap<(u16, String), ErrorCount>,
    /// What the operations did to the ledgers.
    pub totals: Totals,
    /// Requests sent, warm-up and retries included.
    pub attempts: u64,
    /// Operations with the expected outcome, warm-up included.
    pub finished: u64,
    /// Requests without the expected response.
    pub failed: u64,
    /// Operations whose outcome stayed unknown.
    pub unresolved: u64,
    /// Responses that contradict the request, or the first response to the same key.
    pub wrong: u64,
    /// The first such response.
    pub wrong_example: Option<String>,
}

/// Counts and times of one operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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

/// How often an error occurred, with its first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ErrorCount {
    #[serde(flatten)]
    pub first: Failure,
    pub count: u64,
}

impl Recorder {
    /// Counts an operation that succeeded, and records its time unless it was warm-up.
    pub fn finish(&mut self, operation: Operation, took: Option<Duration>) {
        self.finished += 1;
        let Some(took) = took else { return };
        let times = &mut self.latency[operation as usize];
        record(times.get_or_insert_with(histogram), took);
    }

    /// Counts a request that failed.
    pub fn fail(&mut self, failure: &Failure) {
        self.failed += 1;
        let key = (failure.status, failure.code.clone());
        let first = || ErrorCount {
            first: failure.clone(),
            count: 0,
        };
        self.errors.entry(key).or_insert_with(first).count += 1;
    }

    /// Counts a response that contradicts the request or an earlier response.
    pub fn contradict(&mut self, example: impl FnOnce() -> String) {
        self.wrong += 1;
        self.wrong_example.get_or_insert_with(example);
    }

    /// A summary of each operation that occurred, then of all together, over the measured time.
    pub fn summaries(&self, measured: Duration) -> Vec<Summary> {
        let mut all = histogram();
        let mut summaries = Vec::new();
        for &operation in Operation::ALL {
            if let Some(histogram) = &self.latency[operation as usize] {
                all.add(histogram)
                    .expect("all histograms have the same bounds");
                summaries.push(summary(operation.as_str(), histogram, measured));
            }
        }
        summaries.push(summary("all", &all, measured));
        summaries
    }

    /// Errors by status and code.
    pub fn errors(&self) -> Vec<ErrorCount> {
        self.errors.values().cloned().collect()
    }
}

/// An empty histogram of nanoseconds.
pub(super) fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are fixed and valid")
}

/// Records a time; one beyond the bounds counts as the longest.
pub(super) fn record(histogram: &mut Histogram<u32>, took: Duration) {
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    histogram.saturating_record(took_ns.max(1));
}

/// Summarizes a histogram of nanoseconds over the measured time.
pub(super) fn summary(
    operation: impl Into<String>,
    histogram: &Histogram<u32>,
    measured: Duration,
) -> Summary {
    let seconds = measured.as_secs_f64();
    let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Summary {
        operation: operation.into(),
        count: histogram.len(),
        per_second: histogram.len() as f64 / seconds.max(1e-9),
        p50_us: us(0.5),
        p90_us: us(0.9),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: us(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: &str, message: &str) -> Failure {
        Failure {
            status: 409,
            code: code.to_owned(),
            message: message.to_owned(),
            uncertain: false,
        }
    }

    #[test]
    fn percentiles_are_exact_to_three_digits() {
        let mut all = Recorder::default();
        for us in 1..=1_000 {
            all.finish(Operation::Reserve, Some(Duration::from_micros(us)));
        }
        all.finish(Operation::Decide, Some(Duration::from_secs(500)));
        all.finish(Operation::Event, None);
        let summaries = all.summaries(Duration::from_secs(2));
        let names: Vec<_> = summaries.iter().map(|summary| &summary.operation).collect();
        assert_eq!(names, ["reserve", "decide", "all"]);
        let reserve = &summaries[0];
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.002;
        assert_eq!((reserve.count, reserve.per_second), (1_000, 500.0));
        for (found, expected) in [
            (reserve.p50_us, 500.0),
            (reserve.p90_us, 900.0),
            (reserve.p99_us, 990.0),
            (reserve.p999_us, 999.0),
            (reserve.max_us, 1_000.0),
        ] {
            assert!(near(found, expected), "{found} instead of {expected}");
        }
        assert_eq!((summaries[2].count, all.finished), (1_001, 1_002));
        assert!(
            summaries[2].max_us >= 120e6,
            "a time beyond the bounds still counts"
        );
    }

    #[test]
    fn failures_are_counted_by_code_with_the_first_message() {
        let mut recorder = Recorder::default();
        for (code, message) in [("B", "first"), ("B", "second"), ("A", "third")] {
            recorder.fail(&failure(code, message));
        }
        recorder.contradict(|| "one".to_owned());
        recorder.contradict(|| "two".to_owned());
        let errors = recorder.errors();
        let found: Vec<_> = errors
            .iter()
            .map(|e| (e.first.code.as_str(), e.count, e.first.message.as_str()))
            .collect();
        assert_eq!(found, [("A", 1, "third"), ("B", 2, "first")]);
        assert_eq!((recorder.failed, recorder.wrong), (3, 2));
        assert_eq!(recorder.wrong_example.as_deref(), Some("one"));
    }
}
