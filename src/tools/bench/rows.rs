//! Figures beside their bounds.

use serde::Serialize;

use crate::tools::table::Table;

/// The figures of a run, in their order.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Rows(Vec<Row>);

/// One figure, and its bound.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    value: f64,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
}

impl Row {
    fn is_kept(&self) -> bool {
        self.at_least.is_none_or(|least| self.value >= least)
            && self.at_most.is_none_or(|most| self.value <= most)
    }
}

impl Rows {
    /// Adds a figure that should be at least as large as `bound`.
    pub fn at_least(&mut self, what: &'static str, value: f64, unit: &'static str, bound: f64) {
        self.add(what, value, unit, (Some(bound), None));
    }

    /// Adds a figure that should be at most as large as `bound`.
    pub fn at_most(&mut self, what: &'static str, value: f64, unit: &'static str, bound: f64) {
        self.add(what, value, unit, (None, Some(bound)));
    }

    /// Adds a figure without a bound.
    pub fn figure(&mut self, what: &'static str, value: f64, unit: &'static str) {
        self.add(what, value, unit, (None, None));
    }

    fn add(
        &mut self,
        what: &'static str,
        value: f64,
        unit: &'static str,
        (at_least, at_most): (Option<f64>, Option<f64>),
    ) {
        eprintln!("{what}: {} {unit}", digits(value));
        self.0.push(Row {
            what,
            value,
            unit,
            at_least,
            at_most,
        });
    }

    /// Whether every bound is kept.
    pub fn are_kept(&self) -> bool {
        self.0.iter().all(Row::is_kept)
    }

    /// All of them, for people.
    pub fn table(&self) -> Table {
        let mut table = Table::new(1, ["what", "figure", "unit", "bound", "kept"]);
        for row in &self.0 {
            let (bound, kept) = match (row.at_least, row.at_most) {
                (Some(least), _) => (format!("≥ {least}"), row.is_kept()),
                (None, Some(most)) => (format!("≤ {most}"), row.is_kept()),
                (None, None) => ("-".to_owned(), true),
            };
            let kept = if kept { "yes" } else { "NO" };
            let cells = [row.what, &digits(row.value), row.unit, &bound, kept];
            table.row(cells.map(str::to_owned));
        }
        table
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_which_bound_is_not_kept() {
        let mut rows = Rows::default();
        rows.at_least("ratio", 0.851, "", 0.85);
        rows.at_most("wait", 2.0, "s", 2.0);
        rows.figure("memory", 1_234.5, "bytes");
        assert!(rows.are_kept());
        rows.at_most("round trips", 1.01, "", 1.0);
        assert!(!rows.are_kept());
        let text = rows.table().to_string();
        let lines: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["ratio", "0.85", "≥", "0.85", "yes"]);
        assert_eq!(lines[3], ["memory", "1234", "bytes", "-", "yes"]);
        assert_eq!(lines[4].last(), Some(&"NO"));
    }
}
