//! The restriction of an API key to parts of the hierarchy.

use super::ScopePath;
use crate::domain::fields::{Form, Items, Text, plain_field};
use crate::domain::record::stored_text;

/// The restriction of an API key to parts of the hierarchy: entries `level:value` or `level:*`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScopeFilter(Vec<String>);

impl ScopeFilter {
    /// Lower-cases the entries. No entries: unrestricted.
    pub fn new(entries: impl IntoIterator<Item = String>) -> Self {
        Self(
            entries
                .into_iter()
                .map(|entry| entry.to_ascii_lowercase())
                .collect(),
        )
    }

    /// Reads the stored form, entries separated by blanks; empty is unrestricted.
    pub fn from_stored(text: &str) -> Self {
        Self(text.split_whitespace().map(str::to_owned).collect())
    }

    /// The entries in their stored form.
    pub fn entries(&self) -> &[String] {
        &self.0
    }

    /// The filter for scripts, one entry a line; empty only when unrestricted. Entries that cannot be kept are
    /// left out, and a filter that has only such entries reads `*`, which matches nothing.
    pub fn lines(&self) -> String {
        let entries = self.0.iter().map(String::as_str);
        let lines: Vec<&str> = entries
            .filter(|entry| !entry.is_empty() && Self::can_keep(entry))
            .collect();
        match (lines.is_empty(), self.is_unrestricted()) {
            (true, false) => "*".to_owned(),
            _ => lines.join("\n"),
        }
    }

    /// Whether an entry can be kept: it is one segment at most, without blanks and characters that cannot be seen.
    pub fn can_keep(entry: &str) -> bool {
        !entry.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
    }

    /// Whether the key may act everywhere in its tenant.
    pub fn is_unrestricted(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any entry matches any segment of the scope. A blank entry and a bare `*` match nothing, so a filter that
    /// has only such entries admits nothing.
    pub fn admits(&self, scope: &ScopePath) -> bool {
        self.admits_any(scope.segments())
    }

    /// The same for the segments of anything that reads like a scope.
    pub fn admits_any<'s>(&self, mut segments: impl Iterator<Item = &'s str>) -> bool {
        self.is_unrestricted()
            || segments.any(|segment| self.0.iter().any(|entry| entry_matches(entry, segment)))
    }
}

/// An entry that can be kept as it is; one that is blank selects nothing.
static ENTRY: Form = Form {
    wanted: "level:value or level:*, such as agent:writer, one segment without blanks",
    accepts: |entry| entry.trim().is_empty() || ScopeFilter::can_keep(entry),
    published: None,
};

plain_field!(ScopeFilter as Vec<String>, |value, ()| {
    let entries = Items::each(Text::form(&ENTRY));
    Vec::read(value, &entries).map(Self::new)
});
stored_text!(
    ScopeFilter,
    |text| Some(Self::from_stored(text)),
    |filter| (!filter.is_unrestricted()).then(|| filter.lines())
);

impl serde::Serialize for ScopeFilter {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

fn entry_matches(entry: &str, segment: &str) -> bool {
    match entry.strip_suffix(":*") {
        Some(level) => segment
            .split_once(':')
            .is_some_and(|(of_segment, _)| of_segment == level),
        None => entry == segment,
    }
}
