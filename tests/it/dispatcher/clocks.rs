//! Processes whose wall clocks are ten minutes wrong: only Redis's clock decides.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::idempotency::{allocated, credit};
use super::retention::retention;
use crate::admin::http::umbra_on;
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::http;
use crate::harness::process::{Environment, Process, Replica};
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::{RedisServer, shared};
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::three_scopes::ThreeScopes;
use crate::harness::{eventually, store};
use crate::runtime::lifecycle::live;

/// A library that shifts the clock of a process by this many seconds.
fn wrong_by(seconds: i64) -> Vec<(&'static str, String)> {
    vec![library(), ("WRONG_BY_S", seconds.to_string())]
}

/// A Redis whose clock jumps by the seconds that are written to a file.
pub(crate) struct JumpingRedis {
    pub(crate) server: RedisServer,
    /// The environment that gives a process the same clock.
    pub(crate) environment: Environment,
    file: PathBuf,
}

impl JumpingRedis {
    pub(crate) fn start() -> Self {
        let name = format!("wrong_by_{:016x}", rand::random::<u64>());
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&file, 0_i64.to_ne_bytes()).expect("a file");
        let wrong = vec![library(), ("WRONG_BY_FILE", file.display().to_string())];
        Self {
            server: RedisServer::start_in(wrong.clone(), &[]),
            environment: wrong,
            file,
        }
    }

    pub(crate) fn jump(&self, seconds: i64) {
        // In place, because processes have mapped it.
        let file = File::options().write(true).open(&self.file);
        let written = file.and_then(|mut file| file.write_all(&seconds.to_ne_bytes()));
        written.expect("it is written");
    }
}

/// The library that makes a clock wrong, for a process to load first.
fn library() -> (&'static str, String) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dispatcher/wrong_clock.c");
    let name = format!("wrong_clock_{:016x}.so", rand::random::<u64>());
    let library: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compile = Command::new("cc");
    compile
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl");
    assert!(
        compile
            .status()
            .expect("a compiler, as Rust needs one")
            .success()
    );
    ("LD_PRELOAD", library.display().to_string())
}

/// A replica whose clock is this many seconds ahead.
async fn replica(prefix: &str, seconds: i64) -> Replica {
    let settings = [LONG_REDIS_TIMEOUT, &["--admin-keys", ADMIN_KEY]].concat();
    let replica = Replica::start_in(wrong_by(seconds), &shared().url(), prefix, &settings);
    replica.ready().await;
    // Its own response shows that its clock is wrong.
    let response = http::get(format!("http://{}/live", replica.address))
        .await
        .expect("an answer");
    let date = response.headers()["date"].to_str().expect("a text");
    let theirs = jiff::fmt::rfc2822::parse(date)
        .expect("a date")
        .timestamp()
        .as_second();
    let ours = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs() as i64;
    assert!((theirs - ours - seconds).abs() < 30, "{theirs} {ours}");
    replica
}

/// Asks a replica as the operator.
async fn as_admin(
    replica: &Replica,
    method: Method,
    path: &str,
    body: &Value,
) -> reqwest::Response {
    let request = http::client().request(method, format!("http://{}{path}", replica.address));
    request
        .header("X-Admin-API-Key", ADMIN_KEY)
        .json(body)
        .send()
        .await
        .expect("an answer")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rule_127_replica_clocks_that_are_ten_minutes_wrong_change_nothing() {
    let store = store(&shared().url());
    let prefix = store.keys().prefix().to_owned();
    let (fast, slow) = (replica(&prefix, 600).await, replica(&prefix, -600).await);
    tokio::join!(
        live(&store, fast.address, "fast"),
        live(&store, slow.address, "slow")
    );

    // Reserved at one, seen and committed at the other.
    let by_fast = ThreeScopes::of_tenant(&store, fast.address, "both").await;
    by_fast.ledgers([[1_000, 0], [1_000, 0], [1_000, 0]]).await;
    let by_slow = by_fast.via(slow.address);
    for (round, first, second) in [(1, &by_fast, &by_slow), (2, &by_slow, &by_fast)] {
        let lasting = first.reserve(&format!("lasting-{round}"), 10).await;
        let mut brief = first.request(&format!("brief-{round}"), "estimate", 10);
        (brief["ttl_ms"], brief["grace_period_ms"]) = (json!(1_000), json!(0));
        let reserved = first.post("/v1/reservations", &brief, 200).await;
        let brief = reserved.text("reservation_id").to_owned();
        let expires_ms = reserved.at("expires_at_ms").as_i64();
        first.until_ms(expires_ms.expect("a time") + 1).await;
        let found = second
            .get(&format!("/v1/reservations/{lasting}"), 200)
            .await;
        assert_eq!(found.text("status"), "ACTIVE");
        let commit = json!({"idempotency_key": "c", "actual": {"unit": "TOKENS", "amount": 10}});
        second
            .post(&format!("/v1/reservations/{lasting}/commit"), &commit, 200)
            .await;
        second
            .refused(
                &format!("/v1/reservations/{brief}/commit"),
                &commit,
                410,
                "RESERVATION_EXPIRED",
            )
            .await;
        second.get(&format!("/v1/reservations/{brief}"), 410).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dispatcher_with_a_wrong_clock_expires_only_holds_that_are_over() {
    for seconds in [600, -600] {
        let store = store(&shared().url());
        let prefix = store.keys().prefix().to_owned();
        let replica = replica(&prefix, 0).await;
        let tenant = ThreeScopes::of_tenant(&store, replica.address, "acme").await;
        tenant.ledgers([[1_000, 0], [1_000, 0], [1_000, 0]]).await;
        let mut brief = tenant.request("brief", "estimate", 10);
        (brief["ttl_ms"], brief["grace_period_ms"]) = (json!(1_000), json!(0));
        tenant.post("/v1/reservations", &brief, 200).await;
        let lasting = tenant.reserve("lasting", 7).await;
        let _dispatcher = Process::dispatcher_in(wrong_by(seconds), &shared().url(), &prefix);
        eventually("the hold that is over returns", || async {
            let left = tenant.figures().await[0];
            left == [993, 7, 0, 0]
        })
        .await;
        let found = tenant
            .get(&format!("/v1/reservations/{lasting}"), 200)
            .await;
        assert_eq!(
            found.text("status"),
            "ACTIVE",
            "by a clock wrong by {seconds} s"
        );
        tenant.audit().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_computed_by_redis_clock() {
    let store = store(&shared().url());
    let prefix = store.keys().prefix().to_owned();
    let (fast, slow) = (replica(&prefix, 600).await, replica(&prefix, -600).await);
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let open = json!({"blocked_cidr_ranges": [], "allow_http": true});
    let response = as_admin(
        &fast,
        Method::PUT,
        "/v1/admin/config/webhook-security",
        &open,
    )
    .await;
    assert_eq!(response.status(), 200);
    let hook = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
    let made: Value = as_admin(&fast, Method::POST, "/v1/admin/webhooks", &hook)
        .await
        .json()
        .await
        .expect("JSON");
    let id = made["subscription"]["subscription_id"]
        .as_str()
        .expect("an id");
    let path = format!("/v1/admin/webhooks/{id}/test");
    let mut seen = Vec::new();
    // A minute may end in between, or the machine stall.
    for _ in 0..5 {
        for _ in 0..10 {
            as_admin(&fast, Method::POST, &path, &json!({})).await;
        }
        let waits = [
            wait_and_rest(&fast, &path).await,
            wait_and_rest(&slow, &path).await,
        ];
        if let [Some(fast), Some(slow)] = waits {
            // This machine's clock is right, and is Redis's.
            let right = |(wait, rest): (f64, f64)| (wait - rest).abs() < 3.0;
            if right(fast) && right(slow) {
                return;
            }
        }
        seen.push(waits);
    }
    panic!("{seen:?}");
}

/// The wait that a replica names, and the time until the moment that it names; `None` below the limit.
async fn wait_and_rest(replica: &Replica, path: &str) -> Option<(f64, f64)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let limited = as_admin(replica, Method::POST, path, &json!({})).await;
    if limited.status() == 200 {
        return None;
    }
    assert_eq!(limited.status(), 429);
    let seconds = |name: &str| {
        let text = limited.headers()[name].to_str().expect("a text");
        text.parse::<f64>().expect("seconds")
    };
    let rest = seconds("x-ratelimit-reset") - now.expect("after 1970").as_secs_f64();
    Some((seconds("retry-after"), rest))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_jump_of_the_clock_a_retried_credit_is_a_replay() {
    const DAY_S: i64 = 86_400;
    let redis = block_in_place(JumpingRedis::start);
    let app = umbra_on(TestApp::spawn_on(&redis.server.url(), LONG_REDIS_TIMEOUT).await).await;
    assert_eq!(credit(&app).await, [200, 200]);
    assert_eq!(allocated(&app).await, 120);
    let partition = tenant_id("umbra").partition();
    let retention = retention(&app.store);
    let lease = app.lease_of(partition, "d", Duration::from_secs(60)).await;
    let pass = async || {
        let pass = retention.run_once(&[lease], |_| {}).await;
        pass.expect("Redis answers")
    };
    assert!(!pass().await.halted);
    app.run::<()>(&["SET", "a key with a TTL", "1", "EX", "86400"])
        .await;

    let before_ms = app.now_ms().await;
    redis.jump(2 * DAY_S);
    assert!(app.now_ms().await - before_ms >= 2 * DAY_S * 1_000);
    let gone = app.run::<i64>(&["EXISTS", "a key with a TTL"]).await == 0;
    assert!(gone, "what has a TTL ends with the jump");
    // All entries are due by the new time, which is in doubt.
    let halted = pass().await;
    assert_eq!((halted.halted, halted.idempotency), (true, 0));
    assert_eq!(credit(&app).await, [200, 200]);
    assert_eq!(allocated(&app).await, 120, "a retry credits nothing");
}
