//! Connections that break the protocol.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Target;
use crate::harness::raw::{exchange, exchange_slowly, response_to};

impl Target {
    /// A request with a good key that ends the connection; `head`: its first line and further headers.
    fn message(&self, head: &str, body: &str) -> Vec<u8> {
        let (name, key) = (self.app.names.key, &self.app.keys[0]);
        format!("{head}\r\nConnection: close\r\n{name}: {key}\r\n\r\n{body}").into_bytes()
    }

    /// A good create, of which nothing must come.
    fn create(&self) -> String {
        self.operations[0].body.to_string()
    }
}

#[tokio::test]
async fn an_incomplete_request_changes_nothing() {
    let target = Target::new().await;
    for operation in &target.operations {
        let body = operation.body.to_string();
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}",
            operation.path,
            body.len()
        );
        let whole = target.message(&head, &body);
        let body_starts = whole.len() - body.len();
        for sent in [
            1,
            4,
            20,
            body_starts - 3,
            body_starts - 2,
            body_starts,
            body_starts + 1,
            whole.len() - 1,
        ] {
            let mut stream = TcpStream::connect(target.app.address)
                .await
                .expect("a connection");
            stream.write_all(&whole[..sent]).await.expect("sent");
            stream.flush().await.expect("sent");
            // The server reads what has come before it learns that nothing follows.
            tokio::task::yield_now().await;
            drop(stream);
        }
    }
    // Time for what must not happen: nothing says that the server has read the last half.
    tokio::time::sleep(Duration::from_millis(50)).await;
    target.unchanged("half requests").await;
    target.accepts_valid_bodies().await;
}

/// Client libraries send head and body apart, and the next request on the same connection.
#[tokio::test]
async fn a_request_refused_before_its_body_arrives_leaves_the_connection_open() {
    let target = Target::new().await;
    let body = target.create();
    let (name, address) = (target.app.names.key, target.app.address);
    let balances = format!("GET /v1/balances?tenant={}", target.app.callers[0].tenant);
    let next = target.message(&format!("{balances} HTTP/1.1\r\nHost: x"), "");
    for (path, key, status) in [
        ("/v1/reservations", "nonsense", 401),
        ("/v1/balances", target.app.keys[0].as_str(), 405),
        ("/v1/nothing", target.app.keys[0].as_str(), 404),
    ] {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\n{name}: {key}\r\nContent-Length: {length}\r\n\r\n"
        );
        let parts = [head.as_bytes(), body.as_bytes(), &next];
        let responses = exchange_slowly(address, &parts).await;
        let statuses: Vec<_> = responses.iter().map(|response| response.status).collect();
        assert_eq!(statuses, [status, 200], "{path}: {responses:?}");
    }
    // A client that never sends its body gets its response all the same.
    let head = format!(
        "POST /v1/reservations HTTP/1.1\r\nHost: x\r\n{name}: nonsense\r\nContent-Length: 9\r\n\r\n"
    );
    response_to(address, head.as_bytes()).await.expect(401);
}

#[tokio::test]
async fn a_chunked_body_ends_where_its_last_chunk_says_and_within_the_limit() {
    let target = Target::new().await;
    let head = "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked";
    let body = target.create();
    let length = body.len();
    let good = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    for (what, chunks, status) in [
        ("an early end", "0\r\n\r\n".to_owned(), 400),
        (
            "a half",
            format!("{:x}\r\n{}\r\n0\r\n\r\n", length / 2, &body[..length / 2]),
            400,
        ),
        ("no length", format!("zz\r\n{body}\r\n0\r\n\r\n"), 400),
        (
            "a negative length",
            format!("-1\r\n{body}\r\n0\r\n\r\n"),
            400,
        ),
        (
            "a huge length",
            format!("ffffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
            400,
        ),
        (
            "a short length",
            format!("{:x}\r\n{body}\r\n0\r\n\r\n", length - 1),
            400,
        ),
        (
            "two megabytes",
            format!("200000\r\n{}\r\n0\r\n\r\n", " ".repeat(0x0020_0000)),
            413,
        ),
    ] {
        let raw = response_to(target.app.address, &target.message(head, &chunks)).await;
        assert_eq!(
            raw.error(),
            (status, "INVALID_REQUEST".to_owned()),
            "{what}: {raw:?}"
        );
        target.unchanged(what).await;
    }
    let tiny = "1\r\n \r\n".repeat(2_000) + &good;
    response_to(target.app.address, &target.message(head, &tiny))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_declared_length_above_the_limit_is_refused_before_the_body_arrives() {
    let target = Target::new().await;
    for operation in &target.operations {
        for length in ["1048577", "2000000000", "9223372036854775807"] {
            let head = format!(
                "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}",
                operation.path
            );
            let raw = response_to(target.app.address, &target.message(&head, "")).await;
            assert_eq!(
                raw.error(),
                (413, "INVALID_REQUEST".to_owned()),
                "{length}: {raw:?}"
            );
        }
    }
    target.unchanged("declared lengths").await;
}

#[tokio::test]
async fn lengths_that_contradict_each_other_change_nothing() {
    let target = Target::new().await;
    let body = target.create();
    let length = body.len();
    let line = "POST /v1/reservations HTTP/1.1\r\nHost: x\r\n";
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    for (headers, body) in [
        ("Content-Length: x".to_owned(), &body),
        ("Content-Length: -1".to_owned(), &body),
        ("Content-Length: +5".to_owned(), &body),
        ("Content-Length: 99999999999999999999999".to_owned(), &body),
        (
            format!("Content-Length: {length}\r\nContent-Length: 1"),
            &body,
        ),
        (format!("Content-Length: 1, {length}"), &body),
        (format!("Content-Length: {}", length - 1), &body),
        ("Transfer-Encoding: gzip".to_owned(), &body),
        ("Transfer-Encoding: chunked, gzip".to_owned(), &chunked),
        ("Content-Length:".to_owned(), &body),
        (" Folded: x".to_owned(), &body),
        ("No colon".to_owned(), &body),
        ("Space : x".to_owned(), &body),
        ("Bare: a\rb".to_owned(), &body),
        ("N\0L: x".to_owned(), &body),
        ("X: a\0b".to_owned(), &body),
    ] {
        let request = target.message(&format!("{line}{headers}"), body);
        for raw in exchange(target.app.address, &request).await {
            assert!((400..=431).contains(&raw.status), "{headers}: {raw:?}");
        }
        target.unchanged(&headers).await;
    }
}

#[tokio::test]
async fn a_line_feed_without_a_carriage_return_ends_no_line_of_a_head() {
    let target = Target::new().await;
    let (name, key) = (target.app.names.key, &target.app.keys[0]);
    for request in [
        "GET /live HTTP/1.1\nHost: x\n\n".to_owned(),
        "GET /live HTTP/1.1\r\nHost: x\n\r\n".to_owned(),
        "GET /ready HTTP/1.1\r\nHost: x\r\n\n".to_owned(),
        format!("GET /v1/balances?tenant=acme HTTP/1.1\r\nHost: x\n{name}: {key}\r\n\r\n"),
        format!(
            "GET /v1/balances?tenant=acme HTTP/1.1\r\nHost: x\r\n{name}: {key}\r\nX: y\nZ: z\r\n\r\n"
        ),
    ] {
        let raw = response_to(target.app.address, request.as_bytes()).await;
        assert_eq!(raw.status, 400, "{request:?}: {raw:?}");
    }
    // A body may hold some.
    let body = target.create().replacen(',', ",\n\n", 1);
    let head = format!(
        "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nContent-Length: {}",
        body.len()
    );
    response_to(target.app.address, &target.message(&head, &body))
        .await
        .expect(200);
}

#[tokio::test]
async fn probes_and_public_paths_need_a_host_too() {
    let target = Target::new().await;
    for path in ["/live", "/ready", "/actuator/health", "/v1/evidence/x"] {
        for (head, status) in [
            ("HTTP/1.1\r\n", 400),
            ("HTTP/1.1\r\nHost: x\r\nHost: x\r\n", 400),
            ("HTTP/1.0\r\n", 200),
            ("HTTP/1.1\r\nHost: x\r\n", 200),
        ] {
            let request = format!("GET {path} {head}Connection: close\r\n\r\n");
            let raw = response_to(target.app.address, request.as_bytes()).await;
            let named = raw.body.contains("header Host");
            match path.starts_with("/v1") {
                true => assert_eq!((raw.status, named), (400, status == 400), "{raw:?}"),
                false => assert_eq!((raw.status, named), (status, status == 400), "{raw:?}"),
            }
        }
    }
}

#[tokio::test]
async fn no_request_is_smuggled_behind_one_with_both_lengths() {
    let target = Target::new().await;
    let body = target.create();
    let key = &target.app.keys[0];
    let inner = format!(
        "POST /v1/reservations HTTP/1.1\r\nHost: x\r\n{}: {key}\r\nContent-Length: {}\r\n\r\n{body}",
        target.app.names.key,
        body.len()
    );
    let smuggled = format!("0\r\n\r\n{inner}");
    let length = smuggled.len();
    let head = format!(
        "POST /v1/decide HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nTransfer-Encoding: chunked"
    );
    let responses = exchange(target.app.address, &target.message(&head, &smuggled)).await;
    assert!(responses.len() <= 1, "{responses:?}");
    target.unchanged("a smuggled request").await;
}

#[tokio::test]
async fn bytes_that_are_not_http_get_at_most_a_refusal() {
    let target = Target::new().await;
    let many = "X: y\r\n".repeat(10_000);
    for garbage in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello \r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/reservations\r\n\r\n",
        b"GET /v1/reservations HTTP/9.9\r\n\r\n",
        b"GET /v1/ reservations HTTP/1.1\r\n\r\n",
        b"G\x7fT / HTTP/1.1\r\n\r\n",
        b"*1\r\n$8\r\nFLUSHALL\r\n\r\n",
        b"POST /v1/reservations HTTP/1.1\r\n: empty\r\n\r\n",
        format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes(),
        format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(1_000_000)).as_bytes(),
        format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "y".repeat(100_000)).as_bytes(),
        &target.message(&format!("{} / HTTP/1.1", "M".repeat(100_000)), ""),
    ] {
        let opening = String::from_utf8_lossy(&garbage[..garbage.len().min(60)]).into_owned();
        for raw in exchange(target.app.address, garbage).await {
            assert!((400..=431).contains(&raw.status), "{opening}: {raw:?}");
        }
        target.unchanged(&opening).await;
    }
    target.accepts_valid_bodies().await;
}

#[tokio::test]
async fn garbage_behind_a_good_request_does_not_spoil_its_response() {
    let target = Target::new().await;
    let (name, key) = (target.app.names.key, &target.app.keys[0]);
    let one = format!("GET /v1/balances?tenant=acme HTTP/1.1\r\nHost: x\r\n{name}: {key}\r\n\r\n");
    let bytes = format!("{one}{one}\0garbage\r\n\r\n{one}");
    let responses = exchange(target.app.address, bytes.as_bytes()).await;
    let statuses: Vec<_> = responses.iter().map(|raw| raw.status).collect();
    assert_eq!(statuses, [200, 200, 400], "{responses:?}");
    assert_eq!(responses[0].body, responses[1].body);
    target.unchanged("garbage behind").await;
}

#[tokio::test]
async fn clients_of_http_1_0_get_a_plain_response_and_the_connection_closed() {
    let target = Target::new().await;
    let body = target.create();
    let length = body.len();
    let head = |rest: &str| format!("POST /v1/reservations HTTP/1.0{rest}");
    let no_length = response_to(target.app.address, &target.message(&head(""), &body)).await;
    assert_eq!(no_length.error(), (400, "INVALID_REQUEST".to_owned()));
    target.unchanged("no length").await;
    let length = head(&format!("\r\nContent-Length: {length}"));
    let created = response_to(target.app.address, &target.message(&length, &body)).await;
    assert!(created.head.starts_with("HTTP/1.0 200"), "{created:?}");
    assert_eq!(created.header("transfer-encoding"), None);
    assert!(created.header("x-request-id").is_some());
    let bare = b"GET /v1/reservations HTTP/1.0\r\n\r\n";
    let bare = response_to(target.app.address, bare).await;
    assert_eq!(bare.error(), (401, "UNAUTHORIZED".to_owned()));
}

#[tokio::test]
async fn the_target_may_be_an_absolute_uri_whose_host_is_ignored() {
    let target = Target::new().await;
    for (line, error) in [
        (
            "GET http://evil.example/v1/balances?tenant=acme",
            (200, "none"),
        ),
        (
            "GET https://user:pw@[::1]:1/v1/balances?tenant=acme",
            (200, "none"),
        ),
        ("GET http://evil.example/no/such", (404, "NOT_FOUND")),
        ("GET http://evil.example", (200, "none")),
        (
            "GET ftp://evil.example/v1/balances?tenant=bolt",
            (403, "FORBIDDEN"),
        ),
        ("CONNECT evil.example:443", (404, "NOT_FOUND")),
        ("GET *", (404, "NOT_FOUND")),
        ("OPTIONS *", (404, "NOT_FOUND")),
    ] {
        let request = target.message(&format!("{line} HTTP/1.1\r\nHost: x"), "");
        let raw = response_to(target.app.address, &request).await;
        assert_eq!(
            raw.error(),
            (error.0, error.1.to_owned()),
            "{line}: {raw:?}"
        );
        assert!(!raw.body.contains("evil"), "{raw:?}");
        target.unchanged(line).await;
    }
}

#[tokio::test]
async fn expect_100_continue_gets_a_continue_or_a_refusal() {
    let target = Target::new().await;
    let body = target.create();
    let head = |length: usize| {
        format!(
            "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {length}"
        )
    };
    let refused = response_to(target.app.address, &target.message(&head(2_000_000), "")).await;
    assert_eq!(refused.error(), (413, "INVALID_REQUEST".to_owned()));
    target.unchanged("too much").await;
    let responses = exchange(
        target.app.address,
        &target.message(&head(body.len()), &body),
    )
    .await;
    assert_eq!(
        responses.last().map(|raw| raw.status),
        Some(200),
        "{responses:?}"
    );
}
