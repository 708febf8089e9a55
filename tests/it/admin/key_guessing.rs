//! Guessing admin keys, and requests whose headers can be read in two ways.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::TENANTS;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::raw::response_to;
use crate::harness::redis::shared;
use crate::harness::response::Response;

const HINT: &str = "; Authorization is not read)";

async fn ask(app: &TestApp, key: &str, from: &str) -> Response {
    let headers = [("X-Admin-API-Key", key), ("X-Forwarded-For", from)];
    app.call(Method::GET, TENANTS, &headers, &Value::Null).await
}

const GUESSING: [&str; 4] = ["--key-failures", "3", "--trusted-proxies", "127.0.0.0/8"];

#[tokio::test]
async fn guessing_admin_keys_is_slowed_for_that_client_and_a_right_key_is_always_served() {
    let app = TestApp::spawn_on(&shared().url(), &GUESSING).await;
    let (guesser, operator) = ("192.0.2.1", "192.0.2.2");
    // On a busy machine a pause may be over before the next guess, which then counts; the next pause is longer.
    let mut failures = 0;
    let refused = loop {
        let begun = Instant::now();
        let response = ask(&app, "wrong", guesser).await;
        if response.status != 401 {
            assert!(
                begun.elapsed() >= Duration::from_millis(250),
                "it is slowed"
            );
            break response.refused(429, "LIMIT_EXCEEDED");
        }
        failures += 1;
        assert!(failures < 10, "never slowed");
    };
    assert!(failures >= 3, "{failures}");
    // It says how long the rest of the pause is.
    let wait = refused.header("retry-after").expect("a time");
    assert!(failures > 3 || wait == "1", "{refused:?}");
    assert!(refused.header("x-ratelimit-reset").is_some(), "{refused:?}");
    assert_eq!(
        refused.at("/details"),
        &json!({"limit": 3, "present": failures})
    );
    let message = refused.text("/message");
    assert!(
        message.contains(guesser) && message.contains(&format!("try again in {wait} s")),
        "{message}"
    );
    ask(&app, ADMIN_KEY, operator).await.expect(200);
    let text = app.telemetry.render().expect("metrics");
    let counted = r#"budget_limit_refusals_total{limit="admin_key_failures"}"#;
    assert!(text.contains(counted), "{text}");
    let first = budget_authority::domain::ids::Partition::FIRST;
    let audited = app.admin_fixture().audit(first, "__unauth__");
    assert_eq!(
        audited.len(),
        failures,
        "who has to wait is not audited: {audited:?}"
    );
    // Beside the guesser, on the same address.
    let wrong = async {
        let mut statuses = Vec::new();
        for _ in 0..10 {
            statuses.push(ask(&app, "wrong", guesser).await.status);
        }
        statuses
    };
    let right = async {
        for _ in 0..50 {
            ask(&app, ADMIN_KEY, guesser).await.expect(200);
        }
    };
    let (statuses, ()) = tokio::join!(wrong, right);
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(statuses.iter().all(|status| [401, 429].contains(status)));
}

#[tokio::test]
async fn guessing_the_secret_of_an_api_key_is_slowed_for_that_client_and_the_right_one_is_served_at_once()
 {
    let app = TestApp::spawn_on(&shared().url(), &GUESSING).await;
    let right = &app.keys[0];
    let wrong = format!("{}AAAA", &right[..right.len() - 4]);
    let time_of = async |key: &str, from: &str, status: u16| {
        let headers = [("X-Service-API-Key", key), ("X-Forwarded-For", from)];
        let begun = Instant::now();
        app.call(Method::GET, "/v1/reservations", &headers, &Value::Null)
            .await
            .expect(status);
        begun.elapsed()
    };
    let (mut slowest, mut fastest) = (Duration::ZERO, Duration::MAX);
    for _ in 0..6 {
        slowest = slowest.max(time_of(&wrong, "192.0.2.1", 401).await);
        fastest = fastest.min(time_of(right, "192.0.2.1", 200).await);
    }
    let delay = Duration::from_millis(250);
    // A busy machine takes its time, too: the fastest of many counts.
    for _ in 0..20 {
        if fastest < delay {
            break;
        }
        fastest = fastest.min(time_of(right, "192.0.2.1", 200).await);
    }
    assert!(
        slowest >= delay && fastest < delay,
        "{slowest:?} {fastest:?}"
    );
    let mut fastest = Duration::MAX;
    for client in 2..20 {
        let client = format!("192.0.2.{client}");
        fastest = fastest.min(time_of(&wrong, &client, 401).await);
        if fastest < delay {
            break;
        }
    }
    assert!(fastest < delay, "another client: {fastest:?}");
}

#[tokio::test]
async fn a_request_with_two_keys_or_hosts_or_no_host_is_refused() {
    let app = TestApp::spawn().await;
    let key = &app.keys[0];
    let (host, get) = ("Host: x\r\n", "GET /v1/balances?tenant=acme HTTP/1.1\r\n");
    let api_key = format!("X-Service-API-Key: {key}\r\n");
    let admin_key = format!("X-Admin-API-Key: {ADMIN_KEY}\r\n");
    let tenants = "GET /v1/admin/tenants HTTP/1.1\r\n";
    for (head, problem) in [
        (format!("{get}{api_key}"), "Host is missing"),
        (
            format!("{get}{host}{host}{api_key}"),
            "Host is sent more than once",
        ),
        (
            format!("{get}{host}{api_key}{api_key}"),
            "X-Service-API-Key is sent more than once",
        ),
        (
            format!("{get}{host}{api_key}X-Cycles-API-Key: a\r\nX-Cycles-API-Key: b\r\n"),
            "X-Cycles-API-Key is sent more than once",
        ),
        (
            format!("{tenants}{host}{admin_key}{admin_key}"),
            "X-Admin-API-Key is sent more than once",
        ),
        (format!("{tenants}{admin_key}"), "Host is missing"),
        (
            format!("{get}{host}{api_key}X-Cycles-API-Key: a\r\n"),
            "X-Service-API-Key and X-Cycles-API-Key have different values",
        ),
        (
            format!("{get}{host}{api_key}{admin_key}"),
            "X-Service-API-Key and X-Admin-API-Key are both sent",
        ),
        (
            format!("{tenants}{host}X-Cycles-API-Key: a\r\n{admin_key}"),
            "X-Cycles-API-Key and X-Admin-API-Key are both sent",
        ),
    ] {
        let request = format!("{head}Connection: close\r\n\r\n");
        let raw = response_to(app.address, request.as_bytes()).await;
        assert_eq!(raw.error(), (400, "INVALID_REQUEST".to_owned()), "{head}");
        assert!(raw.body.contains(problem), "{head}: {raw:?}");
    }
    // HTTP/1.0 has no Host; the other dialect's header with the same value is not ambiguous.
    for head in [
        format!("GET /v1/balances?tenant=acme HTTP/1.0\r\n{api_key}"),
        format!("{get}{host}{api_key}X-Cycles-API-Key: {key}\r\nConnection: close\r\n"),
    ] {
        let raw = response_to(app.address, format!("{head}\r\n").as_bytes()).await;
        assert_eq!(raw.status, 200, "{raw:?}");
    }
}

#[tokio::test]
async fn a_bearer_token_is_refused_naming_the_header_to_use() {
    let app = TestApp::spawn().await;
    let bearer = [("Authorization", "Bearer abc")];
    for (path, header) in [
        ("/v1/balances?tenant=acme", "X-Service-API-Key"),
        (
            "/v1/reservations?tenant=acme",
            "X-Service-API-Key or X-Admin-API-Key",
        ),
        (TENANTS, "X-Admin-API-Key"),
    ] {
        let response = app.call(Method::GET, path, &bearer, &Value::Null).await;
        let message = response
            .refused(401, "UNAUTHORIZED")
            .text("/message")
            .to_owned();
        assert!(
            message.ends_with(&format!("(header {header}{HINT}")),
            "{message}"
        );
    }
    let both = [bearer[0], ("X-Service-API-Key", "nonsense")];
    let response = app
        .call(Method::GET, "/v1/balances", &both, &Value::Null)
        .await;
    assert!(
        !response.text("/message").contains("Authorization"),
        "{response:?}"
    );
}

#[tokio::test]
async fn an_unknown_path_is_404_with_an_admin_key() {
    let app = TestApp::spawn().await;
    for path in ["/v1/no/such", "/no/such", "/v1/admin/no/such", "/v2"] {
        app.get_as_admin(path).await.refused(404, "NOT_FOUND");
        let wrong = [("X-Admin-API-Key", "wrong")];
        let response = app.call(Method::GET, path, &wrong, &Value::Null).await;
        response.refused(401, "UNAUTHORIZED");
    }
}
