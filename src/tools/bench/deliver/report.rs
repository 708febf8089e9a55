//! Figures beside their bounds.

use serde::Serialize;

use crate::tools::bench::BenchReport;
use crate::tools::table::Table;

/// All figures of one run.
#[derive(Debug, Default, Serialize)]
pub(in crate::tools::bench) struct Deliveries {
    rows: Vec<Row>,
    /// Deliveries that did not arrive in time.
    pub(super) missing: u64,
    /// Requests for an event that had arrived before, where nothing was killed.
    pub(super) repeated: u64,
}

/// One figure, and its bound.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    value: f64,
    unit: &'static str,
    #[serde(flatten)]
    bound: Option<Bound>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Deliveries {
    /// Adds a figure, and its bound if it has one.
    pub(super) fn add(
        &mut self,
        what: &'static str,
        value: f64,
        unit: &'static str,
        bound: impl Into<Option<Bound>>,
    ) {
        eprintln!("{what}: {} {unit}", digits(value));
        self.rows.push(Row {
            what,
            value,
            unit,
            bound: bound.into(),
        });
    }
}

impl Row {
    fn is_within_bound(&self) -> bool {
        self.bound.is_none_or(|bound| match bound {
            Bound::AtLeast(least) => self.value >= least,
            Bound::AtMost(most) => self.value <= most,
        })
    }
}

impl BenchReport for Deliveries {
    fn is_well(&self, _max_error_rate: f64) -> bool {
        self.missing == 0 && self.repeated == 0 && self.rows.iter().all(Row::is_within_bound)
    }

    fn text(&self) -> String {
        let mut rows = Table::new(1, ["what", "figure", "unit", "bound", "kept"]);
        for row in &self.rows {
            let bound = match row.bound {
                Some(Bound::AtLeast(least)) => format!("≥ {least}"),
                Some(Bound::AtMost(most)) => format!("≤ {most}"),
                None => "-".to_owned(),
            };
            let kept = if row.is_within_bound() { "yes" } else { "NO" };
            let cells = [row.what, &digits(row.value), row.unit, &bound, kept];
            rows.row(cells.map(str::to_owned));
        }
        let (missing, repeated) = (self.missing, self.repeated);
        format!("{rows}\n{missing} deliveries did not arrive, {repeated} arrived twice\n")
    }
}

/// With the digits that a small figure needs.
fn digits(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        large if large < 1_000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
