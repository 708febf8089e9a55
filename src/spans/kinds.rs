//! The three kinds of spans.

use std::future::Future;

use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt,
    TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::Span;

use super::ids::{SpanIds, of_request};
use super::{TRACER, begin};

tokio::task_local! {
    /// The span of the request that this task works for.
    static REQUEST: Context;
}

/// The trace and the request that a span belongs to.
#[derive(Debug, Clone, Copy)]
pub struct SpanCause<'a> {
    /// The trace, 32 hexadecimal digits.
    pub trace_id: &'a str,
    /// The request, if one is the cause.
    pub request_id: Option<&'a str>,
    /// Flags of the `traceparent` that came with the request, two hexadecimal digits.
    pub trace_flags: Option<&'a str>,
}

impl SpanCause<'_> {
    fn trace(&self) -> Option<TraceId> {
        TraceId::from_hex(self.trace_id).ok()
    }

    /// A span of this trace in another process, with the flags that came.
    fn remote(&self, span: SpanId) -> Option<SpanContext> {
        let flags = u8::from_str_radix(self.trace_flags?, 16).ok()?;
        let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
        Some(SpanContext::new(
            self.trace()?,
            span,
            flags,
            true,
            TraceState::NONE,
        ))
    }
}

fn below(parent: Option<SpanContext>) -> Context {
    let context = Context::new();
    match parent {
        Some(parent) => context.with_remote_span_context(parent),
        None => context,
    }
}

/// The span of an HTTP request.
pub struct RequestSpan(Span);

impl RequestSpan {
    /// Begins one; `None` while no spans are exported. `parent_id`: the caller's span.
    pub fn begin(
        cause: SpanCause<'_>,
        parent_id: Option<u64>,
        method: &str,
        route: Option<&str>,
    ) -> Option<Self> {
        let tracer = TRACER.get()?;
        let name = match route {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        };
        let mut attributes = vec![KeyValue::new("http.request.method", method.to_owned())];
        attributes.extend(route.map(|route| KeyValue::new("http.route", route.to_owned())));
        let request_id = cause.request_id.unwrap_or_default();
        attributes.push(KeyValue::new("budget.request_id", request_id.to_owned()));
        let builder = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Server)
            .with_attributes(attributes);
        let parent = parent_id.and_then(|id| cause.remote(SpanId::from(id)));
        let ids = SpanIds {
            trace: cause.trace(),
            span: Some(of_request(request_id)),
        };
        Some(Self(begin(tracer, builder, &below(parent), ids)))
    }

    /// Runs the work of the request, so that the spans of its scripts are children of this one.
    pub async fn around<F: Future>(&self, work: F) -> F::Output {
        let context = below(Some(self.0.span_context().clone()));
        REQUEST.scope(context, work).await
    }

    /// Ends it with the response.
    pub fn end(mut self, status: u16, tenant: Option<&str>) {
        let code = KeyValue::new("http.response.status_code", i64::from(status));
        self.0.set_attribute(code);
        if let Some(tenant) = tenant {
            let tenant = KeyValue::new("budget.tenant", tenant.to_owned());
            self.0.set_attribute(tenant);
        }
        if status >= 500 {
            self.0.set_status(Status::error(""));
        }
        self.0.end();
    }
}

/// The span of a script's call.
pub struct ScriptSpan(Span);

impl ScriptSpan {
    /// Begins one below the request that this task works for; `None` without one, and while no spans are exported.
    pub fn begin(script: &'static str) -> Option<Self> {
        let tracer = TRACER.get()?;
        let started = REQUEST.try_with(|request| {
            let attributes = [
                KeyValue::new("db.system.name", "redis"),
                KeyValue::new("db.operation.name", "EVALSHA"),
                KeyValue::new("db.stored_procedure.name", script),
            ];
            let builder = SpanBuilder::from_name(script)
                .with_kind(SpanKind::Client)
                .with_attributes(attributes);
            begin(tracer, builder, request, SpanIds::default())
        });
        started.ok().map(Self)
    }

    /// Ends it; `error`: why there is no reply.
    pub fn end(mut self, error: Option<String>) {
        if let Some(error) = error {
            self.0.set_status(Status::error(error));
        }
        self.0.end();
    }
}

/// The span of an attempt of a delivery.
pub struct AttemptSpan(Span);

impl AttemptSpan {
    /// Begins one, linked to the request that caused the event; `None` while no spans are exported.
    pub fn begin(cause: SpanCause<'_>, delivery: &str, webhook: &str, number: i64) -> Option<Self> {
        let tracer = TRACER.get()?;
        let trace = cause.trace()?;
        let attributes = [
            KeyValue::new("budget.delivery_id", delivery.to_owned()),
            KeyValue::new("budget.webhook_id", webhook.to_owned()),
            KeyValue::new("budget.attempt", number),
        ];
        let request = cause.request_id.map(of_request);
        let links = request.map(|span| {
            let flags = TraceFlags::SAMPLED;
            let request = SpanContext::new(trace, span, flags, true, TraceState::NONE);
            Link::with_context(request)
        });
        let builder = SpanBuilder::from_name("webhook attempt")
            .with_kind(SpanKind::Client)
            .with_attributes(attributes)
            .with_links(links.into_iter().collect());
        // Without flags, the sampler decides by the trace id, as it did for the request.
        let parent = request.and_then(|span| cause.remote(span));
        let ids = SpanIds {
            trace: Some(trace),
            span: None,
        };
        Some(Self(begin(tracer, builder, &below(parent), ids)))
    }

    /// Its id, as the receiver gets it.
    pub fn id(&self) -> u64 {
        u64::from_be_bytes(self.0.span_context().span_id().to_bytes())
    }

    /// Ends it. `status`: of the response, if one came; `reason`: the outcome of the attempt, a word.
    pub fn end(mut self, status: Option<i64>, reason: &'static str) {
        if let Some(status) = status {
            let code = KeyValue::new("http.response.status_code", status);
            self.0.set_attribute(code);
        }
        if reason != "success" {
            self.0.set_status(Status::error(reason));
        }
        self.0.end();
    }
}
