//! What an envelope attests: a request, and what came of it.

use super::artifact::{Artifact, Endpoint};
use super::schema;
use crate::domain::dialect::Dialect;
use crate::domain::json::Json;

/// The attested part of an accepted body: the members that the client sent, without absent ones, which may be `null`, and
/// without those that have no effect. What is free stays as it was sent.
pub fn attested_request(endpoint: Endpoint, body: &Json) -> Json {
    schema::kept(schema::request_of(endpoint), body)
}

/// The attested part of a response: without the reference itself and without what a replay computes anew.
pub fn attested_response(response: Json) -> Json {
    let Json::Object(mut members) = response else {
        return response;
    };
    members.retain(|(name, _)| {
        let reference = |dialect: Dialect| dialect.words().evidence_member == name;
        name != "remaining_ttl_ms" && !Dialect::ALL.into_iter().any(reference)
    });
    Json::Object(members)
}

/// A request and its outcome. Requests are as [`attested_request`] has them, responses as [`attested_response`].
#[derive(Debug, Clone)]
pub enum Payload {
    /// A decision.
    Decide {
        /// Request.
        request: Json,
        /// Response.
        response: Json,
    },
    /// A reservation, or a dry run.
    Reserve {
        /// Request.
        request: Json,
        /// Response.
        response: Json,
    },
    /// A commit.
    Commit {
        /// From the path.
        reservation_id: String,
        /// Request.
        request: Json,
        /// Response.
        response: Json,
    },
    /// A release.
    Release {
        /// From the path.
        reservation_id: String,
        /// Request.
        request: Json,
        /// Response.
        response: Json,
    },
    /// A refusal.
    Error {
        /// What was asked for.
        endpoint: Endpoint,
        /// Of the response.
        http_status: u16,
        /// Request, unless it is too long.
        request: Option<Json>,
        /// From the path, where it has one.
        reservation_id: Option<String>,
        /// Body of the error.
        response: Json,
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
    pub fn request(&self) -> Option<&Json> {
        match self {
            Self::Decide { request, .. }
            | Self::Reserve { request, .. }
            | Self::Commit { request, .. }
            | Self::Release { request, .. } => Some(request),
            Self::Error { request, .. } => request.as_ref(),
        }
    }

    /// The member `payload` of an envelope.
    pub(super) fn into_json(self) -> Json {
        let name = self.artifact().as_str();
        let mut inner = Vec::new();
        let (request, response) = match self {
            Self::Decide { request, response } | Self::Reserve { request, response } => {
                (Some(request), response)
            }
            Self::Commit {
                reservation_id,
                request,
                response,
            }
            | Self::Release {
                reservation_id,
                request,
                response,
            } => {
                inner.push(("reservation_id", Json::String(reservation_id)));
                (Some(request), response)
            }
            Self::Error {
                endpoint,
                http_status,
                request,
                reservation_id,
                response,
            } => {
                inner.push(("endpoint", Json::from(endpoint.as_str())));
                inner.push(("http_status", i64::from(http_status).into()));
                inner.extend(reservation_id.map(|id| ("reservation_id", Json::String(id))));
                (request, response)
            }
        };
        inner.extend(request.map(|request| ("request", request)));
        inner.push(("response", response));
        let inner: Json = inner.into_iter().collect();
        [(name, inner)].into_iter().collect()
    }
}
