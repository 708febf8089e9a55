//! What the operations cost at each size.

use serde::Serialize;

use super::cost::Cost;
use crate::tools::bench::ledger::{Difference, disagreement};
use crate::tools::bench::recorder::Recorder;
use crate::tools::bench::report::{BenchReport, time};
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

    /// One table per operation, with a row per size.
    fn text(&self) -> String {
        let (mut text, scopes) = (String::new(), self.scopes);
        let first = self.stages.first().map_or(&[][..], |first| &first.costs);
        for (at, cost) in first.iter().enumerate() {
            let title = format!("{}, one client, {scopes} scopes", cost.calls.operation);
            let mut table = Table::new(1, [&title, "p50", "p99", "in Redis", "trips"]);
            for Size { stored, costs } in &self.stages {
                let (calls, cost) = (&costs[at].calls, &costs[at]);
                table.row([
                    format!("  {stored} stored"),
                    time(calls.p50_us),
                    time(calls.p99_us),
                    time(cost.redis_us),
                    format!("{:.2}", cost.round_trips),
                ]);
            }
            text += &format!("{table}\n");
        }
        if self.error_rate > 0.0 || self.unresolved > 0 {
            let (share, unresolved) = (self.error_rate * 100.0, self.unresolved);
            text +=
                &format!("reserves: {share:.3} % failed, {unresolved} without a known outcome\n");
        }
        text + &disagreement("ledger", &self.differences)
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
        assert!(wrong.text().contains("does NOT agree"));
    }
}
