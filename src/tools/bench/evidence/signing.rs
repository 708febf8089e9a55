//! A dispatcher that signs, and how fast it does.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http_body_util::Full;
use hyper::Request;
use secrecy::ExposeSecret;
use tokio::time::sleep;

use crate::evidence::SigningKey;
use crate::tools::bench::connection::{Connection, plain_url};
use crate::tools::bench::error::BenchError;
use crate::tools::bench::stack::{Settings, Stack, free_port};
use crate::tools::dev::child::Process;

/// How long no entry may be signed before the rest counts as missing.
const LIMIT: Duration = Duration::from_secs(30);
/// How often the dispatcher's metrics are read.
const EVERY: Duration = Duration::from_millis(20);
/// The count of envelopes among the metrics.
const COUNT: &str = r#"budget_evidence_entries_total{outcome="signed"} "#;

/// Settings of all programs with evidence under a new key, and that of dispatchers with its seed.
pub(super) fn key_settings() -> (Settings, (&'static str, String)) {
    let (seed, key) = SigningKey::generate();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let settings = vec![
        (
            "BUDGET_EVIDENCE_SERVER_ID",
            "https://bench.example/v1".to_owned(),
        ),
        ("BUDGET_EVIDENCE_PUBLIC_KEY", key.public().hex()),
        (
            "BUDGET_EVIDENCE_NBF_MS",
            now.map_or(0, |now| now.as_millis()).to_string(),
        ),
        ("BUDGET_EVIDENCE_REQUESTS_PER_MINUTE", "0".to_owned()),
    ];
    let seed = seed.expose_secret().to_owned();
    (settings, ("BUDGET_EVIDENCE_SEEDS", seed))
}

/// It runs until it is dropped.
pub(super) struct Dispatcher {
    _process: Process,
    metrics: Connection,
}

/// How a backlog was signed.
pub(super) struct Signed {
    pub count: u64,
    pub per_second: f64,
}

impl Dispatcher {
    pub fn start(stack: &Stack, mut settings: Settings) -> Result<Self, BenchError> {
        let port = free_port().map_err(BenchError::Stack)?;
        let address = format!("127.0.0.1:{port}");
        let url = plain_url(&format!("http://{address}")).expect("a plain URL");
        settings.push(("BUDGET_METRICS_LISTEN", address));
        Ok(Self {
            _process: stack.dispatcher_with(settings)?,
            metrics: Connection::new(Arc::new(url)),
        })
    }

    /// Waits until it has signed so many entries since its start. The rate is that from the first envelopes to the last.
    pub async fn sign(&mut self, entries: u64) -> Signed {
        let started = (Instant::now(), 0);
        let (mut first, mut last) = (None, started);
        while last.1 < entries && last.0.elapsed() < LIMIT {
            let count = self.count().await;
            if count > last.1 {
                last = (Instant::now(), count);
                first = first.or(Some(last));
            }
            sleep(EVERY).await;
        }
        // Of a backlog that was signed at once, only the start is known.
        let (begun, before) = first.filter(|first| first.1 < last.1).unwrap_or(started);
        let took = (last.0 - begun).max(EVERY);
        Signed {
            count: last.1,
            per_second: (last.1 - before) as f64 / took.as_secs_f64(),
        }
    }

    /// Envelopes so far; none until it listens.
    async fn count(&mut self) -> u64 {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = "/metrics".parse().expect("a path");
        let Ok(response) = self.metrics.send(request).await else {
            return 0;
        };
        let text = String::from_utf8_lossy(&response.body);
        let count = text.lines().find_map(|line| line.strip_prefix(COUNT));
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}
