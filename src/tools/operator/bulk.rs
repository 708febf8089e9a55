//! The outcome of a bulk action: one change of all tenants, budgets or webhooks that a filter selects.

use std::io::Write;

use serde_json::{Value, json};

use super::output::{Output, plain};
use crate::tools::client_error::CallError;

/// Columns of the rows that were not changed.
const COLUMNS: &str = "ID=id, OUTCOME=outcome, REASON=reason";

/// Prints how many rows were changed, and those that were not.
///
/// # Errors
/// [`CallError::Incomplete`] when a row failed.
pub(super) fn print(outcome: &Value, output: &mut Output<impl Write>) -> Result<(), CallError> {
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
            output.table(COLUMNS, &unchanged, "")?;
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(CallError::Incomplete("some rows failed")),
    }
}
