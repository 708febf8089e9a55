//! The limits of a request body, and what the headers say of it: the media type and the idempotency key.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};

use super::dialect::headers::IDEMPOTENCY_KEY;
use super::errors::{ApiError, Code};
use crate::domain::fields::Problems;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::Json;

/// Limits of a request body.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// The largest body.
    pub bytes: usize,
    /// From the head of the request to the end of the body.
    pub time: Duration,
    /// The largest `metadata`, as JSON text.
    pub metadata_bytes: usize,
    /// The largest `caps`, as JSON text.
    pub caps_bytes: usize,
}

/// The largest `metrics` of a commit or usage event, as JSON text. As much as `metadata`, which lies beside it in the record.
const METRICS_BYTES_MAX: usize = 16 * 1024;
/// The most entries of the `scope_filter` of an API key. Each request under the key may look at all of them.
const SCOPE_FILTER_MAX: usize = 64;
/// Bodies up to this length, in bytes, are read before the key is checked: they cost less than the round trip for that.
const SMALL_BYTES_MAX: u64 = 4 * 1024;

/// Whether a body is read only under a checked key and where there is memory for it: one that is not small, or of unknown length.
pub fn is_large(body: &Body) -> bool {
    let length = body.size_hint().upper();
    length.is_none_or(|length| length > SMALL_BYTES_MAX)
}

impl BodyLimits {
    /// Reads a body, with a bound on its values.
    ///
    /// # Errors
    /// 400.
    pub fn json(&self, bytes: &[u8]) -> Result<Json, ApiError> {
        // Twice as many as both can hold, since a value takes at least two bytes; the rest of a request has few.
        let values_max = self.metadata_bytes + METRICS_BYTES_MAX;
        Ok(Json::parse_up_to(bytes, values_max)?)
    }

    /// Checks the members that are stored as they are sent, or looked through by every request. `body_bytes` is the size
    /// of the whole body.
    ///
    /// # Errors
    /// 400 names the member, its size or number, and its limit.
    pub fn check_members(&self, body: &Json, body_bytes: usize) -> Result<(), ApiError> {
        let Json::Object(members) = body else {
            return Ok(());
        };
        for (name, value) in members {
            let (limit, label) = match name.as_ref() {
                "metadata" => (self.metadata_bytes, "metadata_bytes"),
                "metrics" => (METRICS_BYTES_MAX, "metrics_bytes"),
                "caps" => (self.caps_bytes, "caps_bytes"),
                "scope_filter" => {
                    check_entries(value)?;
                    continue;
                }
                _ => continue,
            };
            // A member is smaller than its body, so that most are not measured.
            if body_bytes > limit && value.compact().len() > limit {
                let present = value.compact().len();
                let reason = format!("must have at most {limit} bytes of JSON text, not {present}");
                let error = ApiError::from(Problems::one(name, reason));
                return Err(error.beyond(label, limit as i64, present as i64));
            }
        }
        Ok(())
    }
}

/// Checks how many entries the scope filter of an API key has. That of a subscription is not a list.
fn check_entries(filter: &Json) -> Result<(), ApiError> {
    match filter {
        Json::Array(entries) if entries.len() > SCOPE_FILTER_MAX => {
            let (limit, present) = (SCOPE_FILTER_MAX, entries.len());
            let reason = format!("must have at most {limit} entries, not {present}");
            let message = Problems::one("scope_filter", reason).to_string();
            let error = ApiError::new(StatusCode::BAD_REQUEST, Code::LimitExceeded, message);
            Err(error.beyond("scope_filter_entries", limit as i64, present as i64))
        }
        _ => Ok(()),
    }
}

/// Checks that the media type, if the sender names one, is JSON in UTF-8, and that the body is not compressed.
///
/// # Errors
/// 415.
pub fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let unsupported = |message: String| {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Err(ApiError::new(status, Code::InvalidRequest, message))
    };
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let encoding = value.to_str().unwrap_or("?").trim();
        if !["", "identity"].contains(&&*encoding.to_ascii_lowercase()) {
            return unsupported(format!(
                "Unsupported Content-Encoding: {encoding}; the body must be sent uncompressed"
            ));
        }
    }
    for value in headers.get_all(header::CONTENT_TYPE) {
        // Most senders write exactly this.
        if value == "application/json" {
            continue;
        }
        let text = value.to_str().unwrap_or("?").to_ascii_lowercase();
        let mut parts = text.split(';').map(str::trim);
        let is_json = matches!(parts.next(), Some("application/json" | ""));
        let is_utf8 = parts
            .filter_map(|part| part.strip_prefix("charset="))
            .all(|charset| matches!(charset.trim_matches('"'), "utf-8" | "utf8"));
        if !is_json || !is_utf8 {
            return unsupported(format!(
                "Unsupported Content-Type: {text}; the body must be application/json in UTF-8"
            ));
        }
    }
    Ok(())
}

/// The idempotency key of a request: the header's, the body's, or both if they are equal byte for byte.
///
/// # Errors
/// 400 when the header is empty, too long or differs from the body.
pub fn idempotency_key(
    headers: &HeaderMap,
    in_body: Option<&IdempotencyKey>,
) -> Result<Option<IdempotencyKey>, ApiError> {
    let refused = |reason: &str| ApiError::from(Problems::one("X-Idempotency-Key", reason));
    let mut lines = headers
        .get_all(IDEMPOTENCY_KEY)
        .iter()
        .map(HeaderValue::as_bytes);
    let Some(sent) = lines.next() else {
        return Ok(in_body.cloned());
    };
    let sent = std::str::from_utf8(sent)
        .ok()
        .and_then(IdempotencyKey::parse);
    let sent = sent.ok_or_else(|| refused("must be 1 to 256 characters of UTF-8"))?;
    if lines.any(|line| line != sent.as_str().as_bytes()) {
        return Err(refused("is given more than once"));
    }
    if in_body.is_some_and(|in_body| *in_body != sent) {
        return Err(refused("must equal idempotency_key of the body"));
    }
    Ok(Some(sent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::dialect::header_map;

    fn content_type(value: &str) -> HeaderMap {
        header_map(&[("content-type", value)])
    }

    #[test]
    fn json_in_utf8_is_the_only_media_type() {
        assert!(check_media_type(&HeaderMap::new()).is_ok());
        for good in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\";profile=x",
            "",
        ] {
            assert!(check_media_type(&content_type(good)).is_ok(), "{good}");
        }
        for bad in [
            "text/plain",
            "application/json; charset=latin-1",
            "application/json5",
            "application/x-www-form-urlencoded",
        ] {
            let error = check_media_type(&content_type(bad)).unwrap_err();
            assert_eq!(error.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{bad}");
        }
    }

    #[test]
    fn a_compressed_body_is_refused() {
        let encoded = |value| check_media_type(&header_map(&[("content-encoding", value)]));
        for good in ["", "identity", "Identity"] {
            assert!(encoded(good).is_ok(), "{good}");
        }
        for bad in ["gzip", "x-gzip", "br", "identity, gzip", "unknown"] {
            let error = encoded(bad).unwrap_err();
            assert_eq!(error.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{bad}");
            assert!(error.message().contains(bad), "{}", error.message());
        }
    }

    #[test]
    fn header_and_body_must_name_the_same_key() {
        let key = |text: &str| IdempotencyKey::parse(text).unwrap();
        let of = |lines: &[&str], body: Option<&str>| {
            let pairs: Vec<_> = lines
                .iter()
                .map(|line| ("x-idempotency-key", line))
                .collect();
            let key = idempotency_key(&header_map(&pairs), body.map(key).as_ref());
            key.map_err(|error| error.message())
        };
        assert_eq!(of(&[], None), Ok(None));
        assert_eq!(of(&[], Some("k")), Ok(Some(key("k"))));
        assert_eq!(of(&["k"], None), Ok(Some(key("k"))));
        assert_eq!(
            of(&["schlüssel", "schlüssel"], Some("schlüssel")),
            Ok(Some(key("schlüssel")))
        );
        for (lines, body, reason) in [
            (
                &["K"][..],
                Some("k"),
                "must equal idempotency_key of the body",
            ),
            (&[""], Some("k"), "must be 1 to 256 characters"),
            (&["k", "l"], Some("k"), "is given more than once"),
            (&[&*"k".repeat(257)], None, "must be 1 to 256 characters"),
        ] {
            let message = of(lines, body).unwrap_err();
            assert!(
                message.starts_with("Validation failed: X-Idempotency-Key: "),
                "{message}"
            );
            assert!(message.contains(reason), "{message}");
        }
    }
}
