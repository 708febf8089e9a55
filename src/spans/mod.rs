//! Spans for OpenTelemetry: one of each request, one of each script that it runs, one of each attempt of a delivery.
//!
//! Off unless [`start`] finds an endpoint. When off, each call site costs one load from memory.
//!
//! A request's trace is the one that its response, events and evidence name. The id of its span follows from its request id, so
//! a dispatcher can link an attempt to the request that caused it without stored data.

mod exporter;
mod ids;
mod kinds;

use std::sync::OnceLock;

use opentelemetry::Context;
use opentelemetry::trace::{SpanBuilder, Tracer as _};
use opentelemetry_sdk::trace::{SdkTracer, Span};

pub use exporter::{Export, SpansError, start};
use ids::{SpanIds, set_next};
pub use kinds::{AttemptSpan, RequestSpan, ScriptSpan, SpanCause};

/// Creates the spans of this process, while they are exported.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Whether spans are exported. Callers check this before they compute attributes.
pub fn are_exported() -> bool {
    TRACER.get().is_some()
}

/// Begins a span below a parent, with the ids that are given.
fn begin(tracer: &SdkTracer, builder: SpanBuilder, parent: &Context, ids: SpanIds) -> Span {
    set_next(Some(ids));
    let span = tracer.build_with_context(builder, parent);
    set_next(None);
    span
}
