//! Bounds of values, as data: readers enforce them, and schemas describe them.
//!
//! The published protocol leaves some bounds open that the service has. Those are `unpublished_…`: enforced, not described.

use std::fmt::Display;
use std::ops::{RangeFrom, RangeInclusive, RangeToInclusive};

use serde::Serialize;
use serde_json::{Value as Schema, json};

/// Most characters of a name.
pub const NAME_CHARS_MAX: usize = 256;
/// Most characters of a description.
pub const DESCRIPTION_CHARS_MAX: usize = 1024;

/// Least and greatest value, both included, each optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds<N> {
    /// Least.
    pub min: Option<N>,
    /// Greatest.
    pub max: Option<N>,
}

impl<N: Copy> From<RangeInclusive<N>> for Bounds<N> {
    fn from(range: RangeInclusive<N>) -> Self {
        Self {
            min: Some(*range.start()),
            max: Some(*range.end()),
        }
    }
}

impl<N> From<RangeFrom<N>> for Bounds<N> {
    fn from(range: RangeFrom<N>) -> Self {
        Self {
            min: Some(range.start),
            max: None,
        }
    }
}

impl<N> From<RangeToInclusive<N>> for Bounds<N> {
    fn from(range: RangeToInclusive<N>) -> Self {
        Self {
            min: None,
            max: Some(range.end),
        }
    }
}

impl<N: Copy + PartialOrd + Display> Bounds<N> {
    /// Whether a value lies within.
    pub fn contains(&self, value: N) -> bool {
        self.min.is_none_or(|min| min <= value) && self.max.is_none_or(|max| value <= max)
    }

    /// Adds the bounds to a schema under the names of the keywords.
    pub(super) fn describe(&self, schema: &mut Schema, min: &str, max: &str)
    where
        N: Serialize,
    {
        for (keyword, bound) in [(min, self.min), (max, self.max)] {
            if let Some(bound) = bound {
                schema[keyword] = whole(json!(bound));
            }
        }
    }
}

/// Whole numbers without `.0`, as schemas have them.
fn whole(bound: Schema) -> Schema {
    match bound.as_f64() {
        Some(float) if bound.is_f64() && float.fract() == 0.0 => json!(float as i64),
        _ => bound,
    }
}

/// The treatment of blank texts: white space alone, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Blank {
    /// A text like any other.
    #[default]
    Allowed,
    /// Refused.
    Refused,
    /// As good as `null`.
    Null,
}

/// A form that texts must have.
#[derive(Debug)]
pub struct Form {
    /// The requirement on a text, for messages: `must be …`.
    pub wanted: &'static str,
    /// Whether a text is.
    pub accepts: fn(&str) -> bool,
    /// Its form in the description: a regular expression and the number of characters.
    pub published: Option<(&'static str, RangeInclusive<usize>)>,
}

/// Rules for texts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text {
    pub(super) chars: Bounds<usize>,
    pub(super) unpublished_chars: Option<Bounds<usize>>,
    pub(super) blank: Blank,
    pub(super) trimmed: bool,
    pub(super) form: Option<&'static Form>,
}

impl Text {
    /// Texts with bounds of characters.
    pub fn chars(chars: impl Into<Bounds<usize>>) -> Self {
        Self {
            chars: chars.into(),
            ..Self::default()
        }
    }

    /// Texts of that form.
    pub fn form(form: &'static Form) -> Self {
        Self {
            form: Some(form),
            ..Self::default()
        }
    }

    /// The same, with a number of characters unless there is one.
    pub fn or_chars(mut self, chars: impl Into<Bounds<usize>>) -> Self {
        if self.chars == Bounds::default() {
            self.chars = chars.into();
        }
        self
    }

    /// The schema of such texts.
    pub fn schema(&self) -> Schema {
        let mut schema = json!({"type": "string"});
        let published = self.form.and_then(|form| form.published.as_ref());
        if let Some((pattern, chars)) = published {
            schema["pattern"] = (*pattern).into();
            Bounds::from(chars.clone()).describe(&mut schema, "minLength", "maxLength");
        }
        self.chars.describe(&mut schema, "minLength", "maxLength");
        schema
    }
}

/// Rules for numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Range<N> {
    pub(super) published: Bounds<N>,
    pub(super) unpublished: Option<Bounds<N>>,
}

impl<N: Copy> Range<N> {
    /// Numbers within those bounds.
    pub fn of(bounds: impl Into<Bounds<N>>) -> Self {
        Self {
            published: bounds.into(),
            unpublished: None,
        }
    }

    pub(super) fn enforced(&self) -> Bounds<N> {
        self.unpublished.unwrap_or(self.published)
    }
}

/// Rules for arrays, and for each item.
#[derive(Debug, Clone, Copy, Default)]
pub struct Items<R> {
    pub(super) items: Bounds<usize>,
    pub(super) unpublished_items: Option<Bounds<usize>>,
    pub(super) distinct: bool,
    pub(super) each: R,
}

impl<R: Default> Items<R> {
    /// Any number of items, with rules for each.
    pub fn each(each: R) -> Self {
        Self {
            each,
            ..Self::default()
        }
    }
}

/// Rules for maps with any names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entries<R> {
    pub(super) entries: Bounds<usize>,
    pub(super) each: R,
}
