//! The ids of a request, as its headers have them.

use axum::http::{HeaderMap, HeaderValue};
use smol_str::SmolStr;

use crate::api::dialect::{Dialect, headers};
use crate::api::operation::Plane;
use crate::domain::ids::{RequestId, TraceId, is_hex};

/// The ids of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correlation {
    /// This HTTP request.
    pub request_id: RequestId,
    /// The operation that it belongs to.
    pub trace_id: TraceId,
    /// The flags of the `traceparent` that came with the request, two hexadecimal digits; `None` if no valid one came.
    pub trace_flags: Option<SmolStr>,
    /// The caller's span in the same `traceparent`.
    pub parent_id: Option<u64>,
}

impl Correlation {
    /// Reads the headers of a request. Malformed ones count as absent; no request is refused for them.
    pub fn of_request(dialect: Dialect, plane: Plane, headers: &HeaderMap) -> Self {
        let (trace_id, parent) = traceparent(headers).unzip();
        let (parent_id, trace_flags) = parent.unzip();
        let sent = || dialect.trace_id(headers).and_then(trimmed);
        let trace_id = trace_id.or_else(|| sent().and_then(TraceId::parse));
        Self {
            request_id: request_id(plane, headers),
            trace_id: trace_id.unwrap_or_else(TraceId::mint),
            trace_flags,
            parent_id,
        }
    }
}

/// The runtime plane names each request itself. The admin plane takes a well-formed name from its caller: dashboards find
/// their own requests by it in the audit log.
fn request_id(plane: Plane, headers: &HeaderMap) -> RequestId {
    let sent = match plane {
        Plane::Runtime => None,
        Plane::Admin => headers.get(headers::REQUEST_ID),
    };
    let taken = sent.and_then(trimmed).and_then(RequestId::parse);
    taken.unwrap_or_else(RequestId::mint)
}

fn trimmed(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

/// Trace id, parent id and flags of a valid `traceparent`: version 00, lower case, no id all zero.
fn traceparent(headers: &HeaderMap) -> Option<(TraceId, (u64, SmolStr))> {
    let mut lines = headers.get_all(headers::TRACEPARENT).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return None;
    };
    let parts: Vec<&str> = trimmed(line)?.split('-').collect();
    let &["00", trace_id, parent_id, flags] = parts.as_slice() else {
        return None;
    };
    let is_valid = is_hex(parent_id, 16) && is_hex(flags, 2);
    let id = u64::from_str_radix(parent_id, 16);
    let id = id.ok().filter(|id| is_valid && *id != 0)?;
    Some((TraceId::parse(trace_id)?, (id, flags.into())))
}
