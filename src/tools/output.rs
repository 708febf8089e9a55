//! Prints tables for people and JSON for programs. Colours and the width of lines are those of a terminal; pipes and files
//! get plain text.

use std::io::{IsTerminal as _, StdoutLock, Write};

use clap::builder::styling::{AnsiColor, Style};
use serde_json::Value;

use super::call::CallError;
use super::table::Table;
use crate::domain::amount::{Unit, dollars};
use crate::domain::moment::Moment;
use crate::domain::printable::printable_up_to;

/// Where commands print.
#[derive(Debug)]
pub(super) struct Output<W> {
    pub to: W,
    /// Whether programs read it.
    pub is_json: bool,
    pub terminal: Terminal,
}

/// The members of an object that are printed first; those that end in `_at` or `_at_ms`, and of requests, are last.
const FIRST: &str = "key_secret signing_secret reservation_id key_id policy_id subscription_id subscription event_id \
                     event_type scope scope_pattern unit name tenant_id status";

impl Output<StdoutLock<'static>> {
    /// On standard output.
    pub fn of_stdout(is_json: bool) -> Self {
        let (to, terminal) = (std::io::stdout().lock(), Terminal::of_stdout());
        Self {
            to,
            is_json,
            terminal,
        }
    }
}

impl<W: Write> Output<W> {
    /// Prints one line of text.
    pub fn line(&mut self, text: &str) -> Result<(), CallError> {
        writeln!(self.to, "{text}")?;
        // A row shows at once, also through a pipe.
        Ok(self.to.flush()?)
    }

    /// Prints JSON, on several lines where people read it.
    pub fn json(&mut self, value: &Value) -> Result<(), CallError> {
        self.line(&match self.is_json {
            true => value.to_string(),
            false => format!("{value:#}"),
        })
    }

    /// Prints an object: a member per line, or its JSON.
    pub fn object(&mut self, object: &Value) -> Result<(), CallError> {
        if self.is_json {
            return self.line(&object.to_string());
        }
        let Some(members) = object.as_object() else {
            return self.line("done");
        };
        let width = members.keys().map(String::len).max().unwrap_or(0);
        let mut members: Vec<_> = members.iter().collect();
        members.sort_by_key(|(name, _)| rank(name));
        for (name, value) in members {
            let (mut text, terminal) = (plain(value), self.terminal);
            if let Some(dollars) = terminal.dollars(value) {
                text += &format!(" ({dollars})");
            }
            let name = terminal.paint(&format!("{name:<width$}"), FAINT);
            writeln!(
                self.to,
                "{name}  {}",
                terminal.paint(&text, style_of(&text))
            )?;
        }
        Ok(self.to.flush()?)
    }

    /// Prints rows as a table, or one JSON object per line; `nothing` when there are none. `columns` are `HEADING=member`,
    /// separated by commas; with `:amount` a member is printed without its unit, money on a terminal in dollars, and one that ends in `_at_ms` as a time. Amounts,
    /// and members with `:number`, are to the right.
    pub fn table(&mut self, columns: &str, rows: &[Value], nothing: &str) -> Result<(), CallError> {
        if self.is_json {
            return rows.iter().try_for_each(|row| self.line(&row.to_string()));
        }
        if rows.is_empty() {
            eprintln!("{nothing}");
            return Ok(());
        }
        let columns = columns
            .split(", ")
            .filter_map(|column| column.split_once('='));
        let columns: Vec<_> = columns.collect();
        let cell = |row: &Value, member: &str| match member.split_once(':') {
            Some((member, "amount")) => {
                let dollars = self.terminal.dollars(&row[member]);
                dollars.unwrap_or_else(|| plain(&row[member]["amount"]))
            }
            Some((member, _)) => plain(&row[member]),
            None if member.ends_with("_at_ms") => moment(&row[member]),
            None => {
                let dollars = self.terminal.dollars(&row[member]);
                dollars.unwrap_or_else(|| plain(&row[member]))
            }
        };
        let headings = columns
            .iter()
            .map(|(text, member)| (*text, member.contains(':').then_some(0)));
        let mut table = Table::aligned(headings);
        for row in rows {
            table.row(columns.iter().map(|(_, member)| cell(row, member)));
        }
        let terminal = self.terminal;
        let text = table.render(|row, cell, padded| match row {
            0 => terminal.paint(padded, HEADING),
            _ => terminal.paint(padded, style_of(cell)),
        });
        write!(self.to, "{text}")?;
        Ok(self.to.flush()?)
    }
}

/// The place of a member in a printed object.
fn rank(name: &str) -> usize {
    let is_last = ["_at", "_at_ms", "request_id", "trace_id"];
    let mut first = FIRST.split_whitespace();
    let last = is_last.iter().any(|end| name.ends_with(end));
    first
        .position(|first| first == name)
        .unwrap_or(FIRST.len() + usize::from(last))
}

/// Prints text without quotes, an amount as `1000 TOKENS`, and other values as JSON.
pub(super) fn plain(value: &Value) -> String {
    if let Value::Object(members) = value
        && members.len() == 2
        && let (Some(amount), Some(unit)) = (members.get("amount"), value["unit"].as_str())
    {
        return format!("{amount} {unit}");
    }
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable(text),
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

/// What the terminal can show; the default is for pipes and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Terminal {
    /// Whether it shows colours.
    pub colour: bool,
    /// Its columns, if it is a terminal.
    pub width: Option<usize>,
}

pub(super) const HEADING: Style = Style::new().bold();
/// It has ended, or is of less interest.
pub(super) const FAINT: Style = Style::new().dimmed();
/// It failed, or needs attention.
pub(super) const BAD: Style = AnsiColor::Red.on_default();

impl Terminal {
    /// That of standard output. `NO_COLOR`, or a terminal without capabilities, turns colours off.
    pub fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::default();
        }
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            colour: !is_set("NO_COLOR") && !is_dumb,
            width: columns(),
        }
    }

    /// An amount of money in dollars, for people; `None` for any other value, and for pipes and files.
    pub fn dollars(self, value: &Value) -> Option<String> {
        let is_money = self.width.is_some() && value["unit"] == Unit::UsdMicrocents.as_str();
        let amount = value["amount"].as_i64().filter(|_| is_money)?;
        Some(dollars(amount))
    }

    /// The text in this style.
    pub fn paint(self, text: &str, style: Style) -> String {
        match self.colour && !text.trim().is_empty() {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }

    /// The text, cut to the width of the terminal that `used` columns leave.
    pub fn fit(self, text: &str, used: usize) -> String {
        let left = self.width.unwrap_or(usize::MAX).saturating_sub(used);
        if text.chars().count() <= left {
            return text.to_owned();
        }
        let cut = text.chars().take(left.saturating_sub(1));
        cut.chain((left > 0).then_some('…')).collect()
    }
}

/// The style of a status; other words have none.
fn style_of(word: &str) -> Style {
    match word {
        "ACTIVE" | "SUCCESS" => AnsiColor::Green.on_default(),
        "FROZEN" | "SUSPENDED" | "PAUSED" | "RETRYING" | "PENDING" => {
            AnsiColor::Yellow.on_default()
        }
        "FAILED" | "DISABLED" => BAD,
        "CLOSED" | "REVOKED" | "EXPIRED" | "COMMITTED" | "RELEASED" => FAINT,
        _ => Style::new(),
    }
}

#[expect(unsafe_code, reason = "the standard library has no such call")]
fn columns() -> Option<usize> {
    // SAFETY: integers, which may be zero.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: `size` is valid for the write, and nothing keeps the pointer.
    let read = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) } == 0;
    Some(usize::from(size.ws_col)).filter(|columns| read && *columns > 0)
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
        print(&mut Output {
            to: &mut text,
            is_json: json,
            terminal: Terminal::default(),
        })
        .expect("it prints");
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
            "NAME                       LEFT\na              9007199254740993\nlong\\u{1b}[2J                 1\n"
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
        let object = json!({
            "created_at": "t", "allocated": {"unit": "TOKENS", "amount": 5}, "of": ["a", "b"], "status": "ACTIVE", "key_id": "x",
        });
        let text = |object| printed(false, |output| output.object(object));
        assert_eq!(
            text(&object),
            "key_id      x\nstatus      ACTIVE\nallocated   5 TOKENS\nof          a b\ncreated_at  t\n"
        );
        assert_eq!(text(&Value::Null), "done\n");
    }

    #[test]
    fn only_a_terminal_with_colours_gets_them() {
        let (colour, width) = (true, None);
        let coloured = Terminal { colour, width };
        let painted = coloured.paint("FAILED", style_of("FAILED"));
        assert_eq!(painted, "\u{1b}[31mFAILED\u{1b}[0m");
        assert_eq!(coloured.paint("x", style_of("x")), "x");
        assert_eq!(coloured.paint("  ", BAD), "  ");
        assert_eq!(Terminal::default().paint("FAILED", BAD), "FAILED");
    }

    #[test]
    fn a_line_is_cut_to_what_is_left_of_the_width() {
        let (colour, width) = (false, Some(10));
        let narrow = Terminal { colour, width };
        assert_eq!(narrow.fit("0123456789", 0), "0123456789");
        assert_eq!(narrow.fit("0123456789", 4), "01234…");
        assert_eq!(narrow.fit("0123456789", 9), "…");
        assert_eq!(narrow.fit("0123456789", 12), "");
        assert_eq!(Terminal::default().fit("0123456789", 4), "0123456789");
    }
}
