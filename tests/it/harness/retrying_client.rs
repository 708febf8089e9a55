//! A correct client: a request without a response is sent again with the same key, to any replica.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use budget_authority::store::RedisOptions;
use reqwest::Method;
use serde_json::Value;

use super::app::ADMIN_KEY;
use super::http;
use super::response::Response;

/// How long a request may take in Redis in all, by default.
const REDIS_TIMEOUT: Duration = RedisOptions::DEFAULT_TIMEOUT;

/// How long a replica may take to respond, whatever happens to Redis, with some slack for a busy machine.
pub const RESPONSE_WITHIN: Duration = REDIS_TIMEOUT.saturating_add(Duration::from_secs(5));

/// When a client gives a response up where processes are killed and started under load, which makes any machine busy.
const RESPONSE_UNDER_LOAD_WITHIN: Duration = Duration::from_secs(10);

/// Settings of a service that no outage is meant to reach: a busy machine shall not look like one.
pub const LONG_REDIS_TIMEOUT: &[&str] = &["--redis-timeout-ms", "20000"];

/// How long a client retries.
const RETRY_FOR: Duration = Duration::from_secs(30);

/// A caller of some replicas under one API key. Cheap to clone.
#[derive(Clone)]
pub struct RetryingClient {
    http: reqwest::Client,
    replicas: Arc<[SocketAddr]>,
    key: Arc<str>,
    /// The header that has the key.
    header: &'static str,
    response_within: Duration,
    /// Whether a response that does not come in time counts as lost: where processes are killed under load.
    may_time_out: bool,
    repeated: Arc<AtomicUsize>,
    decided: Arc<AtomicUsize>,
}

impl RetryingClient {
    /// A client of processes that are killed: a request without a response in time is sent again.
    pub fn new(replicas: &[SocketAddr], key: &str) -> Self {
        Self {
            may_time_out: true,
            ..Self::start(replicas, key, RESPONSE_UNDER_LOAD_WITHIN)
        }
    }

    /// The same under the admin key.
    pub fn admin(replicas: &[SocketAddr]) -> Self {
        Self {
            header: "X-Admin-API-Key",
            ..Self::new(replicas, ADMIN_KEY)
        }
    }

    /// A client for services that were started with [`LONG_REDIS_TIMEOUT`].
    pub fn with_long_timeout(replicas: &[SocketAddr], key: &str) -> Self {
        Self::start(replicas, key, RETRY_FOR)
    }

    fn start(replicas: &[SocketAddr], key: &str, response_within: Duration) -> Self {
        let http = http::builder().timeout(response_within).build();
        Self {
            http: http.expect("a client"),
            replicas: replicas.into(),
            key: key.into(),
            header: "X-Service-API-Key",
            response_within,
            may_time_out: false,
            repeated: Arc::default(),
            decided: Arc::default(),
        }
    }

    /// How often this client and its clones had to retry.
    pub fn retries(&self) -> usize {
        self.repeated.load(Ordering::Relaxed)
    }

    /// How many decisions this client and its clones had.
    pub fn decisions(&self) -> usize {
        self.decided.load(Ordering::Relaxed)
    }

    /// Asks one replica once; `None` when the connection failed before the response.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Option<Response> {
        let replica = self.replicas[rand::random_range(0..self.replicas.len())];
        let url = format!("http://{replica}{path}");
        let mut request = self.http.request(method, url);
        request = request.header(self.header, &*self.key);
        if let Some(body) = body {
            request = request.json(body);
        }
        let exchange = async {
            let response = request.send().await?;
            Response::read(response).await
        };
        match exchange.await {
            Ok(response) => Some(response),
            Err(error) => {
                assert!(
                    self.may_time_out || !error.is_timeout(),
                    "no answer within {:?}: {path} {error:?}",
                    self.response_within
                );
                None
            }
        }
    }

    /// Retries until there is a decision. Any other response must be retryable.
    pub async fn retry(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        let begun = Instant::now();
        loop {
            match self.ask(method.clone(), path, body).await {
                None => {}
                // Not now: Redis is out of reach or full, or the tenant takes too much of its memory.
                Some(response) if [429, 503].contains(&response.status) => {}
                Some(response) => {
                    assert!(response.status < 500, "{path} {body:?}: {response:?}");
                    self.decided.fetch_add(1, Ordering::Relaxed);
                    return response;
                }
            }
            self.repeated.fetch_add(1, Ordering::Relaxed);
            assert!(
                begun.elapsed() < RETRY_FOR,
                "no decision within {RETRY_FOR:?}: {path} {body:?}"
            );
            // As a client that retries with jitter.
            tokio::time::sleep(Duration::from_millis(rand::random_range(5..25))).await;
        }
    }

    /// `POST` until there is a decision.
    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.retry(Method::POST, path, Some(body)).await
    }
}
