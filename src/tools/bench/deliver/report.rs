//! What deliveries cost.

use serde::Serialize;

use super::cost::Part;
use crate::tools::bench::report::BenchReport;
use crate::tools::bench::rows::Rows;
use crate::tools::table::Table;

/// All figures of one run.
#[derive(Debug, Default, Serialize)]
pub(in crate::tools::bench) struct Deliveries {
    pub(super) rows: Rows,
    /// How the time of Redis's scripts divides.
    pub(super) parts: Vec<Part>,
    /// Deliveries that did not arrive in time.
    pub missing: u64,
    /// Requests for an event that had arrived before, where nothing was killed.
    pub repeated: u64,
}

impl BenchReport for Deliveries {
    fn is_well(&self, _max_error_rate: f64) -> bool {
        self.missing == 0 && self.repeated == 0 && self.rows.are_kept()
    }

    fn text(&self) -> String {
        let mut parts = Table::new(1, ["scripts", "calls", "µs a call", "µs a delivery"]);
        for part in &self.parts {
            parts.row([
                part.what.to_owned(),
                format!("{:.2}", part.calls_per_delivery),
                format!("{:.1}", part.us_per_call),
                format!("{:.1}", part.us_per_delivery),
            ]);
        }
        let (table, missing, repeated) = (self.rows.table(), self.missing, self.repeated);
        format!("{table}\n{parts}\n{missing} deliveries did not arrive, {repeated} arrived twice\n")
    }
}
