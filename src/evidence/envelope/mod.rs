//! Envelopes: their id, their signature, their bytes.

use sha2::{Digest, Sha256};

use super::issuer::Issuer;
use super::key::SigningKey;
use super::payload::Payload;
use super::schema::{self, Misfit};
use crate::domain::ids::{TraceId, hex};
use crate::domain::json::Json;

/// How deep an envelope may nest: a request of the deepest kind, and the levels around it.
pub(super) const DEPTH_MAX: usize = 72;

/// What an issuer attests.
#[derive(Debug, Clone)]
pub struct Statement {
    /// When it was decided, on the store's clock.
    pub issued_at_ms: i64,
    /// Of the request.
    pub trace_id: Option<TraceId>,
    /// The request, and what came of it.
    pub payload: Payload,
}

/// Why a statement has no envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unattestable {
    /// An integer that the canonical form would round.
    #[error("the canonical form would round the integer {0}")]
    Rounded(String),
    /// It is not of the format, which is a mistake of ours.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

/// An envelope that lacks its signature alone.
#[derive(Debug, Clone)]
pub struct Unsigned {
    evidence_id: String,
    envelope: Json,
}

impl Unsigned {
    /// The envelope of a statement.
    ///
    /// # Errors
    /// [`Unattestable`].
    pub fn new(issuer: &Issuer, statement: &Statement) -> Result<Self, Unattestable> {
        let (payload, words) = (&statement.payload, issuer.dialect.words());
        let artifact = payload.artifact();
        let json = payload.json();
        if let Some(literal) = json.first_rounded() {
            return Err(Unattestable::Rounded(literal.to_owned()));
        }
        schema::check_payload(artifact, &json)?;
        let mut members = vec![
            ("schema_version", Json::from(words.evidence_schema)),
            ("artifact_type", Json::from(artifact.as_str())),
            ("server_id", Json::from(issuer.server_id.as_str())),
            ("signer_did", Json::from(&*issuer.signer.to_string())),
            ("issued_at_ms", Json::from(statement.issued_at_ms)),
            ("payload", json),
            ("evidence_id", Json::from("")),
            ("signature", Json::from("")),
        ];
        let trace_id = statement.trace_id.as_ref();
        members.extend(trace_id.map(|id| ("trace_id", Json::from(id.as_str()))));
        let mut envelope: Json = members.into_iter().collect();
        let evidence_id = id_of(&envelope);
        set(&mut envelope, "evidence_id", &evidence_id);
        Ok(Self {
            evidence_id,
            envelope,
        })
    }

    /// Its id: the hash of all but id and signature.
    pub fn evidence_id(&self) -> &str {
        &self.evidence_id
    }

    /// The bytes of the complete envelope, as they are stored and served.
    pub fn sign(mut self, key: &SigningKey) -> String {
        let signature = key.sign(self.envelope.rfc8785().as_bytes());
        set(&mut self.envelope, "signature", &signature);
        self.envelope.rfc8785()
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
