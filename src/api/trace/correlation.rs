//! The ids that tie responses, log lines and stored events to a request.

use axum::http::{HeaderMap, HeaderValue};

use crate::api::dialect::{Dialect, headers};
use crate::api::operation::Plane;
use crate::domain::ids::{RequestId, TraceId};

/// The ids of a request. Part of every request that went through [`outermost`](super::outermost).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correlation {
    /// This HTTP request.
    pub request_id: RequestId,
    /// The operation that it belongs to.
    pub trace_id: TraceId,
    /// The flags of the `traceparent` that came with the request, two hexadecimal digits; `None` if no valid one came.
    pub trace_flags: Option<String>,
    /// The caller's span in the same `traceparent`.
    pub parent_id: Option<u64>,
}

impl Correlation {
    /// Reads the headers of a request. What is malformed counts as absent; no request is refused for it.
    pub fn of_request(dialect: Dialect, plane: Plane, headers: &HeaderMap) -> Self {
        let parent = traceparent(headers);
        let sent = || dialect.trace_id(headers).and_then(text);
        let named = || sent().and_then(TraceId::parse);
        let trace_id = parent.as_ref().map(|parent| parent.trace_id.clone());
        let trace_id = trace_id.or_else(named);
        let (parent_id, trace_flags) = parent.map(|parent| (parent.id, parent.flags)).unzip();
        Self {
            request_id: request_id(plane, headers),
            trace_id: trace_id.unwrap_or_else(TraceId::mint),
            trace_flags,
            parent_id,
        }
    }

    /// Fresh ids, for a router that is used without its outermost layer.
    pub fn mint() -> Self {
        Self {
            request_id: RequestId::mint(),
            trace_id: TraceId::mint(),
            trace_flags: None,
            parent_id: None,
        }
    }
}

/// The runtime plane names each request itself. The admin plane takes a well-formed name from its caller: dashboards find
/// their own requests by it in the audit log.
pub(super) fn request_id(plane: Plane, headers: &HeaderMap) -> RequestId {
    let sent = match plane {
        Plane::Runtime => None,
        Plane::Admin => headers.get(headers::REQUEST_ID),
    };
    let taken = sent.and_then(text).and_then(RequestId::parse);
    taken.unwrap_or_else(RequestId::mint)
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

/// What a `traceparent` says.
struct Traceparent {
    trace_id: TraceId,
    id: u64,
    flags: String,
}

/// A valid one: version 00, lower case, no id all zero.
fn traceparent(headers: &HeaderMap) -> Option<Traceparent> {
    let mut lines = headers.get_all(headers::TRACEPARENT).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return None;
    };
    let parts: Vec<&str> = text(line)?.split('-').collect();
    let &["00", trace_id, parent_id, flags] = parts.as_slice() else {
        return None;
    };
    let is_hex_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_hex = |text: &str, length| text.len() == length && text.bytes().all(is_hex_digit);
    let is_valid = is_hex(parent_id, 16) && is_hex(flags, 2);
    let id = u64::from_str_radix(parent_id, 16);
    let id = id.ok().filter(|id| is_valid && *id != 0)?;
    Some(Traceparent {
        trace_id: TraceId::parse(trace_id)?,
        id,
        flags: flags.to_owned(),
    })
}
