//! Text in columns.

use std::fmt;

/// The least width of a column of numbers.
const NUMBER_WIDTH: usize = 9;

/// Rows under headings: columns of names to the left, columns of numbers to the right.
pub(super) struct Table {
    names: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings, of which the first `names` are of names and the others of numbers.
    pub fn new<'a>(names: usize, headings: impl IntoIterator<Item = &'a str>) -> Self {
        let headings = headings.into_iter().map(str::to_owned).collect();
        Self {
            names,
            rows: vec![headings],
        }
    }

    /// Adds a row with a cell for each heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.rows[0].len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                line += if column > 0 { "  " } else { "" };
                line += &match column < self.names {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}", width = NUMBER_WIDTH.max(*width)),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_with_their_headings() {
        let mut table = Table::new(1, ["", "p50", "count"]);
        table.row(["reserve", "12 µs", "7"].map(str::to_owned));
        let expected = "               p50      count\nreserve      12 µs          7\n";
        assert_eq!(table.to_string(), expected);
    }
}
