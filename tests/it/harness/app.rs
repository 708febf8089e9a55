//! The real service on a port of its own, with two tenants and a key each, and a client for it.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use budget_authority::api;
use budget_authority::config::{FixedLimits, ServeArgs, ServeConfig};
use budget_authority::domain::amount::Unit;
use budget_authority::egress::Egress;
use budget_authority::serve::{Listeners, run};
use budget_authority::shutdown::Shutdown;
use budget_authority::telemetry::Telemetry;
use clap::{Args, Parser};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::admin_fixture::AdminFixture;
use super::http;
use super::ledger_fixture::LedgerFixture;
use super::names::Names;
use super::redis;
use super::response::Response;
use super::retrying_client::LONG_REDIS_TIMEOUT;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    serve: ServeArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Flags of tests for limits that are constants of the service.
#[derive(Args)]
struct LimitArgs {
    #[arg(long)]
    metadata_bytes: Option<usize>,
    #[arg(long)]
    caps_bytes: Option<usize>,
    #[arg(long)]
    body_timeout_ms: Option<u64>,
    #[arg(long)]
    thresholds: Option<u32>,
    #[arg(long)]
    api_keys: Option<u32>,
    #[arg(long)]
    request_burst: Option<u32>,
    #[arg(long)]
    key_failures: Option<u32>,
    #[arg(long)]
    body_memory_bytes: Option<usize>,
}

impl LimitArgs {
    fn limits(&self) -> FixedLimits {
        let default = FixedLimits::default();
        let body_timeout = self.body_timeout_ms.map(Duration::from_millis);
        FixedLimits {
            metadata_bytes: self.metadata_bytes.unwrap_or(default.metadata_bytes),
            caps_bytes: self.caps_bytes.unwrap_or(default.caps_bytes),
            body_timeout: body_timeout.unwrap_or(default.body_timeout),
            thresholds: self.thresholds.unwrap_or(default.thresholds),
            api_keys: self.api_keys.unwrap_or(default.api_keys),
            request_burst: self.request_burst.unwrap_or(default.request_burst),
            // All tests share one address, and many send wrong keys.
            key_failures: self.key_failures.unwrap_or(u32::MAX),
            body_memory_bytes: self.body_memory_bytes.unwrap_or(default.body_memory_bytes),
        }
    }
}

/// The admin key of every test service.
pub const ADMIN_KEY: &str = "test-admin-key-of-enough-characters";

/// The sealing key of every test service that chooses no other.
pub const SECRET_KEYS: &str = "t1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The configuration that these words after `serve --redis-url …` make, on addresses of its own.
pub fn config(redis_url: &str, settings: &[&str]) -> ServeConfig {
    let words = ["serve", "--redis-url", redis_url, "--listen", ANY];
    let words = words.iter().chain(&["--metrics-listen", "off"]);
    let sealing: &[&str] = match settings.iter().any(|word| word.contains("secret")) {
        true => &[],
        false => &["--secret-keys", SECRET_KEYS],
    };
    let args = Cli::parse_from(words.chain(sealing).chain(settings));
    let mut config = args.serve.into_config().expect("a configuration");
    config.fixed_limits = args.limits.limits();
    config.store.redis.batches = super::batches();
    config
}

/// A free port of this machine.
pub const ANY: &str = "127.0.0.1:0";

/// A running service. It stops when dropped.
pub struct TestApp {
    fixture: LedgerFixture,
    pub address: SocketAddr,
    /// The admin plane's, if it has one of its own.
    pub admin_address: Option<SocketAddr>,
    pub redis_url: String,
    pub names: &'static Names,
    pub telemetry: Telemetry,
    client: reqwest::Client,
    shutdown: Shutdown,
}

impl TestApp {
    /// On the shared Redis, under a prefix of its own, in the service dialect.
    pub async fn spawn() -> Self {
        Self::spawn_on(&redis::shared().url(), &[]).await
    }

    /// The same in both dialects, one after the other.
    pub async fn spawn_both() -> [Self; 2] {
        let url = redis::shared().url();
        [
            Self::spawn_on(&url, &[]).await,
            Self::spawn_on(&url, &["--dialect", "cycles"]).await,
        ]
    }

    /// On a Redis of the test's choice, with more settings.
    pub async fn spawn_on(redis_url: &str, settings: &[&str]) -> Self {
        super::init_log();
        let prefix = format!("t{:016x}", rand::random::<u64>());
        Self::spawn_with(redis_url, &prefix, settings).await
    }

    /// On a Redis and under a prefix of the test's choice.
    pub async fn spawn_with(redis_url: &str, prefix: &str, settings: &[&str]) -> Self {
        Self::start(redis_url, prefix, settings, None, None).await
    }

    /// On the shared Redis, under a prefix of its own, with an egress of the test's choice.
    pub async fn spawn_reaching(egress: Egress, settings: &[&str]) -> Self {
        Self::spawn_reaching_on(&redis::shared().url(), egress, settings).await
    }

    /// The same on a Redis of the test's choice.
    pub async fn spawn_reaching_on(redis_url: &str, egress: Egress, settings: &[&str]) -> Self {
        super::init_log();
        let prefix = format!("t{:016x}", rand::random::<u64>());
        Self::start(redis_url, &prefix, settings, None, Some(egress)).await
    }

    /// The same under a prefix of the test's choice.
    pub async fn spawn_under(prefix: &str, egress: Egress, settings: &[&str]) -> Self {
        super::init_log();
        let url = redis::shared().url();
        Self::start(&url, prefix, settings, None, Some(egress)).await
    }

    /// One more replica of the same deployment.
    pub async fn replica(&self, settings: &[&str]) -> Self {
        let prefix = self.store.keys().prefix();
        let existing = Some(&self.fixture);
        Self::start(&self.redis_url, prefix, settings, existing, None).await
    }

    async fn start(
        redis_url: &str,
        prefix: &str,
        settings: &[&str],
        existing: Option<&LedgerFixture>,
        egress: Option<Egress>,
    ) -> Self {
        let mut words = vec!["--key-prefix", prefix, "--shutdown-delay-ms", "0"];
        if !settings.contains(&"--admin-keys") {
            words.extend(["--admin-keys", ADMIN_KEY]);
        }
        if !settings.contains(&"--redis-timeout-ms") && redis::is_shared(redis_url) {
            words.extend(LONG_REDIS_TIMEOUT);
        }
        words.extend(settings);
        let config = config(redis_url, &words);
        let telemetry = Telemetry::new().expect("distinct names");
        let store = config.store.open(telemetry.registry()).expect("a store");
        let names = Names::of(settings);
        let fixture = match existing {
            Some(fixture) => fixture.with_store(store.clone()),
            None => LedgerFixture::with_keys(store.clone(), names.key_prefix).await,
        };
        let listeners = Listeners::bind(&config).await.expect("free ports");
        let address = |listener: &TcpListener| listener.local_addr().expect("bound");
        let admin_address = listeners.admin.as_ref().map(address);
        let address = address(&listeners.api);
        let shutdown = Shutdown::new();
        let egress = egress.unwrap_or_else(|| config.webhooks.egress());
        let planes = api::planes(&config, &store, egress);
        let ending = shutdown.clone();
        let metrics = telemetry.clone();
        tokio::spawn(
            async move { run(listeners, planes, store, telemetry, &config, ending).await },
        );
        Self {
            fixture,
            address,
            admin_address,
            redis_url: redis_url.to_owned(),
            names,
            telemetry: metrics,
            client: http::client(),
            shutdown,
        }
    }

    /// A client of a service that runs already, for the tenants of a fixture.
    pub fn attach(fixture: LedgerFixture, address: SocketAddr) -> Self {
        Self {
            fixture,
            address,
            admin_address: None,
            redis_url: String::new(),
            names: Names::of(&[]),
            telemetry: Telemetry::new().expect("distinct names"),
            client: http::client(),
            shutdown: Shutdown::new(),
        }
    }

    /// Shuts the service down, as a signal would.
    pub fn stop(&self) {
        self.shutdown.begin();
    }

    /// The admin plane of this deployment, called without HTTP.
    pub fn admin_fixture(&self) -> AdminFixture {
        AdminFixture::on(self.store.clone())
    }

    /// A request as it will be sent; the key of the first tenant is not added.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client
            .request(method, format!("http://{}{path}", self.address))
    }

    /// Sends a request; checks what holds for every response.
    pub async fn send(&self, request: reqwest::RequestBuilder) -> Response {
        let response = request.send().await.expect("a response");
        let response = Response::read(response).await.expect("a body");
        let header = |name: &str| {
            response
                .headers
                .get(name)
                .map(|value| value.to_str().expect("text").to_owned())
        };
        let (request_id, trace_id) = (header("x-request-id"), header(self.names.trace));
        assert!(request_id.is_some() && trace_id.is_some(), "{response:?}");
        if response.status >= 400 {
            assert_eq!(response.at("/request_id").as_str(), request_id.as_deref());
            assert_eq!(response.at("/trace_id").as_str(), trace_id.as_deref());
            assert!(!response.text("/message").is_empty());
        }
        assert!(
            !has_null(&response.body),
            "no member is ever null: {response:?}"
        );
        response
    }

    /// `POST` under the key of a tenant.
    pub async fn post_as(&self, tenant: usize, path: &str, body: &Value) -> Response {
        self.post_with(&self.keys[tenant], path, body).await
    }

    /// `POST` under the key of the first tenant.
    pub async fn post(&self, path: &str, body: Value) -> Response {
        self.post_as(0, path, &body).await
    }

    /// `GET` under the key of a tenant.
    pub async fn get_as(&self, tenant: usize, path: &str) -> Response {
        self.get_with(&self.keys[tenant], path).await
    }

    /// `POST` under any API key.
    pub async fn post_with(&self, key: &str, path: &str, body: &Value) -> Response {
        let request = self.request(Method::POST, path).json(body);
        self.send(request.header(self.names.key, key)).await
    }

    /// `GET` under any API key.
    pub async fn get_with(&self, key: &str, path: &str) -> Response {
        let request = self.request(Method::GET, path);
        self.send(request.header(self.names.key, key)).await
    }

    /// `GET` under the key of the first tenant.
    pub async fn get(&self, path: &str) -> Response {
        self.get_as(0, path).await
    }

    /// A ledger of the first tenant in TOKENS.
    pub async fn budget(&self, scope: &str, allocated: i64, limit: i64) {
        self.budget_in(scope, Unit::Tokens, allocated, limit).await;
    }

    /// A ledger of the first tenant.
    pub async fn budget_in(&self, scope: &str, unit: Unit, allocated: i64, limit: i64) {
        self.seed(0, scope, unit, allocated, limit).await;
    }

    /// Creates a reservation of TOKENS for the first tenant; the response, whatever its status.
    pub async fn reserve(&self, key: &str, amount: i64) -> Response {
        self.post("/v1/reservations", reserve_body(key, amount))
            .await
    }

    /// The figures of a ledger of the first tenant in TOKENS: remaining, reserved, spent, debt.
    pub async fn figures(&self, scope: &str) -> (i64, i64, i64, i64) {
        let response = self.get("/v1/balances?tenant=acme&limit=200").await;
        let rows = response
            .at("/balances")
            .as_array()
            .cloned()
            .unwrap_or_default();
        let row = rows
            .iter()
            .find(|row| row["scope_path"] == scope && row["remaining"]["unit"] == "TOKENS");
        let row = row.unwrap_or_else(|| panic!("no ledger {scope} in {response:?}"));
        let figure = |name: &str| row[name]["amount"].as_i64().unwrap_or(0);
        (
            figure("remaining"),
            figure("reserved"),
            figure("spent"),
            figure("debt"),
        )
    }
}

impl Deref for TestApp {
    type Target = LedgerFixture;

    fn deref(&self) -> &LedgerFixture {
        &self.fixture
    }
}

impl DerefMut for TestApp {
    fn deref_mut(&mut self) -> &mut LedgerFixture {
        &mut self.fixture
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

/// The body of a create for tenant acme.
pub fn reserve_body(key: &str, amount: i64) -> Value {
    json!({
        "idempotency_key": key,
        "subject": {"tenant": "acme"},
        "action": {"kind": "llm.completion", "name": "openai:gpt-4o-mini"},
        "estimate": {"unit": "TOKENS", "amount": amount},
    })
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => items.iter().any(|item| item.is_null() || has_null(item)),
        Value::Object(members) => members
            .iter()
            // The client chose its content.
            .filter(|(name, _)| !["metadata", "committed_metadata"].contains(&name.as_str()))
            .any(|(_, member)| member.is_null() || has_null(member)),
        _ => false,
    }
}
