use std::collections::BTreeSet;

use axum::Extension;
use axum::routing::{get, post};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::api::dialect::header_map;
use crate::api::errors::Code;
use crate::api::operations::OperationId;
use crate::domain::ids::TraceId;
use crate::telemetry::pass;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const OTHER: &str = "11111111111111111111111111111111";

fn traceparent(trace_id: &str) -> String {
    format!("00-{trace_id}-b7ad6b7169203331-01")
}

fn correlation(pairs: &[(&str, String)]) -> Correlation {
    Correlation::of_request(Dialect::Service, Plane::Runtime, &header_map(pairs))
}

#[test]
fn a_valid_traceparent_wins_and_its_flags_are_kept() {
    let found = correlation(&[
        ("traceparent", traceparent(TRACE)),
        ("x-service-trace-id", OTHER.to_owned()),
    ]);
    assert_eq!(found.trace_id.as_str(), TRACE);
    assert_eq!(found.trace_flags.as_deref(), Some("01"));
    let padded = correlation(&[("traceparent", format!(" {}\t", traceparent(TRACE)))]);
    assert_eq!(padded.trace_id.as_str(), TRACE);
}

#[test]
fn a_malformed_traceparent_counts_as_absent() {
    let good = traceparent(TRACE);
    for bad in [
        good.replace("00-", "01-"),
        good.replace("00-", "ff-"),
        good.to_uppercase(),
        good.replace(TRACE, &"0".repeat(32)),
        good.replace("b7ad6b7169203331", &"0".repeat(16)),
        format!("{good}-"),
        format!("{good}-extra"),
        good[..54].to_owned(),
        good.replace('-', " "),
        good.replace("01", "0g"),
        String::new(),
    ] {
        let found = correlation(&[
            ("traceparent", bad.clone()),
            ("x-service-trace-id", OTHER.to_owned()),
        ]);
        assert_eq!(found.trace_id.as_str(), OTHER, "{bad}");
        assert_eq!(found.trace_flags, None);
    }
    let twice = correlation(&[
        ("traceparent", good.clone()),
        ("traceparent", good),
        ("x-service-trace-id", OTHER.to_owned()),
    ]);
    assert_eq!(twice.trace_id.as_str(), OTHER);
}

#[test]
fn a_malformed_trace_header_leads_to_a_fresh_id() {
    for bad in [
        "0".repeat(32),
        "a".repeat(31),
        OTHER.replace('1', "A"),
        "é".repeat(16),
        String::new(),
    ] {
        let found = correlation(&[("x-service-trace-id", bad.clone())]);
        assert_ne!(found.trace_id.as_str(), bad);
        assert!(TraceId::parse(found.trace_id.as_str()).is_some());
    }
    let alias = correlation(&[("x-cycles-trace-id", OTHER.to_owned())]);
    assert_eq!(alias.trace_id.as_str(), OTHER);
}

#[test]
fn only_the_admin_plane_accepts_a_request_id() {
    let request_id =
        |plane, headers| Correlation::of_request(Dialect::Service, plane, headers).request_id;
    let sent = header_map(&[("x-request-id", "abc-1".to_owned())]);
    assert_eq!(request_id(Plane::Admin, &sent).as_str(), "abc-1");
    let hostile = header_map(&[("x-request-id", "a b".to_owned())]);
    for (plane, headers) in [(Plane::Runtime, &sent), (Plane::Admin, &hostile)] {
        let minted = request_id(plane, headers);
        assert!(minted.as_str().starts_with("req_"), "{minted}");
    }
    let rows = OperationId::ALL.iter().map(|id| id.operation());
    let admin = rows.filter(|operation| operation.plane == Plane::Admin);
    let paths: BTreeSet<_> = admin.map(|operation| operation.path).collect();
    for path in "/v1/admin/tenants /v1/auth/introspect /v1/webhooks /v1/events".split(' ') {
        assert!(paths.contains(path), "{path}");
    }
    use OperationId::{CreateEvent, Decide, GetBalances, ListTenantEvents};
    assert_eq!(ListTenantEvents.operation().plane, Plane::Admin);
    for runtime in [CreateEvent, Decide, GetBalances] {
        assert_eq!(runtime.operation().plane, Plane::Runtime);
    }
}

fn app(origins: &CorsOrigins) -> Router {
    let router = Router::new()
        .route(
            "/ok",
            get(|Extension(context): Extension<Context>| async move {
                let correlation = context.correlation.unwrap();
                correlation.trace_id.to_string()
            }),
        )
        .route(
            "/denied",
            post(|| async {
                ApiError::new(StatusCode::FORBIDDEN, Code::Forbidden, "not yours\r\n")
            }),
        )
        .route(
            "/panic",
            get(|| async {
                if true {
                    panic!("secret detail")
                }
            }),
        )
        .route(
            "/down",
            get(|| async {
                (
                    StatusCode::SERVICE_UNAVAILABLE,
                    [(header::CONTENT_TYPE, "application/json")],
                    r#"{"status":"DOWN"}"#,
                )
            }),
        )
        .route("/large", get(|| async { StatusCode::PAYLOAD_TOO_LARGE }));
    let ids = (Dialect::Service, Plane::Runtime);
    outermost(router, ids, origins, Around((), pass))
}

async fn call(method: &str, path: &str, pairs: &[(&str, String)]) -> (Response<()>, String) {
    call_of(app(&CorsOrigins::Listed(Vec::new())), method, path, pairs).await
}

async fn call_of(
    app: Router,
    method: &str,
    path: &str,
    pairs: &[(&str, String)],
) -> (Response<()>, String) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty())
        .unwrap();
    *request.headers_mut() = header_map(pairs);
    let (parts, body) = app.oneshot(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (
        Response::from_parts(parts, ()),
        String::from_utf8(bytes.to_vec()).unwrap(),
    )
}

fn header<'a>(response: &'a Response<()>, name: &str) -> Option<&'a str> {
    let value = response.headers().get(name)?;
    Some(value.to_str().unwrap())
}

#[tokio::test]
async fn every_response_carries_both_ids_and_every_error_repeats_them() {
    for (method, path, status, code) in [
        ("GET", "/ok", 200, ""),
        ("POST", "/denied", 403, "FORBIDDEN"),
        ("GET", "/unknown", 404, "NOT_FOUND"),
        ("DELETE", "/ok", 405, "INVALID_REQUEST"),
        ("GET", "/large", 413, "INVALID_REQUEST"),
        ("GET", "/panic", 500, "INTERNAL_ERROR"),
    ] {
        let (response, body) = call(method, path, &[("traceparent", traceparent(TRACE))]).await;
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(response.headers()["x-service-trace-id"], TRACE, "{path}");
        let request_id = header(&response, "x-request-id").unwrap();
        assert!(request_id.starts_with("req_"), "{path}");
        if status >= 400 {
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(response.headers()["content-type"], "application/json");
            assert_eq!(body["error"], code, "{path}");
            assert_eq!(body["request_id"], request_id);
            assert_eq!(body["trace_id"], TRACE);
            assert!(!body["message"].as_str().unwrap().contains("secret"));
        }
    }
}

#[tokio::test]
async fn a_refusal_of_the_router_keeps_its_headers() {
    let (response, _) = call("DELETE", "/ok", &[]).await;
    assert_eq!(response.headers()["allow"], "GET,HEAD");
}

#[tokio::test]
async fn a_json_body_of_a_failed_probe_is_left_alone() {
    let (response, body) = call("GET", "/down", &[]).await;
    assert_eq!(response.status(), 503);
    assert_eq!(body, r#"{"status":"DOWN"}"#);
}

#[tokio::test]
async fn other_origins_are_admitted_only_where_configured() {
    let preflight = [
        ("origin", "https://app.example".to_owned()),
        ("access-control-request-method", "POST".to_owned()),
    ];
    let (response, _) = call("OPTIONS", "/denied", &preflight).await;
    assert_eq!(header(&response, "access-control-allow-origin"), None);

    let listed = CorsOrigins::Listed(vec!["https://app.example".to_owned()]);
    let (response, _) = call_of(app(&listed), "OPTIONS", "/denied", &preflight).await;
    assert_eq!(response.status(), 200);
    let origin = header(&response, "access-control-allow-origin");
    assert_eq!(origin, Some("https://app.example"));
    assert!(header(&response, "x-request-id").is_some());
    let allowed = header(&response, "access-control-allow-headers").unwrap();
    for name in "x-service-api-key x-admin-api-key x-idempotency-key traceparent".split(' ') {
        assert!(allowed.contains(name), "{allowed}");
    }

    let foreign = [("origin", "https://evil.example".to_owned())];
    let (response, _) = call_of(app(&listed), "GET", "/ok", &foreign).await;
    assert_eq!(header(&response, "access-control-allow-origin"), None);
    let (response, _) = call_of(app(&listed), "GET", "/ok", &preflight[..1]).await;
    let exposed = header(&response, "access-control-expose-headers").unwrap();
    assert!(exposed.contains("x-service-tenant"), "{exposed}");
}

#[test]
fn each_cause_of_a_failure_is_logged_once() {
    #[derive(Debug, thiserror::Error)]
    enum Link {
        #[error("unavailable: {0}")]
        ShowsCause(#[source] Box<Link>),
        #[error("no connection in time")]
        HidesCause(#[source] std::io::Error),
    }
    let refused = std::io::Error::other("connection refused");
    let error = Link::ShowsCause(Box::new(Link::HidesCause(refused)));
    assert_eq!(
        error_chain(&error),
        "unavailable: no connection in time: connection refused"
    );
}
