//! The `search` filter: text that some members of a row must contain.

use std::fmt;

/// Most characters of a text that a client searches for.
pub const SEARCH_CHARS_MAX: usize = 128;

/// A search: finds texts that contain it, whatever the case. Blanks around it do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search(String);

impl Search {
    /// Of what a client sent.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_lowercase())
    }

    /// Whether one of the texts contains it.
    pub fn finds_any<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> bool {
        let mut texts = texts.into_iter();
        texts.any(|text| text.to_lowercase().contains(&self.0))
    }
}

impl fmt::Display for Search {
    /// In lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
