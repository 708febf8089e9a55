//! Parameters of operations, as the description shows them.

use serde_json::{Value, json};

use crate::api::dialect::headers;

/// An OpenAPI parameter object.
pub type Parameter = Value;

/// A parameter of the query string that may be absent.
pub fn query(name: &str, description: &str, schema: Value) -> Parameter {
    json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema})
}

/// A parameter of the query string that must be there.
pub fn required_query(name: &str, description: &str, schema: Value) -> Parameter {
    json!({"name": name, "in": "query", "required": true, "description": description, "schema": schema})
}

/// A part of the path.
pub fn path(name: &str, description: &str, schema: Value) -> Parameter {
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
}

/// The header with the idempotency key, on the runtime plane: its bodies have the key too.
pub fn repeated_idempotency_key() -> Parameter {
    idempotency_header("The body's `idempotency_key` once more; if sent, the two must be equal.")
}

/// The header with the idempotency key, on the admin plane: most of its bodies have none.
pub fn idempotency_key() -> Parameter {
    idempotency_header(
        "Names this attempt: repeating it under the same key changes once. Where the body has an `idempotency_key` too, \
         the two must be equal.",
    )
}

fn idempotency_header(description: &str) -> Parameter {
    json!({
        "name": header_name(&headers::IDEMPOTENCY_KEY),
        "in": "header",
        "required": false,
        "description": description,
        "schema": {"type": "string", "minLength": 1, "maxLength": 256},
    })
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
