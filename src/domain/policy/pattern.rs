//! The scopes that a policy matches.

use crate::domain::fields::text_field;
use crate::domain::ids::text_id;
use crate::domain::scope::{ScopeError, ScopePath, parse_segments, tenant_as_sent};

text_id! {
    /// A scope, or all scopes below one, or all scopes of one level right below one: `tenant:acme`, `tenant:acme/*`,
    /// `tenant:acme/agent:*`. In lower case.
    ScopePattern
}

text_field!(ScopePattern, ScopePattern::from_stored);

impl ScopePattern {
    /// Reads a pattern, lower-casing it.
    ///
    /// # Errors
    /// [`ScopeError`] names the segment that breaks the grammar, a wildcard anywhere but at the end among them.
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        let pattern = parse_segments(text, true)?;
        tenant_as_sent(text)?;
        Ok(Self(pattern.into()))
    }

    /// Reads a stored pattern.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::parse(text).ok().filter(|pattern| pattern.0 == text)
    }

    /// The segments, the wildcard included.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Whether a scope is among those that are meant: what the index of a policy set must find.
    pub fn matches(&self, scope: &ScopePath) -> bool {
        let scope = scope.as_str();
        let Some(prefix) = self.0.strip_suffix('*') else {
            return scope == self.0;
        };
        let is_below = |rest: &str| prefix.ends_with('/') || !rest.contains('/');
        scope.strip_prefix(prefix).is_some_and(is_below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rows;

    fn matches(pattern: &str, scope: &str) -> bool {
        let pattern = ScopePattern::parse(pattern).unwrap_or_else(|_| panic!("{pattern}"));
        assert_eq!(
            ScopePattern::from_stored(pattern.as_str()).as_ref(),
            Some(&pattern)
        );
        pattern.matches(&ScopePath::parse(scope).unwrap_or_else(|| panic!("{scope}")))
    }

    #[test]
    fn a_pattern_matches_one_scope_all_below_it_or_one_level() {
        for (pattern, scope) in rows(
            "tenant:acme => tenant:acme
            tenant:acme/* => tenant:acme/agent:a
            tenant:acme/* => tenant:acme/workspace:w/agent:a
            tenant:acme/workspace:eng/* => tenant:acme/workspace:eng/app:x
            tenant:acme/agent:* => tenant:acme/agent:a
            tenant:acme/agent:Bob => tenant:acme/agent:bob",
        ) {
            assert!(matches(pattern, scope), "{pattern} {scope}");
        }
        for (pattern, scope) in rows(
            "tenant:acme => tenant:acme/agent:a
            tenant:acme => tenant:acme-corp
            tenant:acme/* => tenant:acme
            tenant:acme/* => tenant:acme-corp/agent:a
            tenant:acme/workspace:eng/* => tenant:acme/workspace:eng
            tenant:acme/workspace:eng/* => tenant:acme/workspace:engine/app:x
            tenant:acme/agent:* => tenant:acme/agent:a/toolset:t
            tenant:acme/agent:* => tenant:acme/workspace:w/agent:a
            tenant:acme/agent:* => tenant:acme/app:a",
        ) {
            assert!(!matches(pattern, scope), "{pattern} {scope}");
        }
    }

    #[test]
    fn a_pattern_that_breaks_the_grammar_is_refused_naming_the_segment() {
        for (pattern, named) in [
            ("", "segment 1"),
            ("*", "`*`"),
            ("agent:*", "`agent:*`"),
            ("agent:x", "`agent:x`"),
            ("*/agent:x", "`*`"),
            ("tenant:*", "`tenant:*`"),
            ("tenant:*/agent:x", "`tenant:*`"),
            ("tenant:acme/*/agent:x", "`*`"),
            ("tenant:acme/*:x", "`*:x`"),
            ("tenant:acme/*:*", "`*:*`"),
            ("tenant:acme/team:*", "`team:*`"),
            ("tenant:acme/Agent:*", "`Agent:*`"),
            ("tenant:acme/agent:a*", "`agent:a*`"),
            ("tenant:acme/agent:a/workspace:*", "`workspace:*`"),
            ("tenant:acme/agent:a/agent:*", "`agent:*`"),
            ("tenant:acme//*", "segment 2"),
            ("tenant:acme/", "segment 2"),
            ("workspace:w/*", "`workspace:w`"),
        ] {
            let error = ScopePattern::parse(pattern).expect_err(pattern).to_string();
            assert!(error.contains(named), "{pattern}: {error}");
        }
    }

    #[test]
    fn the_tenant_is_compared_as_it_was_written() {
        let of = |pattern: &str| tenant_as_sent(pattern).expect("a pattern") == "acme";
        assert!(of("tenant:acme/*") && of("tenant:acme/agent:*") && of("tenant:acme"));
        assert!(!of("tenant:ACME/*") && !of("tenant:acme2/*"));
    }
}
