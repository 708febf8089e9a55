//! The description of the API, made from the types that read and write it, and a page that shows it.

mod page;

pub use page::router;

use serde_json::{Map, Value, json};

use super::dialect::{Dialect, headers};
use super::errors::ErrorResponse;
use super::operation::parameters::{header_name, parameters};
use super::operation::{BODY_ERRORS, Callers, ERRORS, Operation, PUBLIC_ERRORS, Plane, schema_of};
use super::operations::OperationId;
use crate::domain::evidence::EvidenceRef;
use crate::domain::fields::Components;
use crate::domain::ids::TRACE_ID_PATTERN;

/// The responses that carry an evidence reference, whose name the dialect decides.
const ATTESTED: [&str; 5] = [
    "DecisionResponse",
    "ReservationCreateResponse",
    "CommitResponse",
    "ReleaseResponse",
    "ErrorResponse",
];

/// The OpenAPI 3.1 document of both planes, with the names of a dialect.
pub fn document(dialect: Dialect) -> Value {
    let mut schemas = Components::default();
    let examples: Value = serde_json::from_str(EXAMPLES).expect("a test records them");
    let mut paths = Map::new();
    for operation in OperationId::ALL.iter().map(|id| id.operation()) {
        let path = operation.path_in(dialect).into_owned();
        let path = paths.entry(path).or_insert_with(|| json!({}));
        let method = operation.method.as_str().to_lowercase();
        let example = &examples[operation.name];
        path[method] = describe(operation, &mut schemas, example);
    }
    let error = schema_of::<ErrorResponse>(&mut schemas);
    let reference = schema_of::<EvidenceRef>(&mut schemas);
    let mut schemas = json!(schemas.into_schemas());
    // The types cannot: the member's name is not fixed when they are compiled.
    for name in ATTESTED {
        schemas[name]["properties"][dialect.words().evidence_member] = reference.clone();
    }
    schemas["ApiKeyCreateRequest"]["properties"]["permissions"]["default"] =
        json!(dialect.words().default_permissions);
    require_a_level(&mut schemas["Subject"]);
    let words = Dialect::default().words();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Budget Authority",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Hard budget limits for autonomous agents: reserve before acting, commit what it cost, \
                release the rest. Amounts are exact integers up to 2^63-1. Every change can be repeated under \
                its idempotency key.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": Plane::Runtime.as_str(), "description": "Operations for agents and their gateways."},
            {"name": Plane::Admin.as_str(), "description": "Operations for operators and dashboards."},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "ApiKeyAuth": {"type": "apiKey", "in": "header", "name": words.api_key_header},
                "AdminKeyAuth": {"type": "apiKey", "in": "header", "name": header_name(&headers::ADMIN_KEY)},
            },
            "headers": response_headers(),
            "responses": {
                "Error": {
                    "description": "Refused or failed; `error` says why, for programs, and `message` for people.",
                    "headers": header_refs(false),
                    "content": {"application/json": {"schema": error}},
                },
            },
        },
    });
    in_words_of(dialect, document.to_string())
}

/// A document of the default dialect in the words of another.
fn in_words_of(dialect: Dialect, mut document: String) -> Value {
    let (from, to) = (Dialect::default().words(), dialect.words());
    for (from, to) in [
        (from.api_key_header, to.api_key_header),
        (from.trace_header, to.trace_header),
        (from.tenant_header, to.tenant_header),
        (from.runtime_source, to.runtime_source),
        (from.admin_source, to.admin_source),
        (from.evidence_schema, to.evidence_schema),
        (from.evidence_url_member, to.evidence_url_member),
        (from.key_from_member, to.key_from_member),
        (from.key_until_member, to.key_until_member),
    ] {
        document = document.replace(&format!("\"{from}\""), &format!("\"{to}\""));
    }
    let document = document.replace(from.api_key_prefix, to.api_key_prefix);
    serde_json::from_str(&document).expect("the words are JSON too")
}

fn describe(operation: &Operation, schemas: &mut Components, example: &Value) -> Value {
    let declaration = operation.declaration;
    let mut responses = Map::new();
    for response in declaration.responses.into_iter().flatten() {
        let mut described = json!({
            "description": response.description,
            "headers": header_refs(operation.callers.includes_tenants()),
        });
        if operation.callers == Callers::Public {
            described["headers"]["Cache-Control"] =
                json!({"$ref": "#/components/headers/CacheControl"});
        }
        if declaration.idempotent {
            described["headers"][header_name(&headers::REPLAYED)] =
                json!({"$ref": "#/components/headers/IdempotencyReplayed"});
        }
        if let Some(schema) = response.schema {
            let example = example
                .get("response")
                .filter(|_| example["status"] == response.status);
            described["content"] = json_content(schema(schemas), example);
        }
        responses.insert(response.status.to_string(), described);
    }
    let of_body = declaration.request.iter().flat_map(|_| BODY_ERRORS);
    let of_all: &[u16] = match operation.callers {
        Callers::Public => &PUBLIC_ERRORS,
        _ => &ERRORS,
    };
    let errors = declaration.errors.iter().chain(of_all).copied();
    for status in errors.chain(of_body) {
        let error = json!({"$ref": "#/components/responses/Error"});
        responses.insert(status.to_string(), error);
    }
    let (api_key, admin_key) = (json!({"ApiKeyAuth": []}), json!({"AdminKeyAuth": []}));
    let mut described = json!({
        "operationId": operation.name,
        "summary": declaration.summary,
        "tags": [operation.plane.as_str()],
        "security": match operation.callers {
            Callers::Admin => vec![admin_key],
            Callers::Tenant(_) => vec![api_key],
            Callers::Both(_) => vec![api_key, admin_key],
            Callers::Public => Vec::new(),
        },
        "responses": responses,
    });
    let mut parameters = parameters(operation);
    for parameter in &mut parameters {
        let name = parameter["name"].as_str().unwrap_or_default();
        if let Some(value) = example["parameters"].get(name) {
            parameter["example"] = value.clone();
        }
    }
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(request) = declaration.request {
        described["requestBody"] = json!({
            "required": request.required,
            "content": json_content((request.schema)(schemas), example.get("request")),
        });
    }
    described
}

/// An example of each operation by its `operationId`: `parameters` by name, `request` if it has a body, `status`, `response` if that
/// has one. `tests/it/http/examples` records them from a running service.
const EXAMPLES: &str = include_str!("examples.json");

/// A JSON body, with an example if there is one.
fn json_content(schema: Value, example: Option<&Value>) -> Value {
    let mut content = json!({"schema": schema});
    if let Some(example) = example {
        content["example"] = example.clone();
    }
    json!({"application/json": content})
}

/// References to the headers of a response.
fn header_refs(with_tenant: bool) -> Value {
    let words = Dialect::default().words();
    let mut refs = Map::new();
    let mut add = |header: String, name: &str| {
        let header_ref = json!({"$ref": format!("#/components/headers/{name}")});
        refs.insert(header, header_ref);
    };
    add(header_name(&headers::REQUEST_ID), "RequestId");
    add(words.trace_header.to_owned(), "TraceId");
    if with_tenant {
        add(words.tenant_header.to_owned(), "Tenant");
    }
    refs.into()
}

/// A subject must name a level; which one is its own choice.
fn require_a_level(subject: &mut Value) {
    let levels = crate::domain::scope::Level::WORDS.iter();
    subject["anyOf"] = levels.map(|level| json!({"required": [level]})).collect();
}

fn response_headers() -> Value {
    json!({
        "RequestId": {
            "description": "Id of the request.",
            "schema": {"type": "string"},
        },
        "TraceId": {
            "description": "Id of the trace that the request belongs to.",
            "schema": {"type": "string", TRACE_ID_PATTERN.0: (TRACE_ID_PATTERN.1)()},
        },
        "CacheControl": {
            "description": "How long the response may be kept.",
            "schema": {"type": "string"},
        },
        "IdempotencyReplayed": {
            "description": "Present if the request was made before under its idempotency key: this is the stored response.",
            "schema": {"type": "string", "const": "true"},
        },
        "Tenant": {
            "description": "The tenant of the API key.",
            "schema": {"type": "string"},
        },
    })
}
