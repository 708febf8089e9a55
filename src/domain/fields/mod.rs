//! The members of requests, responses and records, each declared once: type, bounds, default, description.
//!
//! [`object!`] declares an object; its documentation shows what a declaration expands to. A type that members can have is a
//! [`Field`]; one that requests have is a [`Read`]. Reading notes what is wrong with its path and what it should have been,
//! and continues, so that a client learns of all its mistakes at once. Rules over several members are checked last, once
//! each of them is right.

mod field;
mod member;
mod object;
mod patch;
mod problems;
mod rules;
mod schema;
mod value;

pub use field::{Field, Read};
pub(crate) use field::{plain_field, text_field};
pub use member::{Described, Keyword, Member};
pub(crate) use object::object;
pub use patch::Patch;
pub use problems::Problems;
pub use rules::{
    Blank, Bounds, DESCRIPTION_CHARS_MAX, Entries, Form, Items, NAME_CHARS_MAX, Range, Text,
};
pub use schema::Components;
pub use serde_json::Value as Schema;
pub use value::Value;

use std::fmt::Display;

use super::json::{Json, Name, Place};

/// The members of one object, each to be taken once.
pub struct Object<'p> {
    place: Place<'p>,
    members: Vec<(Name, Json)>,
    problems: &'p mut Problems,
}

impl Object<'_> {
    /// Reads a member by its declaration. `None` after noting what is wrong.
    pub fn read<T: Read>(&mut self, member: Member<T>) -> Option<T> {
        let place = Place::Member(&self.place, member.name);
        let position = self
            .members
            .iter()
            .position(|(name, _)| name == member.name);
        let sent = position.map(|position| self.members.remove(position).1);
        let null = sent.is_some();
        if let Some(json) = sent.filter(|json| !T::is_null(json, &member.rules)) {
            return T::read(Value::new(json, place, self.problems), &member.rules);
        }
        let value = match null {
            true => T::null(member.default),
            false => T::absent(member.default),
        };
        if value.is_none() {
            let reason = match null {
                true => "is required and must not be null",
                false => "is required",
            };
            self.problems.invalid(place, reason);
        }
        value
    }

    /// Notes that a member contradicts another, or asks for what cannot be had.
    pub fn refuse_member(&mut self, name: &str, reason: impl Display) {
        let place = Place::Member(&self.place, name);
        self.problems.invalid(place, reason);
    }

    /// Notes that the object as a whole breaks a rule.
    pub fn refuse(&mut self, reason: impl Display) {
        self.problems.invalid(self.place, reason);
    }

    /// Notes each member that nobody asked for.
    fn finish(self) {
        for (name, _) in &self.members {
            let place = Place::Member(&self.place, name);
            self.problems.unknown_member(place);
        }
    }
}

/// Reads a body; else the message that its problems make.
#[cfg(test)]
pub(crate) fn read_body<T: Read>(body: &str) -> Result<T, String> {
    let body = Json::parse(body.as_bytes()).expect("JSON");
    T::from_json(body).map_err(|problems| problems.to_string())
}

#[cfg(test)]
mod tests;
