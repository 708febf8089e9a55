//! The description of the API, made from the types that read and write it, and a page that shows it.

mod admin;
mod audit;
mod events;
mod operation;
mod page;
mod runtime;
mod webhooks;

pub use page::router;

use serde_json::{Map, Value, json};

use super::dialect::{Dialect, headers};
use super::errors::ErrorResponse;
use super::runtime::evidence::EvidenceRef;
use operation::{Schemas, schema_of};

/// The answers that carry an evidence reference, whose name the dialect decides.
const ATTESTED: [&str; 5] = [
    "DecisionResponse",
    "ReservationCreateResponse",
    "CommitResponse",
    "ReleaseResponse",
    "ErrorResponse",
];

/// The OpenAPI 3.1 document of both planes, with the names of a dialect.
pub fn document(dialect: Dialect) -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    let operations = [
        runtime::operations(),
        admin::operations(),
        webhooks::operations(),
        events::operations(),
        audit::operations(),
    ];
    for operation in operations.into_iter().flatten() {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.describe(&mut schemas, dialect);
    }
    let error = schema_of::<ErrorResponse<'_>>(&mut schemas);
    let reference = schema_of::<EvidenceRef>(&mut schemas);
    let mut schemas = schemas.into_values();
    name_evidence(&mut schemas, &reference, dialect);
    require_a_level(&mut schemas["Subject"]);
    let words = dialect.words();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Budget Authority",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Hard budget limits for autonomous agents: reserve before acting, commit what it cost, \
                release the rest. Amounts are exact integers up to 2^63-1. Whatever changes something can be repeated \
                under its idempotency key.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "runtime", "description": "What agents and their gateways call."},
            {"name": "admin", "description": "What operators and dashboards call."},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "ApiKeyAuth": {"type": "apiKey", "in": "header", "name": words.api_key_header},
                "AdminKeyAuth": {"type": "apiKey", "in": "header", "name": shown(&headers::ADMIN_KEY)},
            },
            "headers": response_headers(),
            "responses": {
                "Error": {
                    "description": "Refused or failed; `error` says why, for programs, and `message` for people.",
                    "headers": operation::header_refs(dialect, false),
                    "content": {"application/json": {"schema": error}},
                },
            },
        },
    })
}

/// Puts the reference into the answers that carry one. The types cannot: its name is not fixed when they are compiled.
fn name_evidence(schemas: &mut Value, reference: &Value, dialect: Dialect) {
    let words = dialect.words();
    for name in ATTESTED {
        schemas[name]["properties"][words.evidence_member] = reference.clone();
    }
    let (default, member) = (
        Dialect::default().words().evidence_url_member,
        words.evidence_url_member,
    );
    let schema = &mut schemas["EvidenceRef"];
    let url = schema["properties"][default].take();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.remove(default);
        properties.insert(member.to_owned(), url);
    }
    schema["required"] = json!(["evidence_id", member]);
}

/// A subject must name a level; which one is its own choice.
fn require_a_level(subject: &mut Value) {
    let levels = crate::domain::scope::Level::ALL;
    subject["anyOf"] = levels
        .map(|level| json!({"required": [level.as_str()]}))
        .into_iter()
        .collect();
}

fn response_headers() -> Value {
    json!({
        "RequestId": {
            "description": "Names the request.",
            "schema": {"type": "string"},
        },
        "TraceId": {
            "description": "Names the operation that the request belongs to.",
            "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        },
        "Tenant": {
            "description": "The tenant of the API key.",
            "schema": {"type": "string"},
        },
    })
}

/// A header's name in the usual capitals.
fn shown(name: &axum::http::HeaderName) -> String {
    let capital = |word: &str| match word {
        "api" => "API".to_owned(),
        _ => word[..1].to_uppercase() + &word[1..],
    };
    name.as_str()
        .split('-')
        .map(capital)
        .collect::<Vec<_>>()
        .join("-")
}
