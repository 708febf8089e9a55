//! Values in the canonical form of RFC 8785, as evidence holds them.

use std::fmt;

use serde::Serialize;

use super::canonical::Form;
use super::{Json, canonical};

/// A value in the canonical form of RFC 8785, and whether that form keeps all its digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Canonical {
    text: String,
    /// The first integer that the form has rounded.
    rounded: Option<String>,
}

impl Canonical {
    /// Of a value.
    pub fn of_json(json: &Json) -> Self {
        Self {
            text: canonical::write(json, Form::Rfc8785),
            rounded: json.first_rounded().map(str::to_owned),
        }
    }

    /// Of a value of which [`Json::canonical`] is known and [`Json::first_rounded`] finds nothing: then both forms are one text.
    pub fn of_exact(text: String) -> Self {
        Self {
            text,
            rounded: None,
        }
    }

    /// Of what an object serializes to, without the members of these names; `None` where that is no JSON.
    pub fn of(object: &impl Serialize, without: &[&str]) -> Option<Self> {
        let text = serde_json::to_vec(object).ok()?;
        let mut json = Json::parse(&text).ok()?;
        if let Json::Object(members) = &mut json {
            members.retain(|(name, _)| !without.contains(&&**name));
        }
        Some(Self::of_json(&json))
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

impl fmt::Debug for Canonical {
    /// Shows the length only: bodies hold what clients would not like to find in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Canonical({} bytes)", self.text.len())
    }
}
