//! The problems of a request.

use std::fmt;

use super::rules::Bounds;
use crate::domain::json::Place;
use crate::domain::printable::printable;

/// More are counted, not listed: a message stays readable whatever was sent.
const LISTED_MAX: usize = 20;

/// Everything that is wrong with one request. `Display` is the message for the client.
///
/// Problems of form (an unknown member, a wrong type) come before problems of content (a missing member, a bound).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    listed: Vec<(Class, String)>,
    unlisted: usize,
    of_record: bool,
}

/// The place of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Form,
    Content,
}

impl Problems {
    /// One problem of content, found outside the reading of a body.
    pub fn one(path: &str, reason: impl fmt::Display) -> Self {
        let mut problems = Self::default();
        problems.invalid(Place::Member(&Place::BODY, path), reason);
        problems
    }

    /// Those of a stored value. Bounds are no problem: they may have been others when it was written.
    pub(super) fn of_record() -> Self {
        Self {
            of_record: true,
            ..Self::default()
        }
    }

    /// Whether a value may be so.
    pub(super) fn allow<N: Copy + PartialOrd + fmt::Display>(
        &self,
        bounds: Bounds<N>,
        value: N,
    ) -> bool {
        self.of_record || bounds.contains(value)
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Whether the body is not of the request's form at all.
    pub fn is_malformed(&self) -> bool {
        self.has(Class::Form)
    }

    /// A value of the wrong type.
    pub(super) fn malformed(&mut self, place: Place<'_>, reason: impl fmt::Display) {
        self.note(Class::Form, format!("{}: {reason}", name_of(place)));
    }

    /// A member that the request does not have.
    pub(super) fn unknown_member(&mut self, place: Place<'_>) {
        let problem = format!("unknown member `{}`", name_of(place));
        self.note(Class::Form, problem);
    }

    /// A missing member or a value out of bounds.
    pub(super) fn invalid(&mut self, place: Place<'_>, reason: impl fmt::Display) {
        self.note(Class::Content, format!("{}: {reason}", name_of(place)));
    }

    /// Each of them, those of form first, and how many more there are.
    pub fn lines(&self) -> Vec<String> {
        let mut listed: Vec<_> = self.listed.iter().collect();
        listed.sort_by_key(|(class, _)| *class);
        let unlisted = (self.unlisted > 0).then(|| format!("and {} more", self.unlisted));
        let listed = listed.into_iter().map(|(_, problem)| problem.clone());
        listed.chain(unlisted).collect()
    }

    fn note(&mut self, class: Class, problem: String) {
        if self.listed.len() < LISTED_MAX || !self.has(class) {
            self.listed.push((class, problem));
        } else {
            self.unlisted += 1;
        }
    }

    fn has(&self, class: Class) -> bool {
        self.listed.iter().any(|(listed, _)| *listed == class)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_malformed() {
            true => "Malformed request body: ",
            false => "Validation failed: ",
        })?;
        f.write_str(&self.lines().join(", "))
    }
}

impl std::error::Error for Problems {}

fn name_of(place: Place<'_>) -> String {
    match place {
        Place::Root("") => "the body".to_owned(),
        place => place.printable(),
    }
}

/// A foreign value in back quotes, fit for a message.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", printable(text))
}
