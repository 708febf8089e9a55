//! What the operations cost at each size.

use std::fmt;

use serde::Serialize;

use super::cost::Cost;
use crate::tools::bench::ledger::Difference;
use crate::tools::bench::recorder::Recorder;
use crate::tools::bench::report::{BenchReport, time, write_disagreement};
use crate::tools::table::Table;

/// The same operations, with ever more stored.
#[derive(Debug, Default, Serialize)]
pub(in crate::tools::bench) struct Growth {
    pub scopes: u8,
    pub stages: Vec<Size>,
    /// Share of the reserves over HTTP that failed; a failed read ends the benchmark.
    pub error_rate: f64,
    /// Ledgers whose figures are not the totals of the responses.
    pub differences: Vec<Difference>,
    /// Reserves whose outcome stayed unknown or contradicts the request.
    pub unresolved: u64,
    #[serde(skip)]
    requests: u64,
    #[serde(skip)]
    failed: u64,
}

/// The operations, with so much stored.
#[derive(Debug, Serialize)]
pub(in crate::tools::bench) struct Size {
    pub stored: u64,
    pub costs: Vec<Cost>,
}

impl Growth {
    /// Nothing measured yet.
    pub(super) fn new(scopes: u8) -> Self {
        Self {
            scopes,
            ..Self::default()
        }
    }

    /// Counts the failures of reserves.
    pub(super) fn count(&mut self, reserves: &Recorder) {
        self.requests += reserves.attempts;
        self.failed += reserves.failed;
        self.unresolved += reserves.unresolved + reserves.wrong;
        self.error_rate = self.failed as f64 / self.requests.max(1) as f64;
    }
}

impl BenchReport for Growth {
    fn is_well(&self, max_error_rate: f64) -> bool {
        let agrees = self.differences.is_empty() && self.unresolved == 0;
        agrees && self.error_rate <= max_error_rate
    }
}

impl fmt::Display for Growth {
    /// One table per operation, with a row per size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.stages.first().map_or(&[][..], |first| &first.costs);
        for (at, cost) in first.iter().enumerate() {
            let (name, scopes) = (cost.calls.operation, self.scopes);
            let title = format!("{name}, one client, {scopes} scopes");
            let mut table = Table::new(1, [&title, "p50", "p99", "in Redis", "trips"]);
            for Size { stored, costs } in &self.stages {
                let cost = &costs[at];
                table.row([
                    format!("  {stored} stored"),
                    time(cost.calls.p50_us),
                    time(cost.calls.p99_us),
                    time(cost.redis_us),
                    format!("{:.2}", cost.round_trips),
                ]);
            }
            writeln!(f, "{table}")?;
        }
        if self.error_rate > 0.0 || self.unresolved > 0 {
            let (share, unresolved) = (self.error_rate * 100.0, self.unresolved);
            writeln!(
                f,
                "reserves: {share:.3} % failed, {unresolved} without a known outcome"
            )?;
        }
        match self.differences.is_empty() {
            true => Ok(()),
            false => write_disagreement(f, "ledger", &self.differences),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::bench::ledger::Totals;

    #[test]
    fn failures_and_differences_are_not_well() {
        let growth = |error_rate, unresolved, differences| Growth {
            error_rate,
            differences,
            unresolved,
            ..Growth::default()
        };
        let missing = Difference {
            scope: "tenant:t".to_owned(),
            source: "x",
            expected: Totals::default().expected(1),
            found: None,
        };
        assert!(growth(0.0, 0, vec![]).is_well(0.0));
        assert!(growth(0.1, 0, vec![]).is_well(0.1));
        assert!(!growth(0.1, 0, vec![]).is_well(0.0));
        assert!(!growth(0.0, 1, vec![]).is_well(1.0));
        let wrong = growth(0.0, 0, vec![missing]);
        assert!(!wrong.is_well(1.0));
        assert!(wrong.to_string().contains("does NOT agree"));
    }
}
