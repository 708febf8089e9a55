//! JSON objects whose members keep the order in which they were put in.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// The members of an object, in order.
#[derive(Debug)]
pub(super) struct Members(pub Vec<(&'static str, Member)>);

/// The value of a member.
#[derive(Debug)]
pub(super) enum Member {
    Text(String),
    Integer(i64),
    Number(f64),
    Flag(bool),
    Texts(Vec<String>),
    Object(Members),
    Raw(Box<RawValue>),
}

impl Members {
    pub fn push(&mut self, name: &'static str, member: Member) {
        self.0.push((name, member));
    }

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
