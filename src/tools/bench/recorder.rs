//! Counts and times of the operations of all clients. They share one recorder, because a set of histograms per client would
//! cost the generator cache misses.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::ledger::Change;
use super::times::{Summary, Times};
use crate::domain::words::words;

words! {
    /// One request of the runtime plane.
    Operation {
        /// Holds an estimate.
        Reserve = "reserve",
        /// Ends a hold with a charge.
        Commit = "commit",
        /// Ends a hold without a charge.
        Release = "release",
        /// Asks whether a hold could be made.
        Decide = "decide",
        /// Charges without a hold.
        Event = "event",
    }
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
    /// Whether the service may have performed the operation nonetheless.
    pub fn is_uncertain(&self) -> bool {
        self.status == 0 || self.status >= 500
    }
}

/// Counts and times of the operations of all clients.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    times: BTreeMap<Operation, Times>,
    /// By status and code.
    pub errors: BTreeMap<(u16, String), Failure>,
    /// What the operations changed in the ledgers.
    pub change: Change,
    /// Requests sent, warm-up and retries included.
    pub attempts: u64,
    /// Operations with the expected outcome, warm-up included.
    pub finished: u64,
    /// Requests without the expected response.
    pub failed: u64,
    pub unresolved: u64,
    pub contradictions: u64,
    pub first_contradiction: Option<String>,
}

impl Recorder {
    /// Counts an operation that succeeded, and records its time unless it was warm-up.
    pub fn finish(&mut self, operation: Operation, took: Option<Duration>) {
        self.finished += 1;
        if let Some(took) = took {
            self.times.entry(operation).or_default().record(took);
        }
    }

    /// Counts a request that failed.
    pub fn fail(&mut self, failure: &Failure) {
        self.failed += 1;
        let key = (failure.status, failure.code.clone());
        let known = self.errors.entry(key);
        known
            .and_modify(|first| first.count += 1)
            .or_insert_with(|| failure.clone());
    }

    /// Counts a response that contradicts the request or an earlier response.
    pub fn contradict(&mut self, example: String) {
        self.contradictions += 1;
        self.first_contradiction.get_or_insert(example);
    }

    /// A summary of each operation that occurred, then of all together, over the measured time.
    pub fn summaries(&self, measured: Duration) -> Vec<Summary> {
        let (mut all, mut summaries) = (Times::default(), Vec::new());
        for (operation, times) in &self.times {
            all.add(times);
            summaries.push(times.summary(operation.as_str(), measured));
        }
        summaries.push(all.summary("all", measured));
        summaries
    }
}
