//! Ids of spans. The library draws them at random, unless ours are to be known elsewhere.

use std::cell::Cell;

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use sha2::{Digest, Sha256};

/// Ids of the next span; what is `None` is drawn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chosen {
    /// Its trace, if it has no parent.
    pub trace: Option<TraceId>,
    /// The span itself.
    pub span: Option<SpanId>,
}

thread_local! {
    static CHOSEN: Cell<Option<Chosen>> = const { Cell::new(None) };
}

/// Gives ids to the span that this thread begins next.
pub(super) fn choose(ids: Option<Chosen>) {
    CHOSEN.set(ids);
}

/// Takes what was chosen.
#[derive(Debug, Default)]
pub(super) struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        let chosen = CHOSEN.get().and_then(|ids| ids.trace);
        chosen.unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        let chosen = CHOSEN.get().and_then(|ids| ids.span);
        chosen.unwrap_or_else(|| self.0.new_span_id())
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
    fn chosen_ids_are_taken_and_others_drawn() {
        let ids = Ids::default();
        let span = SpanId::from(7);
        choose(Some(Chosen {
            trace: None,
            span: Some(span),
        }));
        assert_eq!(ids.new_span_id(), span);
        assert_ne!(ids.new_trace_id(), TraceId::INVALID);
        choose(None);
        assert_ne!(ids.new_span_id(), span);
    }
}
