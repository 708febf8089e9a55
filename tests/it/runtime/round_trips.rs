//! One request of the runtime plane is one round trip to Redis, whatever it does.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use budget_authority::domain::ids::Partition;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::eventually;
use crate::harness::random_clients::action;
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::tokens;

/// Sees every command that clients send to a server. Commands of scripts are not clients' commands.
pub(crate) struct Monitor<'a> {
    server: &'a RedisServer,
    lines: BufReader<TcpStream>,
}

impl<'a> Monitor<'a> {
    pub(crate) fn on(server: &'a RedisServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
        let limit = Some(Duration::from_secs(10));
        stream.set_read_timeout(limit).expect("a socket");
        stream.write_all(b"MONITOR\r\n").expect("sent");
        let mut lines = BufReader::new(stream);
        let mut first = String::new();
        lines.read_line(&mut first).expect("an answer");
        assert_eq!(first, "+OK\r\n");
        Self { server, lines }
    }

    /// The names of the commands since the last call.
    pub(crate) fn seen(&mut self) -> Vec<String> {
        let mark = format!("mark-{:016x}", rand::random::<u64>());
        self.server.run::<String>(&["ECHO", &mark]);
        let mut seen = Vec::new();
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).expect("the mark comes");
            if line.contains(&mark) {
                return seen;
            }
            let inside = line.contains(" lua] ");
            let command = line.split('"').nth(1).unwrap_or_default().to_lowercase();
            // Commands of the harness's own connection when it opens.
            let greeting = matches!(command.as_str(), "client" | "hello" | "select" | "auth");
            // Besides requests, the service reads memory and secret, and flushes counts for detectors.
            let own = ["\"secret\"", ":traffic\"", ":burning\""];
            let own = own.iter().any(|key| line.contains(key));
            if !(inside || greeting || own || ["info", "script"].contains(&command.as_str())) {
                seen.push(command);
            }
        }
    }
}

/// A request and its response.
struct Step {
    name: &'static str,
    method: Method,
    path: String,
    body: Option<Value>,
    status: u16,
}

fn post(name: &'static str, path: &str, body: Value, status: u16) -> Step {
    let (method, path, body) = (Method::POST, path.to_owned(), Some(body));
    Step {
        name,
        method,
        path,
        body,
        status,
    }
}

fn get(name: &'static str, path: String, status: u16) -> Step {
    Step {
        name,
        method: Method::GET,
        path,
        body: None,
        status,
    }
}

/// Each operation once, its replay, and its refusals. `round` makes the keys differ.
fn steps(round: &str, ids: &[String; 3]) -> Vec<Step> {
    let key = |name: &str| format!("{round}-{name}");
    let on = |id: &str, operation: &str| format!("/v1/reservations/{id}/{operation}");
    let subject = json!({"tenant": "acme", "workspace": "w", "agent": "a"});
    let body = |name: &str, amount: &str, value: i64| json!({"idempotency_key": key(name), "subject": subject, "action": action(), amount: tokens(value)});
    let mut dry = body("dry", "estimate", 1);
    dry["dry_run"] = json!(true);
    let commit = json!({"idempotency_key": key("commit"), "actual": tokens(1)});
    let release = json!({"idempotency_key": key("release")});
    let extend = json!({"idempotency_key": key("extend"), "extend_by_ms": 1_000});
    let other_key = json!({"idempotency_key": key("other"), "actual": tokens(1)});
    let [first, second, third] = ids;
    vec![
        post("create", "/v1/reservations", body("r", "estimate", 1), 200),
        post(
            "create again",
            "/v1/reservations",
            body("r", "estimate", 1),
            200,
        ),
        post(
            "create mismatch",
            "/v1/reservations",
            body("r", "estimate", 2),
            409,
        ),
        post(
            "create denied",
            "/v1/reservations",
            body("x", "estimate", i64::MAX),
            409,
        ),
        post("dry run", "/v1/reservations", dry.clone(), 200),
        post("dry run again", "/v1/reservations", dry, 200),
        post("decide", "/v1/decide", body("d", "estimate", 1), 200),
        post("decide again", "/v1/decide", body("d", "estimate", 1), 200),
        post(
            "decide denied",
            "/v1/decide",
            body("y", "estimate", i64::MAX),
            200,
        ),
        post("extend", &on(first, "extend"), extend.clone(), 200),
        post("extend again", &on(first, "extend"), extend, 200),
        post("commit", &on(first, "commit"), commit.clone(), 200),
        post("commit again", &on(first, "commit"), commit, 200),
        post("commit finalized", &on(first, "commit"), other_key, 409),
        post("release", &on(second, "release"), release.clone(), 200),
        post("release again", &on(second, "release"), release, 200),
        post("event", "/v1/events", body("e", "actual", 1), 201),
        post("event again", "/v1/events", body("e", "actual", 1), 201),
        get("get", format!("/v1/reservations/{third}"), 200),
        get("list", "/v1/reservations?limit=2".to_owned(), 200),
        get(
            "list sorted",
            "/v1/reservations?sort_by=reserved".to_owned(),
            200,
        ),
        get(
            "list filtered",
            "/v1/reservations?status=COMMITTED&workspace=w".to_owned(),
            200,
        ),
        get(
            "balances",
            "/v1/balances?tenant=acme&include_children=true".to_owned(),
            200,
        ),
        get(
            "balances filtered",
            "/v1/balances?workspace=w".to_owned(),
            200,
        ),
        post("no body", "/v1/decide", json!({}), 400),
        post("foreign tenant", "/v1/decide", foreign(&key("f")), 403),
        get("bad parameter", "/v1/reservations?limit=0".to_owned(), 400),
        get("no such path", "/v1/nothing".to_owned(), 404),
    ]
}

fn foreign(key: &str) -> Value {
    json!({
        "idempotency_key": key, "subject": {"tenant": "bolt"}, "action": action(), "estimate": tokens(1),
    })
}

async fn reserved(app: &TestApp, round: &str) -> [String; 3] {
    let mut ids = Vec::new();
    for n in 0..3 {
        let response = app.reserve(&format!("{round}-seed-{n}"), 5).await;
        ids.push(response.text("/reservation_id").to_owned());
    }
    ids.try_into().expect("three")
}

async fn send(app: &TestApp, step: &Step) {
    let mut request = app.request(step.method.clone(), &step.path);
    request = request.header("X-Service-API-Key", &app.keys[0]);
    if let Some(body) = &step.body {
        request = request.json(body);
    }
    let response = app.send(request).await;
    assert_eq!(response.status, step.status, "{}: {response:?}", step.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_costs_one_round_trip_once_warm() {
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await;
    for scope in ["tenant:acme", "tenant:acme/workspace:w"] {
        app.budget(scope, 1_000_000, 1_000).await;
    }
    // Policies that match, and many that do not.
    let governing = json!({"caps": {"max_tokens": 1}, "rate_limits": {"max_reservations_per_minute": 1_000,
        "max_commits_per_minute": 1_000}});
    app.policy("governs", "tenant:acme/*", governing.clone())
        .await;
    app.policy("root", "tenant:acme", governing).await;
    for number in 0..100 {
        let pattern = format!("tenant:acme/agent:a{number}");
        app.policy(&number.to_string(), &pattern, json!({})).await;
    }
    // Warm: the deployment and the key's tenant are known, the scripts are loaded, the connections open.
    let ids = reserved(&app, "warm").await;
    for step in steps("warm", &ids) {
        send(&app, &step).await;
    }
    let ids = reserved(&app, "hot").await;
    let mut monitor = Monitor::on(&server);
    let mut wrong = Vec::new();
    for step in steps("hot", &ids) {
        send(&app, &step).await;
        let seen = block_in_place(|| monitor.seen());
        if seen != ["evalsha"] {
            wrong.push(format!("{}: {seen:?}", step.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// How many round trips beyond the first were counted for a reason.
fn counted(app: &TestApp, reason: &str) -> u64 {
    let trips = &app.store.metrics().extra_round_trips;
    trips.with_label_values(&[reason]).get()
}

#[tokio::test]
async fn extra_round_trips_are_counted_by_reason() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let mut before = [0; 3];
    let mut more = || {
        let now = ["first_use", "foreign_id", "owner"].map(|reason| counted(&app, reason));
        let risen = [0, 1, 2].map(|n| now[n] - before[n]);
        before = now;
        risen
    };
    let own = app.reserve("k", 1).await.text("/reservation_id").to_owned();
    assert_eq!(more(), [1, 0, 0], "the key is new to the replica");
    app.reserve("l", 1).await;
    assert_eq!(more(), [0; 3], "and known from then on");
    app.get(&format!("/v1/reservations/{own}")).await;
    app.get("/v1/reservations/of-no-partition").await;
    assert_eq!(more(), [0; 3], "an id of the caller's partition");
    let elsewhere = app.callers[1].partition;
    assert_ne!(elsewhere, app.callers[0].partition);
    let foreign = format!("/v1/reservations/r{elsewhere}_x");
    let commit = json!({"idempotency_key": "c", "actual": tokens(1)});
    app.get(&foreign).await.expect(404);
    app.post(&format!("{foreign}/commit"), commit).await;
    assert_eq!(more(), [0, 2, 0], "ids of another partition");
    let release = app.request(Method::POST, &format!("/v1/reservations/{own}/release"));
    let release = release.header("X-Admin-API-Key", ADMIN_KEY);
    let release = release.json(&json!({"idempotency_key": "r"}));
    app.send(release).await.expect(200);
    assert_eq!(more(), [0, 0, 1], "an admin's release asks whose it is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_bad_keys_writes_next_to_nothing() {
    const FLOOD: usize = 200;
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await;
    app.change_key(&app.keys[0], &[("status", "REVOKED")]).await;
    for key in ["nonsense", &app.keys[0]] {
        app.get_with(key, "/v1/reservations").await;
    }
    let keys = app.store.keys();
    let of_nobody = |day| keys.events(Partition::FIRST, "__system__", day);
    eventually("both emit events", async || {
        app.log_entries(of_nobody).await.len() + app.events().await.len() == 2
    })
    .await;
    let mut monitor = Monitor::on(&server);
    for _ in 0..FLOOD {
        for key in ["nonsense", &app.keys[0]] {
            app.get_with(key, "/v1/reservations").await.expect(401);
        }
    }
    let calls = block_in_place(|| monitor.seen()).len();
    // One script checks each revoked key. Where a minute ended meanwhile, its rollup was emitted.
    assert!((FLOOD..=FLOOD + 4).contains(&calls), "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_request_of_a_key_costs_one_look_up() {
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await;
    app.budget("tenant:acme", 1_000_000, 0).await;
    app.reserve("warm", 1).await;
    let replica = app.replica(LONG_REDIS_TIMEOUT).await;
    // Twice: requests take turns on two connections, and each opens with its first.
    for _ in 0..2 {
        replica.reserve("warm", 1).await;
    }
    let key_of_bolt = json!({
        "idempotency_key": "k", "subject": {"tenant": "bolt"}, "action": action(), "estimate": tokens(1),
    });
    let mut monitor = Monitor::on(&server);
    for expected in [&["hget", "evalsha"][..], &["evalsha"]] {
        replica.post_as(1, "/v1/reservations", &key_of_bolt).await;
        let seen = block_in_place(|| monitor.seen());
        assert_eq!(seen, expected);
    }
}

/// The rows of both lists: one budget and one reservation per application, of which only the last is in workspace `z`.
async fn many_rows(app: &TestApp, rows: usize) {
    let scope = |row: usize| match row + 1 == rows {
        true => "tenant:acme/workspace:z".to_owned(),
        false => format!("tenant:acme/workspace:w/app:a{row:03}"),
    };
    for row in 0..rows {
        app.budget(&scope(row), 1_000, 0).await;
        let workspace = if row + 1 == rows { "z" } else { "w" };
        let body = json!({
            "idempotency_key": format!("row-{row}"), "action": action(), "estimate": tokens(1),
            "subject": {"tenant": "acme", "workspace": workspace, "app": format!("a{row:03}")},
        });
        app.post("/v1/reservations", body).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_takes_one_round_trip_per_full_script_call() {
    const ROWS: usize = 450;
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await;
    many_rows(&app, ROWS).await;
    let paging = || {
        let extra = &app.store.metrics().extra_round_trips;
        extra.with_label_values(&["paging"]).get()
    };
    // Reservations are read 101 at a time, ledgers 201; sorted ones 30 at a time after the first step, so that other requests run in
    // between.
    let cases = [
        ("/v1/reservations?limit=200", 200, 2),
        ("/v1/reservations?limit=1", 1, 1),
        (
            "/v1/reservations?limit=1&workspace=z&sort_dir=asc&sort_by=created_at_ms",
            1,
            5,
        ),
        ("/v1/reservations?limit=1&status=COMMITTED", 0, 5),
        ("/v1/reservations?limit=200&sort_by=reserved", 200, 13),
        (
            "/v1/balances?tenant=acme&limit=200&include_children=true",
            200,
            1,
        ),
        (
            "/v1/balances?tenant=acme&limit=1&include_children=true",
            1,
            1,
        ),
        (
            "/v1/balances?workspace=z&limit=1&include_children=true",
            1,
            3,
        ),
    ];
    for (path, ..) in cases {
        assert_eq!(app.get(path).await.status, 200, "{path}");
    }
    let mut monitor = Monitor::on(&server);
    for (path, found, trips) in cases {
        let before = paging();
        let response = app.get(path).await;
        let seen = block_in_place(|| monitor.seen());
        assert_eq!(seen, vec!["evalsha"; trips], "{path}");
        assert_eq!(paging() - before, trips as u64 - 1, "{path}");
        let list = if path.contains("balances") {
            "/balances"
        } else {
            "/reservations"
        };
        assert_eq!(
            response.at(list).as_array().map(Vec::len),
            Some(found),
            "{path}"
        );
    }
}
