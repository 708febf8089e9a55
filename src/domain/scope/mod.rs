//! Scopes: the positions in the hierarchy that budgets belong to, written `tenant:acme/workspace:prod`.

mod filter;

pub use filter::ScopeFilter;

use super::fields::text_field;
use super::ids::text_id;
use super::printable::printable;
use super::subject::Subject;
use super::words::words;

words! {
    /// A level of the hierarchy. The order is fixed; a scope may skip levels but never swap them.
    Level {
        /// The customer.
        Tenant = "tenant",
        /// A part of the tenant, such as an environment.
        Workspace = "workspace",
        /// An application.
        App = "app",
        /// A workflow inside an application.
        Workflow = "workflow",
        /// An agent.
        Agent = "agent",
        /// A set of tools that agents use.
        Toolset = "toolset",
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

text_field!(ScopePath, ScopePath::parse);

impl ScopePath {
    /// The scope of a subject, who names at least one level. Missing levels are skipped.
    pub fn of(subject: &Subject) -> Self {
        let segment = |level: &Level| {
            let value = subject.value(*level)?.to_ascii_lowercase();
            Some(format!("{}:{value}", level.as_str()))
        };
        let segments: Vec<_> = Level::ALL.iter().filter_map(segment).collect();
        Self(segments.join("/"))
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

    /// The segment below the parent: `workspace:prod` of `tenant:acme/workspace:prod`.
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

/// Most characters of a scope, or of a pattern of scopes, in a request.
pub const SCOPE_CHARS_MAX: usize = 1024;

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

    /// Whether it only distinguishes scopes of one tenant: all of them name that tenant.
    pub fn is_within_tenant(&self) -> bool {
        self.0.iter().any(|(level, _)| *level != Level::Tenant)
    }

    /// Whole segments are compared: `tenant:acme` does not match `tenant:acme-corp`.
    pub fn matches(&self, scope: &ScopePath) -> bool {
        self.0
            .iter()
            .all(|(level, value)| scope.value(*level) == Some(value))
    }
}

#[cfg(test)]
mod tests;
