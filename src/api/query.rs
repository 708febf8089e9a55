//! Query strings: parameters by name, a blank one as good as absent, unknown ones ignored.

use std::borrow::Cow;

use super::errors::ApiError;
use super::operation::Plane;
use crate::domain::printable::printable;

/// The parameters of one request.
#[derive(Debug, Clone)]
pub struct Query<'q> {
    pairs: Vec<(Cow<'q, str>, Cow<'q, str>)>,
    plane: Plane,
}

impl<'q> Query<'q> {
    /// Reads the part of a URI after `?`, for an operation of the admin plane.
    pub fn parse_admin(query: &'q str) -> Self {
        Self::of_plane(query, Plane::Admin)
    }

    /// The same for either plane.
    pub fn of_plane(query: &'q str, plane: Plane) -> Self {
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        let pairs = pairs.filter(|(_, value)| !value.trim().is_empty());
        Self {
            pairs: pairs.collect(),
            plane,
        }
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// 400 when it is given more than once: which one is meant is anybody's guess.
    pub fn get(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            _ => Err(self.refusal(name, "given more than once")),
        }
    }

    /// The value of a parameter that must be there.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn required(&self, name: &str) -> Result<&str, ApiError> {
        let missing = || ApiError::invalid(format!("Missing required parameter: {name}"));
        self.get(name)?.ok_or_else(missing)
    }

    /// Every value of a parameter that is a list.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.pairs.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_ref())
    }

    /// One of a fixed set of words.
    ///
    /// # Errors
    /// 400 naming the parameter, the value and the words.
    pub fn word<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
        words: &[&str],
    ) -> Result<Option<T>, ApiError> {
        self.parsed(name, read, &format!("allowed: {}", words.join(", ")))
    }

    /// A text with a maximum of characters.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn text(&self, name: &str, chars_max: usize) -> Result<Option<String>, ApiError> {
        let read = |text: &str| (text.chars().count() <= chars_max).then(|| text.to_owned());
        self.parsed(
            name,
            read,
            &format!("it must be at most {chars_max} characters long"),
        )
    }

    /// A value that `read` understands; `wanted` says what that is.
    ///
    /// # Errors
    /// 400 naming the parameter, the value and what is wanted.
    pub fn parsed<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
        wanted: &str,
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.get(name)? else {
            return Ok(None);
        };
        let refused = || self.refusal(name, &format!("{}; {wanted}", printable(text)));
        read(text).map(Some).ok_or_else(refused)
    }

    /// 400 naming a parameter and what is wrong with it.
    pub fn refusal(&self, name: &str, what: &str) -> ApiError {
        ApiError::invalid(match self.plane {
            Plane::Runtime => format!("Invalid {name}: {what}"),
            Plane::Admin => format!("Invalid value for parameter '{name}': {what}"),
        })
    }
}
