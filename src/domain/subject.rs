//! Who an action is for.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Object;

use super::fields::{Value, schema};
use super::scope::{Level, is_segment_value};

/// The place in the hierarchy for which an action is taken; values exactly as they were sent.
///
/// At least one level is named. Only the scopes derived from it are lower-cased.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The customer; must be the tenant of the API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[A-Za-z0-9_.-]+$",
        nullable = false
    )]
    tenant: Option<String>,
    /// A part of the tenant, such as an environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[A-Za-z0-9_.-]+$",
        nullable = false
    )]
    workspace: Option<String>,
    /// An application.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[A-Za-z0-9_.-]+$",
        nullable = false
    )]
    app: Option<String>,
    /// A workflow inside an application.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[A-Za-z0-9_.-]+$",
        nullable = false
    )]
    workflow: Option<String>,
    /// An agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[A-Za-z0-9_.-]+$",
        nullable = false
    )]
    agent: Option<String>,
    /// A set of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 128,
        pattern = "^[A-Za-z0-9_.-]+$",
        nullable = false
    )]
    toolset: Option<String>,
    /// Labels of the client's own; stored and returned, without influence on budgets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = dimensions_schema, required = false)]
    dimensions: Option<BTreeMap<String, String>>,
}

impl Subject {
    /// Most entries in `dimensions`.
    pub const DIMENSIONS_MAX: usize = 16;
    /// Most characters of a dimension's value.
    pub const DIMENSION_CHARS_MAX: usize = 256;

    /// From levels and values; `None` if no level is named or a value breaks the character set.
    pub fn from_values(values: impl IntoIterator<Item = (Level, String)>) -> Option<Self> {
        let mut subject = Self::default();
        for (level, value) in values {
            if !is_segment_value(&value) {
                return None;
            }
            *subject.field(level) = Some(value);
        }
        subject.names_a_level().then_some(subject)
    }

    /// The value of a level as it was sent.
    pub fn value(&self, level: Level) -> Option<&str> {
        match level {
            Level::Tenant => self.tenant.as_deref(),
            Level::Workspace => self.workspace.as_deref(),
            Level::App => self.app.as_deref(),
            Level::Workflow => self.workflow.as_deref(),
            Level::Agent => self.agent.as_deref(),
            Level::Toolset => self.toolset.as_deref(),
        }
    }

    /// The client's own labels.
    pub fn dimensions(&self) -> Option<&BTreeMap<String, String>> {
        self.dimensions.as_ref()
    }

    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        value.object(|object| {
            let mut subject = Self::default();
            // A level whose value is wrong is reported as such, and counts as named here.
            let named = Level::ALL
                .into_iter()
                .any(|level| object.has(level.as_str()));
            for level in Level::ALL {
                *subject.field(level) = object.optional(level.as_str(), |value| {
                    value.checked_string(
                        is_segment_value,
                        "must be 1 to 128 characters of A-Z a-z 0-9 _ . -",
                    )
                });
            }
            subject.dimensions = object.optional("dimensions", |value| {
                value.string_map(Self::DIMENSIONS_MAX, Self::DIMENSION_CHARS_MAX)
            });
            if !named {
                object.refuse(
                    "must name at least one of tenant, workspace, app, workflow, agent, toolset",
                );
            }
            Some(subject)
        })
    }

    fn names_a_level(&self) -> bool {
        Level::ALL
            .into_iter()
            .any(|level| self.value(level).is_some())
    }

    fn field(&mut self, level: Level) -> &mut Option<String> {
        match level {
            Level::Tenant => &mut self.tenant,
            Level::Workspace => &mut self.workspace,
            Level::App => &mut self.app,
            Level::Workflow => &mut self.workflow,
            Level::Agent => &mut self.agent,
            Level::Toolset => &mut self.toolset,
        }
    }
}

fn dimensions_schema() -> Object {
    let description =
        "Labels of the client's own; stored and returned, without influence on budgets.";
    schema::string_map(
        description,
        Subject::DIMENSIONS_MAX,
        Some(Subject::DIMENSION_CHARS_MAX),
    )
}
