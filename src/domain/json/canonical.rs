//! Writing JSON: the two canonical forms and the compact one.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;

use super::{Json, JsonError, Name};

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

/// A value in the canonical form of RFC 8785, and whether that form keeps all its digits.
#[derive(Clone, Default)]
pub struct Canonical {
    text: String,
    /// The first integer that the form has rounded.
    rounded: Option<String>,
    /// The value, where it was given away: it need not be read from the text again.
    value: Option<Json>,
}

impl PartialEq for Canonical {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.rounded) == (&other.text, &other.rounded)
    }
}

impl Eq for Canonical {}

impl Canonical {
    /// Of a value.
    pub fn of_json(json: &Json) -> Self {
        Self {
            text: write(json, Form::Rfc8785),
            rounded: json.first_rounded().map(str::to_owned),
            ..Self::default()
        }
    }

    /// Of a value of which [`Json::canonical`] is known and [`Json::first_rounded`] finds nothing: then both forms are one text.
    pub fn of_exact(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// Of what an object serializes to, without the members of these names; `None` where that is no JSON.
    pub fn of(object: &impl Serialize, without: &[&str]) -> Option<Self> {
        let text = serde_json::to_vec(object).ok()?;
        let mut json = Json::parse(&text).ok()?;
        if let Json::Object(members) = &mut json {
            members.retain(|(name, _)| !without.contains(&&**name));
        }
        Some(json.into())
    }

    /// The value.
    ///
    /// # Errors
    /// [`JsonError`] where the text nests deeper than [`super::DEPTH_MAX`].
    pub fn into_value(self) -> Result<Json, JsonError> {
        let Self { text, value, .. } = self;
        value.map_or_else(|| Json::parse(text.as_bytes()), Ok)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first integer literal whose digits the form does not keep.
    pub fn first_rounded(&self) -> Option<&str> {
        self.rounded.as_deref()
    }
}

impl From<Json> for Canonical {
    fn from(json: Json) -> Self {
        let canonical = Self::of_json(&json);
        Self {
            value: Some(json),
            ..canonical
        }
    }
}

impl fmt::Debug for Canonical {
    /// Shows the length only: bodies hold what clients would not like to find in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Canonical({} bytes)", self.text.len())
    }
}

pub(super) fn write(json: &Json, form: Form) -> String {
    // Bodies and envelopes have about a thousand bytes.
    let capacity = match json {
        Json::Array(_) | Json::Object(_) => 1_024,
        _ => 0,
    };
    let mut text = String::with_capacity(capacity);
    write_value(json, &mut text, form);
    text
}

pub(super) fn write_value(json: &Json, text: &mut String, form: Form) {
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(true) => text.push_str("true"),
        Json::Bool(false) => text.push_str("false"),
        Json::Number(literal) => write_number(literal, text, form),
        Json::String(string) => push_string(string, text),
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
            let by_name = |(a, _): &(Name, Json), (b, _): &(Name, Json)| utf16_order(a, b);
            if form == Form::Compact || members.is_sorted_by(|a, b| by_name(a, b).is_le()) {
                write_members(members.iter(), text, form);
            } else {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_unstable_by(|a, b| by_name(a, b));
                write_members(members.into_iter(), text, form);
            }
        }
    }
}

fn write_members<'a>(
    members: impl Iterator<Item = &'a (Name, Json)>,
    text: &mut String,
    form: Form,
) {
    text.push('{');
    for (index, (name, value)) in members.enumerate() {
        if index > 0 {
            text.push(',');
        }
        push_string(name, text);
        text.push(':');
        write_value(value, text, form);
    }
    text.push('}');
}

pub(super) fn write_number(literal: &str, text: &mut String, form: Form) {
    match form {
        Form::Compact => text.push_str(literal),
        // Through a double, amounts above 2^53 would look alike.
        Form::Exact if is_integer(literal) && literal == "-0" => text.push('0'),
        Form::Exact if is_integer(literal) => text.push_str(literal),
        Form::Rfc8785 if is_exact_integer(literal) => text.push_str(literal),
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

/// Whether a literal is an integer up to 2^53 either way, so that its double prints as the same digits.
pub(super) fn is_exact_integer(literal: &str) -> bool {
    let number = literal.parse::<i64>();
    number.is_ok_and(|number| number.unsigned_abs() <= 1 << 53) && literal != "-0"
}

/// The order of two names by UTF-16 code units. The order of bytes differs from it only from U+E000 on, whose first byte is
/// `FIRST_BYTE`.
pub(super) fn utf16_order(a: &str, b: &str) -> Ordering {
    const FIRST_BYTE: u8 = 0xee;
    let mut bytes = a.bytes().zip(b.bytes());
    match bytes.find(|(a, b)| a != b) {
        Some((x, y)) if x.max(y) >= FIRST_BYTE => a.encode_utf16().cmp(b.encode_utf16()),
        _ => a.cmp(b),
    }
}

/// Whether the form of RFC 8785 writes other digits than an integer literal has: it goes through a double.
pub(super) fn is_rounded(literal: &str) -> bool {
    if is_exact_integer(literal) {
        return false;
    }
    let mut text = String::new();
    write_number(literal, &mut text, Form::Rfc8785);
    is_integer(literal) && literal != "-0" && text != literal
}

/// Writes a string as all forms have it. The library's escapes are the shortest, as the canonical form requires.
pub fn push_string(string: &str, text: &mut String) {
    let is_plain = |byte: u8| (byte >= b' ') & (byte != b'"') & (byte != b'\\');
    // Most strings are plain. Without an early end the compiler tests many bytes at once.
    let bytes = string.bytes();
    if bytes.fold(true, |plain, byte| plain & is_plain(byte)) {
        text.push('"');
        text.push_str(string);
        text.push('"');
        return;
    }
    let escaped = serde_json::to_string(string).expect("a string serializes");
    text.push_str(&escaped);
}
