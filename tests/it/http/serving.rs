//! The server itself: probes, metrics, plain HTTP/1 clients, and a shutdown that loses nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Extension;
use axum::routing::{get, post};
use budget_authority::api::Planes;
use budget_authority::api::context::Context;
use budget_authority::api::state::Handles;
use budget_authority::config::ServeConfig;
use budget_authority::serve::{Listeners, ServeError, run};
use budget_authority::shutdown::Shutdown;
use budget_authority::store::{Keys, Store, StoreMetrics};
use budget_authority::telemetry::Telemetry;
use reqwest::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::harness::app::{ANY, config};
use crate::harness::http;
use crate::harness::process::Replica;
use crate::harness::redis::{RedisServer, shared};
use crate::harness::{eventually, patient, store};

pub(crate) struct Service {
    pub(crate) api: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) running: JoinHandle<Result<(), ServeError>>,
    /// The requests in progress at `/held`.
    pub(crate) held: Arc<HeldRequests>,
}

/// Requests that the test holds.
#[derive(Default)]
pub(crate) struct HeldRequests {
    pub(crate) begun: AtomicUsize,
    pub(crate) done: AtomicUsize,
    /// Lets one of them go.
    pub(crate) go: Notify,
}

impl HeldRequests {
    async fn hold(&self) -> &'static str {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.go.notified().await;
        self.done.fetch_add(1, Ordering::SeqCst);
        "done"
    }
}

impl Service {
    async fn start(store: Store, delay: Duration) -> Self {
        let delay = delay.as_millis().to_string();
        // The store that is given counts, not the one of the configuration.
        let config = config("redis://unused", &["--shutdown-delay-ms", &delay]);
        Self::start_with(store, config).await
    }

    pub(crate) async fn start_with(store: Store, mut config: ServeConfig) -> Self {
        config.process.metrics_listen = ANY.parse().ok();
        let listeners = Listeners::bind(&config).await.expect("free ports");
        let address = |listener: &tokio::net::TcpListener| listener.local_addr().expect("bound");
        let (api, metrics) = (
            address(&listeners.api),
            address(listeners.metrics.as_ref().expect("bound")),
        );
        let held = Arc::new(HeldRequests::default());
        let holding = Arc::clone(&held);
        let router = Router::new()
            .route("/held", post(async move || holding.hold().await))
            .route(
                "/peer",
                get(async |Extension(context): Extension<Context>| {
                    context.peer.expect("a peer").to_string()
                }),
            )
            .route("/slow", get(slow))
            .route("/large", get(async || vec![b'x'; LARGE]))
            .route("/body", post(async |body: Bytes| body.len().to_string()));
        let planes = Planes {
            api: router,
            admin: None,
            operations: Router::new(),
            state: Handles::shared(&config, &store, config.webhooks.egress()),
        };
        let shutdown = Shutdown::new();
        let running = tokio::spawn({
            let shutdown = shutdown.clone();
            let telemetry = Telemetry::new().expect("distinct names");
            async move { run(listeners, planes, store, telemetry, &config, shutdown).await }
        });
        Self {
            api,
            metrics,
            shutdown,
            running,
            held,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.api)
    }

    /// A request in flight, which has its response when the test lets it go.
    async fn hold(&self) -> JoinHandle<reqwest::Result<reqwest::Response>> {
        let running = tokio::spawn(http::client().post(self.url("/held")).send());
        eventually("the request is in flight", async || {
            self.held.begun.load(Ordering::SeqCst) == 1
        })
        .await;
        running
    }

    async fn status(&self, path: &str) -> StatusCode {
        http::get(self.url(path))
            .await
            .expect("a response")
            .status()
    }
}

/// More than the buffers of a connection hold, in bytes.
pub(crate) const LARGE: usize = 32 << 20;

async fn slow() -> &'static str {
    // A handler that takes its time.
    tokio::time::sleep(Duration::from_millis(300)).await;
    "done"
}

/// Sends raw bytes on a connection of its own and reads until the server closes it.
async fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("text");
    response
}

#[tokio::test]
async fn readiness_follows_redis_and_liveness_does_not() {
    let mut server = RedisServer::start();
    let service = Service::start(store(&server.url()), Duration::ZERO).await;
    for path in [
        "/ready",
        "/actuator/health",
        "/actuator/health/readiness",
        "/live",
        "/actuator/health/liveness",
    ] {
        let response = eventually("it is up", async || {
            let response = http::get(service.url(path)).await.ok()?;
            (response.status() == StatusCode::OK).then_some(response)
        })
        .await;
        assert_eq!(response.text().await.expect("text"), r#"{"status":"UP"}"#);
    }
    server.kill();
    for path in ["/ready", "/actuator/health", "/actuator/health/readiness"] {
        let response = http::get(service.url(path)).await.expect("a response");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(response.text().await.expect("text"), r#"{"status":"DOWN"}"#);
    }
    assert_eq!(service.status("/live").await, StatusCode::OK);
    server.restart();
    eventually("it is ready again", || async {
        service.status("/ready").await == StatusCode::OK
    })
    .await;
}

#[tokio::test]
async fn it_is_not_ready_where_an_acl_forbids_scripts() {
    let server = RedisServer::start();
    let service = Service::start(store(&server.url()), Duration::ZERO).await;
    let becomes = async |status: StatusCode| {
        eventually("readiness follows the ACL", || async {
            service.status("/ready").await == status
        })
        .await;
    };
    becomes(StatusCode::OK).await;
    let user = |rules: &[&str]| {
        let words = [&["ACL", "SETUSER", "default"][..], rules].concat();
        server.run::<()>(&words);
    };
    user(&["-evalsha", "-eval"]);
    becomes(StatusCode::SERVICE_UNAVAILABLE).await;
    user(&["+evalsha", "+eval"]);
    becomes(StatusCode::OK).await;
}

#[tokio::test]
async fn shutdown_finishes_requests_in_flight_and_closes_idle_connections() {
    let service = Service::start(store(&shared().url()), Duration::ZERO).await;
    let mut idle = TcpStream::connect(service.api).await.expect("a connection");
    idle.write_all(b"GET /peer HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .expect("sent");
    let mut head = [0; 12];
    idle.read_exact(&mut head).await.expect("a response");
    assert_eq!(&head, b"HTTP/1.1 200");
    let slow = service.hold().await;
    service.shutdown.begin();
    service.held.go.notify_one();
    let response = slow.await.expect("no panic").expect("a response");
    assert_eq!(response.text().await.expect("text"), "done");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.expect("closed in order");
    service
        .running
        .await
        .expect("no panic")
        .expect("an orderly end");
    TcpStream::connect(service.api)
        .await
        .expect_err("nobody listens");
}

#[tokio::test]
async fn during_the_shutdown_delay_it_is_not_ready_and_accepts_connections() {
    let delay = Duration::from_secs(6);
    let service = Service::start(store(&shared().url()), delay).await;
    assert_eq!(service.status("/ready").await, StatusCode::OK);
    let mut idle = TcpStream::connect(service.api).await.expect("a connection");
    let begun = Instant::now();
    service.shutdown.begin();
    eventually("readiness is red", || async {
        let red = StatusCode::SERVICE_UNAVAILABLE;
        service.status("/ready").await == red
    })
    .await;
    let mut served_until = Duration::ZERO;
    loop {
        let sent = begun.elapsed();
        // Each of these is a connection of its own.
        match http::get(service.url("/peer")).await {
            Ok(response) => {
                assert_eq!(response.headers()["connection"], "close");
                served_until = sent;
            }
            Err(refused) => {
                assert!(refused.is_connect(), "{refused}");
                assert!(begun.elapsed() >= delay, "after {:?}", begun.elapsed());
                break;
            }
        }
        // The pace of the requests; which of them are refused is measured.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(served_until > delay / 2, "{served_until:?}");
    // An open connection may still be used for a moment: none is closed while a request is in flight.
    idle.write_all(b"GET /peer HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .expect("sent");
    let mut response = String::new();
    idle.read_to_string(&mut response).await.expect("text");
    assert!(response.starts_with("HTTP/1.1 200"), "{response:?}");
    service
        .running
        .await
        .expect("no panic")
        .expect("an orderly end");
}

#[tokio::test]
async fn an_immediate_shutdown_waits_only_for_requests() {
    let service = Service::start(store(&shared().url()), Duration::from_secs(600)).await;
    let slow = service.hold().await;
    service.shutdown.begin_at_once();
    service.held.go.notify_one();
    let response = slow.await.expect("no panic").expect("a response");
    assert_eq!(response.text().await.expect("text"), "done");
    let ended = tokio::time::timeout(Duration::from_secs(20), service.running).await;
    let outcome = ended.expect("no delay").expect("no panic");
    outcome.expect("an orderly end");
}

#[tokio::test]
async fn ctrl_c_ends_a_replica_without_delay() {
    let settings = ["--shutdown-delay-ms", "600000"];
    let prefix = format!("t{:016x}", rand::random::<u64>());
    let mut replica = Replica::start(&shared().url(), &prefix, &settings);
    replica.ready().await;
    replica.process.interrupt();
    assert!(replica.process.ended(Duration::from_secs(20)).await);
}

#[tokio::test]
async fn old_clients_get_a_response_without_chunks_and_a_closed_connection() {
    let service = Service::start(store(&shared().url()), Duration::ZERO).await;
    let old = raw(
        service.api,
        "GET /live HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(
        old.starts_with("HTTP/1.0 200") && old.contains("content-length: 15"),
        "{old}"
    );
    assert!(
        !old.to_lowercase().contains("chunked") && old.ends_with(r#"{"status":"UP"}"#),
        "{old}"
    );
    let close = raw(
        service.api,
        "GET /live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(close.starts_with("HTTP/1.1 200"), "{close}");
    let peer = http::get(service.url("/peer"))
        .await
        .expect("a response")
        .text()
        .await;
    assert!(peer.expect("text").starts_with("127.0.0.1:"));
}

#[tokio::test]
async fn metrics_have_their_own_address_and_labels_from_closed_sets() {
    let service = Service::start(store(&shared().url()), Duration::ZERO).await;
    service.status("/live").await;
    let url = service.url("/peer");
    let deleted = http::client().delete(url).send().await.expect("a response");
    assert_eq!(deleted.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(service.status("/no/such/path").await, StatusCode::NOT_FOUND);
    assert_eq!(service.status("/metrics").await, StatusCode::NOT_FOUND);
    let metrics = format!("http://{}/metrics", service.metrics);
    let text = http::get(metrics)
        .await
        .expect("a response")
        .text()
        .await
        .expect("text");
    for count in [
        r#"budget_http_requests_total{operation="GET /live",status="2xx"} 1"#,
        r#"budget_http_requests_total{operation="POST /v1/decide",status="5xx"} 0"#,
        r#"budget_http_requests_total{operation="unmatched",status="4xx"} 3"#,
        r#"budget_http_request_duration_seconds_count{operation="other"} 4"#,
    ] {
        assert!(text.contains(count), "{count}: {text}");
    }
    assert!(
        !text.contains("no/such") && !text.contains("DELETE /peer"),
        "{text}"
    );
}

#[tokio::test]
async fn data_of_another_dialect_stops_the_service() {
    let first = store(&shared().url());
    first.secret().await.expect("it starts");
    let metrics = StoreMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    let keys = Keys::new(first.keys().prefix()).expect("a prefix");
    let other = Store::new(&patient(&shared().url()), keys, "cycles", metrics).expect("a store");
    let service = Service::start(other, Duration::ZERO).await;
    let refused = service
        .running
        .await
        .expect("no panic")
        .expect_err("another dialect");
    assert!(
        refused.to_string().contains("BUDGET_DIALECT=service"),
        "{refused}"
    );
}
