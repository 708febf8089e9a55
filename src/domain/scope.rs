//! Scopes: the places in the hierarchy at which budgets hang, written `tenant:acme/workspace:prod`.

use std::fmt;

use super::ids::text_id;
use super::printable::printable;
use super::subject::Subject;

/// A level of the hierarchy. The order is fixed; a scope may skip levels but never swap them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The customer.
    Tenant,
    /// A part of the tenant, such as an environment.
    Workspace,
    /// An application.
    App,
    /// A workflow inside an application.
    Workflow,
    /// An agent.
    Agent,
    /// A set of tools that agents use.
    Toolset,
}

impl Level {
    /// Every level, root first.
    pub const ALL: [Self; 6] = [
        Self::Tenant,
        Self::Workspace,
        Self::App,
        Self::Workflow,
        Self::Agent,
        Self::Toolset,
    ];

    /// The name in scopes, subjects and query parameters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Workspace => "workspace",
            Self::App => "app",
            Self::Workflow => "workflow",
            Self::Agent => "agent",
            Self::Toolset => "toolset",
        }
    }

    /// Reads the name, case-sensitively.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a text may be the value of a scope segment: 1 to 128 of `A-Za-z0-9_.-`, so that it never holds a separator.
pub fn is_segment_value(text: &str) -> bool {
    let charset = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=128).contains(&text.len()) && text.bytes().all(charset)
}

text_id! {
    /// A scope in its canonical form: lower-case segments `level:value` joined by `/`, root first.
    ScopePath
}

impl ScopePath {
    /// Every scope that encloses the subject, root first; the last is the subject's own. Missing levels are skipped.
    ///
    /// Not empty: a [`Subject`] names at least one level.
    pub fn enclosing(subject: &Subject) -> Vec<Self> {
        let mut path = String::new();
        let mut scopes = Vec::new();
        for level in Level::ALL {
            let Some(value) = subject.value(level) else {
                continue;
            };
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(level.as_str());
            path.push(':');
            path.push_str(&value.to_ascii_lowercase());
            scopes.push(Self(path.clone()));
        }
        scopes
    }

    /// Reads a stored scope. It may lack the tenant, as a derived scope may; otherwise the grammar of [`BudgetScope`] holds.
    pub fn parse(text: &str) -> Option<Self> {
        let scope = parse_segments(text).ok()?;
        (scope == text).then_some(Self(scope))
    }

    /// Every enclosing scope, root first, this one last.
    pub fn with_parents(&self) -> impl Iterator<Item = Self> {
        self.parents().chain(std::iter::once(self.clone()))
    }

    /// The segments, root first, each `level:value`.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The scopes that enclose this one, root first, without itself.
    pub fn parents(&self) -> impl Iterator<Item = Self> {
        self.0
            .match_indices('/')
            .map(|(end, _)| Self(self.0[..end].to_owned()))
    }

    /// The segment that tells this scope from its parent: `workspace:prod` of `tenant:acme/workspace:prod`.
    pub fn last_segment(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The value of a level, if the scope has that level.
    pub fn value(&self, level: Level) -> Option<&str> {
        self.segments()
            .find_map(|segment| segment.strip_prefix(level.as_str())?.strip_prefix(':'))
    }
}

/// The scope of a budget as an operator writes it: it starts with a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetScope {
    path: ScopePath,
    tenant_as_sent: String,
}

impl BudgetScope {
    /// Reads `tenant:<id>[/<level>:<id>]…`, lower-casing the ids; the levels must be written as they are.
    ///
    /// # Errors
    /// [`ScopeError`] names the segment that breaks the grammar.
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        let path = ScopePath(parse_segments(text)?);
        let first = text.split('/').next().unwrap_or_default();
        let Some(tenant) = first.strip_prefix("tenant:") else {
            return Err(ScopeError::NoTenant {
                segment: printable(first),
            });
        };
        Ok(Self {
            path,
            tenant_as_sent: tenant.to_owned(),
        })
    }

    /// The canonical form.
    pub fn path(&self) -> &ScopePath {
        &self.path
    }

    /// The tenant as it was written, for comparison: `tenant:ACME` does not lie in `acme`.
    pub fn tenant_as_sent(&self) -> &str {
        &self.tenant_as_sent
    }
}

/// Where a scope breaks the grammar. Each names the segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// Nothing at all, or a slash at either end or twice in a row.
    #[error("must not have an empty segment (segment {position})")]
    Empty {
        /// Counted from 1.
        position: usize,
    },
    /// A segment without a colon.
    #[error("segment `{segment}` must have the form `level:id`")]
    NoColon {
        /// The segment, printable.
        segment: String,
    },
    /// A level that does not exist.
    #[error(
        "segment `{segment}` must start with tenant, workspace, app, workflow, agent or toolset, in lower case"
    )]
    UnknownLevel {
        /// The segment, printable.
        segment: String,
    },
    /// A level that is not below the one before it.
    #[error(
        "segment `{segment}` is out of order: the levels are tenant, workspace, app, workflow, agent, toolset, each at most once"
    )]
    Order {
        /// The segment, printable.
        segment: String,
    },
    /// An id with a character or a length that no id has.
    #[error("the id of segment `{segment}` must be 1 to 128 characters of A-Z a-z 0-9 . _ -")]
    Id {
        /// The segment, printable.
        segment: String,
    },
    /// A budget's scope that does not start with a tenant.
    #[error("must start with a `tenant:` segment, not `{segment}`")]
    NoTenant {
        /// The first segment, printable.
        segment: String,
    },
}

/// Checks the grammar and answers the scope with its ids in lower case.
fn parse_segments(text: &str) -> Result<String, ScopeError> {
    let mut level_before = None;
    for (index, segment) in text.split('/').enumerate() {
        if segment.is_empty() {
            return Err(ScopeError::Empty {
                position: index + 1,
            });
        }
        let shown = || printable(segment);
        let Some((level, id)) = segment.split_once(':') else {
            return Err(ScopeError::NoColon { segment: shown() });
        };
        let Some(level) = Level::parse(level) else {
            return Err(ScopeError::UnknownLevel { segment: shown() });
        };
        if level_before >= Some(level) {
            return Err(ScopeError::Order { segment: shown() });
        }
        if !is_segment_value(id) {
            return Err(ScopeError::Id { segment: shown() });
        }
        level_before = Some(level);
    }
    Ok(text.to_ascii_lowercase())
}

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

    /// The filter for scripts, one entry a line; empty only when unrestricted. Entries that can match no segment are left
    /// out, and a filter that has only such entries reads `*`, which matches nothing.
    pub fn lines(&self) -> String {
        let can_match = |entry: &&String| {
            entry.contains(':') && !entry.contains('/') && !entry.contains(char::is_whitespace)
        };
        let lines: Vec<&str> = self
            .0
            .iter()
            .filter(can_match)
            .map(String::as_str)
            .collect();
        match (lines.is_empty(), self.is_unrestricted()) {
            (true, false) => "*".to_owned(),
            _ => lines.join("\n"),
        }
    }

    /// Whether the key may act everywhere in its tenant.
    pub fn is_unrestricted(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any entry matches any segment of the scope. A blank entry and a bare `*` match nothing, so a filter that
    /// has only such entries admits nothing.
    pub fn admits(&self, scope: &ScopePath) -> bool {
        self.is_unrestricted()
            || self.0.iter().any(|entry| {
                scope
                    .segments()
                    .any(|segment| entry_matches(entry, segment))
            })
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

/// Selects the scopes that contain every one of some segments, wherever they stand in the path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentFilter(Vec<(Level, String)>);

impl SegmentFilter {
    /// From levels and values as a client sent them; values are lower-cased.
    pub fn new(wanted: impl IntoIterator<Item = (Level, String)>) -> Self {
        Self(
            wanted
                .into_iter()
                .map(|(level, value)| (level, value.to_ascii_lowercase()))
                .collect(),
        )
    }

    /// Whether nothing was asked for, so that every scope matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it tells the scopes of one tenant apart: all of them name that tenant.
    pub fn is_within_tenant(&self) -> bool {
        self.0.iter().any(|(level, _)| *level != Level::Tenant)
    }

    /// The wanted segments, each `level:value`.
    pub fn segments(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .map(|(level, value)| format!("{level}:{value}"))
    }

    /// Whole segments are compared: `tenant:acme` does not match `tenant:acme-corp`.
    pub fn matches(&self, scope: &ScopePath) -> bool {
        self.0
            .iter()
            .all(|(level, value)| scope.value(*level) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ScopePath {
        ScopePath::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    fn subject(values: &[(Level, &str)]) -> Subject {
        Subject::from_values(
            values
                .iter()
                .map(|(level, value)| (*level, (*value).to_owned())),
        )
        .unwrap()
    }

    #[test]
    fn enclosing_scopes_skip_missing_levels_and_are_lower_case() {
        use Level::*;
        for (values, scopes) in [
            (&[(Tenant, "acme")][..], vec!["tenant:acme"]),
            (
                &[(Tenant, "acme"), (Workspace, "Prod"), (Agent, "Bot_1")],
                vec![
                    "tenant:acme",
                    "tenant:acme/workspace:prod",
                    "tenant:acme/workspace:prod/agent:bot_1",
                ],
            ),
            (
                &[(Tenant, "acme"), (Toolset, "web.search")],
                vec!["tenant:acme", "tenant:acme/toolset:web.search"],
            ),
            (
                &[(Workflow, "w"), (App, "a"), (Tenant, "acme")],
                vec![
                    "tenant:acme",
                    "tenant:acme/app:a",
                    "tenant:acme/app:a/workflow:w",
                ],
            ),
            (&[(Workspace, "prod")], vec!["workspace:prod"]),
        ] {
            let found = ScopePath::enclosing(&subject(values));
            assert_eq!(
                found.iter().map(ScopePath::as_str).collect::<Vec<_>>(),
                scopes
            );
        }
    }

    #[test]
    fn a_path_knows_its_parts() {
        let scope = path("tenant:acme/workspace:prod/agent:x");
        assert_eq!(scope.last_segment(), "agent:x");
        assert_eq!(scope.value(Level::Workspace), Some("prod"));
        assert_eq!(scope.value(Level::App), None);
        assert_eq!(
            scope
                .parents()
                .map(|parent| parent.to_string())
                .collect::<Vec<_>>(),
            ["tenant:acme", "tenant:acme/workspace:prod"]
        );
        assert_eq!(path("workspace:prod").parents().count(), 0);
        assert_eq!(ScopePath::parse("tenant:ACME"), None);
    }

    #[test]
    fn a_budget_scope_is_lower_cased_but_remembers_its_tenant_as_sent() {
        let scope = BudgetScope::parse("tenant:acme/agent:Bot-1.x").unwrap();
        assert_eq!(scope.path().as_str(), "tenant:acme/agent:bot-1.x");
        assert_eq!(scope.tenant_as_sent(), "acme");
        let scope = BudgetScope::parse("tenant:ACME").unwrap();
        assert_eq!(scope.path().as_str(), "tenant:acme");
        assert_eq!(scope.tenant_as_sent(), "ACME");
        assert!(BudgetScope::parse("tenant:-acme-").is_ok());
        assert!(BudgetScope::parse(&format!("tenant:{}", "x".repeat(128))).is_ok());
    }

    #[test]
    fn a_broken_budget_scope_is_refused_naming_the_segment() {
        let long = format!("tenant:{}", "x".repeat(129));
        for (text, part) in [
            ("", "segment 1"),
            ("/tenant:acme", "segment 1"),
            ("tenant:acme/", "segment 2"),
            ("tenant:acme//app:x", "segment 2"),
            ("acme", "`acme`"),
            ("tenant:acme/prod", "`prod`"),
            ("tenant:acme/team:x", "`team:x`"),
            ("tenant:acme/Agent:x", "`Agent:x` must start with"),
            ("TENANT:acme", "`TENANT:acme` must start with"),
            ("tenant:acme/agent:x/app:y", "`app:y`"),
            ("tenant:acme/app:x/app:y", "`app:y`"),
            ("tenant:", "`tenant:`"),
            ("tenant:acme/app:*", "`app:*`"),
            ("tenant:acme/app:a b", "`app:a b`"),
            ("tenant:acme/app:a:b", "`app:a:b`"),
            ("tenant:acme/app:é", "`app:é`"),
            ("tenant:acme/app:\0", "`app:\\u{0}`"),
            ("workspace:prod", "`workspace:prod`"),
            (long.as_str(), "1 to 128"),
        ] {
            let message = BudgetScope::parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn a_scope_filter_admits_by_any_entry_on_any_segment() {
        let scope = path("tenant:acme/workspace:prod/agent:x");
        for (entries, admitted) in [
            (&[][..], true),
            (&["workspace:prod"], true),
            (&["WORKSPACE:Prod"], true),
            (&["workspace:*"], true),
            (&["app:*", "agent:x"], true),
            (&["app:*"], false),
            (&["*"], false),
            (&[""], false),
            (&["  "], false),
            (&["workspace:pro"], false),
            (&["workspace:prod*"], false),
            (&["work:*"], false),
            (&[":*"], false),
            (&["prod"], false),
            (&["tenant:acme/workspace:prod"], false),
        ] {
            let filter = ScopeFilter::new(entries.iter().map(ToString::to_string));
            assert_eq!(filter.admits(&scope), admitted, "{entries:?}");
        }
    }

    #[test]
    fn the_lines_of_a_filter_never_widen_it() {
        for (entries, lines) in [
            (&[][..], ""),
            (&["Workspace:Prod", "agent:*"], "workspace:prod\nagent:*"),
            (&["", "agent:x"], "agent:x"),
            (&[""], "*"),
            (&["*"], "*"),
            (&["agent:x\ntenant:*"], "*"),
            (&["tenant:acme/agent:x"], "*"),
        ] {
            let filter = ScopeFilter::new(entries.iter().map(ToString::to_string));
            assert_eq!(filter.lines(), lines, "{entries:?}");
        }
    }

    #[test]
    fn a_segment_filter_wants_every_segment_exactly() {
        let scope = path("tenant:acme/workspace:prod/agent:x");
        use Level::*;
        for (wanted, matches) in [
            (&[][..], true),
            (&[(Tenant, "acme")], true),
            (&[(Workspace, "PROD"), (Agent, "x")], true),
            (&[(Workspace, "prod"), (App, "a")], false),
            (&[(Tenant, "acm")], false),
            (&[(Tenant, "acme-corp")], false),
            (&[(Agent, "x/y")], false),
        ] {
            let filter = SegmentFilter::new(
                wanted
                    .iter()
                    .map(|(level, value)| (*level, (*value).to_owned())),
            );
            assert_eq!(filter.matches(&scope), matches, "{wanted:?}");
        }
    }
}
