//! The restriction of an API key to parts of the hierarchy.

use super::parse_segments;
use crate::domain::fields::{Form, Items, Text, plain_field};
use crate::domain::ids::TenantId;
use crate::domain::record::stored_text;

/// The entry that public clients send for the whole tenant of the key.
const OWN_TENANT: &str = "tenant:*";

/// The restriction of an API key to parts of the hierarchy. An entry `level:value` or `level:*` admits every scope with such
/// a segment, wherever it occurs; a path from the root, such as `tenant:acme/app:chat`, admits itself and what lies below it.
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

    /// Whether an entry can be kept: a path from the root, or one segment at most, without blanks and characters that
    /// cannot be seen.
    pub fn can_keep(entry: &str) -> bool {
        match is_path(entry) {
            true if entry == OWN_TENANT => true,
            true => entry.starts_with("tenant:") && parse_segments(entry, false).is_ok(),
            false => !entry.contains(|c: char| c.is_whitespace() || c.is_control()),
        }
    }

    /// The first path that is not of this tenant, and its place.
    pub fn outside(&self, tenant: &TenantId) -> Option<(usize, &str)> {
        let root = format!("tenant:{tenant}");
        let is_outside = |entry: &str| {
            is_path(entry) && entry != OWN_TENANT && entry.split('/').next() != Some(&*root)
        };
        let mut entries = self.0.iter().map(String::as_str).enumerate();
        entries.find(|(_, entry)| is_outside(entry))
    }

    /// The place of an entry of one segment. It admits that segment anywhere in a path, so it does not keep an agent, which names
    /// its path itself, under the budget of one.
    pub fn one_segment(&self) -> Option<usize> {
        let is_segment = |entry: &String| !is_path(entry) && entry.contains(':');
        self.0.iter().position(is_segment)
    }

    /// Whether the key may act everywhere in its tenant.
    pub fn is_unrestricted(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any entry matches the scope, or the pattern of scopes. A blank entry and a bare `*` match nothing, so a
    /// filter that has only such entries admits nothing.
    pub fn admits(&self, scope: &str) -> bool {
        self.is_unrestricted() || self.0.iter().any(|entry| entry_matches(entry, scope))
    }

    /// Whether all that a subscription with this scope filter can match lies within. One that ends with `*` is judged by the
    /// whole segments before the `*`; one without a filter matches everything. The scripts have the same as
    /// `subscription_fence`.
    pub fn admits_all_of(&self, subscribed: Option<&str>) -> bool {
        let scope = subscribed.unwrap_or_default().to_ascii_lowercase();
        let whole = match scope.ends_with('*') {
            true => scope.rsplit_once('/').map_or("", |(whole, _)| whole),
            false => &scope,
        };
        self.is_unrestricted() || !whole.is_empty() && self.admits(whole)
    }
}

/// An entry that can be kept as it is; one that is blank selects nothing.
static ENTRY: Form = Form {
    wanted: "level:value or level:*, such as agent:writer, one segment without blanks, or a path such as \
             tenant:acme/app:chat, whose segments have the order of the levels and no wildcard",
    accepts: |entry| entry.trim().is_empty() || ScopeFilter::can_keep(&entry.to_ascii_lowercase()),
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

/// Whether an entry is a path from the root; it can only match at the beginning, where alone a scope has its tenant.
fn is_path(entry: &str) -> bool {
    entry.contains('/') || entry.starts_with("tenant:")
}

/// Whether the scope contains the text of an entry, from the start of a segment to the end of one.
fn entry_matches(entry: &str, scope: &str) -> bool {
    let (text, ends) = match entry.strip_suffix('*') {
        Some(level) if level.ends_with(':') => (level, false),
        Some("") => return false,
        _ => (entry, true),
    };
    let is_segment = |at: usize| {
        let (before, after) = (&scope[..at], &scope[at + text.len()..]);
        (before.is_empty() || before.ends_with('/'))
            && (!ends || after.is_empty() || after.starts_with('/'))
    };
    !text.is_empty() && scope.match_indices(text).any(|(at, _)| is_segment(at))
}
