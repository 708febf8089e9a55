//! `admin usage`: prints a report of what a tenant used, as a table, JSON or CSV.

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use super::check_tenant;
use super::commands::CommandRow;
use super::tree::bar;
use crate::domain::usage::UsageGroup;
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;
use crate::tools::output::{Output, plain};

/// Rows per page: each page is a report of its own.
pub(super) const PAGE: usize = 1_000;

/// Adds the forms of the output.
pub(super) fn with_arguments(command: Command) -> Command {
    let words = UsageGroup::WORDS.join(", ");
    let by = format!("What makes a row: any of {words}; repeated or comma-separated");
    let switch = |name: &'static str, about: &'static str| {
        let switch = Arg::new(name).long(name).help(about);
        switch.action(ArgAction::SetTrue)
    };
    let csv = switch("csv", "Print all rows as CSV").conflicts_with("focus");
    let focus = "Print CSV with the columns of FOCUS 1.2: money, by day";
    let command = command.mut_arg("by", |argument| argument.help(by));
    command.args([csv, switch("focus", focus)])
}

/// Prints at most `limit` rows of a report.
///
/// # Errors
/// As for [`Client::send`]; [`CallError::Usage`] where CSV is asked for, and something that it does not have.
pub(super) async fn run(
    row: &CommandRow,
    report: &Call,
    limit: Option<usize>,
    matches: &ArgMatches,
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let is_focus = matches.get_flag("focus");
    if is_focus || matches.get_flag("csv") {
        if output.is_json || limit.is_some() {
            let text = "CSV has all rows, and is no JSON: leave --limit and --json out";
            return Err(CallError::Usage(text.to_owned()));
        }
        let report = report.clone().with("format", is_focus.then_some("focus"));
        let (headers, csv) = client.csv(&report).await?;
        write!(output.to, "{csv}")?;
        output.to.flush()?;
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let is_complete = header("usage-complete") != Some("false");
        let complete_from = header("usage-complete-from").unwrap_or_default();
        say_what_is_missing(&report, is_complete, complete_from);
        return Ok(());
    }
    let mut pages = client.pages(report, limit, PAGE);
    let mut rows = pages.rest().await?;
    let page = &mut pages.page;
    if output.is_json {
        page["usage"] = rows.into();
        return output.line(&page.to_string());
    }
    if rows.is_empty() {
        check_tenant(report, client).await?;
    }
    let by = value(report, "group_by").unwrap_or_default();
    let by: Vec<_> = by.split(',').filter(|name| !name.is_empty()).collect();
    let mut whole = Vec::new();
    if page["has_more"] == true {
        let mut report = report.clone();
        report.query.retain(|(name, _)| name != "group_by");
        whole = client.rows(&report, None).await?;
    }
    let totals = totals(if whole.is_empty() { &rows } else { &whole });
    for row in &mut rows {
        add_columns(row, &by, &totals);
    }
    let heading = |name: &&str| format!("{}={name}, ", name.to_uppercase().replace('_', " "));
    let mut columns: String = by.iter().map(heading).collect();
    columns += match output.terminal.width {
        Some(_) => "UNIT=unit, CHARGED=charged:amount, SHARE=share:number, =bar",
        None => "UNIT=unit, CHARGED=charged:amount",
    };
    columns += ", REFUNDED=refunded:amount, COUNT=count:number";
    output.table(&columns, &rows, row.nothing)?;
    if rows.iter().any(|row| row["saturated"] == true) {
        eprintln!("a sum is beyond 64 bits, and shown as 9223372036854775807");
    }
    let complete_from = page["complete_from"].as_str().unwrap_or_default();
    say_what_is_missing(report, page["complete"] != false, complete_from);
    Ok(())
}

/// The value of a parameter.
pub(super) fn value<'a>(call: &'a Call, name: &str) -> Option<&'a str> {
    let mut query = call.query.iter();
    query.find_map(|(known, value)| (known == name).then_some(value.as_str()))
}

fn charged(row: &Value) -> (String, i128) {
    let charged = &row["charged"];
    let amount = charged["amount"].as_i64().unwrap_or(0);
    (plain(&charged["unit"]), amount.into())
}

/// What was charged in each unit.
fn totals(rows: &[Value]) -> BTreeMap<String, i128> {
    let mut totals = BTreeMap::new();
    for (unit, amount) in rows.iter().map(charged) {
        *totals.entry(unit).or_default() += amount;
    }
    totals
}

/// Adds what a row shows beside its members.
fn add_columns(row: &mut Value, by: &[&str], totals: &BTreeMap<String, i128>) {
    let (unit, part) = charged(row);
    let whole = totals.get(&unit).copied().unwrap_or_default();
    if whole > 0 {
        let thousandths = (part * 1_000 + whole / 2) / whole;
        row["share"] = format!("{}.{} %", thousandths / 10, thousandths % 10).into();
    }
    row["bar"] = bar(part, part, whole).into();
    row["unit"] = unit.into();
    let mut absent = by.iter().filter(|name| row[**name].is_null());
    if row["other"] == true
        && let Some(name) = absent.next()
    {
        row[*name] = json!("(other)");
    }
}

/// Says on standard error what the report does not have.
fn say_what_is_missing(report: &Call, is_complete: bool, complete_from: &str) {
    if !is_complete {
        eprintln!(
            "incomplete: some usage of these days is only known as a sum, which filters do not see; without filters it is `(other)`"
        );
    }
    if value(report, "from").is_none_or(|from| from < complete_from) {
        eprintln!("usage is known from {complete_from} on");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(unit: &str, charged: i64) -> Value {
        json!({"charged": {"unit": unit, "amount": charged}})
    }

    #[test]
    fn a_share_is_of_what_was_charged_in_the_unit() {
        let whole = [row("TOKENS", 999), row("TOKENS", 1), row("CREDITS", 0)];
        let columns = |index: usize| {
            let mut row = whole[index].clone();
            add_columns(&mut row, &[], &totals(&whole));
            (row["share"].clone(), row["bar"].clone())
        };
        assert_eq!(columns(0), (json!("99.9 %"), json!("█".repeat(20))));
        assert_eq!(columns(1), (json!("0.1 %"), json!("░".repeat(20))));
        assert_eq!(columns(2), (Value::Null, json!("░".repeat(20))));
    }

    #[test]
    fn what_is_not_known_apart_is_other() {
        let mut row = row("TOKENS", 5);
        (row["day"], row["other"]) = (json!("2026-07-04"), json!(true));
        let totals = totals(&[row.clone()]);
        add_columns(&mut row, &["day", "app", "agent"], &totals);
        assert_eq!(
            (&row["app"], &row["agent"]),
            (&json!("(other)"), &Value::Null)
        );
    }
}
