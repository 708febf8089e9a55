//! Secrets never reach the log, however much of it is asked for.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use budget_authority::dev::child;
use budget_authority::store::{Keys, RedisOptions, Store, StoreMetrics};
use serde_json::json;
use tokio::time::Duration;

use crate::harness::app::{SECRET_KEYS, reserve_body};
use crate::harness::eventually;
use crate::harness::raw::exchange;
use crate::harness::redis::{RedisServer, free_port};
use crate::harness::world::{Start, World};

const PASSWORD: &str = "redis-password-Zq8vTn";
const ADMIN_KEYS: [&str; 2] = ["admin-key-old-Xw3k", "admin-key-new-Yr7m"];

/// The built service with all of its log in a file of the test's.
struct Service {
    child: Child,
    address: SocketAddr,
    log: std::path::PathBuf,
}

impl Service {
    fn start(redis_url: &str, prefix: &str, format: &str) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let log = std::env::temp_dir().join(format!("{prefix}-{format}.log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_budget-authority"));
        command.args(["serve", "--redis-url", redis_url, "--key-prefix", prefix]);
        command.args(["--secret-keys", SECRET_KEYS]);
        command.args(["--listen", &address.to_string(), "--metrics-listen", "off"]);
        command.args([
            "--admin-keys",
            &ADMIN_KEYS.join(","),
            "--redis-timeout-ms",
            "100",
        ]);
        command.args(["--log", "trace", "--log-format", format]);
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

    async fn ready(&self) {
        let url = format!("http://{}/ready", self.address);
        eventually("the service is ready", async || {
            let response = reqwest::get(&url).await.ok()?;
            response.status().is_success().then_some(())
        })
        .await;
    }

    fn log(&self) -> String {
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

async fn world(redis_url: &str, prefix: &str) -> World {
    let metrics = StoreMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    let keys = Keys::new(prefix).expect("a prefix");
    let store = Store::new(&RedisOptions::new(redis_url), keys, "service", metrics);
    let world = World::on(store.expect("a store")).await;
    let start = Start {
        scope: "tenant:acme".to_owned(),
        unit: budget_authority::domain::amount::Unit::Tokens,
        allocated: 1_000,
        limit: 0,
    };
    world.seed(0, &start).await;
    world
}

/// Requests of all kinds, good and bad, with secrets wherever a client could put one.
async fn exercise(address: SocketAddr, key: &str, secrets: &[&str]) {
    let client = reqwest::Client::new();
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
async fn no_secret_of_anybody_reaches_the_log_at_any_level() {
    for format in ["json", "text"] {
        let mut redis = RedisServer::start_with(&["--requirepass", PASSWORD]);
        let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port);
        let prefix = format!("t{:016x}", rand::random::<u64>());
        let world = world(&url, &prefix).await;
        let stranger = world.keys[1].replace("sk_live_", "sk_test_");
        let lost = budget_authority::domain::keys::ApiKeyText::generate(
            "sk_live_",
            world.callers[0].partition,
        );
        let service = Service::start(&url, &prefix, format);
        service.ready().await;
        let (key, lost) = (world.keys[0].as_str(), lost.expose());
        let secrets = [key, &stranger, lost, ADMIN_KEYS[0], ADMIN_KEYS[1], PASSWORD];
        exercise(service.address, key, &secrets).await;
        let broken = format!("GET / HTTP/1.1\r\nX-Service-API-Key: {key}\r\nno header\r\n\r\n");
        exchange(service.address, broken.as_bytes()).await;
        redis.kill();
        exercise(service.address, key, &[PASSWORD]).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let log = service.log();
        assert!(
            log.contains("answered 503"),
            "the log is there: {log:.2000}"
        );
        assert!(log.contains("DEBUG"), "and so is all of it: {log:.2000}");
        let hashes = world.callers.iter().map(|caller| caller.key_hash.as_str());
        // Of an API key the first part, which names its record, may be shown.
        let hidden = secrets
            .iter()
            .map(|secret| match secret.starts_with("sk_") {
                true => &secret[23..],
                false => secret,
            });
        for secret in hidden.chain(hashes) {
            let line = log.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "tells {secret}");
        }
    }
}
