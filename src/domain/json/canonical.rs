//! Writing JSON: the two canonical forms and the compact one.

use super::Json;

/// How members and numbers are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Both as they came.
    Compact,
    /// Members sorted, integers with all their digits, other numbers as ECMAScript prints the double.
    Exact,
    /// Members sorted, every number as ECMAScript prints the double.
    Rfc8785,
}

pub(super) fn write(json: &Json, form: Form) -> String {
    let mut text = String::new();
    write_value(json, &mut text, form);
    text
}

fn write_value(json: &Json, text: &mut String, form: Form) {
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(true) => text.push_str("true"),
        Json::Bool(false) => text.push_str("false"),
        Json::Number(literal) => write_number(literal, text, form),
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
            if form != Form::Compact {
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

fn write_number(literal: &str, text: &mut String, form: Form) {
    match form {
        Form::Compact => text.push_str(literal),
        // Through a double, amounts above 2^53 would look alike.
        Form::Exact if is_integer(literal) && literal == "-0" => text.push('0'),
        Form::Exact if is_integer(literal) => text.push_str(literal),
        Form::Exact | Form::Rfc8785 => match literal.parse::<f64>() {
            Ok(number) => text.push_str(ryu_js::Buffer::new().format(number)),
            Err(_) => text.push_str(literal),
        },
    }
}

/// Whether a literal is written as an integer, without fraction and exponent.
pub(super) fn is_integer(literal: &str) -> bool {
    let mut bytes = literal.bytes();
    bytes.all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// Whether the form of RFC 8785 writes other digits than an integer literal has: it goes through a double.
pub(super) fn is_rounded(literal: &str) -> bool {
    let mut text = String::new();
    write_number(literal, &mut text, Form::Rfc8785);
    is_integer(literal) && literal != "-0" && text != literal
}

/// The library's escapes are the shortest, as the canonical forms want them.
fn write_string(string: &str, text: &mut String) {
    let escaped = serde_json::to_string(string).expect("a string serializes");
    text.push_str(&escaped);
}
