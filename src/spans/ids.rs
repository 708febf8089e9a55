//! Ids of spans: random, unless another process must be able to compute them.

use std::cell::Cell;

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use sha2::{Digest, Sha256};

/// Ids of the next span; `None` for a random one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SpanIds {
    /// Its trace, if it has no parent.
    pub trace: Option<TraceId>,
    /// The span itself.
    pub span: Option<SpanId>,
}

thread_local! {
    static NEXT: Cell<Option<SpanIds>> = const { Cell::new(None) };
}

/// Sets the ids of the span that this thread begins next.
pub(super) fn set_next(ids: Option<SpanIds>) {
    NEXT.set(ids);
}

/// Uses the ids that were set, or random ones.
#[derive(Debug, Default)]
pub(super) struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        let next = NEXT.get().and_then(|ids| ids.trace);
        next.unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        let next = NEXT.get().and_then(|ids| ids.span);
        next.unwrap_or_else(|| self.0.new_span_id())
    }
}

/// The span of the request with this id.
pub(super) fn of_request(request_id: &str) -> SpanId {
    let digest = Sha256::digest(request_id);
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    SpanId::from_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_of_a_request_follows_from_its_id() {
        assert_eq!(
            of_request("req_1").to_string(),
            "dfe7be6cee3b99ca",
            "other processes rely on it"
        );
        assert_ne!(of_request("req_1"), of_request("req_2"));
    }

    #[test]
    fn given_ids_are_used_and_others_are_random() {
        let ids = Ids::default();
        let span = SpanId::from(7);
        set_next(Some(SpanIds {
            trace: None,
            span: Some(span),
        }));
        assert_eq!(ids.new_span_id(), span);
        assert_ne!(ids.new_trace_id(), TraceId::INVALID);
        set_next(None);
        assert_ne!(ids.new_span_id(), span);
    }
}
