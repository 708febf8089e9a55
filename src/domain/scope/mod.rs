//! Scopes: the positions in the hierarchy that budgets belong to, written `tenant:acme/workspace:prod`.

mod filter;

pub use filter::ScopeFilter;

use smol_str::SmolStrBuilder;

use super::fields::text_field;
use super::ids::text_id;
use super::printable::printable;
use super::words::words;

words! {
    /// A level of the hierarchy. The order is fixed; a scope may skip levels but never swap them.
    Level: "snake_case" {
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
}

impl Level {
    /// Whether a text may be the value of this level: 1 to 128 of `A-Za-z0-9_.-`, below the tenant also of `@+`, so that it
    /// never holds a separator.
    pub fn admits(self, text: &str) -> bool {
        let marks: &[u8] = match self {
            Self::Tenant => b"_.-",
            _ => b"_.-@+",
        };
        let charset = |byte: u8| byte.is_ascii_alphanumeric() || marks.contains(&byte);
        (1..=128).contains(&text.len()) && text.bytes().all(charset)
    }
}

text_id! {
    /// A scope in its canonical form: lower-case segments `level:value` joined by `/`, root first.
    ScopePath
}

text_field!(ScopePath, ScopePath::parse);

impl ScopePath {
    /// The scope of these values of levels, of which there is at least one. Missing levels are skipped.
    pub fn of<'v>(value: impl Fn(Level) -> Option<&'v str>) -> Self {
        let mut path = SmolStrBuilder::new();
        for level in Level::ALL {
            let Some(value) = value(*level) else { continue };
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(level.as_str());
            path.push(':');
            value
                .chars()
                .for_each(|c| path.push(c.to_ascii_lowercase()));
        }
        Self(path.finish())
    }

    /// Reads a stored scope. It may lack the tenant, as a derived scope may; otherwise the grammar of [`BudgetScope`] holds.
    pub fn parse(text: &str) -> Option<Self> {
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        (is_lower && check_segments(text, false).is_ok()).then(|| Self(text.into()))
    }

    /// Every enclosing scope, root first, this one last.
    pub fn with_parents(&self) -> impl Iterator<Item = Self> {
        let separators = self.0.match_indices('/').map(|(end, _)| end);
        let ends = separators.chain([self.0.len()]);
        ends.map(|end| Self(self.0[..end].into()))
    }

    /// The segments, root first, each `level:value`.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The segment below the parent: `workspace:prod` of `tenant:acme/workspace:prod`.
    pub fn last_segment(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The value of a level, if the scope has that level.
    pub fn value(&self, level: Level) -> Option<&str> {
        value_of(&self.0, level)
    }
}

/// The value of a level in the text of a scope.
pub(crate) fn value_of(scope: &str, level: Level) -> Option<&str> {
    scope
        .split('/')
        .find_map(|segment| segment.strip_prefix(level.as_str())?.strip_prefix(':'))
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
        Ok(Self {
            path: ScopePath(parse_segments(text, false)?.into()),
            tenant_as_sent: tenant_as_sent(text)?.to_owned(),
        })
    }

    /// The canonical form.
    pub fn path(&self) -> &ScopePath {
        &self.path
    }

    /// The tenant as it was written, for comparison.
    pub fn tenant_as_sent(&self) -> &str {
        &self.tenant_as_sent
    }
}

/// Where a scope breaks the grammar; it names the segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScopeError(String);

/// Checks the grammar and returns the scope with its ids in lower case.
pub(super) fn parse_segments(text: &str, is_pattern: bool) -> Result<String, ScopeError> {
    check_segments(text, is_pattern).map(|()| text.to_ascii_lowercase())
}

/// Checks the grammar. A pattern may end with a segment `*` or `level:*` below another one.
fn check_segments(text: &str, is_pattern: bool) -> Result<(), ScopeError> {
    let last = text.split('/').count() - 1;
    let mut level_before = None;
    for (index, segment) in text.split('/').enumerate() {
        let may_be_any = is_pattern && index > 0 && index == last;
        let refused = |what: &str, rule: &str| {
            let segment = printable(segment);
            Err(ScopeError(format!("{what}segment `{segment}` {rule}")))
        };
        if segment.is_empty() {
            let message = format!("must not have an empty segment (segment {})", index + 1);
            return Err(ScopeError(message));
        }
        if may_be_any && segment == "*" {
            break;
        }
        let Some((level, id)) = segment.split_once(':') else {
            return refused("", "must have the form `level:id`");
        };
        let Some(level) = Level::parse(level) else {
            let levels = "tenant, workspace, app, workflow, agent or toolset, in lower case";
            return refused("", &format!("must start with {levels}"));
        };
        if level_before >= Some(level) {
            let levels = Level::WORDS.join(", ");
            let rule = format!("is out of order: the levels are {levels}, each at most once");
            return refused("", &rule);
        }
        if !(level.admits(id) || may_be_any && id == "*") {
            let rule = match level {
                Level::Tenant => "must be 1 to 128 characters of A-Z a-z 0-9 . _ -",
                _ => "must be 1 to 128 characters of A-Z a-z 0-9 . _ - @ +",
            };
            return refused("the id of ", rule);
        }
        level_before = Some(level);
    }
    Ok(())
}

/// The tenant of a scope or pattern as it was written: `tenant:ACME` does not lie in `acme`.
///
/// # Errors
/// [`ScopeError`] where the scope does not start with a tenant.
pub fn tenant_as_sent(scope: &str) -> Result<&str, ScopeError> {
    let first = scope.split('/').next().unwrap_or_default();
    first.strip_prefix("tenant:").ok_or_else(|| {
        let first = printable(first);
        ScopeError(format!(
            "must start with a `tenant:` segment, not `{first}`"
        ))
    })
}

/// Most characters of a scope, or of a pattern of scopes, in a request.
pub const SCOPE_CHARS_MAX: usize = 1024;

/// Selects the scopes that contain every one of some segments, anywhere in the path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentFilter(Vec<(Level, String)>);

impl SegmentFilter {
    /// From levels and values as a client sent them; values are lower-cased.
    pub fn new<V: AsRef<str>>(wanted: impl IntoIterator<Item = (Level, V)>) -> Self {
        let wanted = wanted.into_iter();
        let wanted = wanted.map(|(level, value)| (level, value.as_ref().to_ascii_lowercase()));
        Self(wanted.collect())
    }

    /// Whether nothing was asked for, so that every scope matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it only distinguishes scopes of one tenant: all of them name that tenant.
    pub fn is_within_tenant(&self) -> bool {
        self.0.iter().any(|(level, _)| *level != Level::Tenant)
    }

    /// Whole segments are compared: `tenant:acme` does not match `tenant:acme-corp`.
    pub fn matches(&self, scope: &ScopePath) -> bool {
        self.matches_text(scope.as_str())
    }

    /// The same for the text of a scope.
    pub fn matches_text(&self, scope: &str) -> bool {
        self.0
            .iter()
            .all(|(level, value)| value_of(scope, *level) == Some(value))
    }

    /// Whether no scope that it selects lies within a fence: each entry has another value for a level than it asks for.
    pub fn is_outside(&self, fence: &ScopeFilter) -> bool {
        let contradicts = |entry: &String| {
            let other = |(level, value): &(Level, String)| {
                value_of(entry, *level).is_some_and(|found| found != value && found != "*")
            };
            self.0.iter().any(other)
        };
        !fence.is_unrestricted() && fence.entries().iter().all(contradicts)
    }
}

#[cfg(test)]
mod tests;
