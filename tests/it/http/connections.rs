//! Too many connections: the ones that are closed, and that probes are still served.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use budget_authority::config::ConnectionLimits;
use reqwest::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::harness::app::config;
use crate::harness::redis::shared;
use crate::harness::{eventually, http, store};
use crate::http::serving::Service;

/// Far above what these tests wait for, far below the limits of an idle connection.
const SOON: Duration = Duration::from_secs(8);

async fn service(settings: &[&str]) -> Service {
    let config = config(
        "redis://unused",
        &[&["--shutdown-delay-ms", "0"], settings].concat(),
    );
    Service::start_with(store(&shared().url()), config).await
}

async fn open(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("a connection")
}

/// Whether the server closes the connection soon.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut received = Vec::new();
    timeout(SOON, stream.read_to_end(&mut received))
        .await
        .is_ok()
}

async fn ask(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
}

/// A request that has its response when the test lets it go.
async fn hold(stream: &mut TcpStream) {
    let request = b"POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(request).await.expect("sent");
}

/// Whether there is a response with status 200 soon.
async fn is_served(stream: &mut TcpStream) -> bool {
    let mut head = [0; 12];
    let read = timeout(SOON, stream.read_exact(&mut head)).await;
    read.is_ok_and(|read| read.is_ok()) && head == *b"HTTP/1.1 200"
}

#[tokio::test]
async fn silent_connections_do_not_keep_a_probe_waiting() {
    let service = service(&["--max-connections", "50"]).await;
    for address in [service.api, service.metrics] {
        let mut silent = Vec::new();
        for number in 0..50 {
            let mut stream = open(address).await;
            if number % 2 == 0 {
                // Half a head is no request either.
                stream.write_all(b"GET /li").await.expect("sent");
            }
            silent.push(stream);
        }
        for path in ["/live", "/ready"] {
            let url = format!("http://{address}{path}");
            let response = timeout(SOON, http::get(url)).await.expect("no waiting");
            assert_eq!(response.expect("a response").status(), StatusCode::OK);
        }
        assert!(
            is_closed(&mut silent[0]).await,
            "the longest idle one made room"
        );
    }
    let metrics = format!("http://{}/metrics", service.metrics);
    let text = http::get(metrics).await.expect("a response").text().await;
    let text = text.expect("text");
    assert!(
        text.contains(r#"budget_limit_refusals_total{limit="BUDGET_MAX_CONNECTIONS"}"#),
        "{text}"
    );
}

#[tokio::test]
async fn a_busy_connection_is_not_closed_for_another() {
    let service = service(&["--max-connections", "2"]).await;
    let (mut first, mut second) = (open(service.api).await, open(service.api).await);
    hold(&mut first).await;
    hold(&mut second).await;
    let held = &service.held;
    eventually("both requests are in flight", async || {
        held.begun.load(Ordering::SeqCst) == 2
    })
    .await;
    // It waits until one of the others has its response.
    let mut third = open(service.api).await;
    ask(&mut third, "/live").await;
    for done in 1..=2 {
        held.go.notify_one();
        eventually("one has its response", async || {
            held.done.load(Ordering::SeqCst) == done
        })
        .await;
    }
    for stream in [&mut first, &mut second, &mut third] {
        assert!(is_served(stream).await);
    }
}

#[tokio::test]
async fn one_address_cannot_take_all_connections_unless_it_is_a_proxy() {
    let few = ["--max-connections-per-address", "3"];
    let alone = service(&few).await;
    let mut open_ones = Vec::new();
    for _ in 0..4 {
        let mut stream = open(alone.api).await;
        ask(&mut stream, "/live").await;
        assert!(is_served(&mut stream).await);
        open_ones.push(stream);
    }
    assert!(
        is_closed(&mut open_ones[0]).await,
        "its longest idle one made room"
    );
    // Where none of them is idle, there is no further one.
    for stream in &mut open_ones[1..] {
        let mut rest = [0; 4_096];
        let _ = stream
            .read(&mut rest)
            .await
            .expect("the rest of the response");
        hold(stream).await;
    }
    eventually("all three are at work", async || {
        alone.held.begun.load(Ordering::SeqCst) == 3
    })
    .await;
    assert!(is_closed(&mut open(alone.api).await).await);

    let behind = service(&[&few[..], &["--trusted-proxies", "127.0.0.0/8"]].concat()).await;
    let mut open_ones = Vec::new();
    for _ in 0..6 {
        open_ones.push(open(behind.api).await);
    }
    for stream in &mut open_ones {
        ask(stream, "/live").await;
        assert!(is_served(stream).await);
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_keeps_its_place() {
    let service = service(&["--max-connections-per-address", "2"]).await;
    let (mut first, mut second) = (open(service.api).await, open(service.api).await);
    for stream in [&mut first, &mut second] {
        ask(stream, "/large").await;
        assert!(is_served(stream).await);
    }
    // The rest of both responses is on its way. Neither is idle, so no more connections of the address are accepted.
    assert!(is_closed(&mut open(service.api).await).await);
    drop((first, second));
    crate::harness::eventually("there are places again", || async {
        let mut stream = open(service.api).await;
        let request = stream.write_all(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n");
        request.await.ok()?;
        is_served(&mut stream).await.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_connection_without_a_first_byte_is_closed_before_an_idle_one() {
    let mut config = config("redis://unused", &["--shutdown-delay-ms", "0"]);
    config.process.connections = ConnectionLimits {
        first: Duration::from_secs(2),
        ..ConnectionLimits::default()
    };
    let service = Service::start_with(store(&shared().url()), config).await;
    let (mut silent, mut used) = (open(service.api).await, open(service.api).await);
    ask(&mut used, "/live").await;
    assert!(is_served(&mut used).await);
    assert!(is_closed(&mut silent).await);
    ask(&mut used, "/live").await;
    let mut rest = [0; 4_096];
    assert!(used.read(&mut rest).await.expect("still open") > 0);
}

#[tokio::test]
async fn a_request_continues_after_its_client_disconnects_and_keeps_its_place() {
    let service = service(&["--max-connections-per-address", "1"]).await;
    let held = &service.held;
    let mut gone = open(service.api).await;
    hold(&mut gone).await;
    eventually("the request has begun", async || {
        held.begun.load(Ordering::SeqCst) == 1
    })
    .await;
    drop(gone);
    for _ in 0..20 {
        let mut next = open(service.api).await;
        assert!(is_closed(&mut next).await);
        // Time for the server to see that the client is gone.
        sleep(Duration::from_millis(10)).await;
    }
    held.go.notify_one();
    eventually("the place is free", async || {
        let mut next = open(service.api).await;
        ask(&mut next, "/live").await;
        is_served(&mut next).await
    })
    .await;
    assert_eq!(held.done.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_head_has_at_most_32_kib() {
    let service = service(&[]).await;
    for (length, status) in [(31 * 1024, "HTTP/1.1 200"), (33 * 1024, "HTTP/1.1 431")] {
        let mut stream = open(service.api).await;
        let head = format!(
            "GET /live HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
            "y".repeat(length)
        );
        let _ = stream.write_all(head.as_bytes()).await;
        let mut line = [0; 12];
        let read = timeout(SOON, stream.read_exact(&mut line)).await;
        read.expect("soon").expect("a response");
        assert_eq!(String::from_utf8_lossy(&line), status, "{length}");
    }
}
