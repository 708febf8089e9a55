//! Reading a request out of JSON: every member once, every problem in one go.
//!
//! A request type reads its members by name through an [`Object`]. What is wrong is noted with its path, what it should have
//! been, and what class it is of; reading goes on, so that a client learns of all its mistakes at once. Hence the one rule for
//! readers: read every member first, and only then use `?`.

mod problems;
pub(crate) mod schema;
mod value;

pub use problems::Problems;
pub use value::Value;

use super::json::Json;

/// Reads a request body, which must be an object without members that `read` does not ask for.
///
/// # Errors
/// [`Problems`], if there is any; then what `read` answered is dropped.
pub fn read_body<T>(
    body: Json,
    read: impl FnOnce(&mut Object<'_>) -> Option<T>,
) -> Result<T, Problems> {
    let mut problems = Problems::default();
    let outcome = Value::new(body, String::new(), &mut problems).object(read);
    match outcome {
        Some(request) if problems.is_empty() => Ok(request),
        _ => Err(problems),
    }
}

/// What becomes of an optional member of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patch<T> {
    /// It gets this value.
    Set(T),
    /// It is taken out.
    Clear,
}

/// The members of one object, each to be taken once.
pub struct Object<'p> {
    path: String,
    members: Vec<(String, Json)>,
    problems: &'p mut Problems,
}

impl<'p> Object<'p> {
    fn new(path: String, members: Vec<(String, Json)>, problems: &'p mut Problems) -> Self {
        Self {
            path,
            members,
            problems,
        }
    }

    /// Whether the member was sent with another value than `null` and not read yet.
    pub fn has(&self, name: &str) -> bool {
        self.members
            .iter()
            .any(|(member, value)| member == name && *value != Json::Null)
    }

    /// Whether the member was sent as `null` and not read yet: a change clears what it stands for.
    pub fn is_null(&self, name: &str) -> bool {
        self.members
            .iter()
            .any(|(member, value)| member == name && *value == Json::Null)
    }

    /// Whether the member is a text without content; if so, it counts as read.
    pub fn blank(&mut self, name: &str) -> bool {
        let blank = |value: &Json| matches!(value, Json::String(text) if text.trim().is_empty());
        let found = self
            .members
            .iter()
            .any(|(member, value)| member == name && blank(value));
        found && self.take(name).is_some()
    }

    /// Reads a member that may be absent; `null` is as good as absent. `None` also when the value was wrong, which is noted.
    pub fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Value<'_>) -> Option<T>,
    ) -> Option<T> {
        let json = self.take(name).filter(|json| *json != Json::Null)?;
        let path = self.path_of(name);
        read(Value::new(json, path, self.problems))
    }

    /// Reads a member whose `null` says that what is stored is to be taken out. `None` when it is absent, also when the value
    /// was wrong, which is noted.
    pub fn clearable<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Value<'_>) -> Option<T>,
    ) -> Option<Patch<T>> {
        let json = self.take(name)?;
        if json == Json::Null {
            return Some(Patch::Clear);
        }
        let path = self.path_of(name);
        read(Value::new(json, path, self.problems)).map(Patch::Set)
    }

    /// Reads a member that must be there and not be `null`.
    pub fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Value<'_>) -> Option<T>,
    ) -> Option<T> {
        let path = self.path_of(name);
        match self.take(name) {
            None => {
                self.problems.invalid(path, "is required");
                None
            }
            Some(Json::Null) => {
                self.problems
                    .invalid(path, "is required and must not be null");
                None
            }
            Some(json) => read(Value::new(json, path, self.problems)),
        }
    }

    /// Notes that a member contradicts another, or asks for what cannot be had.
    pub fn refuse_member(&mut self, name: &str, reason: impl Into<String>) {
        let path = self.path_of(name);
        self.problems.invalid(path, reason);
    }

    /// Notes that the object as a whole breaks a rule.
    pub fn refuse(&mut self, reason: impl Into<String>) {
        self.problems.invalid(self.path.clone(), reason);
    }

    /// Notes each member that nobody asked for.
    fn finish(self) {
        for (name, _) in &self.members {
            self.problems.unknown_member(self.path_of(name));
        }
    }

    fn take(&mut self, name: &str) -> Option<Json> {
        let position = self.members.iter().position(|(member, _)| member == name)?;
        Some(self.members.remove(position).1)
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }
}

#[cfg(test)]
mod tests;
