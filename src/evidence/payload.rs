//! What an envelope attests: a request and its response.

use std::fmt::Write as _;

use super::schema::{self, Artifact, Endpoint};
use crate::domain::dialect::Dialect;
use crate::domain::evidence::{AttestedRequest, named_defaults};
use crate::domain::json::{Canonical, Json, JsonError, push_string};
use crate::domain::payload_hash::PayloadHash;

/// The attested part of an accepted body: the members that the client sent, without absent ones, which may be `null`, and
/// without those that have no effect. What is free stays as it was sent.
pub fn attested_request(endpoint: Endpoint, body: &Json) -> AttestedRequest {
    let (payload_hash, canonical) = PayloadHash::with_canonical(body);
    attested_body(endpoint, body, &payload_hash, canonical)
}

/// The same, where the digest of the body is known, with the canonical form if it is that of the whole body.
pub fn attested_body(
    endpoint: Endpoint,
    body: &Json,
    payload_hash: &PayloadHash,
    canonical: Option<String>,
) -> AttestedRequest {
    let mirror = schema::request_of(endpoint);
    let kept = (!schema::keeps_all(mirror, body)).then(|| schema::kept(mirror, body));
    let request = kept.as_ref().unwrap_or(body);
    // Most requests are attested whole and as they are hashed, so that one text is written and hashed once.
    let shared = canonical.filter(|_| kept.is_none() && body.first_rounded().is_none());
    let (canonical, digest) = match shared {
        Some(text) => (Canonical::of_exact(text), payload_hash.clone()),
        None => {
            let canonical = Canonical::of_json(request);
            let digest = PayloadHash::of_canonical(canonical.as_str());
            (canonical, digest)
        }
    };
    AttestedRequest {
        canonical,
        digest: digest.to_string(),
        named: named_defaults(request),
        is_dry_run: request.member("dry_run") == Some(&Json::Bool(true)),
    }
}

/// The attested part of a response: without the reference itself and without what a replay computes anew. `None` where it is
/// no JSON.
pub fn attested_response(response: &impl serde::Serialize) -> Option<Canonical> {
    let [one, other] = Dialect::ALL.map(|dialect| dialect.words().evidence_member);
    Canonical::of(response, &["remaining_ttl_ms", "observed", one, other])
}

/// A request and its outcome, as [`attested_request`] and [`attested_response`] have them.
#[derive(Debug, Clone)]
pub struct Payload {
    /// The operation.
    pub endpoint: Endpoint,
    /// The HTTP status of a refusal; `None` for a success.
    pub refused: Option<u16>,
    /// Request; `None` where that of a refusal is too long.
    pub request: Option<Canonical>,
    /// From the path, where it has one.
    pub reservation_id: Option<String>,
    /// Body of the response.
    pub response: Canonical,
}

impl Payload {
    /// A success.
    pub fn success(
        endpoint: Endpoint,
        reservation_id: Option<String>,
        request: Canonical,
        response: Canonical,
    ) -> Self {
        Self {
            endpoint,
            refused: None,
            request: Some(request),
            reservation_id,
            response,
        }
    }

    /// Its kind.
    pub fn artifact(&self) -> Artifact {
        match (self.refused, self.endpoint) {
            (Some(_), _) => Artifact::Error,
            (None, Endpoint::Decide) => Artifact::Decide,
            (None, Endpoint::Reserve) => Artifact::Reserve,
            (None, Endpoint::Commit) => Artifact::Commit,
            (None, Endpoint::Release) => Artifact::Release,
        }
    }

    /// The first integer literal of it that an envelope would round.
    pub(super) fn first_rounded(&self) -> Option<&str> {
        let mut parts = self.request.iter().chain([&self.response]);
        parts.find_map(Canonical::first_rounded)
    }

    /// The member `payload` of an envelope.
    pub(super) fn into_value(self) -> Result<Json, JsonError> {
        let artifact = self.artifact().as_str();
        let mut members = Vec::new();
        if let Some(http_status) = self.refused {
            members.push(("endpoint", Json::from(self.endpoint.as_str())));
            members.push(("http_status", Json::from(i64::from(http_status))));
        }
        if let Some(request) = self.request {
            members.push(("request", request.into_value()?));
        }
        members.extend(
            self.reservation_id
                .map(|id| ("reservation_id", Json::from(&*id))),
        );
        members.push(("response", self.response.into_value()?));
        let inner: Json = members.into_iter().collect();
        Ok([(artifact, inner)].into_iter().collect())
    }

    /// Writes the same in its canonical form. Members are sorted, so these are in their places.
    pub(super) fn push_canonical(&self, text: &mut String) {
        text.push('{');
        push_string(self.artifact().as_str(), text);
        text.push_str(":{");
        if let Some(http_status) = self.refused {
            text.push_str(r#""endpoint":"#);
            push_string(self.endpoint.as_str(), text);
            let _ = write!(text, r#","http_status":{http_status},"#);
        }
        if let Some(request) = &self.request {
            text.extend([r#""request":"#, request.as_str(), ","]);
        }
        if let Some(id) = &self.reservation_id {
            text.push_str(r#""reservation_id":"#);
            push_string(id, text);
            text.push(',');
        }
        text.extend([r#""response":"#, self.response.as_str(), "}}"]);
    }
}
