//! Counts and times what one client does; the recorders of all clients are merged in the end.

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

/// What one client, or all of them, did.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    latency: [Option<Histogram<u64>>; Operation::ALL.len()],
    errors: BTreeMap<(u16, String), (u64, String)>,
    /// Requests sent, warm-up and repetitions included.
    pub attempts: u64,
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
    /// Times one operation that succeeded.
    pub fn time(&mut self, operation: Operation, took: Duration) {
        let histogram = self.latency[operation as usize].get_or_insert_with(histogram);
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        histogram.saturating_record(took_ns.max(1));
    }

    /// Counts an attempt that failed.
    pub fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        let key = (failure.status, failure.code);
        let (count, _) = self.errors.entry(key).or_insert((0, failure.message));
        *count += 1;
    }

    /// Counts an answer that contradicts the request or an earlier answer.
    pub fn contradict(&mut self, example: impl FnOnce() -> String) {
        self.wrong += 1;
        self.wrong_example.get_or_insert_with(example);
    }

    /// Adds another client's.
    pub fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.latency.iter_mut().zip(other.latency) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => absorb(mine, &theirs),
                (mine @ None, theirs) => *mine = theirs,
                (Some(_), None) => {}
            }
        }
        for (key, (count, message)) in other.errors {
            self.errors.entry(key).or_insert((0, message)).0 += count;
        }
        self.attempts += other.attempts;
        self.failed += other.failed;
        self.unresolved += other.unresolved;
        self.wrong += other.wrong;
        self.wrong_example = self.wrong_example.take().or(other.wrong_example);
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

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are fixed and valid")
}

fn absorb(mine: &mut Histogram<u64>, theirs: &Histogram<u64>) {
    mine.add(theirs)
        .expect("all histograms have the same bounds");
}

/// Percentiles of a histogram of nanoseconds.
pub(super) fn summary(
    operation: &'static str,
    histogram: &Histogram<u64>,
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
    fn percentiles_are_those_of_all_clients_together() {
        let mut all = Recorder::default();
        for client in 0..10 {
            let mut recorder = Recorder::default();
            for step in 0..100 {
                recorder.time(
                    Operation::Reserve,
                    Duration::from_micros(client * 100 + step + 1),
                );
            }
            all.merge(recorder);
        }
        all.time(Operation::Decide, Duration::from_secs(500));
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
        assert_eq!(summaries[2].count, 1_001);
        assert!(
            summaries[2].max_us >= 120e6,
            "what is too long still counts"
        );
    }

    #[test]
    fn failures_are_counted_by_code_with_the_first_message() {
        let (mut one, mut other) = (Recorder::default(), Recorder::default());
        one.fail(failure("B", "first"));
        other.fail(failure("B", "second"));
        other.fail(failure("A", "third"));
        other.contradict(|| "example".to_owned());
        one.merge(other);
        let errors = one.errors();
        let codes: Vec<_> = errors
            .iter()
            .map(|e| (e.code.as_str(), e.count, e.message.as_str()))
            .collect();
        assert_eq!(codes, [("A", 1, "third"), ("B", 2, "first")]);
        assert_eq!((one.failed, one.wrong), (3, 1));
        assert_eq!(one.wrong_example.as_deref(), Some("example"));
    }
}
