//! Custom headers of deliveries.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};

use crate::domain::dialect::Dialect;
use crate::domain::fields::plain_field;
use crate::domain::record::stored_text;

/// The mask of every value.
pub const HEADER_MASK: &str = "********";

/// The names of a subscription's own headers. Responses show them with [`HEADER_MASK`] for every value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderNames(pub Vec<String>);

impl HeaderNames {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

plain_field!(HeaderNames as BTreeMap<String, String>);

stored_text!(
    HeaderNames,
    |text| serde_json::from_str(text).ok().map(Self),
    |names| serde_json::to_string(&names.0).ok()
);

impl serde::Serialize for HeaderNames {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|name| (name, HEADER_MASK)))
    }
}

/// Most headers of one subscription.
const COUNT_MAX: usize = 32;
/// Most bytes of their names and values together.
const BYTES_MAX: usize = 8 * 1024;

/// Headers that the service sets itself, that would change how a delivery is sent or read, or that open this service.
const RESERVED: [&str; 15] = [
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "host",
    "connection",
    "user-agent",
    "traceparent",
    "tracestate",
    "x-request-id",
    "expect",
    "upgrade",
    "te",
    "trailer",
    "x-admin-api-key",
];

/// Whether these may be sent. Names the header at fault, never its value.
///
/// # Errors
/// The reason.
pub fn check_headers(headers: &BTreeMap<String, SecretString>) -> Result<(), String> {
    if headers.len() > COUNT_MAX {
        return Err(format!("must have at most {COUNT_MAX} entries"));
    }
    let (mut bytes, mut seen) = (0, Vec::new());
    for (name, value) in headers {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(format!(
                "`{}` is no name of a header",
                name.escape_default()
            ));
        }
        let lower = name.to_ascii_lowercase();
        if RESERVED.contains(&lower.as_str()) || is_vendors(&lower) || lower.starts_with("proxy-") {
            return Err(format!("`{name}` is reserved for the service itself"));
        }
        if seen.contains(&lower) {
            return Err(format!("`{name}` is there twice"));
        }
        let value = value.expose_secret();
        let visible = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
        if !value.bytes().all(visible) {
            return Err(format!("`{name}` has a value that is not visible ASCII"));
        }
        bytes += name.len() + value.len();
        seen.push(lower);
    }
    match bytes > BYTES_MAX {
        true => Err(format!("must have at most {BYTES_MAX} bytes in all")),
        false => Ok(()),
    }
}

/// Whether a header is one of ours, in either dialect.
fn is_vendors(name: &str) -> bool {
    Dialect::ALL
        .iter()
        .any(|dialect| name.starts_with(&format!("x-{dialect}-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)]) -> Result<(), String> {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).into());
        check_headers(&pairs.iter().map(pair).collect())
    }

    #[test]
    fn headers_are_checked_by_name_and_never_printed() {
        assert_eq!(
            check(&[("Authorization", "Bearer a\tb"), ("X-Team", "")]),
            Ok(())
        );
        for (name, value, why) in [
            ("", "v", "no name"),
            ("a b", "v", "no name"),
            ("a:b", "v", "no name"),
            ("ä", "v", "no name"),
            ("Content-Type", "v", "itself"),
            ("HOST", "v", "itself"),
            ("transfer-encoding", "v", "itself"),
            ("X-Request-Id", "v", "itself"),
            ("X-Service-Signature", "v", "itself"),
            ("x-service-anything", "v", "itself"),
            ("Expect", "100-continue", "itself"),
            ("upgrade", "h2c", "itself"),
            ("TE", "trailers", "itself"),
            ("Trailer", "X-Sum", "itself"),
            ("Proxy-Authorization", "v", "itself"),
            ("proxy-connection", "v", "itself"),
            ("X-Admin-API-Key", "v", "itself"),
            ("X-Cycles-API-Key", "v", "itself"),
            ("A", "s3cret\r\nHost: x", "visible"),
            ("A", "s3cret\u{0}", "visible"),
            ("A", "s3crét", "visible"),
        ] {
            let refused = check(&[(name, value)]).expect_err(name);
            assert!(
                refused.contains(why) && !refused.contains("s3cr"),
                "{refused}"
            );
        }
        assert!(check(&[("A", "1"), ("a", "2")]).is_err());
        assert!(check(&[("A", &"x".repeat(8 * 1024 - 1))]).is_ok());
        assert!(check(&[("A", &"x".repeat(8 * 1024))]).is_err());
        let many: Vec<String> = (0..33).map(|n| format!("h{n}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "v")).collect();
        assert!(check(&many[..32]).is_ok() && check(&many).is_err());
    }
}
