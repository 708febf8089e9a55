//! What a text must contain to be found.

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

    /// In lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text contains it.
    pub fn finds(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.0)
    }

    /// Whether one of the texts contains it.
    pub fn finds_any<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> bool {
        texts.into_iter().any(|text| self.finds(text))
    }
}
