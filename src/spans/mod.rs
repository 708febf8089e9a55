//! Spans for OpenTelemetry: one of each request, one of each script that it runs, one of each attempt of a delivery.
//!
//! Off unless [`start`] finds an endpoint. Whoever would make a span then finds out with one load from memory.
//!
//! A request's trace is the one that its response, events and evidence name. The id of its span follows from its request id, so
//! a dispatcher can link an attempt to the request that caused it, and nothing is stored for that.

mod exporter;
mod ids;
mod kinds;

use std::sync::OnceLock;

use opentelemetry::Context;
use opentelemetry::trace::{SpanBuilder, Tracer as _};
use opentelemetry_sdk::trace::{SdkTracer, Span};

pub use exporter::{Export, SpansError, start};
use ids::{Chosen, choose};
pub use kinds::{AttemptSpan, Cause, RequestSpan, ScriptSpan};

/// Makes the spans of this process, while they are exported.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Begins a span below a parent, with the ids that are given.
fn begin(tracer: &SdkTracer, builder: SpanBuilder, parent: &Context, chosen: Chosen) -> Span {
    choose(Some(chosen));
    let span = tracer.build_with_context(builder, parent);
    choose(None);
    span
}
