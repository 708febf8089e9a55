//! Writing JSON: the canonical form and the compact one.

use super::Json;

/// `canonical`: members sorted, numbers normalised; else both as they came.
pub(super) fn write(json: &Json, canonical: bool) -> String {
    let mut text = String::new();
    write_value(json, &mut text, canonical);
    text
}

fn write_value(json: &Json, text: &mut String, canonical: bool) {
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(true) => text.push_str("true"),
        Json::Bool(false) => text.push_str("false"),
        Json::Number(literal) if canonical => write_canonical_number(literal, text),
        Json::Number(literal) => text.push_str(literal),
        Json::String(string) => write_string(string, text),
        Json::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(item, text, canonical);
            }
            text.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<&(String, Json)> = members.iter().collect();
            if canonical {
                members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            }
            text.push('{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_string(name, text);
                text.push(':');
                write_value(value, text, canonical);
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

/// The library's escapes are the shortest, as the canonical form wants them.
fn write_string(string: &str, text: &mut String) {
    let escaped = serde_json::to_string(string).expect("a string serializes");
    text.push_str(&escaped);
}
