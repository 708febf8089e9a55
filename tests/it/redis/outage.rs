//! Redis goes away and comes back, or forgets its scripts; a replica is terminated.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::{JoinSet, block_in_place};

use crate::harness::app::{TestApp, reserve_body};
use crate::harness::client_audit::check_clients;
use crate::harness::eventually;
use crate::harness::http;
use crate::harness::ledger_audit::LedgerAudit;
use crate::harness::process::{Process, Replica};
use crate::harness::random_clients::{RandomClients, action, seed_ledgers};
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::{LONG_REDIS_TIMEOUT, RESPONSE_WITHIN, RetryingClient};
use crate::harness::runtime_calls::tokens;
use crate::harness::slow_proxy::SlowProxy;
use crate::harness::tenant_fixture::TenantFixture;
use crate::harness::wire::Wire;

/// A request of each kind.
fn requests([first, second]: &[String; 2]) -> Vec<(Method, String, Option<Value>)> {
    let post = |path: &str, body: Value| (Method::POST, path.to_owned(), Some(body));
    let get = |path: &str| (Method::GET, path.to_owned(), None);
    let on = |id: &str, operation: &str| format!("/v1/reservations/{id}/{operation}");
    let event = json!({
        "idempotency_key": "e", "subject": {"tenant": "acme"}, "action": action(), "actual": tokens(3),
    });
    vec![
        post("/v1/reservations", reserve_body("during", 5)),
        post("/v1/decide", reserve_body("decide", 5)),
        post(
            &on(second, "extend"),
            json!({"idempotency_key": "x", "extend_by_ms": 1_000}),
        ),
        post(
            &on(first, "commit"),
            json!({"idempotency_key": "c", "actual": tokens(4)}),
        ),
        post("/v1/events", event),
        get(&format!("/v1/reservations/{second}")),
        get("/v1/reservations"),
        get("/v1/balances?tenant=acme"),
    ]
}

/// Sends each kind of request at once, three times; each must be refused in time as something that is worth a retry.
async fn all_unavailable(app: &TestApp, client: &RetryingClient, reservations: &[String; 2]) {
    let mut running = JoinSet::new();
    for (method, path, body) in [(); 3].iter().flat_map(|()| requests(reservations)) {
        let client = client.clone();
        running.spawn(async move {
            let begun = Instant::now();
            let response = client.ask(method, &path, body.as_ref()).await;
            let response = response.expect("the connection stands");
            assert_eq!(
                (response.status, response.text("error")),
                (503, "INTERNAL_ERROR"),
                "{path}"
            );
            assert!(
                begun.elapsed() < RESPONSE_WITHIN,
                "{path} took {:?}",
                begun.elapsed()
            );
        });
    }
    let begun = Instant::now();
    assert_eq!(probe(app.address, "/ready").await, 503);
    assert!(
        begun.elapsed() < RESPONSE_WITHIN,
        "/ready took {:?}",
        begun.elapsed()
    );
    assert_eq!(probe(app.address, "/live").await, 200);
    running.join_all().await;
}

async fn probe(address: SocketAddr, path: &str) -> u16 {
    let response = http::get(format!("http://{address}{path}")).await;
    response.expect("a response").status().as_u16()
}

async fn prepared(server: &RedisServer) -> (TestApp, RetryingClient, [String; 2]) {
    let app = TestApp::spawn_on(&server.url(), &[]).await;
    app.budget("tenant:acme", 1_000, 0).await;
    let client = RetryingClient::new(&[app.address], &app.keys[0]);
    let reserved = [
        client
            .post("/v1/reservations", &reserve_body("first", 10))
            .await,
        client
            .post("/v1/reservations", &reserve_body("second", 20))
            .await,
    ];
    let reservations = reserved.map(|response| response.text("/reservation_id").to_owned());
    // Every connection is open, also those of lists.
    for (method, path, body) in requests(&reservations) {
        if method == Method::GET {
            client.retry(method, &path, body.as_ref()).await.expect(200);
        }
    }
    (app, client, reservations)
}

/// It recovers by itself; every request has exactly one outcome, whether or not it ran during the outage.
async fn all_recovered(app: &TestApp, client: &RetryingClient, reservations: &[String; 2]) {
    eventually("it is ready again", || async {
        probe(app.address, "/ready").await == 200
    })
    .await;
    let mut running = JoinSet::new();
    for (method, path, body) in requests(reservations) {
        let client = client.clone();
        running.spawn(async move {
            let response = client.retry(method.clone(), &path, body.as_ref()).await;
            assert!(response.status < 300, "{path}: {response:?}");
            if let Some(body) = &body {
                let again = client.post(&path, body).await;
                assert_eq!(again.lasting(), response.lasting(), "{path}");
            }
        });
    }
    running.join_all().await;
    let audit = LedgerAudit::run(app, 0).await;
    assert_eq!(audit.figure("tenant:acme", "spent"), 4 + 3);
    assert_eq!(audit.figure("tenant:acme", "reserved"), 5 + 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_requests_are_refused_in_time_and_recover_by_themselves() {
    let mut server = block_in_place(|| RedisServer::start_with(&["--appendfsync", "always"]));
    let (app, client, reservations) = prepared(&server).await;
    for _ in 0..2 {
        block_in_place(|| server.kill());
        all_unavailable(&app, &client, &reservations).await;
        block_in_place(|| server.restart());
        eventually("it is ready again", || async {
            probe(app.address, "/ready").await == 200
        })
        .await;
    }
    all_recovered(&app, &client, &reservations).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_redis_is_handled_like_an_unreachable_one() {
    let server = block_in_place(RedisServer::start);
    let (app, client, reservations) = prepared(&server).await;
    server.freeze();
    all_unavailable(&app, &client, &reservations).await;
    server.thaw();
    all_recovered(&app, &client, &reservations).await;
}

/// The response to a request, which must come in time and be no decision. `limit`: less than it takes without a deadline.
async fn refused_in_time(
    limit: Duration,
    client: &RetryingClient,
    method: Method,
    path: &str,
    body: Option<&Value>,
) {
    let begun = Instant::now();
    let response = client.ask(method, path, body).await;
    let response = response.expect("the connection stands");
    let took = begun.elapsed();
    assert_eq!(
        (response.status, response.text("error")),
        (503, "INTERNAL_ERROR"),
        "{path}"
    );
    assert!(took < limit, "{path} took {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_calls_of_a_request_share_one_deadline() {
    const HOLDS: usize = 8_000;
    let server = block_in_place(RedisServer::start);
    let way = SlowProxy::to(server.port).await;
    // A stall of the machine is shorter.
    let app = TestApp::spawn_on(&way.url(), &["--redis-timeout-ms", "4000"]).await;
    app.budget("tenant:acme", 10 * HOLDS as i64, 0).await;
    let now_ms = app.now_ms().await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    tenant.write_holds(HOLDS, now_ms - 10).await;
    let ledger = tenant.ledger_key();
    tenant
        .run::<i64>(&[
            "HSET",
            &ledger,
            "remaining",
            "0",
            "allocated",
            &(10 * HOLDS).to_string(),
        ])
        .await;
    let client = RetryingClient::with_long_timeout(&[app.address], &app.keys[0]);
    assert_eq!(
        client
            .ask(Method::GET, "/v1/reservations?limit=1", None)
            .await
            .map(|response| response.status),
        Some(200)
    );

    // A list that gathers has more time: 270 calls at 20 ms.
    way.delay(Duration::from_millis(20));
    let begun = Instant::now();
    let listed = client
        .ask(Method::GET, "/v1/reservations?sort_by=reserved", None)
        .await;
    assert_eq!(listed.map(|response| response.status), Some(200));
    assert!(begun.elapsed() > Duration::from_secs(4));
    // 80 calls for the dead holds, at 0.25 s each: 20 s in all.
    way.delay(Duration::from_millis(250));
    let all = reserve_body("all", 10 * HOLDS as i64);
    let limit = Duration::from_secs(9);
    refused_in_time(limit, &client, Method::POST, "/v1/reservations", Some(&all)).await;
    let left: usize = server.run(&["ZCARD", &tenant.due_key()]);
    assert!(left < HOLDS, "what was expired stays expired");
    refused_in_time(limit, &client, Method::POST, "/v1/reservations", Some(&all)).await;
    let still_left: usize = server.run(&["ZCARD", &tenant.due_key()]);
    assert!(
        still_left < left,
        "the next attempt continues where the last one ended"
    );

    way.delay(Duration::ZERO);
    client
        .retry(Method::POST, "/v1/reservations", Some(&all))
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_starts_before_redis_waits_for_it() {
    let mut server = block_in_place(RedisServer::start);
    block_in_place(|| server.kill());
    let replica = Replica::start(&server.url(), "early", &[]);
    eventually("it is alive", || async {
        let response = http::get(format!("http://{}/live", replica.address))
            .await
            .ok()?;
        (response.status() == 200).then_some(())
    })
    .await;
    assert_eq!(probe(replica.address, "/ready").await, 503);
    block_in_place(|| server.restart());
    replica.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_fail_no_request() {
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await;
    seed_ledgers(&app, 0, 1_000_000).await;
    let client = RetryingClient::with_long_timeout(&[app.address], &app.keys[0]);
    let _dispatcher = Process::dispatcher(&server.url(), app.store.keys().prefix());
    let clients = RandomClients::start(&client, "acme", 12);
    for _ in 0..60 {
        block_in_place(|| server.run::<()>(&["SCRIPT", "FLUSH"]));
        // At any moment of the clients' work.
        tokio::time::sleep(Duration::from_millis(rand::random_range(5..60))).await;
    }
    let clients = clients.stop().await;
    assert_eq!(client.retries(), 0, "no request failed");
    check_clients(&app, 0, &clients).await;
}

/// Sends creates on one connection after another until no replica listens; returns the reservations that were
/// granted.
async fn use_up(address: SocketAddr, key: String, name: usize) -> BTreeSet<String> {
    let (mut granted, mut attempt) = (BTreeSet::new(), 0);
    while let Some(mut wire) = Wire::open(address).await {
        loop {
            attempt += 1;
            let body = reserve_body(&format!("{name}-{attempt}"), 1);
            let reply = wire.post(&key, "/v1/reservations", &body).await;
            let reply = reply.expect("what was sent on an open connection is answered");
            assert_eq!(reply.status, 200, "{reply:?}");
            let id = reply.body["reservation_id"].as_str().expect("an id");
            granted.insert(id.to_owned());
            if reply.close {
                break;
            }
            if name.is_multiple_of(2) {
                // A connection that idles for a moment.
                tokio::time::sleep(Duration::from_millis(rand::random_range(0..30))).await;
            }
        }
    }
    granted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_replica_responds_to_every_request_it_received() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000_000, 0).await;
    let url = crate::harness::redis::shared().url();
    let prefix = app.store.keys().prefix();
    let settings = [LONG_REDIS_TIMEOUT, &["--shutdown-delay-ms", "400"]].concat();
    let mut replica = Replica::start(&url, prefix, &settings);
    replica.ready().await;
    let mut clients = JoinSet::new();
    for name in 0..16 {
        clients.spawn(use_up(replica.address, app.keys[0].clone(), name));
    }
    eventually("the load has begun", || async {
        let audit = LedgerAudit::read(&app, 0).await;
        audit.reservations.len() > 100
    })
    .await;
    replica.process.terminate();
    let granted: BTreeSet<_> = clients.join_all().await.into_iter().flatten().collect();
    assert!(
        replica.process.ended(Duration::from_secs(60)).await,
        "an orderly end"
    );
    let audit = LedgerAudit::run(&app, 0).await;
    assert!(
        audit.reservations.keys().eq(&granted),
        "every operation has its event"
    );
}
