//! Reading one value as the type that it should have.

use std::collections::BTreeMap;
use std::fmt::Display;

use smol_str::SmolStr;

use super::problems::{Problems, quoted};
use super::rules::{Blank, Bounds, Entries, Items, Text};
use super::{Object, Read};
use crate::domain::json::{Json, Place};

/// One value and its place. Every reader returns `None` after noting what is wrong.
pub struct Value<'p> {
    pub(super) json: Json,
    place: Place<'p>,
    problems: &'p mut Problems,
}

impl<'p> Value<'p> {
    pub(super) fn new(json: Json, place: Place<'p>, problems: &'p mut Problems) -> Self {
        Self {
            json,
            place,
            problems,
        }
    }

    /// An object with a fixed set of members; one that `read` does not ask for is a problem.
    pub fn object<T>(self, read: impl FnOnce(&mut Object<'_>) -> Option<T>) -> Option<T> {
        match self.json {
            Json::Object(members) => {
                let mut object = Object {
                    place: self.place,
                    members,
                    problems: self.problems,
                };
                let outcome = read(&mut object);
                object.finish();
                outcome
            }
            _ => self.wrong_type("an object"),
        }
    }

    /// An array.
    pub(super) fn array<T: Read + PartialEq>(self, rules: &Items<T::Rules>) -> Option<Vec<T>> {
        let Json::Array(items) = self.json else {
            return self.wrong_type("an array");
        };
        let (count, bounds) = (items.len(), rules.unpublished_items.unwrap_or(rules.items));
        if !self.problems.allow(bounds, count) {
            let reason = match bounds.max {
                Some(max) if count > max => format!("must have at most {max} items, not {count}"),
                _ => "must have at least one item".to_owned(),
            };
            self.problems.invalid(self.place, reason);
            return None;
        }
        let mut values = Vec::with_capacity(count);
        for (index, json) in items.into_iter().enumerate() {
            let place = Place::Item(&self.place, index);
            values.push(T::read(Value::new(json, place, self.problems), &rules.each));
        }
        let values: Vec<T> = values.into_iter().collect::<Option<_>>()?;
        Some(match rules.distinct {
            true => distinct(values),
            false => values,
        })
    }

    /// A map from any names.
    pub(super) fn map<T: Read>(self, rules: &Entries<T::Rules>) -> Option<BTreeMap<String, T>> {
        let Json::Object(members) = self.json else {
            return self.wrong_type("an object");
        };
        let (count, max) = (members.len(), rules.entries.max.unwrap_or(usize::MAX));
        if !self.problems.allow(Bounds::from(..=max), count) {
            let reason = format!("must have at most {max} entries, not {count}");
            self.problems.invalid(self.place, reason);
            return None;
        }
        let mut entries = Vec::with_capacity(count);
        for (name, json) in members {
            let place = Place::Member(&self.place, &name);
            let value = T::read(Value::new(json, place, self.problems), &rules.each);
            entries.push(value.map(|value| (name.into(), value)));
        }
        entries.into_iter().collect()
    }

    /// A string.
    pub fn text(self, rules: &Text) -> Option<SmolStr> {
        if let Some(form) = rules.form {
            return match self.json {
                Json::String(text) if (form.accepts)(&text) => Some(text),
                _ => self.parsed(|_| None, || form.wanted.to_owned()),
            };
        }
        let blank = |text: &str| rules.blank == Blank::Refused && text.trim().is_empty();
        if matches!(&self.json, Json::String(text) if blank(text)) {
            return self.invalid("must not be blank");
        }
        let text = self.string(rules.unpublished_chars.unwrap_or(rules.chars))?;
        Some(match rules.trimmed {
            true => text.trim().into(),
            false => text,
        })
    }

    /// A number without fraction and exponent, within bounds.
    pub(super) fn integer(self, bounds: Bounds<i64>) -> Option<i64> {
        let Json::Number(literal) = &self.json else {
            return self.wrong_type("an integer");
        };
        if literal.contains(['.', 'e', 'E']) {
            let reason = format!(
                "must be an integer without fraction or exponent, not {}",
                quoted(literal)
            );
            self.problems.malformed(self.place, reason);
            return None;
        }
        match literal.parse() {
            Ok(value) if self.problems.allow(bounds, value) => Some(value),
            _ => {
                let min = bounds.min.unwrap_or(i64::MIN);
                let max = bounds.max.unwrap_or(i64::MAX);
                let reason = format!("must be between {min} and {max}, not {}", quoted(literal));
                self.invalid(reason)
            }
        }
    }

    /// A number, with or without a fraction, within bounds.
    pub(super) fn number(self, bounds: Bounds<f64>) -> Option<f64> {
        let Json::Number(literal) = &self.json else {
            return self.wrong_type("a number");
        };
        match literal.parse() {
            Ok(value) if self.problems.allow(bounds, value) => Some(value),
            _ => {
                let min = bounds.min.unwrap_or(f64::MIN);
                let wanted = match bounds.max {
                    None => format!("at least {min}"),
                    Some(max) => format!("between {min} and {max}"),
                };
                let reason = format!("must be {wanted}, not {}", quoted(literal));
                self.invalid(reason)
            }
        }
    }

    /// A string with bounds of characters.
    fn string(self, chars: Bounds<usize>) -> Option<SmolStr> {
        let Json::String(text) = self.json else {
            return self.wrong_type("a string");
        };
        let count = text.chars().count();
        if self.problems.allow(chars, count) {
            return Some(text);
        }
        let reason = match (chars.min.unwrap_or(0), chars.max.unwrap_or(usize::MAX)) {
            (0, max) => format!("must be at most {max} characters long, not {count}"),
            (min, max) => format!("must be {min} to {max} characters long, not {count}"),
        };
        self.problems.invalid(self.place, reason);
        None
    }

    /// One of a fixed set of names, case-sensitively.
    pub fn one_of<T>(self, parse: impl FnOnce(&str) -> Option<T>, names: &[&str]) -> Option<T> {
        self.parsed(parse, || format!("one of {}", names.join(", ")))
    }

    /// Parses a string; `wanted` says what the string must be.
    pub fn parsed<T>(
        self,
        parse: impl FnOnce(&str) -> Option<T>,
        wanted: impl FnOnce() -> String,
    ) -> Option<T> {
        let Json::String(text) = &self.json else {
            return self.wrong_type("a string");
        };
        match parse(text) {
            None => {
                let reason = format!("must be {}, not {}", wanted(), quoted(text));
                self.invalid(reason)
            }
            parsed => parsed,
        }
    }

    pub(super) fn wrong_type<T>(self, wanted: &str) -> Option<T> {
        let reason = format!("must be {wanted}, not {}", self.json.kind());
        self.problems.malformed(self.place, reason);
        None
    }

    fn invalid<T>(self, reason: impl Display) -> Option<T> {
        self.problems.invalid(self.place, reason);
        None
    }
}

/// Each value once, in the order in which they came.
fn distinct<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}
