//! Strict JSON that keeps what a double would lose.
//!
//! serde_json does the lexing; this module adds what a ledger needs beside it: number literals stay as they were written (an
//! amount above 2^53 is exact, a 30-digit integer in free data survives), a member that occurs twice is an error instead of a
//! silent choice, depth is bounded, and there is one canonical form to hash.

mod canonical;
mod canonical_text;
mod error;
mod free_object;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::{self, Write as _};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use canonical::Form;
pub use canonical::push_string;
pub use canonical_text::Canonical;
pub use error::JsonError;
pub use free_object::FreeObject;

use super::printable::printable_up_to;

/// How deep arrays and objects may nest, the outermost included.
pub const DEPTH_MAX: usize = 64;

/// The longest path that an error shows, in characters.
const PATH_CHARS_MAX: usize = 200;

/// A JSON value. Numbers are their literals; members keep their order.
#[derive(Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it was written. A double can hold its magnitude.
    Number(String),
    /// A string without its escapes.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; no name occurs twice.
    Object(Vec<(Name, Json)>),
}

/// The name of a member. That of a type's field costs no memory.
pub type Name = Cow<'static, str>;

impl Json {
    /// Reads one JSON value from UTF-8 bytes, with nothing but white space around it.
    ///
    /// # Errors
    /// [`JsonError`] names the byte or the member at fault.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        Self::parse_to_depth(bytes, DEPTH_MAX)
    }

    /// The same with another bound than [`DEPTH_MAX`].
    ///
    /// # Errors
    /// [`JsonError`] names the byte or the member at fault.
    pub fn parse_to_depth(bytes: &[u8], depth_max: usize) -> Result<Self, JsonError> {
        let text = std::str::from_utf8(bytes).map_err(|error| JsonError::NotUtf8 {
            byte: error.valid_up_to(),
        })?;
        if text.bytes().all(|byte| byte.is_ascii_whitespace()) {
            return Err(JsonError::Empty);
        }
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|error| JsonError::syntax(text, text, &error))?;
        Reader {
            text,
            path: String::new(),
            depth_max,
        }
        .value(raw, 1)
    }

    /// What kind of value it is, with its article, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// The one form of this value that payload hashes and seals are made of: members sorted by UTF-16 code units, no white
    /// space, shortest escapes, as RFC 8785 has it, except that integers keep all their digits instead of going through a double.
    pub fn canonical(&self) -> String {
        canonical::write(self, Form::Exact)
    }

    /// The canonical form of RFC 8785 itself, which evidence is made of. It rounds what [`Self::first_rounded`] finds.
    pub fn rfc8785(&self) -> String {
        canonical::write(self, Form::Rfc8785)
    }

    /// The first integer literal whose digits the form of RFC 8785 does not keep.
    pub fn first_rounded(&self) -> Option<&str> {
        match self {
            Self::Null | Self::Bool(_) | Self::String(_) => None,
            Self::Number(literal) => canonical::is_rounded(literal).then_some(literal),
            Self::Array(items) => items.iter().find_map(Self::first_rounded),
            Self::Object(members) => members.iter().find_map(|(_, value)| value.first_rounded()),
        }
    }

    /// The member of an object.
    pub fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        let mut members = members.iter();
        members
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// The text of a string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The integer of a literal without fraction and exponent.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Number(literal) if canonical::is_integer(literal) => literal.parse().ok(),
            _ => None,
        }
    }

    /// The value without white space, otherwise as it was sent: same order, same number literals.
    pub fn compact(&self) -> String {
        canonical::write(self, Form::Compact)
    }
}

/// An object. No name may occur twice.
impl<N: Into<Name>> FromIterator<(N, Json)> for Json {
    fn from_iter<I: IntoIterator<Item = (N, Json)>>(members: I) -> Self {
        let members = members.into_iter();
        Self::Object(members.map(|(name, value)| (name.into(), value)).collect())
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<i64> for Json {
    fn from(integer: i64) -> Self {
        Self::Number(integer.to_string())
    }
}

/// What is not finite is `null`.
impl From<f64> for Json {
    fn from(number: f64) -> Self {
        let number = serde_json::Number::from_f64(number);
        number.map_or(Self::Null, |number| Self::Number(number.to_string()))
    }
}

/// As [`Json::compact`] has it.
impl serde::Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.compact());
        raw.map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl fmt::Debug for Json {
    /// Shows the kind only: bodies hold what clients would not like to find in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({})", self.kind())
    }
}

/// Walks the raw values of a text whose syntax has been checked as a whole.
struct Reader<'t> {
    text: &'t str,
    path: String,
    depth_max: usize,
}

impl<'t> Reader<'t> {
    fn value(&mut self, raw: &'t RawValue, depth: usize) -> Result<Json, JsonError> {
        let literal = raw.get();
        match literal.as_bytes().first() {
            Some(b'{') => self.object(literal, depth),
            Some(b'[') => self.array(literal, depth),
            Some(b'"') => Ok(Json::String(self.lex(literal)?)),
            Some(b't' | b'f') => Ok(Json::Bool(self.lex(literal)?)),
            Some(b'n') => Ok(Json::Null),
            _ => self.number(literal),
        }
    }

    fn number(&self, literal: &str) -> Result<Json, JsonError> {
        match literal.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Json::Number(literal.to_owned())),
            _ => Err(JsonError::NumberRange {
                path: self.printable_path(),
            }),
        }
    }

    fn array(&mut self, literal: &'t str, depth: usize) -> Result<Json, JsonError> {
        self.check_depth(depth)?;
        let raw_items: Vec<&RawValue> = self.lex(literal)?;
        let mut items = Vec::with_capacity(raw_items.len());
        for (index, raw) in raw_items.into_iter().enumerate() {
            items.push(self.inside(format_args!("[{index}]"), |reader| {
                reader.value(raw, depth + 1)
            })?);
        }
        Ok(Json::Array(items))
    }

    fn object(&mut self, literal: &'t str, depth: usize) -> Result<Json, JsonError> {
        self.check_depth(depth)?;
        let Members(raw_members) = self.lex(literal)?;
        if let Some(name) = first_duplicate(&raw_members) {
            let dot = if self.path.is_empty() { "" } else { "." };
            return self.inside(format_args!("{dot}{name}"), |reader| {
                Err(JsonError::Duplicate {
                    path: reader.printable_path(),
                })
            });
        }
        let mut members = Vec::with_capacity(raw_members.len());
        for (name, raw) in raw_members {
            let dot = if self.path.is_empty() { "" } else { "." };
            let value = self.inside(format_args!("{dot}{name}"), |reader| {
                reader.value(raw, depth + 1)
            })?;
            members.push((name.into(), value));
        }
        Ok(Json::Object(members))
    }

    /// Reads one literal whose kind is known. What fails here is a lone surrogate: the rest was checked with the whole.
    fn lex<T: Deserialize<'t>>(&self, literal: &'t str) -> Result<T, JsonError> {
        serde_json::from_str(literal).map_err(|error| JsonError::syntax(self.text, literal, &error))
    }

    fn inside<T>(
        &mut self,
        step: fmt::Arguments<'_>,
        read: impl FnOnce(&mut Self) -> Result<T, JsonError>,
    ) -> Result<T, JsonError> {
        let length = self.path.len();
        // Writing to a string can't fail.
        let _ = self.path.write_fmt(step);
        let outcome = read(self);
        self.path.truncate(length);
        outcome
    }

    fn check_depth(&self, depth: usize) -> Result<(), JsonError> {
        if depth > self.depth_max {
            return Err(JsonError::TooDeep {
                depth_max: self.depth_max,
                path: self.printable_path(),
            });
        }
        Ok(())
    }

    fn printable_path(&self) -> String {
        printable_up_to(&self.path, PATH_CHARS_MAX)
    }
}

/// The first name that occurred before. Few names are compared with each other, many are hashed.
fn first_duplicate<T>(members: &[(String, T)]) -> Option<&str> {
    let names = || members.iter().map(|(name, _)| name.as_str());
    if members.len() <= 16 {
        let known = |index: usize, name: &str| names().take(index).any(|earlier| earlier == name);
        return names()
            .enumerate()
            .find(|(index, name)| known(*index, name))
            .map(|(_, name)| name);
    }
    let mut seen = HashSet::with_capacity(members.len());
    names().find(|name| !seen.insert(*name))
}

/// One level of an object: names, and values not yet looked into.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'t> Visitor<'t> for MembersVisitor {
            type Value = Members<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests;
