//! Paths and queries, sent byte by byte: no client library rewrites them on the way.

use super::Target;
use crate::harness::raw::{Raw, response_to};

impl Target {
    /// Sends a request line as it is, under a good key, with a body for `POST`.
    async fn ask(&self, method: &str, path: &str) -> Raw {
        let body = match method {
            "POST" => r#"{"idempotency_key":"k"}"#,
            _ => "",
        };
        let (name, key) = (self.app.names.key, &self.app.keys[0]);
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{name}: {key}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        response_to(self.app.address, request.as_bytes()).await
    }

    async fn check(&self, method: &str, path: &str, status: u16, code: &str) -> Raw {
        let what = format!("{method} {path:.80}");
        let raw = self.ask(method, path).await;
        assert_eq!(raw.error(), (status, code.to_owned()), "{what}: {raw:?}");
        let response: serde_json::Value = serde_json::from_str(&raw.body).unwrap_or_default();
        self.check_echo(&what, response["message"].as_str().unwrap_or_default());
        self.unchanged(&what).await;
        raw
    }
}

#[tokio::test]
async fn an_id_is_any_text_of_up_to_128_characters() {
    let target = Target::new().await;
    let own = target.app.callers[0].partition;
    let prefix = target.app.store.keys().prefix().to_owned();
    let long = |piece: &str, count| piece.repeat(count);
    for (id, status, code) in [
        (long("x", 129), 400, "INVALID_REQUEST"),
        (long("%C3%A9", 129), 400, "INVALID_REQUEST"),
        (long("x", 30_000), 400, "INVALID_REQUEST"),
        ("%FF".to_owned(), 400, "INVALID_REQUEST"),
        ("a%C3".to_owned(), 400, "INVALID_REQUEST"),
        (long("x", 128), 404, "NOT_FOUND"),
        (long("%C3%A9", 128), 404, "NOT_FOUND"),
        ("%00".to_owned(), 404, "NOT_FOUND"),
        ("a%0D%0ASet-Cookie:%20x".to_owned(), 404, "NOT_FOUND"),
        ("%1B%5B2J".to_owned(), 404, "NOT_FOUND"),
        ("%E2%80%AEx".to_owned(), 404, "NOT_FOUND"),
        ("%2F".to_owned(), 404, "NOT_FOUND"),
        ("a%2Fcommit".to_owned(), 404, "NOT_FOUND"),
        ("..%2F..%2Fbalances".to_owned(), 404, "NOT_FOUND"),
        ("%2e%2e".to_owned(), 404, "NOT_FOUND"),
        ("..".to_owned(), 404, "NOT_FOUND"),
        (".".to_owned(), 404, "NOT_FOUND"),
        ("%".to_owned(), 404, "NOT_FOUND"),
        ("%zz".to_owned(), 404, "NOT_FOUND"),
        ("*".to_owned(), 404, "NOT_FOUND"),
        ("a%20b".to_owned(), 404, "NOT_FOUND"),
        ("%7B05f%7D".to_owned(), 404, "NOT_FOUND"),
        (format!("{prefix}:meta"), 404, "NOT_FOUND"),
        (format!("r{own}_"), 404, "NOT_FOUND"),
        (format!("r{own}_%7D:tenant:acme"), 404, "NOT_FOUND"),
        ("r3ff_x".to_owned(), 404, "NOT_FOUND"),
        ("r400_x".to_owned(), 404, "NOT_FOUND"),
    ] {
        let of = |operation: &str| format!("/v1/reservations/{id}{operation}");
        target.check("GET", &of(""), status, code).await;
    }
    for operation in ["commit", "release", "extend"] {
        for id in [long("x", 129), "%FF".to_owned(), String::new()] {
            let path = format!("/v1/reservations/{id}/{operation}");
            target.check("POST", &path, 400, "INVALID_REQUEST").await;
        }
    }
}

#[tokio::test]
async fn an_overlong_id_is_refused_after_the_body_and_before_the_idempotency_key() {
    let target = Target::new().await;
    let id = "x".repeat(129);
    let (name, key) = (target.app.names.key, &target.app.keys[0]);
    for operation in ["commit", "release", "extend"] {
        let whole = match operation {
            "commit" => r#"{"idempotency_key":"k","actual":{"unit":"TOKENS","amount":1}}"#,
            "release" => r#"{"idempotency_key":"k"}"#,
            _ => r#"{"idempotency_key":"k","extend_by_ms":1}"#,
        };
        for (headers, body, status, message) in [
            (
                "Content-Type: text/plain",
                whole,
                415,
                "Content-Type: text/plain; the body must be application/json in UTF-8",
            ),
            ("Content-Length: 2000000", "", 413, "larger than"),
            ("", "{", 400, "Malformed request body"),
            ("", "{}", 400, "idempotency_key: is required"),
            ("", whole, 400, "reservation_id"),
            ("X-Idempotency-Key: other", whole, 400, "reservation_id"),
        ] {
            let length = match headers.contains("Length") {
                true => String::new(),
                false => format!("Content-Length: {}\r\n", body.len()),
            };
            let more = if headers.is_empty() { "" } else { "\r\n" };
            let request = format!(
                "POST /v1/reservations/{id}/{operation} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                 {name}: {key}\r\n{headers}{more}{length}\r\n{body}"
            );
            let raw = response_to(target.app.address, request.as_bytes()).await;
            let what = format!("{operation} {headers} {body}: {raw:?}");
            assert_eq!(
                raw.error(),
                (status, "INVALID_REQUEST".to_owned()),
                "{what}"
            );
            assert!(raw.body.contains(message), "{what}");
        }
    }
}

#[tokio::test]
async fn a_path_is_not_normalized() {
    let target = Target::new().await;
    for path in [
        "//",
        "/.",
        "/v1/",
        "/v1/balances/",
        "/v1/balances/..",
        "/v1/reservations/../balances",
        "/v1/./balances?tenant=acme",
        "//v1/balances?tenant=acme",
        "/v1//balances?tenant=acme",
        "/V1/balances?tenant=acme",
        "/v1/%62alances?tenant=acme",
        "/v1%2Fbalances?tenant=acme",
        "/v1/balances%00",
        "/v1/balances;x=y?tenant=acme",
        "/v1/reservations/x/commit/y",
        "/metrics",
        "/%2e%2e/%2e%2e/etc/passwd",
    ] {
        target.check("GET", path, 404, "NOT_FOUND").await;
    }
    for method in ["PUT", "DELETE", "PATCH", "TRACE", "FROB", "get", "A"] {
        target
            .check(method, "/v1/balances", 405, "INVALID_REQUEST")
            .await;
    }
    // The router itself refuses a method of a document.
    let document = target.check("PUT", "/docs", 405, "INVALID_REQUEST").await;
    let message = r#""message":"The path does not have this method""#;
    assert!(document.body.contains(message), "{document:?}");
}

#[tokio::test]
async fn hostile_values_of_a_query_are_refused_or_find_nothing() {
    let target = Target::new().await;
    let id = target.operations[2]
        .path
        .split('/')
        .nth(3)
        .expect("an id")
        .to_owned();
    for list in ["/v1/reservations?", "/v1/balances?tenant=acme&"] {
        for query in [
            "limit=0",
            "limit=-1",
            "limit=201",
            "limit=0x10",
            "limit=1e2",
            "limit=%00",
            "limit=99999999999999999999999",
            "limit=1&limit=1",
            "cursor=%00",
            "cursor=..%2F",
            "cursor=AAAA&cursor=AAAA",
            "cursor=%F0%9F%92%A9",
            "agent=a&agent=b",
        ] {
            let path = format!("{list}{query}");
            target.check("GET", &path, 400, "INVALID_REQUEST").await;
        }
        for query in [
            "agent=%00",
            "agent=..%2F..",
            "agent=%FF",
            "agent=a%0Ab",
            "agent=%7Bx%7D",
            "agent=a/workspace:b",
            "agent=*",
            "toolset=%F0%9F%92%A9",
        ] {
            let raw = target.ask("GET", &format!("{list}{query}")).await;
            assert_eq!(raw.status, 200, "{query}: {raw:?}");
            assert!(raw.body.contains("\":[]"), "{query}: {raw:?}");
            assert!(!raw.body.contains(&id));
        }
    }
    for query in [
        "status=%1B%5B2J",
        "sort_by=x%0d%0a",
        "sort_dir=%E2%80%AE",
        "from=%00",
        "to=9999999999999999999",
        "expires_from=2026-01-01T00:00:00%2B99:99",
        "finalized_to=+",
        "from=2026-01-01T00:00:00Z%00",
        "to=-99999-01-01T00:00:00Z",
    ] {
        let path = format!("/v1/reservations?{query}");
        let status = if query.ends_with("=+") { 200 } else { 400 };
        let code = if status == 200 {
            "none"
        } else {
            "INVALID_REQUEST"
        };
        target.check("GET", &path, status, code).await;
    }
    for tenant in ["%00", "acme%00", "%FF", "acme%2F", "*", "ACME"] {
        let path = format!("/v1/balances?tenant={tenant}");
        target.check("GET", &path, 403, "FORBIDDEN").await;
    }
    let long = format!("/v1/reservations?status={}", "x".repeat(30_000));
    let raw = target.check("GET", &long, 400, "INVALID_REQUEST").await;
    assert!(raw.body.len() < 1_000, "{raw:?}");
    let many = format!("/v1/reservations?{}", "a=b&".repeat(7_000));
    target.ask("GET", &many).await.expect(200);
}
