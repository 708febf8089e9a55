//! Prints responses that are neither one object nor the rows of a list: the overview, and the outcome of a bulk action.

use std::io::Write;

use serde_json::{Value, json};

use super::output::{Output, plain};
use crate::tools::call::CallError;

/// Prints counts, and what needs attention.
pub(super) fn print_overview(
    overview: &Value,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    if output.is_json() {
        return output.object(overview);
    }
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
            let [scope, unit, debt] = ["scope", "unit", "debt"].map(|name| plain(&row[name]));
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
            _ => parts.push(format!("{} {count}", name.replace('_', " "))),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Columns of the rows that were not changed.
const BULK_COLUMNS: &str = "ID=id, OUTCOME=outcome, REASON=reason";

/// Prints how many rows were changed, and those that were not.
///
/// # Errors
/// [`CallError::Incomplete`] when a row failed.
pub(super) fn print_bulk(
    outcome: &Value,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let rows = |member: &str| outcome[member].as_array().cloned().unwrap_or_default();
    let failed = rows("failed").len();
    if output.is_json() {
        output.object(outcome)?;
    } else {
        output.line(&format!(
            "{} matched: {} done, {} skipped, {failed} failed",
            plain(&outcome["total_matched"]),
            rows("succeeded").len(),
            rows("skipped").len(),
        ))?;
        let unchanged = [("SKIPPED", rows("skipped")), ("FAILED", rows("failed"))];
        let unchanged = unchanged.into_iter().flat_map(|(word, rows)| {
            rows.into_iter().map(move |row| {
                let reason = ["message", "reason", "error_code"].map(|name| row[name].clone());
                let reason = reason.into_iter().find(Value::is_string);
                json!({"id": row["id"], "outcome": word, "reason": reason})
            })
        });
        let unchanged: Vec<Value> = unchanged.collect();
        if !unchanged.is_empty() {
            output.table(BULK_COLUMNS, &unchanged, "")?;
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(CallError::Incomplete("some rows failed")),
    }
}
