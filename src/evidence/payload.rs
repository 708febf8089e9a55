//! What an envelope attests: a request and its response.

use std::fmt::Write as _;

use super::schema::{self, Artifact, Endpoint};
use crate::domain::dialect::Dialect;
use crate::domain::evidence::{AttestedRequest, named_defaults};
use crate::domain::json::{Canonical, Json, push_string};
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
    Canonical::of(response, &["remaining_ttl_ms", one, other])
}

/// A request and its outcome, as [`attested_request`] and [`attested_response`] have them.
#[derive(Debug, Clone)]
pub enum Payload {
    /// A decision.
    Decide {
        /// Request.
        request: Canonical,
        /// Response.
        response: Canonical,
    },
    /// A reservation, or a dry run.
    Reserve {
        /// Request.
        request: Canonical,
        /// Response.
        response: Canonical,
    },
    /// A commit.
    Commit {
        /// From the path.
        reservation_id: String,
        /// Request.
        request: Canonical,
        /// Response.
        response: Canonical,
    },
    /// A release.
    Release {
        /// From the path.
        reservation_id: String,
        /// Request.
        request: Canonical,
        /// Response.
        response: Canonical,
    },
    /// A refusal.
    Error {
        /// The request.
        endpoint: Endpoint,
        /// Of the response.
        http_status: u16,
        /// Request, unless it is too long.
        request: Option<Canonical>,
        /// From the path, where it has one.
        reservation_id: Option<String>,
        /// Body of the error.
        response: Canonical,
    },
}

impl Payload {
    /// Its kind.
    pub fn artifact(&self) -> Artifact {
        match self {
            Self::Decide { .. } => Artifact::Decide,
            Self::Reserve { .. } => Artifact::Reserve,
            Self::Commit { .. } => Artifact::Commit,
            Self::Release { .. } => Artifact::Release,
            Self::Error { .. } => Artifact::Error,
        }
    }

    /// The request, where it is attested.
    pub fn request(&self) -> Option<&Canonical> {
        match self {
            Self::Decide { request, .. }
            | Self::Reserve { request, .. }
            | Self::Commit { request, .. }
            | Self::Release { request, .. } => Some(request),
            Self::Error { request, .. } => request.as_ref(),
        }
    }

    fn response(&self) -> &Canonical {
        match self {
            Self::Decide { response, .. }
            | Self::Reserve { response, .. }
            | Self::Commit { response, .. }
            | Self::Release { response, .. }
            | Self::Error { response, .. } => response,
        }
    }

    fn reservation_id(&self) -> Option<&str> {
        match self {
            Self::Decide { .. } | Self::Reserve { .. } => None,
            Self::Commit { reservation_id, .. } | Self::Release { reservation_id, .. } => {
                Some(reservation_id)
            }
            Self::Error { reservation_id, .. } => reservation_id.as_deref(),
        }
    }

    /// The first integer literal of it that an envelope would round.
    pub(super) fn first_rounded(&self) -> Option<&str> {
        let request = self.request().and_then(Canonical::first_rounded);
        request.or_else(|| self.response().first_rounded())
    }

    /// Writes the member `payload` of an envelope. Members are sorted, so these are in their places.
    pub(super) fn push_canonical(&self, text: &mut String) {
        text.push('{');
        push_string(self.artifact().as_str(), text);
        text.push_str(":{");
        if let Self::Error {
            endpoint,
            http_status,
            ..
        } = self
        {
            text.push_str(r#""endpoint":"#);
            push_string(endpoint.as_str(), text);
            let _ = write!(text, r#","http_status":{http_status},"#);
        }
        if let Some(request) = self.request() {
            text.extend([r#""request":"#, request.as_str(), ","]);
        }
        if let Some(id) = self.reservation_id() {
            text.push_str(r#""reservation_id":"#);
            push_string(id, text);
            text.push(',');
        }
        text.extend([r#""response":"#, self.response().as_str(), "}}"]);
    }
}
