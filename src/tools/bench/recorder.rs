//! Counts and times what all clients do. They share one recorder: a set of histograms per client would keep the
//! generator busy with cache misses.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::answer::Failure;
use super::args::Operation;

/// Longest time that is told apart, in nanoseconds.
const LONGEST_NS: u64 = 120_000_000_000;

/// Three digits are exact.
const DIGITS: u8 = 3;

/// What the clients did.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    latency: [Option<Histogram<u32>>; Operation::ALL.len()],
    errors: BTreeMap<(u16, String), (u64, String)>,
    /// Requests sent, warm-up and repetitions included.
    pub attempts: u64,
    /// Operations with the outcome that was wanted, warm-up included.
    pub finished: u64,
    /// Attempts without the answer that was wanted.
    pub failed: u64,
    /// Operations whose outcome stayed unknown to the end.
    pub unresolved: u64,
    /// Answers that say something else than was asked for, or differ from the first answer to the same key.
    pub wrong: u64,
    /// The first of them.
    pub wrong_example: Option<String>,
}

/// How long operations took.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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

/// How often something failed, and what was said at first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ErrorCount {
    /// The HTTP status; 0 without an answer.
    pub status: u16,
    pub code: String,
    pub count: u64,
    pub message: String,
}

impl Recorder {
    /// Counts one operation that succeeded, and times it unless it was warm-up.
    pub fn finish(&mut self, operation: Operation, took: Option<Duration>) {
        self.finished += 1;
        let Some(took) = took else { return };
        let histogram = self.latency[operation as usize].get_or_insert_with(histogram);
        record(histogram, took);
    }

    /// Counts an attempt that failed.
    pub fn fail(&mut self, failure: &Failure) {
        self.failed += 1;
        let key = (failure.status, failure.code.clone());
        let first = || (0, failure.message.clone());
        self.errors.entry(key).or_insert_with(first).0 += 1;
    }

    /// Counts an answer that contradicts the request or an earlier answer.
    pub fn contradict(&mut self, example: impl FnOnce() -> String) {
        self.wrong += 1;
        self.wrong_example.get_or_insert_with(example);
    }

    /// Each operation that occurred, then all of them together, over the time that was measured.
    pub fn summaries(&self, measured: Duration) -> Vec<Summary> {
        let mut all = histogram();
        let mut summaries = Vec::new();
        for operation in Operation::ALL {
            if let Some(histogram) = &self.latency[operation as usize] {
                absorb(&mut all, histogram);
                summaries.push(summary(operation.as_str(), histogram, measured));
            }
        }
        summaries.push(summary("all", &all, measured));
        summaries
    }

    /// What failed, by status and code.
    pub fn errors(&self) -> Vec<ErrorCount> {
        let count =
            |((status, code), (count, message)): (&(u16, String), &(u64, String))| ErrorCount {
                status: *status,
                code: code.clone(),
                count: *count,
                message: message.clone(),
            };
        self.errors.iter().map(count).collect()
    }
}

pub(super) fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are fixed and valid")
}

/// Adds a time to a histogram of [`histogram`]'s bounds.
pub(super) fn record(histogram: &mut Histogram<u32>, took: Duration) {
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    histogram.saturating_record(took_ns.max(1));
}

fn absorb(mine: &mut Histogram<u32>, theirs: &Histogram<u32>) {
    mine.add(theirs)
        .expect("all histograms have the same bounds");
}

/// Percentiles of a histogram of nanoseconds.
pub(super) fn summary(
    operation: &'static str,
    histogram: &Histogram<u32>,
    measured: Duration,
) -> Summary {
    let seconds = measured.as_secs_f64();
    let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Summary {
        operation,
        count: histogram.len(),
        per_second: if seconds > 0.0 {
            histogram.len() as f64 / seconds
        } else {
            0.0
        },
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
        let names: Vec<_> = summaries.iter().map(|summary| summary.operation).collect();
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
            "what is too long still counts"
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
        let told = |e: &ErrorCount| (e.code.clone(), e.count, e.message.clone());
        let told: Vec<_> = errors.iter().map(told).collect();
        let expected = [("A", 1, "third"), ("B", 2, "first")];
        assert_eq!(
            told,
            expected.map(|(code, n, message)| (code.into(), n, message.into()))
        );
        assert_eq!((recorder.failed, recorder.wrong), (3, 2));
        assert_eq!(recorder.wrong_example.as_deref(), Some("one"));
    }
}
