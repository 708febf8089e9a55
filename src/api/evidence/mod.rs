//! Public operations: envelopes by their id, and the keys that signed them. An API key in such a request is ignored. Everybody
//! who knows the id of an envelope may read it; no operation lists ids.

pub mod limiter;

use std::time::{Duration, SystemTime};

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::api::auth::authenticate::host_problem;
use crate::api::auth::client_address::client_of;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::state::AppState;
use crate::domain::dialect::Dialect;
use crate::domain::fields::plain_field;
use crate::domain::ids::EvidenceId;
use crate::evidence::Artifact;
use crate::telemetry::{Next, Served};

/// `GET /v1/evidence/{evidence_id}`.
pub static ENVELOPE: Declaration = declare!(envelope, "Read a signed envelope")
    .returns::<EvidenceEnvelope>(200, "The envelope, byte for byte as it was signed.")
    .refuses(&[400, 404]);

/// `GET /v1/.well-known/…`, whose file the dialect names.
pub static KEY_SET: Declaration = declare!(key_set, "Read the public keys that sign evidence")
    .returns::<EvidenceJwks>(200, "The key set.")
    .refuses(&[404]);

/// How long caches keep an envelope at most, in seconds.
const YEAR: i64 = 31_536_000;
/// A key set changes with a rotation, which is announced for longer than this.
const FIVE_MINUTES: HeaderValue = HeaderValue::from_static("public, max-age=300");
/// An absent envelope may exist a second later.
const NEVER: HeaderValue = HeaderValue::from_static("no-store");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The layer around these paths: bounds how much one client reads, malformed ids and wrong methods included.
pub async fn limit(state: AppState, request: Request, next: Next) -> Served {
    let (parts, body) = request.into_parts();
    if let Some(problem) = host_problem(&parts) {
        return Ok(ApiError::invalid(problem).into_response());
    }
    let client = client_of(&state.trusted_proxies, &parts);
    Ok(
        match state.public_limiter.admit(client, SystemTime::now()) {
            Ok(()) => next.run(Request::from_parts(parts, body)).await,
            Err(error) => error.into_response(),
        },
    )
}

async fn envelope(
    State(state): State<AppState>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = path.ok().and_then(|Path(id)| EvidenceId::parse(&id));
    let id = id.ok_or_else(|| {
        ApiError::invalid(
            "Validation failed: evidence_id: must have 64 lower-case hexadecimal digits",
        )
    })?;
    if state.key_set.is_none() {
        return Err(absent("This deployment publishes no evidence"));
    }
    let Some(bytes) = state.store.envelope(&id).await? else {
        return Err(absent(
            "There is no evidence of this id, or none yet: it is signed shortly after its operation",
        ));
    };
    let tag = format!("\"{id}\"");
    let caching = [
        (
            header::CACHE_CONTROL,
            caching(
                &bytes,
                state.evidence_retention,
                state.store.clock().now_ms(),
            )?,
        ),
        (
            header::ETAG,
            HeaderValue::from_str(&tag).map_err(ApiError::internal)?,
        ),
    ];
    if has_it(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    Ok((caching, [(header::CONTENT_TYPE, JSON)], bytes).into_response())
}

/// How caches keep an envelope: no longer than the service does. It never changes, since its id is the hash of its content.
fn caching(
    bytes: &[u8],
    retention: Option<Duration>,
    now_ms: i64,
) -> Result<HeaderValue, ApiError> {
    let seconds = match retention {
        None => YEAR,
        Some(retention) => {
            let envelope: Value = serde_json::from_slice(bytes).unwrap_or_default();
            let issued_at_ms = envelope["issued_at_ms"].as_i64().unwrap_or_default();
            let kept = i64::try_from(retention.as_secs()).unwrap_or(YEAR);
            ((issued_at_ms - now_ms) / 1_000)
                .saturating_add(kept)
                .clamp(0, YEAR)
        }
    };
    let caching = format!("public, max-age={seconds}, immutable");
    HeaderValue::from_str(&caching).map_err(ApiError::internal)
}

async fn key_set(State(state): State<AppState>) -> Result<Response, ApiError> {
    let Some(set) = state.key_set.clone() else {
        return Err(absent("This deployment signs no evidence"));
    };
    let headers = [
        (header::CACHE_CONTROL, FIVE_MINUTES),
        (header::CONTENT_TYPE, JSON),
    ];
    Ok((headers, set).into_response())
}

fn absent(message: &str) -> ApiError {
    ApiError::not_found(message).with_header(header::CACHE_CONTROL, NEVER)
}

/// Whether the client says that it has the document of this tag already.
fn has_it(headers: &HeaderMap, tag: &str) -> bool {
    let sent = headers.get_all(header::IF_NONE_MATCH).iter();
    let texts = sent.filter_map(|value| value.to_str().ok());
    let mut tags = texts.flat_map(|text| text.split(',')).map(str::trim);
    tags.any(|sent| sent == "*" || sent.strip_prefix("W/").unwrap_or(sent) == tag)
}

// Descriptions of the public documents. They are open: a reader must not refuse members that it does not know.

/// A signed envelope.
pub struct EvidenceEnvelope;

/// The key set.
pub struct EvidenceJwks;

/// A key of it.
struct EvidenceJwk;

plain_field!(EvidenceEnvelope, (), |(), components| {
    components.refer("EvidenceEnvelope", |_| {
        json!({
            "type": "object",
            "description": "An attested decision. docs/evidence.md says how to verify it.",
            "required": [
                "schema_version", "artifact_type", "server_id", "signer_did", "issued_at_ms", "payload", "evidence_id",
                "signature",
            ],
            "properties": {
                "schema_version": {"type": "string", "const": Dialect::default().words().evidence_schema},
                "artifact_type": {
                    "type": "string", "enum": Artifact::WORDS, "description": "Kind of the attested operation.",
                },
                "server_id": {"type": "string", "description": "Base URL of the issuer."},
                "signer_did": {"type": "string", "description": "Names the key of the signature."},
                "issued_at_ms": {"type": "integer", "format": "int64", "description": "When it was decided."},
                "trace_id": {"type": "string", "description": "Of the request."},
                "payload": {"type": "object", "description": "One member, named as `artifact_type` says."},
                "evidence_id": {"type": "string", "pattern": EvidenceId::PATTERN},
                "signature": {"type": "string", "pattern": "^[0-9a-f]{128}$"},
            },
        })
    })
});

plain_field!(EvidenceJwks, (), |(), components| {
    let key = EvidenceJwk::schema(&(), components);
    components.refer("EvidenceJwks", |_| {
        json!({
            "type": "object",
            "description": "The public keys of the deployment, retired ones included (RFC 7517).",
            "required": ["keys"],
            "properties": {"keys": {"type": "array", "items": key}},
        })
    })
});

plain_field!(EvidenceJwk, (), |(), components| {
    components.refer("EvidenceJwk", |_| {
        let words = Dialect::default().words();
        json!({
            "type": "object",
            "description": "A public key (RFC 8037), and when it signs.",
            "required": ["kty", "crv", "x", "kid", words.key_from_member],
            "properties": {
                "kty": {"type": "string", "const": "OKP"},
                "crv": {"type": "string", "const": "Ed25519"},
                "alg": {"type": "string", "const": "EdDSA"},
                "x": {"type": "string", "description": "The key in base64url."},
                "kid": {"type": "string", "description": "Its id."},
                words.key_from_member: {
                    "type": "integer", "format": "int64", "description": "It signs from then on, in milliseconds since 1970.",
                },
                words.key_until_member: {
                    "type": ["integer", "null"], "format": "int64", "description": "It signs before then.",
                },
                "status": {"type": "string", "enum": ["active", "retired"], "description": "Decides nothing."},
            },
        })
    })
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::dialect::header_map;

    #[test]
    fn a_matching_etag_is_recognized() {
        for (sent, has) in [
            (&[][..], false),
            (&["\"a\""], true),
            (&["W/\"a\""], true),
            (&["\"b\", \"a\""], true),
            (&["\"b\"", "\"a\""], true),
            (&["*"], true),
            (&["a"], false),
            (&["\"b\""], false),
        ] {
            let pairs: Vec<_> = sent.iter().map(|value| ("if-none-match", value)).collect();
            assert_eq!(has_it(&header_map(&pairs), "\"a\""), has, "{sent:?}");
        }
    }
}
