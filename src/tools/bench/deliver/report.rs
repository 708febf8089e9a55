//! What deliveries cost.

use serde::Serialize;

use super::cost::Part;

use crate::tools::bench::report::BenchReport;
use crate::tools::table::Table;

/// All figures of one run.
#[derive(Debug, Default, Serialize)]
pub(in crate::tools::bench) struct Deliveries {
    pub(super) rows: Vec<Row>,
    /// How the time of Redis's scripts divides.
    pub(super) parts: Vec<Part>,
    /// Deliveries that did not arrive in time.
    pub missing: u64,
    /// Requests for an event that had arrived before, where nothing was killed.
    pub repeated: u64,
}

/// One figure, and its bound.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub what: &'static str,
    pub value: f64,
    pub unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

impl Row {
    fn is_well(&self) -> bool {
        self.at_least.is_none_or(|least| self.value >= least)
            && self.at_most.is_none_or(|most| self.value <= most)
    }
}

impl Deliveries {
    /// Adds a figure that should be at least as large as `bound`.
    pub(super) fn at_least(
        &mut self,
        what: &'static str,
        value: f64,
        unit: &'static str,
        bound: f64,
    ) {
        let row = Row {
            what,
            value,
            unit,
            at_least: Some(bound),
            at_most: None,
        };
        self.add(row);
    }

    /// Adds a figure that should be at most as large as `bound`.
    pub(super) fn at_most(
        &mut self,
        what: &'static str,
        value: f64,
        unit: &'static str,
        bound: f64,
    ) {
        let row = Row {
            what,
            value,
            unit,
            at_least: None,
            at_most: Some(bound),
        };
        self.add(row);
    }

    /// Adds a figure without a bound.
    pub(super) fn figure(&mut self, what: &'static str, value: f64, unit: &'static str) {
        self.add(Row {
            what,
            value,
            unit,
            at_least: None,
            at_most: None,
        });
    }

    fn add(&mut self, row: Row) {
        eprintln!("{}: {:.1} {}", row.what, row.value, row.unit);
        self.rows.push(row);
    }
}

impl BenchReport for Deliveries {
    fn is_well(&self, _max_error_rate: f64) -> bool {
        self.missing == 0 && self.repeated == 0 && self.rows.iter().all(Row::is_well)
    }

    fn text(&self) -> String {
        let mut table = Table::new(1, ["what", "figure", "unit", "bound", "kept"]);
        for row in &self.rows {
            let bound = match (row.at_least, row.at_most) {
                (Some(least), _) => format!("≥ {least}"),
                (None, Some(most)) => format!("≤ {most}"),
                (None, None) => "-".to_owned(),
            };
            let kept = if row.is_well() { "yes" } else { "NO" };
            table.row([
                row.what.to_owned(),
                format!("{:.1}", row.value),
                row.unit.to_owned(),
                bound,
                kept.to_owned(),
            ]);
        }
        let mut parts = Table::new(1, ["scripts", "calls", "µs a call", "µs a delivery"]);
        for part in &self.parts {
            parts.row([
                part.what.to_owned(),
                format!("{:.2}", part.calls_per_delivery),
                format!("{:.1}", part.us_per_call),
                format!("{:.1}", part.us_per_delivery),
            ]);
        }
        let Self {
            missing, repeated, ..
        } = self;
        format!("{table}\n{parts}\n{missing} deliveries did not arrive, {repeated} arrived twice\n")
    }
}
