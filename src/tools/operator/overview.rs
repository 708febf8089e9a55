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
    for (title, member, names) in [
        ("over limit", "over_limit_scopes", ["scope", "unit", "debt"]),
        ("in debt", "debt_scopes", ["scope", "unit", "debt"]),
        (
            "failing",
            "failing_webhooks",
            ["subscription_id", "url", "consecutive_failures"],
        ),
    ] {
        for row in overview[member].as_array().into_iter().flatten() {
            let [first, second, count] = names.map(|name| plain(&row[name]));
            output.line(&match title {
                "failing" => format!("{title}: {first} {second} {count} times in a row"),
                _ => format!("{title}: {first} {second} debt {count}"),
            })?;
        }
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
