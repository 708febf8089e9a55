//! Prints tables for people and JSON for programs.

use std::io::Write;

use serde_json::Value;

use crate::domain::moment::Moment;
use crate::domain::printable::printable_up_to;
use crate::tools::client_error::CallError;
use crate::tools::table::Table;

/// Where commands print.
#[derive(Debug)]
pub(super) struct Output<W> {
    to: W,
    json: bool,
}

impl<W: Write> Output<W> {
    pub fn new(to: W, json: bool) -> Self {
        Self { to, json }
    }

    /// Whether the output is JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints one line of text.
    pub fn line(&mut self, text: &str) -> Result<(), CallError> {
        writeln!(self.to, "{text}")?;
        // A row shows at once, also through a pipe.
        Ok(self.to.flush()?)
    }

    /// Prints an object: a member per line, or its JSON.
    pub fn object(&mut self, object: &Value) -> Result<(), CallError> {
        if self.json {
            return self.line(&object.to_string());
        }
        let Some(members) = object.as_object() else {
            return self.line("done");
        };
        let width = members.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in members {
            writeln!(self.to, "{name:<width$}  {}", plain(value))?;
        }
        Ok(self.to.flush()?)
    }

    /// Prints rows as a table, or one JSON object per line; `nothing` when there are none. `columns` are `HEADING=member`,
    /// separated by commas; with `:amount` a member is printed without its unit, and one that ends in `_at_ms` as a time.
    pub fn table(&mut self, columns: &str, rows: &[Value], nothing: &str) -> Result<(), CallError> {
        if self.json {
            return rows.iter().try_for_each(|row| self.line(&row.to_string()));
        }
        if rows.is_empty() {
            eprintln!("{nothing}");
            return Ok(());
        }
        let columns = columns
            .split(", ")
            .filter_map(|column| column.split_once('='));
        let (headings, members): (Vec<_>, Vec<_>) = columns.unzip();
        let cell = |row: &Value, member: &str| match member.strip_suffix(":amount") {
            Some(member) => plain(&row[member]["amount"]),
            None if member.ends_with("_at_ms") => moment(&row[member]),
            None => plain(&row[member]),
        };
        let mut table = Table::new(headings.len(), headings);
        for row in rows {
            table.row(members.iter().map(|member| cell(row, member)));
        }
        write!(self.to, "{table}")?;
        Ok(self.to.flush()?)
    }
}

/// Prints text without quotes, an amount as `1000 TOKENS`, and other values as JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(text),
        Value::Object(amount) if amount.len() == 2 && amount.contains_key("unit") => {
            match (amount.get("amount"), amount["unit"].as_str()) {
                (Some(number), Some(unit)) => format!("{number} {unit}"),
                _ => printable(&value.to_string()),
            }
        }
        Value::Array(entries) if entries.iter().all(Value::is_string) => {
            let texts = entries.iter().filter_map(Value::as_str).map(printable);
            texts.collect::<Vec<_>>().join(" ")
        }
        Value::Array(entries) => format!("{} entries; --json shows them", entries.len()),
        _ => printable(&value.to_string()),
    }
}

/// Prints milliseconds since the epoch as a time.
fn moment(value: &Value) -> String {
    let moment = value.as_i64().and_then(Moment::from_ms);
    moment.map_or_else(|| plain(value), |moment| moment.to_string())
}

/// Escapes control characters, so that text from others cannot move the cursor or forge a line.
fn printable(text: &str) -> String {
    printable_up_to(text, usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed(
        json: bool,
        print: impl FnOnce(&mut Output<&mut Vec<u8>>) -> Result<(), CallError>,
    ) -> String {
        let mut text = Vec::new();
        print(&mut Output::new(&mut text, json)).expect("it prints");
        String::from_utf8(text).expect("text")
    }

    const COLUMNS: &str = "NAME=name, LEFT=left:amount";

    #[test]
    fn a_table_is_aligned_and_its_json_is_a_row_per_line() {
        let rows = [
            json!({"name": "a", "left": {"unit": "TOKENS", "amount": 9_007_199_254_740_993_i64}}),
            json!({"name": "long\u{1b}[2J", "left": {"unit": "TOKENS", "amount": 1}}),
        ];
        assert_eq!(
            printed(false, |output| output.table(COLUMNS, &rows, "")),
            "NAME           LEFT\na              9007199254740993\nlong\\u{1b}[2J  1\n"
        );
        let lines = printed(true, |output| output.table(COLUMNS, &rows, ""));
        let read: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(read, rows);
    }

    #[test]
    fn values_other_than_text_are_printed_plainly() {
        let text = moment(&json!(1_795_280_891_360_i64));
        assert_eq!(text, "2026-11-21T17:08:11.360Z");
        assert_eq!(moment(&Value::Null), "-");
        let objects = plain(&json!([{"a": 1}, {"b": 2}]));
        assert_eq!(objects, "2 entries; --json shows them");
        assert_eq!(plain(&json!({"max_ttl_ms": 5})), r#"{"max_ttl_ms":5}"#);
    }

    #[test]
    fn an_object_is_a_member_per_line() {
        let object =
            json!({"id": "x", "allocated": {"unit": "TOKENS", "amount": 5}, "of": ["a", "b"]});
        let text = |object| printed(false, |output| output.object(object));
        assert_eq!(
            text(&object),
            "allocated  5 TOKENS\nid         x\nof         a b\n"
        );
        assert_eq!(text(&Value::Null), "done\n");
    }
}
