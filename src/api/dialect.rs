//! Every vendor word of the wire. Nothing else spells one out.
//!
//! The wire exists under two vendors' names, and a deployment speaks one of them for the life of its data: stored bodies and
//! events contain the words. Requests may use either spelling of a header, so that clients of both kinds work unchanged.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub use crate::config::Dialect;

/// The words of one dialect.
#[derive(Debug)]
pub struct Words {
    /// Request header with a tenant's API key.
    pub api_key_header: HeaderName,
    /// Header with the trace id, on requests, responses and deliveries.
    pub trace_header: HeaderName,
    /// Response header that names the tenant of the API key.
    pub tenant_header: HeaderName,
    /// Response header of a tenant's close that goes on in the background.
    pub cascade_header: HeaderName,
    /// Delivery header with the event's id.
    pub event_id_header: HeaderName,
    /// Delivery header with the event's type.
    pub event_type_header: HeaderName,
    /// Delivery header with the signature.
    pub signature_header: HeaderName,
    /// First half of the `User-Agent` of deliveries.
    pub delivery_agent: &'static str,

    /// The evidence reference in an answer or an error. In a reservation's record the map is `evidence` in every dialect.
    pub evidence_member: &'static str,
    /// The URL inside every evidence reference.
    pub evidence_url_member: &'static str,
    /// Begin of a signing key's time, in the key set.
    pub key_not_before_member: &'static str,
    /// End of a signing key's time, in the key set.
    pub key_expiry_member: &'static str,
    /// `schema_version` of evidence envelopes.
    pub evidence_schema: &'static str,
    /// What signer identities start with.
    pub signer_did: &'static str,
    /// Path of the key set.
    pub key_set_path: &'static str,

    /// `source` of the runtime plane's events.
    pub runtime_source: &'static str,
    /// `source` of the admin plane's events.
    pub admin_source: &'static str,
    /// `source` of the dispatcher's own events.
    pub dispatcher_source: &'static str,

    /// Why a bulk operation skips a row that is gone.
    pub gone_reason: &'static str,
    /// What API keys start with.
    pub api_key_prefix: &'static str,
    /// What an API key may start with: those that are given out, and those reserved for tests.
    pub api_key_prefixes: &'static [&'static str],
}

/// `source` of the events of a sweep, in every dialect.
pub const SWEEPER_SOURCE: &str = "expiry-sweeper";
/// The evidence map in a reservation's record, in every dialect.
pub const EVIDENCE_MAP_MEMBER: &str = "evidence";

/// Headers that read the same in every dialect.
pub mod headers {
    use axum::http::HeaderName;

    /// Opens the admin plane.
    pub const ADMIN_KEY: HeaderName = HeaderName::from_static("x-admin-api-key");
    /// Repeats the body's idempotency key, or stands for it where the body has none.
    pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("x-idempotency-key");
    /// Names one HTTP request.
    pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
    /// The W3C trace context.
    pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
    /// Requests left in the window of a limiter.
    pub const RATE_LIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
    /// End of that window, in seconds since the epoch.
    pub const RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
}

static SERVICE: Words = Words {
    api_key_header: HeaderName::from_static("x-service-api-key"),
    trace_header: HeaderName::from_static("x-service-trace-id"),
    tenant_header: HeaderName::from_static("x-service-tenant"),
    cascade_header: HeaderName::from_static("x-service-cascade-status"),
    event_id_header: HeaderName::from_static("x-service-event-id"),
    event_type_header: HeaderName::from_static("x-service-event-type"),
    signature_header: HeaderName::from_static("x-service-signature"),
    delivery_agent: "service-events",
    evidence_member: "evidence",
    evidence_url_member: "service_evidence_url",
    key_not_before_member: "service_nbf_ms",
    key_expiry_member: "service_exp_ms",
    evidence_schema: "service-evidence/v0.1",
    signer_did: "did:service:",
    key_set_path: "/v1/.well-known/service-jwks.json",
    runtime_source: "service-server",
    admin_source: "service-admin",
    dispatcher_source: "service-events",
    gone_reason: "MISSING",
    api_key_prefix: "sk_live_",
    api_key_prefixes: &["sk_live_", "sk_test_"],
};

static CYCLES: Words = Words {
    api_key_header: HeaderName::from_static("x-cycles-api-key"),
    trace_header: HeaderName::from_static("x-cycles-trace-id"),
    tenant_header: HeaderName::from_static("x-cycles-tenant"),
    cascade_header: HeaderName::from_static("x-cycles-cascade-status"),
    event_id_header: HeaderName::from_static("x-cycles-event-id"),
    event_type_header: HeaderName::from_static("x-cycles-event-type"),
    signature_header: HeaderName::from_static("x-cycles-signature"),
    delivery_agent: "cycles-server-events",
    evidence_member: "cycles_evidence",
    evidence_url_member: "cycles_evidence_url",
    key_not_before_member: "cycles_nbf_ms",
    key_expiry_member: "cycles_exp_ms",
    evidence_schema: "cycles-evidence/v0.1",
    signer_did: "did:cycles:",
    key_set_path: "/v1/.well-known/cycles-jwks.json",
    runtime_source: "cycles-server",
    admin_source: "cycles-admin",
    dispatcher_source: "cycles-events",
    gone_reason: "ALREADY_DELETED",
    api_key_prefix: "cyc_live_",
    api_key_prefixes: &["cyc_live_", "cyc_test_"],
};

impl Dialect {
    /// The words of this dialect.
    pub fn words(self) -> &'static Words {
        match self {
            Self::Service => &SERVICE,
            Self::Cycles => &CYCLES,
        }
    }

    /// The dialect whose request headers are understood beside this one's.
    pub fn other(self) -> Self {
        match self {
            Self::Service => Self::Cycles,
            Self::Cycles => Self::Service,
        }
    }

    /// The API key as it was sent: under this dialect's name or else under the other's. A blank value counts as absent.
    ///
    /// Where both are sent, this dialect's alone counts, even if it is wrong and the other right.
    pub fn api_key(self, headers: &HeaderMap) -> Option<&HeaderValue> {
        self.header(headers, |words| &words.api_key_header)
    }

    /// The trace id as it was sent, likewise.
    pub fn trace_id(self, headers: &HeaderMap) -> Option<&HeaderValue> {
        self.header(headers, |words| &words.trace_header)
    }

    fn header(self, headers: &HeaderMap, name: fn(&Words) -> &HeaderName) -> Option<&HeaderValue> {
        [self, self.other()].into_iter().find_map(|dialect| {
            headers
                .get(name(dialect.words()))
                .filter(|value| !is_blank(value))
        })
    }
}

/// Whether a header's value counts as absent.
pub fn is_blank(value: &HeaderValue) -> bool {
    value.as_bytes().trim_ascii().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn either_spelling_is_understood_and_the_native_one_wins() {
        for (pairs, service, cycles) in [
            (&[("X-Service-API-Key", "s")][..], Some("s"), Some("s")),
            (&[("X-Cycles-API-Key", "c")], Some("c"), Some("c")),
            (
                &[("X-Cycles-API-Key", "c"), ("x-service-api-key", "s")],
                Some("s"),
                Some("c"),
            ),
            (
                &[("X-Service-API-Key", "  "), ("X-Cycles-API-Key", "c")],
                Some("c"),
                Some("c"),
            ),
            (&[("X-Service-API-Key", "")], None, None),
            (&[], None, None),
        ] {
            let headers = headers(pairs);
            let sent = |dialect: Dialect| {
                dialect
                    .api_key(&headers)
                    .map(|value| value.to_str().unwrap())
            };
            assert_eq!(sent(Dialect::Service), service, "{pairs:?}");
            assert_eq!(sent(Dialect::Cycles), cycles, "{pairs:?}");
        }
    }

    #[test]
    fn no_dialect_borrows_a_word_of_the_other() {
        let shown = |dialect: Dialect| format!("{:?}", dialect.words()).to_lowercase();
        assert!(!shown(Dialect::Service).contains("cyc"));
        assert!(!shown(Dialect::Cycles).contains("service"));
    }
}
