//! Envelopes: their id, their signature, their bytes.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::issuers::Issuer;
use super::keys::SigningKey;
use super::payload::Payload;
use super::schema::{self, Misfit};
use crate::domain::ids::{TraceId, hex};
use crate::domain::json::{Json, push_string};

/// How deep an envelope may nest: a request of the deepest kind, and the levels around it.
pub(super) const DEPTH_MAX: usize = 72;

/// Bytes of most envelopes, at most.
const CAPACITY: usize = 2_048;

/// The content that an issuer attests.
#[derive(Debug, Clone)]
pub struct Statement {
    /// When it was decided, on the store's clock.
    pub issued_at_ms: i64,
    /// Of the request.
    pub trace_id: Option<TraceId>,
    /// The request, and what came of it.
    pub payload: Payload,
}

impl Statement {
    /// Checks that verifiers will accept its payload. A failure is a bug.
    ///
    /// # Errors
    /// [`Misfit`].
    pub fn check(self) -> Result<(), Misfit> {
        let artifact = self.payload.artifact();
        let payload = self.payload.into_value();
        let payload = payload.map_err(|error| Misfit::new("payload", error.to_string()))?;
        schema::check_payload(artifact, &payload)
    }
}

/// A statement has no envelope, since the canonical form would round this integer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the canonical form would round the integer {0}")]
pub struct Rounded(pub String);

/// An envelope that lacks its signature alone.
#[derive(Debug, Clone)]
pub struct Unsigned {
    evidence_id: String,
    /// Its canonical form, in which id and signature are empty texts, and where these belong.
    canonical: String,
    id_at: usize,
    signature_at: usize,
}

impl Unsigned {
    /// The envelope of a statement.
    ///
    /// # Errors
    /// [`Rounded`].
    pub fn new(issuer: &Issuer, statement: &Statement) -> Result<Self, Rounded> {
        let payload = &statement.payload;
        if let Some(literal) = payload.first_rounded() {
            return Err(Rounded(literal.to_owned()));
        }
        // Members are sorted, so these are in their places, and each is written once.
        let mut canonical = String::with_capacity(CAPACITY);
        canonical.push_str(r#"{"artifact_type":"#);
        push_string(payload.artifact().as_str(), &mut canonical);
        canonical.push_str(r#","evidence_id":""#);
        let id_at = canonical.len();
        let issued_at_ms = statement.issued_at_ms;
        let _ = write!(canonical, r#"","issued_at_ms":{issued_at_ms},"payload":"#);
        payload.push_canonical(&mut canonical);
        canonical.push_str(r#","schema_version":"#);
        push_string(issuer.dialect.words().evidence_schema, &mut canonical);
        canonical.push_str(r#","server_id":"#);
        push_string(issuer.server_id.as_str(), &mut canonical);
        canonical.push_str(r#","signature":""#);
        let signature_at = canonical.len();
        canonical.push_str(r#"","signer_did":"#);
        push_string(&issuer.signer.to_string(), &mut canonical);
        if let Some(trace_id) = &statement.trace_id {
            canonical.push_str(r#","trace_id":"#);
            push_string(trace_id.as_str(), &mut canonical);
        }
        canonical.push('}');
        Ok(Self {
            evidence_id: hex(&Sha256::digest(&canonical)),
            canonical,
            id_at,
            signature_at,
        })
    }

    /// Its id: the hash of all but id and signature.
    pub fn evidence_id(&self) -> &str {
        &self.evidence_id
    }

    /// The bytes of the complete envelope, as they are stored and served.
    pub fn sign(self, key: &SigningKey) -> String {
        let mut document = self.canonical;
        document.insert_str(self.id_at, &self.evidence_id);
        let signature = key.sign(document.as_bytes());
        document.insert_str(self.signature_at + self.evidence_id.len(), &signature);
        document
    }

    #[cfg(test)]
    fn signed_bytes(&self) -> String {
        let mut bytes = self.canonical.clone();
        bytes.insert_str(self.id_at, &self.evidence_id);
        bytes
    }
}

/// The id of an envelope, in which id and signature are empty texts.
pub(super) fn id_of(envelope: &Json) -> String {
    hex(&Sha256::digest(envelope.rfc8785()))
}

/// Gives a text to a member that is there.
pub(super) fn set(envelope: &mut Json, name: &str, text: &str) {
    if let Json::Object(members) = envelope {
        let mut members = members.iter_mut();
        if let Some((_, value)) = members.find(|(known, _)| known == name) {
            *value = Json::from(text);
        }
    }
}

#[cfg(test)]
mod tests;
