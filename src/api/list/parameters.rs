//! The parameters of a list's query string: each declaration reads one, describes it, and binds cursors to it.

use std::fmt::Display;

use serde_json::{Value, json};

use crate::api::errors::ApiError;
use crate::api::operation::Plane;
use crate::api::operation::parameters::{query as description, text, words, words_or};
use crate::api::query::Query;
use crate::domain::ids::is_hex;
use crate::domain::moment::{Moment, Window};
use crate::domain::printable::printable;
use crate::domain::scope::{Level, SegmentFilter};
use crate::domain::search::{SEARCH_CHARS_MAX, Search};
use crate::domain::words::Word;
use crate::listing::SortKey;

/// Rows on a page when the request names no limit.
const PAGE_LIMIT_DEFAULT: usize = 50;
/// Most values of a parameter that is a list.
pub const LIST_VALUES_MAX: usize = 25;

/// How many rows a page may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// From 1 to the maximum; another number is refused.
    UpTo(usize),
    /// From 1 to the maximum; another number is clamped, because dashboards ask for more.
    CutTo(usize),
    /// The same, and the description of the API names no bounds.
    QuietlyCutTo(usize),
}

/// Reads the parameters of one request, or describes them.
#[derive(Debug)]
pub struct Parameters<'q> {
    query: Query<'q>,
    /// Names and values of the filters, in a canonical form.
    bound: Vec<(&'static str, String)>,
    /// Where parameters are described.
    described: Option<Vec<Value>>,
}

impl<'q> Parameters<'q> {
    /// Those of a query string.
    pub fn reading(query: &'q str, plane: Plane) -> Self {
        Self {
            query: Query::of_plane(query, plane),
            bound: Vec::new(),
            described: None,
        }
    }

    /// For the description: none is given.
    pub fn describing(plane: Plane) -> Self {
        Self {
            described: Some(Vec::new()),
            ..Self::reading("", plane)
        }
    }

    /// The values that cursors are bound to.
    pub fn bound(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.bound)
    }

    /// The descriptions.
    pub fn described(self) -> Vec<Value> {
        self.described.unwrap_or_default()
    }

    /// A value that `read` understands; `wanted` says what that is. Equal values have the same text.
    ///
    /// # Errors
    /// 400 naming the parameter, the value and what is wanted.
    pub fn parsed<T: ToString>(
        &mut self,
        name: &'static str,
        about: &str,
        schema: impl FnOnce() -> Value,
        (read, wanted): (impl FnOnce(&str) -> Option<T>, &str),
    ) -> Result<Option<T>, ApiError> {
        self.describe(name, about, schema);
        let value = self.query.parsed(name, read, wanted)?;
        let text = value.as_ref().map(T::to_string);
        self.bound.push((name, text.unwrap_or_default()));
        Ok(value)
    }

    /// Any text, taken as it is.
    ///
    /// # Errors
    /// 400 when it is given more than once.
    pub fn text(&mut self, name: &'static str, about: &str) -> Result<Option<String>, ApiError> {
        let text = self.unbound_text(name, about)?;
        self.bound.push((name, text.clone().unwrap_or_default()));
        Ok(text)
    }

    /// The same, of which cursors know nothing.
    ///
    /// # Errors
    /// 400 when it is given more than once.
    pub fn unbound_text(
        &mut self,
        name: &'static str,
        about: &str,
    ) -> Result<Option<String>, ApiError> {
        self.describe(name, about, text);
        Ok(self.query.get(name)?.map(str::to_owned))
    }

    /// One of a set of words.
    ///
    /// # Errors
    /// 400 naming the parameter, the value and the words.
    pub fn word<W: Word + Display>(
        &mut self,
        name: &'static str,
        about: &str,
    ) -> Result<Option<W>, ApiError> {
        self.word_among(name, about, W::WORDS)
    }

    /// One of some words of a set; the description has all of them.
    ///
    /// # Errors
    /// 400 naming the parameter, the value and what is allowed.
    pub fn word_among<W: Word + Display>(
        &mut self,
        name: &'static str,
        about: &str,
        allowed: &[&str],
    ) -> Result<Option<W>, ApiError> {
        let schema = || words(W::WORDS);
        let wanted = format!("allowed: {}", allowed.join(", "));
        let read = |text: &str| W::parse(text).filter(|word| allowed.contains(&word.as_str()));
        self.parsed(name, about, schema, (read, &wanted))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn flag(&mut self, name: &'static str, about: &str) -> Result<Option<bool>, ApiError> {
        let (schema, wanted) = (|| json!({"type": "boolean"}), "allowed: true, false");
        let read = |text: &str| text.parse().ok();
        self.parsed(name, about, schema, (read, wanted))
    }

    /// A number from 0 to 1.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn fraction(&mut self, name: &'static str, about: &str) -> Result<Option<f64>, ApiError> {
        let schema = || json!({"type": "number", "format": "double", "minimum": 0, "maximum": 1});
        let read = |text: &str| text.parse().ok().filter(|f| (0.0..=1.0).contains(f));
        let wanted = "it must be a number from 0 to 1";
        self.parsed(name, about, schema, (read, wanted))
    }

    /// `search`: what some texts must contain, whatever the case; at most [`SEARCH_CHARS_MAX`] characters.
    ///
    /// # Errors
    /// 400 for a longer one.
    pub fn search(&mut self, about: &str) -> Result<Option<Search>, ApiError> {
        let schema = || json!({"type": "string", "maxLength": SEARCH_CHARS_MAX});
        let fits = |text: &&str| text.chars().count() <= SEARCH_CHARS_MAX;
        let read = |text: &str| Some(text).filter(fits).map(Search::new);
        let wanted = format!("it must be at most {SEARCH_CHARS_MAX} characters long");
        self.parsed("search", about, schema, (read, &wanted))
    }

    /// `trace_id`: 32 lower-case hexadecimal digits.
    ///
    /// # Errors
    /// 400 for anything else.
    pub fn trace_id(&mut self, about: &str) -> Result<Option<String>, ApiError> {
        let schema = || json!({"type": "string", "pattern": "^[0-9a-f]{32}$"});
        let read = |text: &str| is_hex(text, 32).then(|| text.to_owned());
        let wanted = "it must have 32 lower-case hexadecimal digits";
        self.parsed("trace_id", about, schema, (read, wanted))
    }

    /// Several values, written `a,b` or given several times: each once and sorted, because their order says nothing.
    ///
    /// # Errors
    /// 400 above [`LIST_VALUES_MAX`] values.
    pub fn list(&mut self, name: &'static str, about: &str) -> Result<Vec<String>, ApiError> {
        self.describe_as(|| {
            let schema = json!({"type": "array", "items": text(), "maxItems": LIST_VALUES_MAX});
            let mut described = description(name, about, schema);
            described["explode"] = json!(false);
            described
        });
        let parts = self.query.all(name).flat_map(|text| text.split(','));
        let values = parts.map(str::trim).filter(|value| !value.is_empty());
        let mut values: Vec<String> = values.map(str::to_owned).collect();
        values.sort();
        values.dedup();
        if values.len() > LIST_VALUES_MAX {
            let what = format!("it must have at most {LIST_VALUES_MAX} values");
            return Err(self.query.refusal(name, &what));
        }
        self.bound.push((name, values.join(",")));
        Ok(values)
    }

    /// A span of time, both ends included. One that ends before it begins holds nothing.
    ///
    /// # Errors
    /// 400 for what is no date and time.
    pub fn window(
        &mut self,
        [from, to]: [&'static str; 2],
        [about_from, about_to]: [&str; 2],
    ) -> Result<Window, ApiError> {
        Ok(Window {
            from_ms: self.moment(from, about_from)?,
            to_ms: self.moment(to, about_to)?,
        })
    }

    /// The same, which must not end before it begins.
    ///
    /// # Errors
    /// 400 for what is no date and time, and when `from` is after `to`.
    pub fn ordered_window(
        &mut self,
        [from, to]: [&'static str; 2],
        about: [&str; 2],
    ) -> Result<Window, ApiError> {
        let window = self.window([from, to], about)?;
        if window.is_empty() {
            let sent = |name| {
                self.query
                    .get(name)
                    .map(|text| printable(text.unwrap_or_default()))
            };
            let what = format!("{} is after {to} {}", sent(from)?, sent(to)?);
            return Err(self.query.refusal(from, &what));
        }
        Ok(window)
    }

    fn moment(&mut self, name: &'static str, about: &str) -> Result<Option<i64>, ApiError> {
        let schema = || json!({"type": "string", "format": "date-time"});
        // The `+` of an offset that was not escaped arrives as a blank.
        let read = |text: &str| Moment::parse(&text.trim().replace(' ', "+")).map(Moment::as_ms);
        let wanted = "it must be a date and time such as 2026-07-04T12:00:00Z";
        self.parsed(name, about, schema, (read, wanted))
    }

    /// One filter for each level of a scope: the tenant, of which cursors know nothing, and the segments below it.
    ///
    /// # Errors
    /// 400 for a level that is given more than once.
    pub fn levels(
        &mut self,
        about_tenant: &str,
    ) -> Result<(Option<String>, SegmentFilter), ApiError> {
        let tenant = self.unbound_text(Level::Tenant.as_str(), about_tenant)?;
        Ok((tenant, self.segments()?))
    }

    /// One filter for each level below the tenant.
    ///
    /// # Errors
    /// 400 for a level that is given more than once.
    pub fn segments(&mut self) -> Result<SegmentFilter, ApiError> {
        let about = "Value of this level, in any case: only scopes at or below it.";
        let mut wanted = Vec::new();
        for &level in &Level::ALL[1..] {
            let value = self.unbound_text(level.as_str(), about)?;
            let value = value.map(|value| value.to_ascii_lowercase());
            let bound = value.clone().unwrap_or_default();
            self.bound.push((level.as_str(), bound));
            wanted.extend(value.map(|value| (level, value)));
        }
        Ok(SegmentFilter::new(wanted))
    }

    /// Refuses a combination of values where a condition does not hold. The description has none.
    ///
    /// # Errors
    /// The refusal.
    pub fn require(&self, holds: bool, refusal: impl FnOnce() -> ApiError) -> Result<(), ApiError> {
        match holds || self.described.is_some() {
            true => Ok(()),
            false => Err(refusal()),
        }
    }

    /// Describes a parameter that selects no rows; the query string, to read it from.
    pub fn other(&mut self, described: impl FnOnce() -> Value) -> &Query<'q> {
        self.describe_as(described);
        &self.query
    }

    /// Describes a parameter that is accepted and has no effect.
    pub fn ignored(&mut self, name: &'static str, schema: impl FnOnce() -> Value) {
        self.describe(name, "Without effect.", schema);
    }

    /// The refusal of a parameter.
    pub fn refusal(&self, name: &str, what: &str) -> ApiError {
        self.query.refusal(name, what)
    }

    /// `sort_by` and `sort_dir`, in any case.
    pub(super) fn order<K: SortKey>(
        &mut self,
        about: &str,
    ) -> Result<(Option<K>, Option<bool>), ApiError> {
        self.describe("sort_by", about, || words_or(K::WORDS, K::DEFAULT.as_str()));
        let about = "Direction of the order.";
        self.describe("sort_dir", about, || words_or(&["asc", "desc"], "desc"));
        let key = |text: &str| K::parse(&text.to_ascii_lowercase());
        let direction = |text: &str| match text.to_ascii_lowercase().as_str() {
            "asc" => Some(false),
            "desc" => Some(true),
            _ => None,
        };
        Ok((
            self.query.word("sort_by", key, K::WORDS)?,
            self.query.word("sort_dir", direction, &["asc", "desc"])?,
        ))
    }

    /// `limit`.
    pub(super) fn limit(&mut self, limit: Limit) -> Result<usize, ApiError> {
        let (most, about) = match limit {
            Limit::UpTo(most) => (most, "Maximum number of rows on the page."),
            Limit::CutTo(most) | Limit::QuietlyCutTo(most) => (
                most,
                "Maximum number of rows on the page. A number outside the bounds is replaced by the nearest bound.",
            ),
        };
        self.describe("limit", about, || {
            let mut schema = json!({"type": "integer", "default": PAGE_LIMIT_DEFAULT});
            if !matches!(limit, Limit::QuietlyCutTo(_)) {
                (schema["minimum"], schema["maximum"]) = (json!(1), json!(most));
            }
            schema
        });
        let wanted = format!("it must be an integer from 1 to {most}");
        let given = match limit {
            Limit::UpTo(most) => self
                .query
                .parsed("limit", |text| up_to(text, most), &wanted)?,
            Limit::CutTo(most) | Limit::QuietlyCutTo(most) => {
                let cut = |limit: i64| limit.clamp(1, most as i64) as usize;
                let read = |text: &str| text.parse().ok().map(cut);
                self.query.parsed("limit", read, "it must be an integer")?
            }
        };
        Ok(given.unwrap_or(PAGE_LIMIT_DEFAULT))
    }

    /// `cursor`.
    pub(super) fn cursor(&mut self) -> Result<Option<String>, ApiError> {
        let about = "`next_cursor` of the previous page, for the same filters.";
        self.unbound_text("cursor", about)
    }

    fn describe(&mut self, name: &str, about: &str, schema: impl FnOnce() -> Value) {
        self.describe_as(|| description(name, about, schema()));
    }

    fn describe_as(&mut self, parameter: impl FnOnce() -> Value) {
        if let Some(described) = &mut self.described {
            described.push(parameter());
        }
    }
}

/// Digits alone: no sign.
fn up_to(text: &str, most: usize) -> Option<usize> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let limit = text.parse().ok().filter(|_| is_number)?;
    (1..=most).contains(&limit).then_some(limit)
}
