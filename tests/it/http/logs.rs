//! The log, which has no secrets at any level.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use budget_authority::store::{Keys, Store, StoreMetrics};
use budget_authority::tools::dev::child;
use serde_json::{Value, json};

use crate::harness::app::{SECRET_KEYS, reserve_body};
use crate::harness::eventually;
use crate::harness::http;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::patient;
use crate::harness::raw::exchange;
use crate::harness::redis::{RedisServer, free_port, shared};

const PASSWORD: &str = "redis-password-Zq8vTn";
const ADMIN_KEYS: [&str; 2] = [
    "admin-key-old-Xw3k-of-32-characters",
    "admin-key-new-Yr7m-of-32-characters",
];

/// The built service with its log in a file.
pub(crate) struct Service {
    pub child: Child,
    address: SocketAddr,
    log: std::path::PathBuf,
}

impl Service {
    pub fn start(redis_url: &str, prefix: &str, settings: &[&str]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let log = std::env::temp_dir().join(format!("{:016x}.log", rand::random::<u64>()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
        command.args(["serve", "--redis-url", redis_url, "--key-prefix", prefix]);
        command.args(["--secret-keys", SECRET_KEYS]);
        command.args(["--listen", &address.to_string(), "--metrics-listen", "off"]);
        command.args(settings);
        let file = std::fs::File::create(&log).expect("the temporary folder is writable");
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a handle"));
        command.stderr(file);
        let child = child::spawn(command).expect("the binary is built");
        Self {
            child,
            address,
            log,
        }
    }

    pub fn ready_url(&self) -> String {
        format!("http://{}/ready", self.address)
    }

    pub async fn ready(&self) {
        let url = self.ready_url();
        eventually("the service is ready", async || {
            let response = http::get(&url).await.ok()?;
            response.status().is_success().then_some(())
        })
        .await;
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

async fn fixture(redis_url: &str, prefix: &str) -> LedgerFixture {
    let metrics = StoreMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    let keys = Keys::new(prefix).expect("a prefix");
    let store = Store::new(&patient(redis_url), keys, "service", metrics);
    let fixture = LedgerFixture::on(store.expect("a store")).await;
    fixture.budget_of(0, "tenant:acme", 1_000).await;
    fixture
}

/// Requests of all kinds, good and bad, with secrets wherever a client could put one.
async fn exercise(address: SocketAddr, key: &str, secrets: &[&str]) {
    let client = http::client();
    let mut bodies = vec![reserve_body("good", 10), json!({}), json!({"metadata": {}})];
    for secret in secrets {
        let mut odd = reserve_body("odd", 10);
        odd["metadata"] = json!({"token": secret});
        odd[*secret] = json!(1);
        bodies.push(odd);
        bodies.push(reserve_body(secret, 10));
    }
    let url = |path: &str| format!("http://{address}{path}");
    let mut requests = Vec::new();
    for secret in secrets {
        for path in [
            "/v1/reservations?tenant=acme",
            "/v1/balances?tenant=acme",
            "/no/such/path",
        ] {
            for name in [
                "X-Service-API-Key",
                "X-Cycles-API-Key",
                "X-Admin-API-Key",
                "Authorization",
            ] {
                let request = client.get(url(path)).header(name, *secret);
                requests.push((request, Some(*secret)));
            }
        }
        for path in [
            "/v1/reservations?status=",
            "/v1/reservations/",
            "/v1/balances?agent=",
        ] {
            let path = url(&format!("{path}{secret}"));
            let request = client.get(path).header("X-Service-API-Key", key);
            requests.push((request, None));
        }
    }
    for body in &bodies {
        for path in ["/v1/reservations", "/v1/decide", "/v1/events"] {
            let request = client.post(url(path)).json(body);
            requests.push((request.header("X-Service-API-Key", key), None));
        }
    }
    for (request, hidden) in requests {
        let response = request.send().await.expect("an answer");
        let head = format!("{:?}", response.headers());
        let body = response.text().await.expect("text");
        if let Some(secret) = hidden {
            assert!(!head.contains(secret) && !body.contains(secret), "{body}");
        }
    }
}

#[tokio::test]
async fn no_secret_is_logged_at_any_level() {
    for format in ["json", "text"] {
        let mut redis = RedisServer::start_with(&["--requirepass", PASSWORD]);
        let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port);
        let prefix = format!("t{:016x}", rand::random::<u64>());
        let fixture = fixture(&url, &prefix).await;
        let stranger = fixture.keys[1].replace("sk_live_", "sk_test_");
        let lost = budget_authority::domain::api_key::secret::ApiKeyText::generate(
            "sk_live_",
            fixture.callers[0].partition,
        );
        let admin_keys = ADMIN_KEYS.join(",");
        let mut settings = vec!["--admin-keys", &admin_keys, "--redis-timeout-ms", "100"];
        settings.extend(["--log", "trace", "--log-format", format]);
        let service = Service::start(&url, &prefix, &settings);
        service.ready().await;
        let (key, lost) = (fixture.keys[0].as_str(), lost.expose());
        let secrets = [key, &stranger, lost, ADMIN_KEYS[0], ADMIN_KEYS[1], PASSWORD];
        exercise(service.address, key, &secrets).await;
        let broken = format!("GET / HTTP/1.1\r\nX-Service-API-Key: {key}\r\nno header\r\n\r\n");
        exchange(service.address, broken.as_bytes()).await;
        redis.kill();
        exercise(service.address, key, &[PASSWORD]).await;
        let log = eventually("the log is there", || async {
            let log = service.log();
            match log.contains("responded 503") {
                true => Ok(log),
                false => Err(format!("{log:.2000}")),
            }
        })
        .await;
        assert!(log.contains("DEBUG"), "and so is all of it: {log:.2000}");
        let hashes = fixture
            .callers
            .iter()
            .map(|caller| caller.key_hash.as_str());
        // Of an API key the first part, which names its record, may be shown.
        let hidden = secrets
            .iter()
            .map(|secret| match secret.starts_with("sk_") {
                true => &secret[23..],
                false => secret,
            });
        for secret in hidden.chain(hashes) {
            let line = log.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "reveals {secret}");
        }
    }
}

#[tokio::test]
async fn with_access_log_each_request_is_logged_with_its_ids() {
    let prefix = format!("t{:016x}", rand::random::<u64>());
    let fixture = fixture(&shared().url(), &prefix).await;
    // The spans of requests are not there at this level, the ids all the same.
    let settings = ["--log", "warn,access_log=debug"];
    let service = Service::start(&shared().url(), &prefix, &settings);
    service.ready().await;
    let client = http::client();
    for (method, path, key, expected) in [
        ("POST", "/v1/reservations", fixture.keys[0].as_str(), 200),
        ("GET", "/v1/balances?tenant=acme", "sk_live_wrong", 401),
        ("BREW", "/no/such/path", "", 401),
    ] {
        let method = method.parse().expect("a token");
        let request = client.request(method, format!("http://{}{path}", service.address));
        let request = request.json(&reserve_body("one", 10));
        let request = request.header("X-Service-API-Key", key);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), expected, "{path}");
        let id = |name: &str| response.headers()[name].to_str().expect("text").to_owned();
        let (request_id, trace_id) = (id("x-request-id"), id("x-service-trace-id"));
        let line = eventually("the line is there", async || {
            let log = service.log();
            let line = log.lines().find(|line| line.contains(&request_id))?;
            serde_json::from_str::<Value>(line).ok()
        })
        .await;
        let (method, route) = match path {
            "/v1/reservations" => ("POST", path),
            "/no/such/path" => ("OTHER", "unmatched"),
            _ => ("GET", "/v1/balances"),
        };
        assert_eq!(line["target"], "access_log");
        assert_eq!(line["http.method"], method, "{line}");
        assert_eq!(line["http.route"], route, "{line}");
        assert_eq!(line["http.status"], expected, "{line}");
        assert!(line["duration_us"].is_u64(), "{line}");
        assert_eq!(line["trace.id"], trace_id, "{line}");
    }
}

/// Everybody on the machine can list processes.
#[tokio::test]
async fn a_secret_on_the_command_line_is_warned_of_at_start() {
    let prefix = format!("t{:016x}", rand::random::<u64>());
    let service = Service::start(&shared().url(), &prefix, &[]);
    service.ready().await;
    let log = service.log();
    let line = log.lines().find(|line| line.contains("--secret-keys"));
    let line = line.expect("a warning");
    assert!(
        line.contains("\"WARN\"") && line.contains("BUDGET_SECRET_KEYS"),
        "{line}"
    );
    assert!(!log.contains(SECRET_KEYS));
}

#[tokio::test]
async fn a_service_without_admin_keys_warns_at_start_and_refuses_them() {
    let prefix = format!("t{:016x}", rand::random::<u64>());
    let closed = Service::start(&shared().url(), &prefix, &[]);
    let open = Service::start(&shared().url(), &prefix, &["--admin-keys", ADMIN_KEYS[0]]);
    closed.ready().await;
    open.ready().await;
    let warning = "the admin plane refuses every request";
    let log = closed.log();
    let line = log.lines().find(|line| line.contains(warning));
    assert!(line.is_some_and(|line| line.contains("\"WARN\"")), "{log}");
    assert!(!open.log().contains(warning));
    for (service, expected) in [(&closed, 401), (&open, 200)] {
        let url = format!("http://{}/v1/admin/tenants", service.address);
        let request = http::client().get(url);
        let request = request.header("X-Admin-API-Key", ADMIN_KEYS[0]);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), expected);
    }
}
