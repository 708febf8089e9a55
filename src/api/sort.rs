//! The order of a list, and where in it a page starts.

pub use super::cursor::Last;
use super::cursor::{Cursor, CursorError};
use super::errors::ApiError;
use super::query::Query;
use crate::domain::ids::DeploymentSecret;

/// What one list can be sorted by.
pub trait SortKey: Copy + PartialEq {
    /// What it is sorted by when the request does not say.
    const DEFAULT: Self;
    /// All words of `sort_by`.
    const WORDS: &'static [&'static str];

    /// The word of `sort_by`.
    fn word(self) -> &'static str;
    /// Reads the lower-case word.
    fn read(text: &str) -> Option<Self>;
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort<K> {
    /// By what.
    pub by: K,
    /// Whether the largest come first.
    pub descending: bool,
}

/// Where a page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start<K> {
    /// The order of the list.
    pub sort: Sort<K>,
    /// The row after which the page starts; `None` for the first page.
    pub after: Option<Last>,
}

/// What a request says about order and place: `sort_by`, `sort_dir` and `cursor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderQuery<K> {
    by: Option<K>,
    descending: Option<bool>,
    cursor: Option<String>,
}

impl<K: SortKey> OrderQuery<K> {
    /// Reads the three parameters; the words in any case.
    ///
    /// # Errors
    /// 400 naming the parameter and what is allowed.
    pub fn parse(query: &Query<'_>) -> Result<Self, ApiError> {
        let direction = |text: &str| match text.to_ascii_lowercase().as_str() {
            "asc" => Some(false),
            "desc" => Some(true),
            _ => None,
        };
        Ok(Self {
            by: query.word(
                "sort_by",
                |text| K::read(&text.to_ascii_lowercase()),
                K::WORDS,
            )?,
            descending: query.word("sort_dir", direction, &["asc", "desc"])?,
            cursor: query.get("cursor")?.map(str::to_owned),
        })
    }

    /// Whether the request does not say by what to sort.
    pub fn leaves_key_open(&self) -> bool {
        self.by.is_none()
    }

    /// Where the page starts. What the request leaves open of the order, its cursor tells; without one the default holds,
    /// largest first.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this list, these filters and this order.
    pub fn start(
        &self,
        list: &str,
        filters: &[(&str, String)],
        secret: &DeploymentSecret,
    ) -> Result<Start<K>, ApiError> {
        let Some(text) = &self.cursor else {
            let (by, descending) = (
                self.by.unwrap_or(K::DEFAULT),
                self.descending.unwrap_or(true),
            );
            return Ok(Start {
                sort: Sort { by, descending },
                after: None,
            });
        };
        let cursor = Cursor::open(text, list, filters, secret)?;
        let by = K::read(&cursor.sort).ok_or(CursorError::Unreadable)?;
        let sort = Sort {
            by,
            descending: cursor.descending,
        };
        let same = self.by.is_none_or(|by| by == sort.by)
            && self
                .descending
                .is_none_or(|descending| descending == sort.descending);
        if !same {
            return Err(CursorError::Stale.into());
        }
        Ok(Start {
            sort,
            after: Some(cursor.last),
        })
    }
}

impl<K: SortKey> Sort<K> {
    /// The cursor of the page after a row.
    pub fn cursor_after(
        self,
        last: Last,
        list: &str,
        filters: &[(&str, String)],
        secret: &DeploymentSecret,
    ) -> String {
        let sort = self.by.word().to_owned();
        Cursor {
            sort,
            descending: self.descending,
            last,
        }
        .seal(list, filters, secret)
    }
}
