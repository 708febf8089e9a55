//! What evidence costs.

use serde::Serialize;

use super::rounds::Round;
use crate::tools::bench::ledger::{Difference, disagreement};
use crate::tools::bench::recorder::Recorder;
use crate::tools::bench::report::{BenchReport, time};
use crate::tools::bench::rows::Rows;
use crate::tools::table::Table;

/// All figures of one run.
#[derive(Debug, Default, Serialize)]
pub(in crate::tools::bench) struct EvidenceReport {
    pub(super) rows: Rows,
    /// The two services in rounds.
    pub(super) rounds: Vec<Round>,
    /// Requests that failed.
    pub errors: u64,
    pub first_error: Option<String>,
    /// Entries that were not signed, and envelopes that could not be read in time.
    pub missing: u64,
    /// Ledgers whose figures are not the totals of the responses.
    pub differences: Vec<Difference>,
}

impl EvidenceReport {
    /// Adds requests that failed.
    pub(super) fn failed(&mut self, count: u64, first: Option<String>) {
        self.errors += count;
        self.first_error = self.first_error.take().or(first);
    }

    /// Adds what a load did wrong.
    pub(super) fn noted(&mut self, recorder: &Recorder) {
        let wrong = recorder.failed + recorder.unresolved + recorder.wrong;
        let first = recorder.errors().into_iter().next();
        self.failed(wrong, first.map(|error| error.first.message));
    }
}

impl BenchReport for EvidenceReport {
    fn is_well(&self, _max_error_rate: f64) -> bool {
        self.errors == 0 && self.missing == 0 && self.differences.is_empty()
    }

    fn text(&self) -> String {
        let mut rounds = Table::new(1, ["evidence", "per s", "p50", "p99", "in Redis", "bytes"]);
        for round in &self.rounds {
            rounds.row([
                round.evidence.to_owned(),
                format!("{:.0}", round.per_second),
                time(round.p50_us),
                time(round.p99_us),
                time(round.redis_us_per_call),
                format!("{:.0}", round.bytes),
            ]);
        }
        let (rows, errors, missing) = (self.rows.table(), self.errors, self.missing);
        let mut text = format!(
            "reserves by 50 clients, in rounds; in Redis, the script without HTTP\n{rounds}\n{rows}\n\
            {errors} requests failed, {missing} envelopes are missing\n"
        );
        if let Some(error) = &self.first_error {
            text += &format!("the first failure: {error}\n");
        }
        if self.differences.is_empty() {
            text += "the ledgers agree with the responses\n";
        }
        text + &disagreement("ledger", &self.differences)
    }
}
