//! A table of text: a name per row, figures to the right.

use std::fmt;

const CELL_WIDTH: usize = 11;

/// Rows under a heading.
pub(super) struct Table {
    rows: Vec<(String, Vec<String>)>,
}

impl Table {
    pub fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(ToString::to_string).collect();
        Self {
            rows: vec![(title.to_owned(), columns)],
        }
    }

    pub fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        self.rows
            .push((name.to_owned(), cells.into_iter().collect()));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rows.iter().map(|(name, _)| name.chars().count());
        let name_width = names.max().unwrap_or(0);
        for (name, cells) in &self.rows {
            write!(f, "{name:<name_width$}")?;
            for cell in cells {
                write!(f, "{cell:>CELL_WIDTH$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_with_their_headings() {
        let mut table = Table::new("", &["p50", "count"]);
        table.row("reserve", ["12 µs".to_owned(), "7".to_owned()]);
        let expected = "               p50      count\nreserve      12 µs          7\n";
        assert_eq!(table.to_string(), expected);
    }
}
