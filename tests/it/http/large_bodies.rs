//! Large request bodies: they are read only under a valid key and where there is memory, and who sends one that is refused gets the
//! response all the same.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{block_in_place, spawn_blocking};

use crate::harness::app::{TestApp, reserve_body};
use crate::harness::eventually;
use crate::harness::process::Replica;
use crate::harness::raw::response_to;
use crate::harness::redis::{RedisServer, shared};
use crate::harness::response::Response;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::runtime::round_trips::Monitor;

/// How often each client tries: a reset comes now and then.
const TRIES: usize = 200 / 5;
const MB: usize = 1_000_000;

/// The status of the response to a client that writes all of its request before it reads.
fn status_after_writing(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    if let Err(error) = stream.write_all(request) {
        return format!("not written: {error}");
    }
    let mut response = Vec::new();
    if let Err(error) = stream.read_to_end(&mut response) {
        return format!("not read: {error}");
    }
    let response = String::from_utf8_lossy(&response);
    response.split(' ').nth(1).unwrap_or("none").to_owned()
}

#[tokio::test]
async fn a_client_that_writes_its_whole_body_before_it_reads_gets_the_status_of_each_refusal() {
    let app = TestApp::spawn().await;
    let (address, name) = (app.address, app.names.key);
    let poor = app.add_key(0, &[("permissions", " balances:read ")]).await;
    let good = app.keys[0].clone();
    let post = |key: &str, length: usize, more: &str| {
        let head = format!(
            "POST /v1/reservations HTTP/1.1\r\nHost: x\r\n{name}: {key}\r\nContent-Length: {length}\r\n{more}\r\n"
        );
        [head.into_bytes(), vec![b' '; length]].concat()
    };
    let long_head = format!(
        "GET /live HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "y".repeat(4 * MB)
    );
    for (request, status) in [
        (post("nonsense", 4 * MB, ""), "401"),
        (post(&poor, 4 * MB, ""), "403"),
        (post(&good, 4 * MB, ""), "413"),
        (post(&good, 4 * MB, "Content-Type: text/plain\r\n"), "415"),
        (long_head.into_bytes(), "431"),
    ] {
        let tries = move || {
            let request = request.as_slice();
            let statuses = (0..TRIES).map(|_| status_after_writing(address, request));
            statuses.collect::<Vec<_>>()
        };
        let statuses = spawn_blocking(tries).await.expect("no panic");
        let others: Vec<_> = statuses.iter().filter(|it| *it != status).collect();
        assert!(others.is_empty(), "{status}: {others:?}");
    }
}

#[tokio::test]
async fn a_connection_does_not_linger_for_ever() {
    let app = TestApp::spawn().await;
    let mut stream = tokio::net::TcpStream::connect(app.address)
        .await
        .expect("a connection");
    let head = "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut response = Vec::new();
    stream
        .read_to_end(&mut response)
        .await
        .expect("the server ends its side");
    assert!(response.starts_with(b"HTTP/1.1 401"), "{response:?}");
    let begun = Instant::now();
    // A client that drips is read for two seconds, one that floods for 8 MiB.
    while stream.write_all(b"x").await.is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "still reading");
        // One drop at a time.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        begun.elapsed() > Duration::from_millis(500),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_closing_connection_reads_no_flood() {
    let app = TestApp::spawn().await;
    let mut stream = tokio::net::TcpStream::connect(app.address)
        .await
        .expect("a connection");
    let head = "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let (piece, mut sent) = (vec![b'x'; MB], 0);
    while stream.write_all(&piece).await.is_ok() {
        sent += 1;
        // The rest is in the buffers of the sockets.
        assert!(sent < 32, "it reads {sent} MB");
    }
}

#[tokio::test]
async fn a_large_body_is_not_read_before_its_key_is_checked() {
    let app = TestApp::spawn().await;
    let (good, name) = (app.keys[0].as_str(), app.names.key);
    let revoked = app.add_key(0, &[("status", "REVOKED")]).await;
    let poor = app.add_key(0, &[("permissions", " balances:read ")]).await;
    let wrong = format!("{}AAAA", &good[..good.len() - 4]);
    let declared = "Content-Length: 9000000";
    for (path, lengths) in [
        (
            "/v1/reservations",
            &[
                "Content-Length: 4097",
                declared,
                "Transfer-Encoding: chunked",
            ][..],
        ),
        ("/v1/reservations/x/commit", &[declared]),
        ("/v1/admin/budgets", &[declared]),
    ] {
        let lacking = match path.contains("admin") {
            true => "INSUFFICIENT_PERMISSIONS",
            false => "FORBIDDEN",
        };
        for (key, status, code) in [
            ("nonsense", 401, "UNAUTHORIZED"),
            (revoked.as_str(), 401, "UNAUTHORIZED"),
            (wrong.as_str(), 401, "UNAUTHORIZED"),
            (poor.as_str(), 403, lacking),
        ] {
            for length in lengths {
                // Not a byte of the body comes.
                let head =
                    format!("POST {path} HTTP/1.1\r\nHost: x\r\n{name}: {key}\r\n{length}\r\n\r\n");
                let begun = Instant::now();
                let raw = response_to(app.address, head.as_bytes()).await;
                assert_eq!(raw.error(), (status, code.to_owned()), "{path} {length}");
                assert!(
                    begun.elapsed() < Duration::from_secs(8),
                    "it waited for the body"
                );
            }
        }
    }
}

/// A decision with a body of so many bytes.
async fn decide(app: &TestApp, tenant: usize, number: usize, bytes: usize) -> Response {
    let mut body = reserve_body(&format!("k{number}"), 1);
    body["subject"] = json!({"tenant": app.callers[tenant].tenant.as_str()});
    let mut body = body.to_string();
    body.push_str(&" ".repeat(bytes - body.len()));
    let request = app.request(Method::POST, "/v1/decide").body(body);
    let request = request.header("Content-Type", "application/json");
    app.send(request.header(app.names.key, &app.keys[tenant]))
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_above_4_kib_costs_one_more_round_trip() {
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await;
    let trips = &app.store.metrics().extra_round_trips;
    let counted = || trips.with_label_values(&["large_body"]).get();
    // Warm: the scripts are loaded.
    decide(&app, 0, 0, 4_097).await.expect(200);
    let before = counted();
    let mut monitor = Monitor::on(&server);
    for (bytes, trips) in [(4_096, 1), (4_097, 2), (MB, 2)] {
        decide(&app, 0, bytes, bytes).await.expect(200);
        let seen = block_in_place(|| monitor.seen());
        assert_eq!(seen, vec!["evalsha"; trips], "{bytes}");
    }
    assert_eq!(counted() - before, 2);
}

#[tokio::test]
async fn bodies_of_one_tenant_do_not_take_the_memory_for_those_of_others() {
    let settings = [
        "--body-memory-bytes",
        "4194304",
        "--redis-timeout-ms",
        "2000",
    ];
    let app = TestApp::spawn_on(&shared().url(), &settings).await;
    let key = &app.keys[0];
    let mut stalled = tokio::net::TcpStream::connect(app.address)
        .await
        .expect("a connection");
    let head = format!(
        "POST /v1/decide HTTP/1.1\r\nHost: x\r\n{}: {key}\r\nContent-Length: {MB}\r\n\r\n{{",
        app.names.key
    );
    stalled.write_all(head.as_bytes()).await.expect("sent");
    let number = AtomicUsize::new(10_000);
    let another = async || {
        let number = number.fetch_add(1, Ordering::SeqCst);
        decide(&app, 0, number, MB).await
    };
    let refused = eventually("the tenant has no memory left", async || {
        let response = another().await;
        (response.status == 503).then_some(response)
    })
    .await;
    assert_eq!(refused.error(), (503, "INTERNAL_ERROR"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let metrics = app.telemetry.render().expect("metrics");
    let counted = r#"budget_limit_refusals_total{limit="body_memory"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    decide(&app, 0, 1_000, 4_096).await.expect(200);
    for number in 0..5 {
        decide(&app, 1, number, MB).await.expect(200);
    }
    drop(stalled);
    eventually("the memory is given back", async || {
        another().await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_that_sent_a_large_body_takes_less_than_80_kb() {
    const CONNECTIONS: usize = 200;
    let app = TestApp::spawn().await;
    let replica = Replica::start(
        &shared().url(),
        app.store.keys().prefix(),
        LONG_REDIS_TIMEOUT,
    );
    replica.ready().await;
    let head = format!(
        "POST /v1/decide HTTP/1.1\r\nHost: x\r\n{}: {}\r\nContent-Length: {MB}\r\n\r\n",
        app.names.key, app.keys[0]
    );
    let send = |number: usize| {
        let mut body = reserve_body(&format!("k{number}"), 1).to_string();
        body.push_str(&" ".repeat(MB - body.len()));
        let mut stream = TcpStream::connect(replica.address).expect("a connection");
        let request = [head.as_bytes(), body.as_bytes()].concat();
        stream.write_all(&request).expect("sent");
        let mut response = [0; 12];
        stream.read_exact(&mut response).expect("a response");
        assert_eq!(&response, b"HTTP/1.1 200");
        stream
    };
    let _first: Vec<_> = block_in_place(|| (0..20).map(send).collect());
    let before = replica.process.resident_bytes();
    let _idle: Vec<_> = block_in_place(|| (20..20 + CONNECTIONS).map(send).collect());
    let taken = replica.process.resident_bytes().saturating_sub(before) / CONNECTIONS;
    assert!(taken < 80_000, "{taken} bytes each");
}

#[tokio::test]
async fn a_body_that_would_take_long_to_read_is_refused() {
    let app = TestApp::spawn().await;
    let ask = async |body: String| {
        let request = app.request(Method::POST, "/v1/reservations").body(body);
        let request = request.header("Content-Type", "application/json");
        app.send(request.header(app.names.key, &app.keys[0])).await
    };
    for (body, problem) in [
        (
            format!("[{}0]", "[],".repeat(300_000)),
            "more than 32768 values",
        ),
        (
            format!("{}{}{}", "[".repeat(60), " ".repeat(MB), "]".repeat(60)),
            "nested too deep for its length",
        ),
    ] {
        let response = ask(body).await.refused(400, "INVALID_REQUEST");
        let message = response.text("/message");
        assert!(message.contains(problem), "{message}");
    }
    // As many values as the largest metadata and metrics can hold are fine.
    let mut body: Value = reserve_body("many", 1);
    body["metadata"] = json!({"list": vec![0; 8_000]});
    app.budget("tenant:acme", 10, 0).await;
    ask(body.to_string()).await.expect(200);
}
