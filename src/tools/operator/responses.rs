//! Prints responses that are neither one object nor the rows of a list: the overview, and the outcome of a bulk action.

use std::io::Write;

use serde_json::{Value, json};

use super::tree::bar;
use crate::tools::call::CallError;
use crate::tools::output::{Output, plain};

/// Members of a budget that are drawn.
const DRAWN: [&str; 5] = [
    "period",
    "period_start",
    "period_end",
    "limits",
    "increases",
];

/// Prints a budget: its figures, then its period, limits and increases.
pub(super) fn print_budget(
    ledger: &Value,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let mut figures = ledger.clone();
    if let Some(members) = figures.as_object_mut() {
        members.retain(|name, _| !DRAWN.contains(&name.as_str()));
    }
    output.object(&figures)?;
    let terminal = output.terminal;
    let text = |value: &Value, name: &str| {
        let dollars = terminal.dollars(&value[name]);
        dollars.unwrap_or_else(|| plain(&value[name]))
    };
    let period = &ledger["period"];
    if period.is_object() {
        let [every, zone] = ["every", "time_zone"].map(|name| text(period, name));
        let (end, next) = (text(ledger, "period_end"), text(period, "allocated"));
        let line = format!("period    {every} in {zone}, until {end}; then {next} anew");
        output.line(&line)?;
    }
    let rows = |member: &str| ledger[member].as_array().into_iter().flatten();
    for limit in rows("limits") {
        let amount = |name: &str| i128::from(limit[name]["amount"].as_i64().unwrap_or(0));
        let (used, whole) = (amount("used"), amount("amount"));
        let held = i128::from(ledger["reserved"]["amount"].as_i64().unwrap_or(0));
        let (bar, every) = (bar(used, used + held, whole), text(limit, "every"));
        let used = terminal.dollars(&limit["used"]);
        let used = used.unwrap_or_else(|| plain(&limit["used"]["amount"]));
        let (of, end) = (text(limit, "amount"), text(limit, "window_end"));
        output.line(&format!(
            "limit     {bar}  {used} of {of} used in {every}, until {end}"
        ))?;
    }
    for increase in rows("increases") {
        let names = ["amount", "until", "increase_id", "reason"];
        let [amount, until, id, reason] = names.map(|name| text(increase, name));
        output.line(&format!("increase  {amount} until {until}: {id}, {reason}"))?;
    }
    Ok(())
}

/// Prints counts, and what needs attention.
pub(super) fn print_overview(
    overview: &Value,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    output.line(&format!("as of {}", plain(&overview["as_of"])))?;
    for (title, member) in [
        ("tenants", "tenant_counts"),
        ("budgets", "budget_counts"),
        ("webhooks", "webhook_counts"),
        ("events", "event_counts"),
    ] {
        output.line(&format!("{title:<9} {}", counts(&overview[member])))?;
    }
    let rows = |member: &str| overview[member].as_array().into_iter().flatten();
    for (title, member) in [
        ("over limit", "over_limit_scopes"),
        ("in debt", "debt_scopes"),
    ] {
        for row in rows(member) {
            let [scope, unit] = ["scope", "unit"].map(|name| plain(&row[name]));
            let debt = json!({"unit": unit, "amount": row["debt"]});
            let dollars = output.terminal.dollars(&debt);
            let debt = dollars.unwrap_or_else(|| plain(&row["debt"]));
            output.line(&format!("{title}: {scope} {unit} debt {debt}"))?;
        }
    }
    for row in rows("failing_webhooks") {
        let names = ["subscription_id", "url", "consecutive_failures"];
        let [id, url, count] = names.map(|name| plain(&row[name]));
        output.line(&format!("failing: {id} {url} {count} times in a row"))?;
    }
    match &overview["recent_denials_by_reason"] {
        Value::Null => Ok(()),
        reasons => output.line(&format!("denied    {}", counts(reasons))),
    }
}

/// Prints `total 3, active 2`, and the members of nested maps after them.
fn counts(value: &Value) -> String {
    let mut parts = Vec::new();
    for (name, count) in value.as_object().into_iter().flatten() {
        match count {
            Value::Object(_) => parts.push(counts(count)),
            _ => parts.push(format!("{name} {count}")),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Columns of the rows that were not changed.
const BULK_COLUMNS: &str = "ID=id, OUTCOME=outcome, REASON=reason";

/// Prints how many rows were changed, and those that were not.
pub(super) fn print_bulk(
    outcome: &Value,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let rows = |member: &str| outcome[member].as_array().map_or(&[][..], Vec::as_slice);
    let (skipped, failed) = (rows("skipped"), rows("failed"));
    output.line(&format!(
        "{} matched: {} done, {} skipped, {} failed",
        plain(&outcome["total_matched"]),
        rows("succeeded").len(),
        skipped.len(),
        failed.len(),
    ))?;
    let unchanged = [("SKIPPED", skipped), ("FAILED", failed)];
    let unchanged = unchanged.into_iter().flat_map(|(word, rows)| {
        rows.iter().map(move |row| {
            let mut reasons = ["message", "reason", "error_code"].iter();
            let reason = reasons.find_map(|name| row[name].as_str());
            json!({"id": row["id"], "outcome": word, "reason": reason})
        })
    });
    let unchanged: Vec<Value> = unchanged.collect();
    match unchanged.is_empty() {
        true => Ok(()),
        false => output.table(BULK_COLUMNS, &unchanged, ""),
    }
}
