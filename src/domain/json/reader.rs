//! Reading JSON: what is checked besides the syntax.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smol_str::ToSmolStr as _;

use super::{Json, Name, Place};

/// Why bytes are not acceptable JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// No bytes, or white space alone.
    #[error("the body is empty")]
    Empty,
    /// Bytes that are not UTF-8.
    #[error("invalid UTF-8 at byte {byte}")]
    NotUtf8 {
        /// Counted from 0.
        byte: usize,
    },
    /// Not JSON: broken syntax, bytes after the value, a lone surrogate.
    #[error("{reason} at byte {byte}")]
    Syntax {
        /// The problem that the lexer found.
        reason: String,
        /// Counted from 0.
        byte: usize,
    },
    /// A member whose name occurs twice in one object.
    #[error("duplicate member `{path}`")]
    Duplicate {
        /// The member.
        path: String,
    },
    /// Arrays and objects nested too deep.
    #[error("nested deeper than {depth_max} levels at `{path}`")]
    TooDeep {
        /// How deep they may nest.
        depth_max: usize,
        /// The first value beyond.
        path: String,
    },
    /// More values than are read.
    #[error("more than {values_max} values")]
    TooMany {
        /// How many there may be.
        values_max: usize,
    },
    /// Too many bytes of a long text are inside of many arrays and objects.
    #[error("nested too deep for its length")]
    TooDeepForLength,
    /// A number that no double can hold.
    #[error("the number at `{path}` is beyond the range of a double")]
    NumberRange {
        /// The number's member.
        path: String,
    },
}

impl JsonError {
    /// `part` is the piece of `whole` that was being read when the error arose.
    pub(super) fn syntax(whole: &str, part: &str, error: &serde_json::Error) -> Self {
        let message = error.to_string();
        let reason = message
            .split(" at line ")
            .next()
            .unwrap_or("syntax error")
            .to_owned();
        let line_start: usize = part
            .split_inclusive('\n')
            .take(error.line().saturating_sub(1))
            .map(str::len)
            .sum();
        let part_start = part.as_ptr() as usize - whole.as_ptr() as usize;
        Self::Syntax {
            reason,
            byte: part_start + line_start + error.column().saturating_sub(1),
        }
    }
}

/// A text whose numbers are all integers of 64 bits, as of most bodies, in one pass; `None` for any other, and where there is an
/// error, whose place [`Reader`] finds.
pub(super) fn of_integers(text: &str, depth_max: usize) -> Option<Json> {
    let mut lexer = serde_json::Deserializer::from_str(text);
    let json = Integers(depth_max).deserialize(&mut lexer).ok()?;
    lexer.end().is_ok().then_some(json)
}

/// Reads a value in which arrays and objects nest up to this number of levels.
struct Integers(usize);

impl Integers {
    fn inner<E: Error>(&self) -> Result<usize, E> {
        self.0.checked_sub(1).ok_or_else(|| E::custom("too deep"))
    }
}

impl<'t> DeserializeSeed<'t> for Integers {
    type Value = Json;

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Integers {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without fractions")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.to_smolstr()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.to_smolstr()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.into()))
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut items: A) -> Result<Json, A::Error> {
        let (inner, mut read) = (self.inner()?, Vec::new());
        while let Some(item) = items.next_element_seed(Self(inner))? {
            read.push(item);
        }
        Ok(Json::Array(read))
    }

    fn visit_map<A: MapAccess<'t>>(self, mut members: A) -> Result<Json, A::Error> {
        let (inner, mut read) = (self.inner()?, Vec::<(Name, Json)>::new());
        while let Some(name) = members.next_key::<Name>()? {
            read.push((name, members.next_value_seed(Self(inner))?));
        }
        match first_duplicate(&read) {
            Some(_) => Err(A::Error::custom("a duplicate")),
            None => Ok(Json::Object(read)),
        }
    }
}

/// Walks the raw values of a text whose syntax has been checked as a whole.
pub(super) struct Reader<'t> {
    pub text: &'t str,
    pub depth_max: usize,
}

impl<'t> Reader<'t> {
    pub fn value(
        &self,
        raw: &'t RawValue,
        place: Place<'_>,
        depth: usize,
    ) -> Result<Json, JsonError> {
        let literal = raw.get();
        match literal.as_bytes().first() {
            Some(b'{' | b'[') if depth > self.depth_max => Err(JsonError::TooDeep {
                depth_max: self.depth_max,
                path: place.printable(),
            }),
            Some(b'{') => self.object(literal, place, depth),
            Some(b'[') => self.array(literal, place, depth),
            Some(b'"') => Ok(Json::String(self.lex(literal)?)),
            Some(b't' | b'f') => Ok(Json::Bool(self.lex(literal)?)),
            Some(b'n') => Ok(Json::Null),
            _ => match literal.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Json::Number(literal.into())),
                _ => Err(JsonError::NumberRange {
                    path: place.printable(),
                }),
            },
        }
    }

    fn array(&self, literal: &'t str, place: Place<'_>, depth: usize) -> Result<Json, JsonError> {
        let raw_items: Vec<&RawValue> = self.lex(literal)?;
        let raw_items = raw_items.into_iter().enumerate();
        let items =
            raw_items.map(|(index, raw)| self.value(raw, Place::Item(&place, index), depth + 1));
        items.collect::<Result<_, _>>().map(Json::Array)
    }

    fn object(&self, literal: &'t str, place: Place<'_>, depth: usize) -> Result<Json, JsonError> {
        let Members(raw_members) = self.lex(literal)?;
        if let Some(name) = first_duplicate(&raw_members) {
            return Err(JsonError::Duplicate {
                path: Place::Member(&place, name).printable(),
            });
        }
        let mut members = Vec::with_capacity(raw_members.len());
        for (name, raw) in raw_members {
            let value = self.value(raw, Place::Member(&place, &name), depth + 1)?;
            members.push((name.into(), value));
        }
        Ok(Json::Object(members))
    }

    /// Reads one literal whose kind is known. Only a lone surrogate fails here: the rest was checked with the whole.
    fn lex<T: Deserialize<'t>>(&self, literal: &'t str) -> Result<T, JsonError> {
        serde_json::from_str(literal).map_err(|error| JsonError::syntax(self.text, literal, &error))
    }
}

/// The first name that occurred before. Up to 16 names are compared with each other, without an allocation; more are hashed.
fn first_duplicate<N: AsRef<str>, T>(members: &[(N, T)]) -> Option<&str> {
    if members.len() <= 16 {
        let is_known = |index: usize, name: &str| {
            let mut earlier = members[..index].iter();
            earlier.any(|(earlier, _)| earlier.as_ref() == name)
        };
        let mut indexed = members.iter().enumerate();
        let duplicate = indexed.find(|(index, (name, _))| is_known(*index, name.as_ref()));
        return duplicate.map(|(_, (name, _))| name.as_ref());
    }
    let mut seen = HashSet::with_capacity(members.len());
    let mut names = members.iter().map(|(name, _)| name.as_ref());
    names.find(|name| !seen.insert(*name))
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
