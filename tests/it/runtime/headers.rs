//! Headers: the ids of requests and traces, the effective tenant, and the headers of every response.

use reqwest::Method;
use serde_json::json;

use crate::harness::app::{TestApp, reserve_body};
use crate::harness::eventually;
use crate::harness::redis::RedisServer;
use crate::harness::response::Response;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::runtime::auth::with_a_reservation;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const OTHER: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn is_lower_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Both ids are in the response in the form of the service, and in the body of an error.
fn check_ids(app: &TestApp, response: &Response) {
    let request_id = response.header("X-Request-Id").expect("a request id");
    let minted = request_id.strip_prefix("req_").expect("a minted id");
    assert!(minted.len() == 32 && is_lower_hex(minted), "{request_id}");
    let trace_id = response.header(app.names.trace).expect("a trace id");
    assert!(trace_id.len() == 32 && is_lower_hex(trace_id), "{trace_id}");
    assert_ne!(trace_id, "0".repeat(32));
    if !response.is_success() {
        assert_eq!(response.at("/request_id"), &json!(request_id));
        assert_eq!(response.at("/trace_id"), &json!(trace_id));
        let known = ["error", "message", "request_id", "trace_id", "details"];
        for member in response.body.as_object().expect("an object").keys() {
            assert!(known.contains(&member.as_str()), "{member}");
        }
    }
    assert_eq!(response.header("Content-Type"), Some("application/json"));
    assert_eq!(response.header(app.names.other().trace), None);
    assert_eq!(response.header(app.names.other().tenant), None);
    for limiter in ["X-RateLimit-Remaining", "X-RateLimit-Reset"] {
        assert_eq!(response.header(limiter), None, "no limiter is active");
    }
    let later = (response.status == 503).then_some("1");
    assert_eq!(response.header("Retry-After"), later, "{response:?}");
}

/// Responses of every status that one tenant can get without a failure of the service.
async fn all_statuses(app: &TestApp) -> Vec<(u16, Response)> {
    let id = with_a_reservation(app).await;
    let of = |operation: &str| format!("/v1/reservations/{id}/{operation}");
    let amount = json!({"unit": "TOKENS", "amount": 10});
    let mut event = reserve_body("event", 1);
    event.as_object_mut().expect("an object").remove("estimate");
    event["actual"] = amount.clone();
    let commit = json!({"idempotency_key": "c", "actual": amount});
    let mut foreign = reserve_body("foreign", 1);
    foreign["subject"]["tenant"] = json!("bolt");
    let key = app.keys[0].as_str();
    let send = async |method: Method, path: &str, kind: &str, body: String| {
        let request = app.request(method, path).header(app.names.key, key);
        app.send(request.header("Content-Type", kind).body(body))
            .await
    };
    let json = "application/json";
    let reservations = "/v1/reservations";
    let big = " ".repeat(1_048_577);
    vec![
        (200, app.get(reservations).await),
        (201, app.post("/v1/events", event).await),
        (400, app.post(reservations, json!({})).await),
        (403, app.post(reservations, foreign).await),
        (404, app.get("/v1/reservations/unknown").await),
        (404, app.get("/no/such/path").await),
        (
            405,
            send(Method::PUT, reservations, json, String::new()).await,
        ),
        (409, app.reserve("too-much", 1_000_000).await),
        (413, send(Method::POST, reservations, json, big).await),
        (
            415,
            send(Method::POST, reservations, "text/plain", String::new()).await,
        ),
        (200, app.post(&of("commit"), commit).await),
    ]
}

#[tokio::test]
async fn every_response_has_both_ids_and_with_a_valid_key_the_tenant() {
    for app in TestApp::spawn_both().await {
        for (status, response) in all_statuses(&app).await {
            assert_eq!(response.status, status, "{response:?}");
            check_ids(&app, &response);
            assert_eq!(
                response.header(app.names.tenant),
                Some("acme"),
                "{response:?}"
            );
        }
        for path in ["/v1/reservations", "/no/such/path"] {
            let response = app.send(app.request(Method::GET, path)).await.expect(401);
            check_ids(&app, &response);
            assert_eq!(response.header(app.names.tenant), None);
        }
        for path in ["/v1/reservations?tenant=acme", "/v1/reservations"] {
            let response = app.get_as_admin(path).await;
            check_ids(&app, &response);
            assert_eq!(response.header(app.names.tenant), None);
        }
    }
}

#[tokio::test]
async fn without_redis_the_response_is_503_with_both_ids_and_no_tenant() {
    let mut redis = RedisServer::start();
    let first = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    first.budget("tenant:acme", 1_000, 0).await;
    let app = first.replica(&["--redis-timeout-ms", "300"]).await;
    // On a busy machine a request may take longer.
    eventually("it is served", async || {
        app.reserve("before", 1).await.status == 200
    })
    .await;
    redis.kill();
    let key = &app.keys[0];
    let unseen = &app.keys[1];
    for response in [
        app.reserve("during", 1).await,
        app.get("/v1/reservations").await,
        app.get("/v1/balances?tenant=acme").await,
        app.get("/v1/reservations/unknown").await,
        app.get("/no/such/path").await,
        app.post_with(key, "/v1/decide", &json!({})).await,
        app.get_with(unseen, "/v1/reservations").await,
    ] {
        assert_eq!(response.error(), (503, "INTERNAL_ERROR"), "{response:?}");
        check_ids(&app, &response);
        assert_eq!(response.header(app.names.tenant), None);
        let message = response.text("/message");
        assert!(message.contains("temporarily unavailable"), "{message}");
        assert!(!message.to_lowercase().contains("redis"), "{message}");
    }
}

#[tokio::test]
async fn the_trace_is_that_of_a_valid_traceparent_else_of_the_trace_header() {
    for app in TestApp::spawn_both().await {
        let trace = app.names.trace;
        for (headers, expected) in [
            (vec![("traceparent", PARENT)], TRACE),
            (vec![("traceparent", PARENT), (trace, OTHER)], TRACE),
            (vec![(trace, OTHER)], OTHER),
            (vec![(app.names.other().trace, OTHER)], OTHER),
            (
                vec![(trace, TRACE), (app.names.other().trace, OTHER)],
                TRACE,
            ),
        ] {
            for path in ["/v1/reservations", "/no/such/path"] {
                let response = get_with_headers(&app, path, &headers).await;
                check_ids(&app, &response);
                assert_eq!(response.header(trace), Some(expected), "{headers:?}");
            }
        }
    }
}

async fn get_with_headers(app: &TestApp, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = app.request(Method::GET, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    app.send(request.header(app.names.key, &app.keys[0])).await
}

#[tokio::test]
async fn a_malformed_traceparent_counts_as_absent() {
    let app = TestApp::spawn().await;
    let zeros = "0".repeat(32);
    for malformed in [
        PARENT.replacen("00", "ff", 1),
        PARENT.replacen("00", "01", 1),
        PARENT.to_uppercase(),
        PARENT.replace(TRACE, &zeros),
        PARENT.replace("00f067aa0ba902b7", &zeros[..16]),
        PARENT.replace(TRACE, &TRACE[1..]),
        format!("{PARENT}-"),
        format!("{PARENT}0"),
        PARENT[..54].to_owned(),
        PARENT.replace('-', " -"),
        PARENT.replacen('4', "g", 1),
        String::new(),
        "x".repeat(4_096),
    ] {
        let headers = [
            ("traceparent", malformed.as_str()),
            (app.names.trace, OTHER),
        ];
        let response = get_with_headers(&app, "/v1/reservations", &headers)
            .await
            .expect(200);
        assert_eq!(response.header(app.names.trace), Some(OTHER), "{malformed}");
    }
    let twice = [("traceparent", PARENT), ("traceparent", PARENT)];
    let response = get_with_headers(&app, "/v1/reservations", &twice).await;
    check_ids(&app, &response);
    assert_ne!(response.header(app.names.trace), Some(TRACE));
}

#[tokio::test]
async fn a_malformed_trace_header_is_replaced_and_never_refused() {
    let app = TestApp::spawn().await;
    for malformed in [
        "0".repeat(32),
        OTHER[1..].to_owned(),
        format!("{OTHER}a"),
        OTHER.to_uppercase(),
        OTHER.replacen('a', "g", 1),
        format!("{} {}", &OTHER[..16], &OTHER[16..]),
        "\t".to_owned(),
    ] {
        let headers = [(app.names.trace, malformed.as_str())];
        let response = get_with_headers(&app, "/v1/reservations", &headers)
            .await
            .expect(200);
        check_ids(&app, &response);
        assert_ne!(response.header(app.names.trace), Some(malformed.as_str()));
    }
}

#[tokio::test]
async fn the_service_names_each_request_itself() {
    let app = TestApp::spawn().await;
    for path in ["/v1/reservations", "/no/such/path"] {
        let headers = [("X-Request-Id", "abc")];
        let response = get_with_headers(&app, path, &headers).await;
        check_ids(&app, &response);
    }
}

#[tokio::test]
async fn a_replay_has_new_ids_and_the_body_of_the_first_response() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let first = app.reserve("k", 10).await;
    let again = app.reserve("k", 10).await;
    assert_eq!(first.at("/reservation_id"), again.at("/reservation_id"));
    for name in ["X-Request-Id", app.names.trace] {
        assert_ne!(first.header(name), again.header(name));
    }
}

#[tokio::test]
async fn asking_for_options_takes_no_key() {
    let app = TestApp::spawn().await;
    for (path, status) in [("/v1/reservations", 405), ("/no/such/path", 404)] {
        let response = app.send(app.request(Method::OPTIONS, path)).await;
        assert_eq!(response.status, status, "{response:?}");
        check_ids(&app, &response);
    }
}

#[tokio::test]
async fn a_configured_origin_can_read_the_exposed_headers() {
    let origin = "https://console.example";
    let url = crate::harness::redis::shared().url();
    for dialect in ["service", "cycles"] {
        let settings = ["--cors-origins", origin, "--dialect", dialect];
        let app = TestApp::spawn_on(&url, &settings).await;
        let preflight = app.request(Method::OPTIONS, "/v1/reservations");
        let preflight = preflight.header("Origin", origin);
        let response = app
            .send(preflight.header("Access-Control-Request-Method", "POST"))
            .await;
        assert!(response.is_success(), "{response:?}");
        let allowed = response
            .header("access-control-allow-headers")
            .expect("some");
        for name in [app.names.key, app.names.trace, "traceparent"] {
            assert!(allowed.contains(&name.to_lowercase()), "{allowed}");
        }
        let response = get_with_headers(&app, "/v1/reservations", &[("Origin", origin)]).await;
        assert_eq!(response.header("access-control-allow-origin"), Some(origin));
        let exposed = response
            .header("access-control-expose-headers")
            .expect("some");
        for name in [
            app.names.tenant,
            app.names.trace,
            "X-Request-Id",
            "Retry-After",
            "Warning",
            "Idempotency-Replayed",
        ] {
            assert!(exposed.contains(&name.to_lowercase()), "{exposed}");
        }
        let stranger = [("Origin", "https://evil.example")];
        let response = get_with_headers(&app, "/v1/reservations", &stranger).await;
        assert_eq!(response.header("access-control-allow-origin"), None);
    }
}
