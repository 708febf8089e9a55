//! What is done, and what a client measured while it was done.

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::Array;

use super::fields::{Value, schema};
use super::json::FreeObject;

/// What an agent is about to do, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The kind of action, such as `llm.completion`.
    #[schema(min_length = 1, max_length = 64)]
    pub kind: String,
    /// The action itself, such as the name of a model or tool.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// Labels of the client's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = tags_schema, required = false)]
    pub tags: Option<Vec<String>>,
}

impl Action {
    /// Most entries in `tags`.
    pub const TAGS_MAX: usize = 10;
    /// Most characters of a tag.
    pub const TAG_CHARS_MAX: usize = 64;

    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        value.object(|object| {
            let kind = object.required("kind", |value| value.text(64));
            let name = object.required("name", |value| value.text(256));
            let tags = object.optional("tags", |value| {
                value.array(Self::TAGS_MAX, |tag| tag.string(0..=Self::TAG_CHARS_MAX))
            });
            // Announced for a later release. Clients already send it, and nothing depends on it.
            object.optional("policy_keys", |value| value.free_object());
            Some(Self {
                kind: kind?,
                name: name?,
                tags,
            })
        })
    }
}

fn tags_schema() -> Array {
    schema::string_array(
        "Labels of the client's own.",
        Some(Action::TAGS_MAX),
        Action::TAG_CHARS_MAX,
    )
}

/// What a client measured. Stored with the charge, without influence on it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Tokens read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub tokens_input: Option<i64>,
    /// Tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub tokens_output: Option<i64>,
    /// How long the action took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub latency_ms: Option<i64>,
    /// The exact version of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128, nullable = false)]
    pub model_version: Option<String>,
    /// Measurements of the client's own: any JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub custom: Option<FreeObject>,
}

impl Metrics {
    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        value.object(|object| {
            Some(Self {
                tokens_input: object.optional("tokens_input", |value| value.integer(0..=i64::MAX)),
                tokens_output: object
                    .optional("tokens_output", |value| value.integer(0..=i64::MAX)),
                latency_ms: object.optional("latency_ms", |value| value.integer(0..=i64::MAX)),
                model_version: object.optional("model_version", |value| value.string(0..=128)),
                custom: object.optional("custom", |value| value.free_object()),
            })
        })
    }
}
