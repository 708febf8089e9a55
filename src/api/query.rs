//! Query strings: parameters by name, a blank one as good as absent, unknown ones ignored.

use std::borrow::Cow;

use super::errors::ApiError;
use crate::domain::moment::Moment;
use crate::domain::printable::printable;
use crate::domain::scope::{Level, SegmentFilter};

/// Rows on a page of the runtime plane that names no limit.
pub const PAGE_LIMIT_DEFAULT: usize = 50;
/// Most rows on a page of the runtime plane.
pub const PAGE_LIMIT_MAX: usize = 200;

/// The parameters of one request.
#[derive(Debug, Clone)]
pub struct Query<'q> {
    pairs: Vec<(Cow<'q, str>, Cow<'q, str>)>,
}

impl<'q> Query<'q> {
    /// Reads the part of a URI after `?`.
    pub fn parse(query: &'q str) -> Self {
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        Self {
            pairs: pairs
                .filter(|(_, value)| !value.trim().is_empty())
                .collect(),
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
            _ => Err(ApiError::invalid(format!(
                "Invalid {name}: given more than once"
            ))),
        }
    }

    /// Every value of a parameter that is a list.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_ref())
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.parsed(name, |text| text.parse().ok(), "allowed: true, false")
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
        let refused =
            || ApiError::invalid(format!("Invalid {name}: {}; {wanted}", printable(text)));
        read(text).map(Some).ok_or_else(refused)
    }
}

/// How many rows a page of the runtime plane has.
///
/// # Errors
/// 400 outside 1 to [`PAGE_LIMIT_MAX`].
pub fn page_limit(query: &Query<'_>) -> Result<usize, ApiError> {
    let read = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse()
            .ok()
            .filter(|limit| digits && (1..=PAGE_LIMIT_MAX).contains(limit))
    };
    let limit = query.parsed(
        "limit",
        read,
        &format!("it must be an integer from 1 to {PAGE_LIMIT_MAX}"),
    )?;
    Ok(limit.unwrap_or(PAGE_LIMIT_DEFAULT))
}

/// The filters by level below the tenant.
///
/// # Errors
/// 400 for a level that is given more than once.
pub fn segments(query: &Query<'_>) -> Result<SegmentFilter, ApiError> {
    let mut wanted = Vec::new();
    for level in Level::ALL.into_iter().skip(1) {
        if let Some(value) = query.get(level.as_str())? {
            wanted.push((level, value.to_owned()));
        }
    }
    Ok(SegmentFilter::new(wanted))
}

/// A span of time, both ends included, each optional; milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Not before.
    pub from_ms: Option<i64>,
    /// Not after.
    pub to_ms: Option<i64>,
}

impl Window {
    /// Reads two parameters.
    ///
    /// # Errors
    /// 400 for what is no date and time, and when the first is after the second.
    pub fn parse(query: &Query<'_>, from: &str, to: &str) -> Result<Self, ApiError> {
        let wanted = "it must be a date and time such as 2026-07-04T12:00:00Z";
        // The `+` of an offset that was not escaped arrives as a blank.
        let read = |text: &str| Moment::parse(&text.trim().replace(' ', "+")).map(Moment::as_ms);
        let window = Self {
            from_ms: query.parsed(from, read, wanted)?,
            to_ms: query.parsed(to, read, wanted)?,
        };
        if window
            .from_ms
            .zip(window.to_ms)
            .is_some_and(|(from, to)| from > to)
        {
            let shown = |name| {
                query
                    .get(name)
                    .map(|text| printable(text.unwrap_or_default()))
            };
            return Err(ApiError::invalid(format!(
                "Invalid {from}: {} is after {to} {}",
                shown(from)?,
                shown(to)?
            )));
        }
        Ok(window)
    }

    /// Whether neither end is given.
    pub fn is_open(self) -> bool {
        self == Self::default()
    }

    /// Whether a time lies inside.
    pub fn contains(self, ms: i64) -> bool {
        self.from_ms.is_none_or(|from| from <= ms) && self.to_ms.is_none_or(|to| ms <= to)
    }
}
