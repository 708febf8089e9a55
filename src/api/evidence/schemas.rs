//! Descriptions of the public documents. They are open: a reader must not refuse members that it does not know. What the dialect
//! names is put in where the description is made.

use serde_json::json;

use crate::domain::dialect::Dialect;
use crate::domain::fields::plain_field;
use crate::domain::ids::EvidenceId;
use crate::evidence::Artifact;

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
