//! Reading one value as the type that it should have.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::Object;
use super::problems::{Problems, quoted};
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::{FreeObject, Json};
use crate::domain::moment::Moment;

/// One value and its place. Every reader answers `None` after noting what is wrong.
pub struct Value<'p> {
    json: Json,
    path: String,
    problems: &'p mut Problems,
}

impl<'p> Value<'p> {
    pub(super) fn new(json: Json, path: String, problems: &'p mut Problems) -> Self {
        Self {
            json,
            path,
            problems,
        }
    }

    /// An object with a fixed set of members; one that `read` does not ask for is a problem.
    pub fn object<T>(self, read: impl FnOnce(&mut Object<'_>) -> Option<T>) -> Option<T> {
        match self.json {
            Json::Object(members) => {
                let mut object = Object::new(self.path, members, self.problems);
                let outcome = read(&mut object);
                object.finish();
                outcome
            }
            _ => self.wrong_type("an object"),
        }
    }

    /// An object of the client's own, with any content.
    pub fn free_object(self) -> Option<FreeObject> {
        match self.json {
            Json::Object(_) => FreeObject::from_stored(self.json.compact()),
            _ => self.wrong_type("an object"),
        }
    }

    /// A map from any names to strings.
    pub fn string_map(
        self,
        entries_max: usize,
        chars_max: usize,
    ) -> Option<BTreeMap<String, String>> {
        let Json::Object(members) = self.json else {
            return self.wrong_type("an object");
        };
        if members.len() > entries_max {
            self.problems.invalid(
                self.path,
                format!(
                    "must have at most {entries_max} entries, not {}",
                    members.len()
                ),
            );
            return None;
        }
        let mut map = BTreeMap::new();
        for (name, json) in members {
            let path = format!("{}.{name}", self.path);
            let value = Value::new(json, path, self.problems).string(0..=chars_max);
            map.insert(name, value.unwrap_or_default());
        }
        Some(map)
    }

    /// An array of at most so many items.
    pub fn array<T>(
        self,
        items_max: usize,
        mut read: impl FnMut(Value<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Json::Array(items) = self.json else {
            return self.wrong_type("an array");
        };
        if items.len() > items_max {
            self.problems.invalid(
                self.path,
                format!("must have at most {items_max} items, not {}", items.len()),
            );
            return None;
        }
        let mut values = Vec::with_capacity(items.len());
        for (index, json) in items.into_iter().enumerate() {
            values.push(read(Value::new(
                json,
                format!("{}[{index}]", self.path),
                self.problems,
            )));
        }
        values.into_iter().collect()
    }

    /// `true` or `false`.
    pub fn boolean(self) -> Option<bool> {
        match self.json {
            Json::Bool(value) => Some(value),
            _ => self.wrong_type("true or false"),
        }
    }

    /// A number without fraction and exponent, within bounds.
    pub fn integer(self, bounds: RangeInclusive<i64>) -> Option<i64> {
        let Json::Number(literal) = &self.json else {
            return self.wrong_type("an integer");
        };
        if literal.contains(['.', 'e', 'E']) {
            let reason = format!(
                "must be an integer without fraction or exponent, not {}",
                quoted(literal)
            );
            self.problems.malformed(self.path, reason);
            return None;
        }
        match literal.parse() {
            Ok(value) if bounds.contains(&value) => Some(value),
            _ => {
                let (min, max) = bounds.into_inner();
                let reason = format!("must be between {min} and {max}, not {}", quoted(literal));
                self.problems.invalid(self.path, reason);
                None
            }
        }
    }

    /// A number, with or without a fraction, within bounds.
    pub fn number(self, bounds: RangeInclusive<f64>) -> Option<f64> {
        let Json::Number(literal) = &self.json else {
            return self.wrong_type("a number");
        };
        match literal.parse() {
            Ok(value) if bounds.contains(&value) => Some(value),
            _ => {
                let (min, max) = bounds.into_inner();
                let wanted = match max == f64::MAX {
                    true => format!("at least {min}"),
                    false => format!("between {min} and {max}"),
                };
                let reason = format!("must be {wanted}, not {}", quoted(literal));
                self.problems.invalid(self.path, reason);
                None
            }
        }
    }

    /// A string of so many characters.
    pub fn string(self, chars: RangeInclusive<usize>) -> Option<String> {
        let Json::String(text) = self.json else {
            return self.wrong_type("a string");
        };
        let count = text.chars().count();
        if chars.contains(&count) {
            return Some(text);
        }
        let reason = match chars.into_inner() {
            (0, max) => format!("must be at most {max} characters long, not {count}"),
            (min, max) => format!("must be {min} to {max} characters long, not {count}"),
        };
        self.problems.invalid(self.path, reason);
        None
    }

    /// A string of 1 to `chars_max` characters that are not all white space.
    pub fn text(self, chars_max: usize) -> Option<String> {
        if matches!(&self.json, Json::String(text) if text.trim().is_empty()) {
            self.problems.invalid(self.path, "must not be blank");
            return None;
        }
        self.string(1..=chars_max)
    }

    /// A string that satisfies a check; `reason` says what the check wants.
    pub fn checked_string(self, check: impl FnOnce(&str) -> bool, reason: &str) -> Option<String> {
        match self.json {
            Json::String(text) if check(&text) => Some(text),
            Json::String(text) => {
                self.problems
                    .invalid(self.path, format!("{reason}, not {}", quoted(&text)));
                None
            }
            _ => self.wrong_type("a string"),
        }
    }

    /// One of a fixed set of names, case-sensitively.
    pub fn one_of<T>(self, parse: impl FnOnce(&str) -> Option<T>, names: &[&str]) -> Option<T> {
        let Json::String(text) = &self.json else {
            return self.wrong_type("a string");
        };
        let parsed = parse(text);
        if parsed.is_none() {
            let reason = format!("must be one of {}, not {}", names.join(", "), quoted(text));
            self.problems.invalid(self.path, reason);
        }
        parsed
    }

    /// A date and time with its offset.
    pub fn moment(self) -> Option<Moment> {
        let Json::String(text) = &self.json else {
            return self.wrong_type("a string");
        };
        let moment = Moment::parse(text);
        if moment.is_none() {
            let reason = format!(
                "must be a date and time such as 2026-07-04T12:00:00Z, not {}",
                quoted(text)
            );
            self.problems.invalid(self.path, reason);
        }
        moment
    }

    /// An idempotency key.
    pub fn idempotency_key(self) -> Option<IdempotencyKey> {
        self.string(IdempotencyKey::CHARS)
            .and_then(|text| IdempotencyKey::parse(&text))
    }

    fn wrong_type<T>(self, wanted: &str) -> Option<T> {
        self.problems.malformed(
            self.path,
            format!("must be {wanted}, not {}", self.json.kind()),
        );
        None
    }
}
