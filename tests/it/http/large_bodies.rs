//! Large request bodies: who sends one that is refused gets the response all the same.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;

use crate::harness::app::TestApp;

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
    // Neither a client that drips nor one that floods is read for longer.
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
