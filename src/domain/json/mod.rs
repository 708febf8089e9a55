//! Strict JSON that keeps what a double would lose.
//!
//! serde_json does the lexing; this module adds what a ledger needs beside it: number literals stay as they were written (an
//! amount above 2^53 is exact, a 30-digit integer in free data survives), a member that occurs twice is an error instead of a
//! silent choice, depth is bounded, and there is one canonical form to hash.

mod canonical;
mod place;
mod reader;
mod shape;

use std::fmt;

use serde_json::value::RawValue;
use smol_str::{SmolStr, ToSmolStr as _};

use canonical::Form;
pub use canonical::{Canonical, push_string};
pub use place::Place;
pub use reader::JsonError;
use reader::{Reader, of_integers};
use shape::check_shape;

use super::record::stored_text;

/// How deep arrays and objects may nest, the outermost included.
pub const DEPTH_MAX: usize = 64;

/// A JSON value. Numbers are their literals; members keep their order.
#[derive(Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it was written. A double can hold its magnitude.
    Number(SmolStr),
    /// A string without its escapes.
    String(SmolStr),
    /// An array.
    Array(Vec<Json>),
    /// An object; no name occurs twice.
    Object(Vec<(Name, Json)>),
}

/// The name of a member.
pub type Name = SmolStr;

impl Json {
    /// Reads one JSON value from UTF-8 bytes, with nothing but white space around it.
    ///
    /// # Errors
    /// [`JsonError`] names the byte or the member at fault.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        Self::parse_to_depth(bytes, DEPTH_MAX)
    }

    /// The same for a text of a stranger, whom it must not cost much time: with at most so many values, and few of them deep.
    ///
    /// # Errors
    /// [`JsonError`] names the byte or the member at fault.
    pub fn parse_up_to(bytes: &[u8], values_max: usize) -> Result<Self, JsonError> {
        check_shape(bytes, values_max)?;
        Self::parse(bytes)
    }

    /// The same as [`Json::parse`] with another bound than [`DEPTH_MAX`].
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
        if let Some(json) = of_integers(text, depth_max) {
            return Ok(json);
        }
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|error| JsonError::syntax(text, text, &error))?;
        Reader { text, depth_max }.value(raw, Place::BODY, 1)
    }

    /// The kind of the value with its article, for messages.
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
        Self::String(text.into())
    }
}

impl From<i64> for Json {
    fn from(integer: i64) -> Self {
        Self::Number(integer.to_smolstr())
    }
}

/// A number that is not finite is `null`.
impl From<f64> for Json {
    fn from(number: f64) -> Self {
        let number = serde_json::Number::from_f64(number);
        number.map_or(Self::Null, |number| Self::Number(number.to_smolstr()))
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

/// A JSON object that belongs to the client: kept and returned as it was sent, never looked into.
#[derive(Clone)]
pub struct FreeObject(Box<RawValue>);

impl FreeObject {
    /// The object without white space, as it is stored.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// From the stored form. `None` if that is no JSON object.
    pub fn from_stored(text: String) -> Option<Self> {
        let is_object = text.starts_with('{');
        RawValue::from_string(text)
            .ok()
            .filter(|_| is_object)
            .map(Self)
    }
}

stored_text!(
    FreeObject,
    |text| Self::from_stored(text.to_owned()),
    |object| Some(object.as_str().to_owned())
);

impl fmt::Debug for FreeObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FreeObject({} bytes)", self.0.get().len())
    }
}

impl PartialEq for FreeObject {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for FreeObject {}

impl serde::Serialize for FreeObject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests;
