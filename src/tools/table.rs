//! Text in columns.

use std::fmt;

/// The least width of a column of numbers.
const NUMBER_WIDTH: usize = 9;

/// Rows under headings: columns of names to the left, columns of numbers to the right.
pub(super) struct Table {
    /// The least width of each right-aligned column; `None` for the others.
    right: Vec<Option<usize>>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings, of which the first `names` are of names and the others of numbers.
    pub fn new<'a>(names: usize, headings: impl IntoIterator<Item = &'a str>) -> Self {
        let headings = headings.into_iter().enumerate();
        Self::aligned(headings.map(|(column, text)| {
            let right = (column >= names).then_some(NUMBER_WIDTH);
            (text, right)
        }))
    }

    /// A table with these headings, each with the least width of its column if that is to the right.
    pub fn aligned<'a>(headings: impl IntoIterator<Item = (&'a str, Option<usize>)>) -> Self {
        let headings = headings.into_iter();
        let headings = headings.map(|(text, right)| (right, text.to_owned()));
        let (right, headings) = headings.unzip();
        let rows = vec![headings];
        Self { right, rows }
    }

    /// Adds a row with a cell for each heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines. `paint` gets the row, from 0 for the headings, the cell, and the cell with the blanks around it.
    pub fn render(&self, paint: impl Fn(usize, &str, &str) -> String) -> String {
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let last = self.rows[0].len().saturating_sub(1);
        let widths: Vec<_> = (0..=last).map(width).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                line += if column > 0 { "  " } else { "" };
                let padded = match self.right[column] {
                    None if column == last => cell.clone(),
                    None => format!("{cell:<width$}"),
                    Some(least) => format!("{cell:>width$}", width = least.max(*width)),
                };
                line += &paint(number, cell, &padded);
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(|_, _, padded| padded.to_owned()))
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
