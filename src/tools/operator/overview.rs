//! `admin overview`.

use std::io::Write;

use serde_json::Value;

use super::output::{Output, plain};
use crate::tools::client_error::CallError;

/// Prints counts, and what needs attention.
pub(super) fn print(overview: &Value, output: &mut Output<impl Write>) -> Result<(), CallError> {
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
