//! Query strings: parameters by name, a blank one as good as absent, unknown ones ignored.

use std::borrow::Cow;

use super::errors::ApiError;
use super::operation::Plane;
use crate::domain::moment::{Moment, Window};
use crate::domain::printable::printable;
use crate::domain::scope::{Level, SegmentFilter};

/// Rows on a page when the request names no limit.
pub const PAGE_LIMIT_DEFAULT: usize = 50;
/// Most rows on a page of the runtime plane.
pub const PAGE_LIMIT_MAX: usize = 200;
/// Most rows on a page of the admin plane.
pub const ADMIN_PAGE_LIMIT_MAX: usize = 100;
/// Most characters of a search text.
pub const SEARCH_CHARS_MAX: usize = 128;

/// The parameters of one request.
#[derive(Debug, Clone)]
pub struct Query<'q> {
    pairs: Vec<(Cow<'q, str>, Cow<'q, str>)>,
    plane: Plane,
}

impl<'q> Query<'q> {
    /// Reads the part of a URI after `?`, for an operation of the runtime plane.
    pub fn parse(query: &'q str) -> Self {
        Self::of_plane(query, Plane::Runtime)
    }

    /// The same for the admin plane.
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

    /// `true` or `false`.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.word(name, |text| text.parse().ok(), &["true", "false"])
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

    /// A text of at most so many characters.
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

/// How many rows a page of the runtime plane has.
///
/// # Errors
/// 400 outside 1 to [`PAGE_LIMIT_MAX`].
pub fn page_limit(query: &Query<'_>) -> Result<usize, ApiError> {
    page_limit_up_to(query, PAGE_LIMIT_MAX)
}

fn page_limit_up_to(query: &Query<'_>, most: usize) -> Result<usize, ApiError> {
    let read = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let limit = text.parse().ok().filter(|_| digits)?;
        (1..=most).contains(&limit).then_some(limit)
    };
    let wanted = format!("it must be an integer from 1 to {most}");
    Ok(query
        .parsed("limit", read, &wanted)?
        .unwrap_or(PAGE_LIMIT_DEFAULT))
}

/// How many rows a page of the admin plane has: the limit is cut to 1 to [`ADMIN_PAGE_LIMIT_MAX`], because dashboards ask
/// for more than there is.
///
/// # Errors
/// 400 for what is no integer.
pub fn admin_page_limit(query: &Query<'_>) -> Result<usize, ApiError> {
    let limit = query.parsed(
        "limit",
        |text| text.parse::<i64>().ok(),
        "it must be an integer",
    )?;
    let clamped = limit.map(|limit| limit.clamp(1, ADMIN_PAGE_LIMIT_MAX as i64) as usize);
    Ok(clamped.unwrap_or(PAGE_LIMIT_DEFAULT))
}

/// How many rows a page of events has.
///
/// # Errors
/// 400 outside 1 to [`ADMIN_PAGE_LIMIT_MAX`].
pub fn event_page_limit(query: &Query<'_>) -> Result<usize, ApiError> {
    page_limit_up_to(query, ADMIN_PAGE_LIMIT_MAX)
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

/// A span of time from two parameters.
///
/// # Errors
/// 400 for what is no date and time, and when the first is after the second.
pub fn window(query: &Query<'_>, from: &str, to: &str) -> Result<Window, ApiError> {
    let wanted = "it must be a date and time such as 2026-07-04T12:00:00Z";
    // The `+` of an offset that was not escaped arrives as a blank.
    let read = |text: &str| Moment::parse(&text.trim().replace(' ', "+")).map(Moment::as_ms);
    let window = Window {
        from_ms: query.parsed(from, read, wanted)?,
        to_ms: query.parsed(to, read, wanted)?,
    };
    if window
        .from_ms
        .zip(window.to_ms)
        .is_some_and(|(from, to)| from > to)
    {
        let sent = |name| {
            query
                .get(name)
                .map(|text| printable(text.unwrap_or_default()))
        };
        let what = format!("{} is after {to} {}", sent(from)?, sent(to)?);
        return Err(query.refusal(from, &what));
    }
    Ok(window)
}
