//! Clients that are silent in a head, a body or a response.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use budget_authority::config::ConnectionLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::harness::app::{TestApp, config};
use crate::harness::raw::response_to;
use crate::harness::redis::shared;
use crate::harness::store;
use crate::http::serving::{LARGE, Service};

const SHORT: Duration = Duration::from_millis(300);
/// Far above any limit of these tests, far below the defaults.
const SOON: Duration = Duration::from_secs(8);

async fn service(connections: ConnectionLimits) -> Service {
    let grace = SHORT.as_millis().to_string();
    let settings = ["--shutdown-delay-ms", "0", "--shutdown-grace-ms", &grace];
    let mut config = config("redis://unused", &settings);
    config.process.connections = connections;
    Service::start_with(store(&shared().url()), config).await
}

/// Sends bytes and reads until the server closes.
async fn until_closed(address: SocketAddr, sent: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(sent.as_bytes()).await.expect("sent");
    let mut received = Vec::new();
    let closed = timeout(SOON, stream.read_to_end(&mut received)).await;
    let _ = closed.expect("the server closes");
    received
}

/// The head of a create and the beginning of its body.
fn half_a_create(app: &TestApp, key: &str) -> String {
    format!(
        "POST /v1/reservations HTTP/1.1\r\nHost: x\r\n{}: {key}\r\nContent-Length: 100\r\n\r\n{{\"idem",
        app.names.key
    )
}

#[tokio::test]
async fn a_body_that_stalls_is_refused_and_its_connection_closed() {
    let app = TestApp::spawn_on(&shared().url(), &["--body-timeout-ms", "300"]).await;
    let begun = Instant::now();
    let stalled = half_a_create(&app, &app.keys[0]);
    let raw = response_to(app.address, stalled.as_bytes()).await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(raw.error(), (400, "INVALID_REQUEST".to_owned()));
    assert!(raw.body.contains("did not arrive within 300 ms"), "{raw:?}");
    assert_eq!(raw.header("connection"), Some("close"));
    // Without a valid key, even that is not revealed.
    let strange = half_a_create(&app, "sk_live_000aaaaaaaaaaaa");
    let raw = response_to(app.address, strange.as_bytes()).await;
    assert_eq!(raw.error(), (401, "UNAUTHORIZED".to_owned()));
    // Drop by drop is no better.
    let mut stream = TcpStream::connect(app.address).await.expect("a connection");
    stream.write_all(stalled.as_bytes()).await.expect("sent");
    let (mut reading, mut writing) = stream.into_split();
    let dripping = tokio::spawn(async move {
        while writing.write_all(b" ").await.is_ok() {
            // One drop at a time.
            sleep(Duration::from_millis(20)).await;
        }
    });
    let mut received = Vec::new();
    let closed = timeout(SOON, reading.read_to_end(&mut received)).await;
    let _ = closed.expect("the server closes");
    dripping.abort();
    assert!(received.starts_with(b"HTTP/1.1 400"), "{received:?}");
}

#[tokio::test]
async fn an_incomplete_head_closes_its_connection() {
    let limits = ConnectionLimits {
        head: SHORT,
        ..ConnectionLimits::default()
    };
    let service = service(limits).await;
    for half in ["G", "GET /peer HTTP/1.1\r\nHost: x\r\n"] {
        assert_eq!(until_closed(service.api, half).await, b"", "{half}");
    }
    // Also after a request on the same connection.
    let then_half = "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut stream = TcpStream::connect(service.api).await.expect("a connection");
    stream.write_all(then_half.as_bytes()).await.expect("sent");
    let mut first = vec![0; 4_096];
    assert!(stream.read(&mut first).await.expect("an answer") > 0);
    stream.write_all(b"GET /pe").await.expect("sent");
    let mut rest = Vec::new();
    let closed = timeout(SOON, stream.read_to_end(&mut rest)).await;
    let _ = closed.expect("the server closes");
    assert_eq!(rest, b"");
}

#[tokio::test]
async fn idle_connections_and_long_requests_stay_open() {
    let limits = ConnectionLimits {
        head: Duration::from_millis(100),
        response: Duration::from_millis(100),
        ..ConnectionLimits::default()
    };
    let service = service(limits).await;
    let mut stream = TcpStream::connect(service.api).await.expect("a connection");
    // Longer than a head may take: so is each pause of this client.
    sleep(SHORT).await;
    // A handler that thinks longer than a head may take, a body that takes its time, and pauses between them.
    let slow_body = "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab";
    for (request, rest) in [
        ("GET /peer HTTP/1.1\r\nHost: x\r\n\r\n", ""),
        ("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", ""),
        (slow_body, "cd"),
        ("GET /peer HTTP/1.1\r\nHost: x\r\n\r\n", ""),
    ] {
        stream.write_all(request.as_bytes()).await.expect("sent");
        if !rest.is_empty() {
            // Within a body.
            sleep(SHORT).await;
            stream.write_all(rest.as_bytes()).await.expect("sent");
        }
        let mut received = vec![0; 4_096];
        let read = timeout(SOON, stream.read(&mut received)).await;
        let read = read.expect("in time").expect("still open");
        assert!(received[..read].starts_with(b"HTTP/1.1 200"), "{request}");
        // Between two requests.
        sleep(SHORT).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_response_is_disconnected() {
    let limits = ConnectionLimits {
        response: SHORT,
        ..ConnectionLimits::default()
    };
    let service = service(limits).await;
    let ask = b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(service.api).await.expect("a connection");
    stream.write_all(ask).await.expect("sent");
    // A client that reads nothing for longer than it may.
    sleep(SHORT * 4).await;
    let mut received = Vec::new();
    let _ = timeout(SOON, stream.read_to_end(&mut received)).await;
    assert!(received.len() < LARGE, "{}", received.len());
    // One that reads slowly, but reads, gets it all, though that takes longer than a pause may. A stall of the machine is no
    // pause of the client, so it may take seconds here.
    let limits = ConnectionLimits {
        response: Duration::from_secs(4),
        ..ConnectionLimits::default()
    };
    let longest = limits.response;
    let service = self::service(limits).await;
    let begun = Instant::now();
    let mut stream = TcpStream::connect(service.api).await.expect("a connection");
    stream.write_all(ask).await.expect("sent");
    let (mut sum, mut pauses, mut part) = (0, 0, vec![0; 256 << 10]);
    loop {
        match stream.read(&mut part).await.expect("still open") {
            0 => break,
            read => sum += read,
        }
        if sum > pauses * (LARGE / 64) {
            pauses += 1;
            // A slow client.
            sleep(Duration::from_millis(100)).await;
        }
    }
    assert!(sum > LARGE, "{sum}");
    assert!(begun.elapsed() > longest, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stalled_body_does_not_delay_shutdown() {
    let service = service(ConnectionLimits::default()).await;
    let mut stream = TcpStream::connect(service.api).await.expect("a connection");
    let stalled = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(stalled).await.expect("sent");
    // Nothing says that the server has begun to read the body.
    sleep(Duration::from_millis(50)).await;
    service.shutdown.begin();
    let ended = timeout(SOON, service.running).await;
    let ended = ended.expect("its grace is short").expect("no panic");
    ended.expect("an orderly end");
}
