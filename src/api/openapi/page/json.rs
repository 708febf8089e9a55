//! JSON for people: what is short stays on one line.

use serde_json::Value;

/// Longest line that holds a whole object or list, in bytes.
const WIDTH: usize = 90;

/// A value over as many lines as it needs.
pub(super) fn pretty(value: &Value) -> String {
    indented(value, 0)
}

fn indented(value: &Value, depth: usize) -> String {
    let line = on_one_line(value);
    let rows: Vec<_> = match value {
        _ if line.len() + 2 * depth <= WIDTH => return line,
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| format!("{}: {}", quoted(name), indented(member, depth + 1)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| indented(item, depth + 1)).collect(),
        _ => return line,
    };
    let (open, close) = if value.is_array() {
        ('[', ']')
    } else {
        ('{', '}')
    };
    let (inner, outer) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    format!(
        "{open}\n{inner}{}\n{outer}{close}",
        rows.join(&format!(",\n{inner}"))
    )
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let rows =
                members.map(|(name, value)| format!("{}: {}", quoted(name), on_one_line(value)));
            format!("{{{}}}", rows.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            let rows: Vec<_> = items.iter().map(on_one_line).collect();
            format!("[{}]", rows.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_long_json_is_broken_into_lines() {
        assert_eq!(
            pretty(&json!({"a": [1, true], "b": {}})),
            r#"{"a": [1, true], "b": {}}"#
        );
        let long = json!({"amount": {"amount": 1, "unit": "TOKENS"}, "text": "\"x\" ".repeat(20), "rows": [vec!["y"; 30]]});
        let text = pretty(&long);
        assert!(
            text.contains("\n  \"amount\": {\"amount\": 1, \"unit\": \"TOKENS\"},\n"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), long);
    }
}
