//! The outermost layer: puts request id and trace id on every response and into every error.

pub mod correlation;

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tower_http::cors::{AllowOrigin, CorsLayer, Vary};
use tracing::{Instrument, Level, debug, enabled, error, info_span, warn};

use self::correlation::Correlation;
use super::context::Context;
use super::dialect::{Dialect, headers};
use super::errors::ApiError;
use super::operation::Plane;
use crate::config::CorsOrigins;
use crate::spans::{self, RequestSpan, SpanCause};
use crate::telemetry::{Around, Next, Served, error_chain, known_method};

/// Target of the lines of the access log.
const ACCESS_LOG: &str = "access_log";

/// Wraps routes of a plane: ids, error bodies, CORS, a response even when a handler panics, and inside of these another layer.
pub fn outermost<S, F, Fut>(
    router: Router,
    (dialect, plane): (Dialect, Plane),
    origins: &CorsOrigins,
    inner: Around<S, F>,
) -> Router
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, Request, Next) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Served> + Send + 'static,
{
    let ids = (dialect, plane);
    let caught = |inner: Around<S, F>, request, next| catch_panics(inner.call(request, next));
    match cors(dialect, origins) {
        // One layer in place of two costs a request less.
        None => router.layer(Around((ids, inner), move |(ids, inner), request, next| {
            correlate(ids, request, move |request| caught(inner, request, next))
        })),
        Some(cors) => router
            .layer(Around(inner, caught))
            .layer(cors)
            .layer(Around(ids, |ids, request, next: Next| {
                correlate(ids, request, |request| async {
                    Ok(next.run(request).await)
                })
            })),
    }
}

async fn correlate<F: Future<Output = Served>>(
    (dialect, plane): (Dialect, Plane),
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Served {
    let correlation = Correlation::of_request(dialect, plane, request.headers());
    let logged = enabled!(target: ACCESS_LOG, Level::DEBUG).then(|| {
        let route = request.extensions().get::<MatchedPath>().cloned();
        (Instant::now(), request.method().clone(), route)
    });
    let span = info_span!("request", request.id = %correlation.request_id, trace.id = %correlation.trace_id);
    let exported = exported(&request, &correlation);
    let context = request.extensions_mut().get_or_insert_default::<Context>();
    context.correlation = Some(correlation.clone());
    let response = next(request).instrument(span.clone());
    let Ok(response) = match &exported {
        Some(exported) => exported.around(response).await,
        None => response.await,
    };
    if let Some(exported) = exported {
        let tenant = response.headers().get(&dialect.header_names().tenant);
        let tenant = tenant.and_then(|tenant| tenant.to_str().ok());
        exported.end(response.status().as_u16(), tenant);
    }
    let response = span.in_scope(|| finish(response, dialect, &correlation));
    if let Some(request) = logged {
        log_access(request, response.status(), &correlation);
    }
    Ok(response)
}

/// Logs one line for each request with `BUDGET_LOG=info,access_log=debug`. Off by default: each line is a write to standard error.
/// It holds the route, not the path, and nothing that a client chose freely: no query, no header, no body.
fn log_access(
    (begun, method, route): (Instant, Method, Option<MatchedPath>),
    status: StatusCode,
    correlation: &Correlation,
) {
    let duration_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    let method = known_method(&method);
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let status = status.as_u16();
    debug!(
        target: ACCESS_LOG,
        {
            http.method = method,
            http.route = route,
            http.status = status,
            duration_us,
            request.id = %correlation.request_id,
            trace.id = %correlation.trace_id,
        },
        "{method} {route} responded {status} after {duration_us} µs"
    );
}

/// The span that is exported; it holds the route, not the path.
fn exported(request: &Request, correlation: &Correlation) -> Option<RequestSpan> {
    if !spans::are_exported() {
        return None;
    }
    let cause = SpanCause {
        trace_id: correlation.trace_id.as_str(),
        request_id: Some(correlation.request_id.as_str()),
        trace_flags: correlation.trace_flags.as_deref(),
    };
    let route = request.extensions().get::<MatchedPath>();
    RequestSpan::begin(
        cause,
        correlation.parent_id,
        known_method(request.method()),
        route.map(MatchedPath::as_str),
    )
}

/// Writes the body of an error, and the headers that every response has.
fn finish(response: Response, dialect: Dialect, correlation: &Correlation) -> Response {
    let (mut parts, mut body) = response.into_parts();
    let error = parts
        .extensions
        .remove::<ApiError>()
        .or_else(|| bare_error(&parts));
    if let Some(error) = error {
        log_failure(&error, correlation);
        body = Body::from(error.body(&correlation.request_id, &correlation.trace_id));
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
    }
    let names = dialect.header_names();
    let mut insert = |name: &header::HeaderName, id: &str| {
        if let Ok(value) = HeaderValue::from_str(id) {
            parts.headers.insert(name, value);
        }
    };
    insert(&headers::REQUEST_ID, correlation.request_id.as_str());
    insert(&names.trace, correlation.trace_id.as_str());
    Response::from_parts(parts, body)
}

/// An error that the router or a layer answered itself, with a status and without a JSON body.
fn bare_error(parts: &axum::http::response::Parts) -> Option<ApiError> {
    let failed = parts.status.is_client_error() || parts.status.is_server_error();
    let content_type = parts
        .headers
        .get(header::CONTENT_TYPE)
        .map(HeaderValue::as_bytes);
    let has_json = content_type.is_some_and(|value| value.starts_with(b"application/json"));
    (failed && !has_json).then(|| ApiError::of_status(parts.status))
}

/// The ids are part of the line: the span is there only from level INFO on.
fn log_failure(error: &ApiError, correlation: &Correlation) {
    let Some(cause) = error.cause() else { return };
    let chain = error_chain(cause);
    let status = error.status().as_u16();
    let (request_id, trace_id) = (&correlation.request_id, &correlation.trace_id);
    if error.status() == StatusCode::SERVICE_UNAVAILABLE {
        warn!(http.status = status, request.id = %request_id, trace.id = %trace_id, error = %chain,
            "responded {status}: {chain}");
    } else {
        error!(http.status = status, request.id = %request_id, trace.id = %trace_id, error = %chain,
            "responded {status}: {chain}");
    }
}

/// As a layer of `tower_http` does, which would be one more around each route.
pub async fn catch_panics(response: impl Future<Output = Served>) -> Served {
    let mut response = pin!(response);
    let caught = poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| response.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| Poll::Ready(Ok(panicked(panic))))
    });
    caught.await
}

fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let message = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = message.unwrap_or_else(|| "no message".to_owned());
    ApiError::internal(format!("a handler panicked: {message}")).into_response()
}

/// The CORS policy. No origin may call the API unless origins are configured.
fn cors(dialect: Dialect, origins: &CorsOrigins) -> Option<CorsLayer> {
    let allowed = match origins {
        CorsOrigins::Any => AllowOrigin::any(),
        CorsOrigins::Listed(origins) if origins.is_empty() => return None,
        CorsOrigins::Listed(origins) => AllowOrigin::list(
            origins
                .iter()
                .filter_map(|origin| HeaderValue::from_str(origin).ok()),
        ),
    };
    let (names, other) = (dialect.header_names(), dialect.other().header_names());
    let sent = [
        headers::ADMIN_KEY,
        names.api_key.clone(),
        other.api_key.clone(),
        names.trace.clone(),
        other.trace.clone(),
        headers::REQUEST_ID,
        headers::IDEMPOTENCY_KEY,
        headers::TRACEPARENT,
        header::HeaderName::from_static("tracestate"),
        header::CONTENT_TYPE,
        header::IF_NONE_MATCH,
    ];
    let read = [
        headers::REQUEST_ID,
        names.trace.clone(),
        names.tenant.clone(),
        names.cascade.clone(),
        names.as_of.clone(),
        headers::RATE_LIMIT_REMAINING,
        headers::RATE_LIMIT_RESET,
        headers::REPLAYED,
        header::RETRY_AFTER,
        header::ETAG,
        header::WARNING,
    ];
    let methods = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    let cors = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods(methods)
        .allow_headers(sent)
        .expose_headers(read)
        .max_age(Duration::from_secs(3600));
    Some(match origins {
        // The response is the same for all, so caches need not keep one for each.
        CorsOrigins::Any => cors.vary(Vary::list([])),
        CorsOrigins::Listed(_) => cors,
    })
}

#[cfg(test)]
mod tests;
