//! What is wrong with a request.

use std::fmt;

use crate::domain::printable::{printable, printable_up_to};

/// More are counted, not listed: a message stays readable whatever was sent.
const LISTED_MAX: usize = 20;
const PATH_CHARS_MAX: usize = 160;

/// Everything that is wrong with one request. `Display` is the message for the client.
///
/// Problems of form (an unknown member, a wrong type) come before problems of content (a missing member, a bound).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    malformed: Vec<String>,
    invalid: Vec<String>,
    unlisted: usize,
}

impl Problems {
    /// One problem of content, found outside the reading of a body.
    pub fn one(path: &str, reason: impl Into<String>) -> Self {
        let mut problems = Self::default();
        problems.invalid(path.to_owned(), reason);
        problems
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.malformed.is_empty() && self.invalid.is_empty()
    }

    /// Whether the body is not of the request's form at all.
    pub fn is_malformed(&self) -> bool {
        !self.malformed.is_empty()
    }

    /// A value of the wrong type.
    pub(super) fn malformed(&mut self, path: String, reason: impl Into<String>) {
        let path = shown_path(&path);
        self.note(
            |problems| &mut problems.malformed,
            format!("{path}: {}", reason.into()),
        );
    }

    /// A member that the request does not have.
    pub(super) fn unknown_member(&mut self, path: String) {
        let path = shown_path(&path);
        self.note(
            |problems| &mut problems.malformed,
            format!("unknown member `{path}`"),
        );
    }

    /// A missing member or a value out of bounds.
    pub(super) fn invalid(&mut self, path: String, reason: impl Into<String>) {
        let path = shown_path(&path);
        self.note(
            |problems| &mut problems.invalid,
            format!("{path}: {}", reason.into()),
        );
    }

    fn note(&mut self, class: fn(&mut Self) -> &mut Vec<String>, problem: String) {
        if self.malformed.len() + self.invalid.len() < LISTED_MAX || class(self).is_empty() {
            class(self).push(problem);
        } else {
            self.unlisted += 1;
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_malformed() {
            "Malformed request body: "
        } else {
            "Validation failed: "
        })?;
        let listed: Vec<&str> = self
            .malformed
            .iter()
            .chain(&self.invalid)
            .map(String::as_str)
            .collect();
        f.write_str(&listed.join(", "))?;
        if self.unlisted > 0 {
            write!(f, ", and {} more", self.unlisted)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

fn shown_path(path: &str) -> String {
    if path.is_empty() {
        "the body".to_owned()
    } else {
        printable_up_to(path, PATH_CHARS_MAX)
    }
}

/// A foreign value in back quotes, fit for a message.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", printable(text))
}
