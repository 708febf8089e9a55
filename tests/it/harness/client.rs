//! A client as it should be: what got no answer is sent again with the same key, to any replica, until one answers.

use super::http;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use budget_authority::store::RedisOptions;
use reqwest::Method;
use serde_json::Value;

/// How long a request may take in Redis in all, by default.
const REDIS_TIMEOUT: Duration = RedisOptions::DEFAULT_TIMEOUT;

/// How long a replica may take to answer, whatever happens to Redis: that, and some slack for a busy machine.
pub const ANSWER_WITHIN: Duration = REDIS_TIMEOUT.saturating_add(Duration::from_millis(1_500));

/// The same where processes are killed and started under load, which makes any machine busy.
const ANSWER_UNDER_LOAD_WITHIN: Duration = Duration::from_secs(10);

/// Settings of a service that no outage is meant to reach: a busy machine shall not look like one.
pub const PATIENT: &[&str] = &["--redis-timeout-ms", "20000"];

/// How long a client goes on asking.
const PATIENCE: Duration = Duration::from_secs(30);

/// A caller of some replicas under one API key. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    replicas: Arc<[SocketAddr]>,
    key: Arc<str>,
    answer_within: Duration,
    repeated: Arc<AtomicUsize>,
}

/// What a replica answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// A member that must be a text.
    pub fn text(&self, name: &str) -> &str {
        self.body[name]
            .as_str()
            .unwrap_or_else(|| panic!("no `{name}` in {self:?}"))
    }

    /// The value of a member that is an amount, if it is there.
    pub fn amount(&self, name: &str) -> Option<i64> {
        self.body[name]["amount"].as_i64()
    }

    /// The same without what a replay may change.
    pub fn lasting(&self) -> Value {
        let mut body = self.body.clone();
        if let Some(members) = body.as_object_mut() {
            members.remove("remaining_ttl_ms");
        }
        body
    }
}

impl Client {
    /// A client that is to be answered in time.
    pub fn new(replicas: &[SocketAddr], key: &str) -> Self {
        Self::start(replicas, key, ANSWER_UNDER_LOAD_WITHIN)
    }

    /// A client for services that were started with [`PATIENT`].
    pub fn patient(replicas: &[SocketAddr], key: &str) -> Self {
        Self::start(replicas, key, PATIENCE)
    }

    fn start(replicas: &[SocketAddr], key: &str, answer_within: Duration) -> Self {
        let http = http::builder().timeout(answer_within).build();
        Self {
            http: http.expect("a client"),
            replicas: replicas.into(),
            key: key.into(),
            answer_within,
            repeated: Arc::default(),
        }
    }

    /// How often this client and its clones had to ask again.
    pub fn repeated(&self) -> usize {
        self.repeated.load(Ordering::Relaxed)
    }

    /// Asks one replica once; `None` when the connection failed before the answer was there.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Option<Answer> {
        let replica = self.replicas[rand::random_range(0..self.replicas.len())];
        let url = format!("http://{replica}{path}");
        let mut request = self.http.request(method, url);
        request = request.header("X-Service-API-Key", &*self.key);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = async {
            let response = request.send().await?;
            let status = response.status().as_u16();
            let body = response.json().await?;
            Ok::<_, reqwest::Error>(Answer { status, body })
        };
        match answer.await {
            Ok(answer) => Some(answer),
            Err(error) => {
                assert!(
                    !error.is_timeout(),
                    "no answer within {:?}: {path} {error:?}",
                    self.answer_within
                );
                assert!(!error.is_decode(), "an answer that is no JSON: {error:?}");
                None
            }
        }
    }

    /// Asks until there is a decision. An answer that is none must say that asking again helps.
    pub async fn insist(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let begun = Instant::now();
        loop {
            match self.ask(method.clone(), path, body).await {
                Some(answer) if answer.status < 500 => return answer,
                Some(answer) => assert_eq!(answer.status, 503, "{path} {body:?}: {answer:?}"),
                None => {}
            }
            self.repeated.fetch_add(1, Ordering::Relaxed);
            assert!(
                begun.elapsed() < PATIENCE,
                "no decision within {PATIENCE:?}: {path} {body:?}"
            );
            tokio::time::sleep(Duration::from_millis(rand::random_range(5..25))).await;
        }
    }

    /// `POST` until there is a decision.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.insist(Method::POST, path, Some(body)).await
    }
}
