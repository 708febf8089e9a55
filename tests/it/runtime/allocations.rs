//! How many allocations a warm request costs the service, from its first byte to the last of its response.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::harness::allocations::allocations_during;
use crate::harness::app::{TestApp, reserve_body};
use crate::harness::batches;
use crate::harness::random_clients::action;
use crate::harness::runtime_calls::tokens;

/// Requests that are sent before any is counted, so that connections are open, scripts loaded and caches filled.
const WARM: usize = 20;
/// Requests that are counted.
const COUNTED: usize = 200;

/// The most that a request may cost. Lower a bound where a change makes its request cheaper.
const RESERVE_MAX: u64 = 60;
const COMMIT_MAX: u64 = 62;
const USAGE_EVENT_MAX: u64 = 59;
/// What a request may cost more where it is a batch of its own.
const LONE_BATCH_MAX: u64 = 18;

/// How long a response may take, and how long all of them.
const ONE: Duration = Duration::from_secs(20);
const ALL: Duration = Duration::from_secs(60);

/// A request as bytes, and the status of its response.
struct Request {
    bytes: Vec<u8>,
    status: &'static [u8],
}

impl Request {
    fn new(key: &str, path: &str, body: &Value, status: &'static [u8]) -> Self {
        let body = body.to_string();
        let length = body.len();
        let text = format!(
            "POST {path} HTTP/1.1\r\nhost: budget\r\nuser-agent: test\r\naccept: */*\r\nx-service-api-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let bytes = text.into_bytes();
        Self { bytes, status }
    }
}

/// Sends requests one after the other on one connection.
fn send_all(address: SocketAddr, requests: &[Request]) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(ONE)).expect("a socket");
    stream.set_nodelay(true).expect("a socket");
    let mut response = vec![0; 64 << 10];
    for request in requests {
        stream.write_all(&request.bytes).expect("sent");
        let mut read = 0;
        // Each response of these is an object.
        while !response[..read].ends_with(b"}") {
            let more = stream.read(&mut response[read..]).expect("a response");
            assert_ne!(more, 0, "the connection ended");
            read += more;
        }
        let response = &response[..read];
        let text = || String::from_utf8_lossy(response);
        assert_eq!(response[9..12], *request.status, "{}", text());
    }
}

/// Allocations per request, without those of the first ones. The service runs on the thread of the test, the client on another one.
async fn cost(app: &TestApp, mut requests: Vec<Request>) -> u64 {
    let address = app.address;
    let counted = requests.split_off(WARM);
    let count = counted.len() as u64;
    let send = |requests: Vec<Request>| async move {
        let sent = spawn_blocking(move || send_all(address, &requests));
        let sent = timeout(ALL, sent).await.expect("in time");
        sent.expect("each has its response");
    };
    send(requests).await;
    allocations_during(send(counted)).await / count
}

fn each<T>(make: impl Fn(usize) -> T) -> Vec<T> {
    (0..WARM + COUNTED).map(make).collect()
}

#[tokio::test]
async fn a_warm_request_allocates_little() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000_000, 0).await;
    let post = |path: &str, body: Value, status| Request::new(&app.keys[0], path, &body, status);
    let mut ids = Vec::new();
    for number in 0..WARM + COUNTED {
        let reserved = app.reserve(&format!("r{number}"), 2).await;
        ids.push(reserved.text("/reservation_id").to_owned());
    }
    let reserve = each(|number| {
        let body = reserve_body(&format!("key-{number}"), 2);
        post("/v1/reservations", body, b"200")
    });
    let commit = each(|number| {
        let path = format!("/v1/reservations/{}/commit", ids[number]);
        let body = json!({"idempotency_key": format!("c{number}"), "actual": tokens(1)});
        post(&path, body, b"200")
    });
    let event = each(|number| {
        let body = json!({
            "idempotency_key": format!("e{number}"), "subject": {"tenant": "acme"}, "action": action(), "actual": tokens(1),
        });
        post("/v1/events", body, b"201")
    });
    let costs = [
        ("reserve", cost(&app, reserve).await, RESERVE_MAX),
        ("commit", cost(&app, commit).await, COMMIT_MAX),
        ("usage event", cost(&app, event).await, USAGE_EVENT_MAX),
    ];
    println!("allocations per request: {costs:?}");
    let more = if batches().lone { LONE_BATCH_MAX } else { 0 };
    for (name, cost, max) in costs {
        let max = max + more;
        assert!(cost <= max, "a {name} makes {cost} allocations, not {max}");
    }
}
