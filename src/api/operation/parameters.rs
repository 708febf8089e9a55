//! Parameters of operations, as the description shows them.

use serde_json::{Value, json};

use crate::api::dialect::headers;
use crate::api::query::{ADMIN_PAGE_LIMIT_MAX, PAGE_LIMIT_DEFAULT, SEARCH_CHARS_MAX};

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

/// The cursor of a list.
pub fn cursor() -> Parameter {
    query(
        "cursor",
        "The `next_cursor` of the page before, under the same filters.",
        text(),
    )
}

/// The bound of a page on the admin plane.
pub fn page_limit() -> Parameter {
    limit(
        ADMIN_PAGE_LIMIT_MAX,
        "Most rows on the page; what is outside the bounds is cut to them.",
    )
}

/// The bound of a page of at most `max` rows.
pub fn limit(max: usize, description: &str) -> Parameter {
    let schema =
        json!({"type": "integer", "minimum": 1, "maximum": max, "default": PAGE_LIMIT_DEFAULT});
    query("limit", description, schema)
}

/// What a list is sorted by, and in which direction.
pub fn sort(description: &str, keys: &[&str], default: &str) -> [Parameter; 2] {
    let direction = words_or(&["asc", "desc"], "desc");
    [
        query("sort_by", description, words_or(keys, default)),
        query("sort_dir", "Which come first.", direction),
    ]
}

/// A text that rows must contain.
pub fn search(description: &str) -> Parameter {
    query(
        "search",
        description,
        json!({"type": "string", "maxLength": SEARCH_CHARS_MAX}),
    )
}

/// Any text.
pub fn text() -> Value {
    json!({"type": "string"})
}

/// A time in RFC 3339.
pub fn moment() -> Value {
    json!({"type": "string", "format": "date-time"})
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
