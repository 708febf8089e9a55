//! JSON objects whose members keep the order in which they were put in.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::fields::plain_field;

/// The members of an object, in order.
#[derive(Debug, Clone)]
pub struct Members(pub Vec<(&'static str, Member)>);

plain_field!(Members, (), |()| json!({"type": "object"}));

/// The value of a member.
#[derive(Debug, Clone)]
pub enum Member {
    /// A text.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// A flag.
    Flag(bool),
    /// A list of texts.
    Texts(Vec<String>),
    /// An object.
    Object(Members),
    /// Any value, as it was stored.
    Raw(Box<RawValue>),
}

impl Members {
    /// Appends a member.
    pub fn push(&mut self, name: &'static str, member: Member) {
        self.0.push((name, member));
    }

    /// Appends a text.
    pub fn text(&mut self, name: &'static str, text: &str) {
        self.push(name, Member::Text(text.to_owned()));
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, member) in &self.0 {
            map.serialize_entry(name, member)?;
        }
        map.end()
    }
}

impl Serialize for Member {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Integer(integer) => integer.serialize(serializer),
            Self::Number(number) => number.serialize(serializer),
            Self::Flag(flag) => flag.serialize(serializer),
            Self::Texts(texts) => texts.serialize(serializer),
            Self::Object(members) => members.serialize(serializer),
            Self::Raw(raw) => raw.serialize(serializer),
        }
    }
}
