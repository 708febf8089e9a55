//! Writing JSON: the canonical form and the compact one.

use super::Json;

/// Members sorted, numbers normalised.
pub(super) fn write(json: &Json) -> String {
    let mut text = String::new();
    write_value(json, &mut text, &Form { sorted: true });
    text
}

/// Members and numbers as they came.
pub(super) fn write_compact(json: &Json) -> String {
    let mut text = String::new();
    write_value(json, &mut text, &Form { sorted: false });
    text
}

struct Form {
    sorted: bool,
}

fn write_value(json: &Json, text: &mut String, form: &Form) {
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(true) => text.push_str("true"),
        Json::Bool(false) => text.push_str("false"),
        Json::Number(literal) if form.sorted => write_canonical_number(literal, text),
        Json::Number(literal) => text.push_str(literal),
        Json::String(string) => write_string(string, text),
        Json::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(item, text, form);
            }
            text.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<&(String, Json)> = members.iter().collect();
            if form.sorted {
                members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            }
            text.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_string(name, text);
                text.push(':');
                write_value(value, text, form);
            }
            text.push('}');
        }
    }
}

/// An integer literal keeps its digits: through a double, amounts above 2^53 would look alike. Others take the form that
/// ECMAScript gives the double.
fn write_canonical_number(literal: &str, text: &mut String) {
    let is_integer = literal
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'-');
    match (is_integer, literal.parse::<f64>()) {
        (true, _) if literal == "-0" => text.push('0'),
        (false, Ok(number)) => text.push_str(ryu_js::Buffer::new().format(number)),
        _ => text.push_str(literal),
    }
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            control if control < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => text.push(other),
        }
    }
    text.push('"');
}
