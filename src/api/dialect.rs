//! The headers of a dialect. Requests may use either dialect's spelling, so that clients of both kinds work unchanged.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub use crate::domain::dialect::Dialect;

/// Names of headers, ready for look-ups.
#[derive(Debug)]
pub struct HeaderNames {
    /// Request header with a tenant's API key.
    pub api_key: HeaderName,
    /// Header with the trace id, on requests and responses.
    pub trace: HeaderName,
    /// Response header that names the tenant of the API key.
    pub tenant: HeaderName,
    /// Response header of a tenant's close that continues in the background.
    pub cascade: HeaderName,
    /// Response header: the time up to which a list over all tenants is complete.
    pub as_of: HeaderName,
}

static NAMES: LazyLock<[HeaderNames; 2]> = LazyLock::new(|| Dialect::ALL.map(HeaderNames::of));

impl HeaderNames {
    /// The header of the admin key, as it is written for people.
    pub const ADMIN_KEY: &'static str = "X-Admin-API-Key";

    fn of(dialect: Dialect) -> Self {
        let words = dialect.words();
        let name =
            |word: &str| HeaderName::from_bytes(word.as_bytes()).expect("the words are tokens");
        Self {
            api_key: name(words.api_key_header),
            trace: name(words.trace_header),
            tenant: name(words.tenant_header),
            cascade: name(words.cascade_header),
            as_of: name(words.as_of_header),
        }
    }
}

/// Headers that read the same in every dialect.
pub mod headers {
    use axum::http::HeaderName;

    /// Opens the admin plane.
    pub const ADMIN_KEY: HeaderName = HeaderName::from_static("x-admin-api-key");
    /// Repeats the body's idempotency key, or replaces it where the body has none.
    pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("x-idempotency-key");
    /// Response header: the request was made before, and this is its stored response.
    pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
    /// Names one HTTP request.
    pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
    /// The W3C trace context.
    pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
    /// Requests left in the window of a limiter.
    pub const RATE_LIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
    /// End of that window, in seconds since the epoch.
    pub const RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
}

impl Dialect {
    /// The names of its headers.
    pub fn header_names(self) -> &'static HeaderNames {
        &NAMES[self as usize]
    }

    /// The API key as it was sent: under this dialect's name or else under the other's. A blank value counts as absent.
    ///
    /// Where both are sent, this dialect's counts; authentication refuses two different values.
    pub fn api_key(self, headers: &HeaderMap) -> Option<&HeaderValue> {
        self.spoken(headers, |names| &names.api_key)
            .map(|(_, value)| value)
    }

    /// The name of the header in which the API key was sent, or should have been.
    pub fn api_key_header(self, headers: &HeaderMap) -> &'static str {
        let sent = self.spoken(headers, |names| &names.api_key);
        let dialect = sent.map_or(self, |(dialect, _)| dialect);
        dialect.words().api_key_header
    }

    /// The trace id as it was sent, likewise.
    pub fn trace_id(self, headers: &HeaderMap) -> Option<&HeaderValue> {
        self.spoken(headers, |names| &names.trace)
            .map(|(_, value)| value)
    }

    /// A header, and in whose spelling it was sent.
    fn spoken(
        self,
        headers: &HeaderMap,
        name: fn(&HeaderNames) -> &HeaderName,
    ) -> Option<(Self, &HeaderValue)> {
        [self, self.other()].into_iter().find_map(|dialect| {
            let value = headers.get(name(dialect.header_names()))?;
            (!is_blank(value)).then_some((dialect, value))
        })
    }
}

/// Whether a header's value counts as absent.
pub fn is_blank(value: &HeaderValue) -> bool {
    value.as_bytes().trim_ascii().is_empty()
}

/// Headers of a test, by name in any case. A name may come twice.
#[cfg(test)]
pub(super) fn header_map<V: AsRef<[u8]>>(pairs: &[(&str, V)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_spelling_is_accepted_and_the_native_one_wins() {
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
            let headers = header_map(pairs);
            let sent = |dialect: Dialect| {
                dialect
                    .api_key(&headers)
                    .map(|value| value.to_str().unwrap())
            };
            assert_eq!(sent(Dialect::Service), service, "{pairs:?}");
            assert_eq!(sent(Dialect::Cycles), cycles, "{pairs:?}");
        }
    }
}
