//! Parameters of operations, as the description shows them.

use serde_json::{Value, json};

use super::{Operation, Plane};
use crate::api::dialect::headers;
use crate::domain::ids::EvidenceId;

/// An OpenAPI parameter object.
pub type Parameter = Value;

/// A parameter of the query string that may be absent.
pub fn query(name: &str, description: &str, schema: Value) -> Parameter {
    parameter("query", name, false, description, schema)
}

/// A parameter of the query string that must be there.
pub fn required_query(name: &str, description: &str, schema: Value) -> Parameter {
    parameter("query", name, true, description, schema)
}

fn parameter(place: &str, name: &str, required: bool, about: &str, schema: Value) -> Parameter {
    json!({"name": name, "in": place, "required": required, "description": about, "schema": schema})
}

/// The parameters of an operation: of its path, of its query string and of its headers.
pub fn parameters(operation: &Operation) -> Vec<Parameter> {
    let mut parameters: Vec<_> = path(operation.path).collect();
    parameters.extend((operation.declaration.query)());
    parameters.extend(
        operation
            .declaration
            .idempotent
            .then(|| idempotency_key(operation.plane)),
    );
    parameters
}

/// The ids in a path.
fn path(path: &str) -> impl Iterator<Item = Parameter> {
    let names = path.split('{').skip(1);
    let names = names.filter_map(|rest| Some(rest.split_once('}')?.0));
    let names = names.filter(|name| *name != "key_set_file");
    names.map(|name| {
        let schema = match name {
            "reservation_id" => json!({"type": "string", "minLength": 1, "maxLength": 128}),
            "evidence_id" => json!({"type": "string", "pattern": EvidenceId::PATTERN}),
            _ => text(),
        };
        let description = format!("Id of the {}.", name.trim_end_matches("_id"));
        parameter("path", name, true, &description, schema)
    })
}

/// The header with the idempotency key. On the runtime plane, all bodies have the key; on the admin plane, few.
fn idempotency_key(plane: Plane) -> Parameter {
    let description = match plane {
        Plane::Runtime => "May repeat the body's `idempotency_key`, but not differ from it.",
        Plane::Admin => {
            "Identifies this attempt: a repeated request under the same key has one effect. If the body has an \
             `idempotency_key` too, both must be equal."
        }
    };
    let schema = json!({"type": "string", "minLength": 1, "maxLength": 256});
    let name = header_name(&headers::IDEMPOTENCY_KEY);
    parameter("header", &name, false, description, schema)
}

/// Any text.
pub fn text() -> Value {
    json!({"type": "string"})
}

/// One of some words.
pub fn words(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// One of some words, with a default.
pub fn words_or(words: &[&str], default: &str) -> Value {
    json!({"type": "string", "enum": words, "default": default})
}

/// A header's name in the usual capitals.
pub fn header_name(name: &axum::http::HeaderName) -> String {
    let capital = |word: &str| match word {
        "api" => "API".to_owned(),
        _ => word[..1].to_uppercase() + &word[1..],
    };
    let words = name.as_str().split('-').map(capital);
    words.collect::<Vec<_>>().join("-")
}
