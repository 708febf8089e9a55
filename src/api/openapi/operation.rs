//! One operation of the document.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::shown;
use crate::api::dialect::{Dialect, headers};

/// The schemas that operations refer to, by name.
#[derive(Default)]
pub(super) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    pub(super) fn into_values(self) -> Value {
        self.0.into_iter().collect::<Map<_, _>>().into()
    }

    fn insert(&mut self, name: String, schema: &impl serde::Serialize) {
        self.0
            .entry(name)
            .or_insert_with(|| serde_json::to_value(schema).expect("schemas are JSON"));
    }
}

/// A reference to the schema of `T`, which is added with all that it refers to.
pub(super) fn schema_of<T: ToSchema>(schemas: &mut Schemas) -> Value {
    let mut referred = Vec::new();
    T::schemas(&mut referred);
    for (name, schema) in referred {
        schemas.insert(name, &schema);
    }
    let name = T::name().into_owned();
    schemas.insert(name.clone(), &T::schema());
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// For an answer without a body.
pub(super) fn no_content(_: &mut Schemas) -> Value {
    Value::Null
}

/// What a key must be to call an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// A tenant's.
    Api,
    /// The operator's.
    Admin,
}

/// Makes the schema of a body known and refers to it.
pub(super) type SchemaOf = fn(&mut Schemas) -> Value;

/// Operations whose body may be absent.
const BODY_OPTIONAL: &[&str] = &["freezeBudget", "unfreezeBudget"];

/// One operation.
pub(super) struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub id: &'static str,
    pub summary: &'static str,
    pub keys: &'static [Key],
    pub parameters: Vec<Value>,
    pub request: Option<SchemaOf>,
    pub answers: &'static [(u16, &'static str, SchemaOf)],
    pub errors: &'static [u16],
}

impl Operation {
    /// The operation as the document has it.
    pub(super) fn describe(&self, schemas: &mut Schemas, dialect: Dialect) -> Value {
        let on_admin_plane = ["/v1/admin", "/v1/auth", "/v1/webhooks"]
            .iter()
            .any(|prefix| self.path.starts_with(prefix))
            || (self.method, self.path) == ("get", "/v1/events");
        let mut responses = Map::new();
        for (status, description, schema) in self.answers {
            let mut answer = json!({
                "description": description,
                "headers": header_refs(dialect, self.keys.contains(&Key::Api)),
            });
            let schema = schema(schemas);
            if !schema.is_null() {
                answer["content"] = json!({"application/json": {"schema": schema}});
            }
            responses.insert(status.to_string(), answer);
        }
        for status in self.errors.iter().chain(&[401, 403, 429, 500, 503]) {
            responses.insert(
                status.to_string(),
                json!({"$ref": "#/components/responses/Error"}),
            );
        }
        let scheme = |key: &Key| match key {
            Key::Api => json!({"ApiKeyAuth": []}),
            Key::Admin => json!({"AdminKeyAuth": []}),
        };
        let mut operation = json!({
            "operationId": self.id,
            "summary": self.summary,
            "tags": [if on_admin_plane { "admin" } else { "runtime" }],
            "security": self.keys.iter().map(scheme).collect::<Value>(),
            "responses": responses,
        });
        if !self.parameters.is_empty() {
            operation["parameters"] = self.parameters.iter().cloned().collect();
        }
        if let Some(request) = self.request {
            operation["requestBody"] = json!({
                "required": !BODY_OPTIONAL.contains(&self.id),
                "content": {"application/json": {"schema": request(schemas)}},
            });
        }
        operation
    }
}

/// References to the headers of a response.
pub(super) fn header_refs(dialect: Dialect, with_tenant: bool) -> Value {
    let words = dialect.words();
    let mut refs = Map::new();
    let mut add = |header: String, name: &str| {
        refs.insert(
            header,
            json!({"$ref": format!("#/components/headers/{name}")}),
        );
    };
    add(shown(&headers::REQUEST_ID), "RequestId");
    add(words.trace_header.to_owned(), "TraceId");
    if with_tenant {
        add(words.tenant_header.to_owned(), "Tenant");
    }
    refs.into()
}

/// A parameter of the query string that may be absent.
pub(super) fn query(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema})
}

/// A parameter of the query string that must be there.
pub(super) fn required_query(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": "query", "required": true, "description": description, "schema": schema})
}

/// A part of the path.
pub(super) fn path(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
}

/// The header that may repeat the body's idempotency key.
pub(super) fn idempotency_header() -> Value {
    json!({
        "name": shown(&headers::IDEMPOTENCY_KEY),
        "in": "header",
        "required": false,
        "description": "The body's `idempotency_key` once more; if sent, the two must be equal.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 256},
    })
}

/// The cursor of a list.
pub(super) fn cursor() -> Value {
    query(
        "cursor",
        "The `next_cursor` of the page before, under the same filters.",
        text(),
    )
}

/// Any text.
pub(super) fn text() -> Value {
    json!({"type": "string"})
}

/// One of some words.
pub(super) fn words(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// One of some words, with a default.
pub(super) fn words_or(words: &[&str], default: &str) -> Value {
    json!({"type": "string", "enum": words, "default": default})
}
