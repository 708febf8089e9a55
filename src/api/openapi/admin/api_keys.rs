//! The operations on API keys, and the questions about credentials.

use serde_json::json;

use super::idempotency_header;
use crate::api::admin::api_keys::list::{ApiKeyListResponse, ApiKeys};
use crate::api::admin::api_keys::update::ApiKeyUpdateRequest;
use crate::api::admin::api_keys::{ApiKey, ApiKeyCreateRequest, ApiKeyCreateResponse};
use crate::api::admin::credentials::introspect::AuthIntrospectResponse;
use crate::api::admin::credentials::validate::{ApiKeyValidationRequest, ApiKeyValidationResponse};
use crate::api::list;
use crate::api::openapi::operation::{Key, Operation, path, query, schema_of, text};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            method: "post",
            path: "/v1/admin/api-keys",
            id: "createApiKey",
            summary: "Makes an API key; the answer is the only one that shows it",
            keys: &[Key::Admin],
            parameters: vec![idempotency_header()],
            request: Some(schema_of::<ApiKeyCreateRequest>),
            answers: &[(201, "The new key.", schema_of::<ApiKeyCreateResponse>)],
            errors: &[400, 409, 413, 415],
        },
        Operation {
            method: "delete",
            path: "/v1/admin/api-keys/{key_id}",
            id: "revokeApiKey",
            summary: "Revokes an API key at once",
            keys: &[Key::Admin],
            parameters: vec![
                path("key_id", "Names the key.", text()),
                query(
                    "reason",
                    "Why, for the record.",
                    json!({"type": "string", "maxLength": 512}),
                ),
                idempotency_header(),
            ],
            request: None,
            answers: &[(200, "The revoked key.", schema_of::<ApiKey>)],
            errors: &[400, 404, 409],
        },
        Operation {
            method: "get",
            path: "/v1/admin/api-keys",
            id: "listApiKeys",
            summary: "Lists API keys, of one tenant or of all",
            keys: &[Key::Admin],
            parameters: list::parameters::<ApiKeys>(),
            request: None,
            answers: &[(200, "A page of API keys.", schema_of::<ApiKeyListResponse>)],
            errors: &[400],
        },
        Operation {
            method: "patch",
            path: "/v1/admin/api-keys/{key_id}",
            id: "updateApiKey",
            summary: "Changes an API key; its next use is judged by what it is then",
            keys: &[Key::Admin],
            parameters: vec![
                path("key_id", "Names the key.", text()),
                idempotency_header(),
            ],
            request: Some(schema_of::<ApiKeyUpdateRequest>),
            answers: &[(200, "The key as it is now.", schema_of::<ApiKey>)],
            errors: &[400, 404, 409, 413, 415],
        },
        Operation {
            method: "post",
            path: "/v1/auth/validate",
            id: "validateApiKey",
            summary: "Tells whether an API key is good",
            keys: &[Key::Admin],
            parameters: Vec::new(),
            request: Some(schema_of::<ApiKeyValidationRequest>),
            answers: &[(
                200,
                "Whether it is, or what is wrong with it.",
                schema_of::<ApiKeyValidationResponse>,
            )],
            errors: &[400, 413, 415],
        },
        Operation {
            method: "get",
            path: "/v1/auth/introspect",
            id: "introspectAuth",
            summary: "Tells who the caller is and what he may do",
            keys: &[Key::Api, Key::Admin],
            parameters: Vec::new(),
            request: None,
            answers: &[(200, "The caller.", schema_of::<AuthIntrospectResponse>)],
            errors: &[400],
        },
    ]
}
