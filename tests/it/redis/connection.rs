//! One server: reconnects, reloads scripts, and answers every caller within its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use budget_authority::store::deployment::META;
use budget_authority::store::runtime::reserve::RESERVE;
use budget_authority::store::{
    Call, Keys, Lane, RedisOptions, Store, StoreError, StoreMetrics, Unavailable,
};
use redis::{ClientTlsConfig, TlsCertificates, Value};

use crate::harness::redis::{RedisServer, shared, tls_file};
use crate::harness::{eventually, store, store_with};

/// An arbitrary script, which returns five fields of its key.
async fn call(store: &Store) -> Result<Value, StoreError> {
    let key = store.keys().meta();
    let args = ["1", "1024", "secret", "service"];
    store
        .send(
            Lane::Request,
            &Call::new(&META.script, &[key]).with(&args[..]),
        )
        .await
}

#[tokio::test]
async fn the_first_process_starts_the_deployment_and_the_others_find_it() {
    let first = store(&shared().url());
    let prefix = first.keys().prefix().to_owned();
    let secret = first.secret().await.expect("it starts").expose();
    let again = |dialect| {
        let metrics =
            StoreMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
        let keys = Keys::new(&prefix).expect("a prefix");
        Store::new(&RedisOptions::new(shared().url()), keys, dialect, metrics).expect("a store")
    };
    let found = again("service");
    let found = found.secret().await.expect("it is found");
    assert_eq!(found.expose(), secret);
    let other = again("cycles").secret().await.expect_err("another dialect");
    assert!(
        other.to_string().contains("BUDGET_DIALECT=service"),
        "{other}"
    );
    shared().run::<()>(&["HSET", &first.keys().meta(), "layout", "3"]);
    let newer = again("service").secret().await.expect_err("another layout");
    assert!(
        matches!(&newer, StoreError::Deployment(text) if text.contains("has layout 3,")),
        "{newer}"
    );
}

#[tokio::test]
async fn a_script_that_redis_forgot_is_loaded_again_without_a_failed_request() {
    let server = RedisServer::start();
    let store = store(&server.url());
    for round in 1..=3 {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let store = store.clone();
            calls.spawn(async move { call(&store).await });
        }
        for outcome in calls.join_all().await {
            outcome.expect("no request fails");
        }
        // Both lanes and fifty callers: one load is enough.
        let stats: String = server.run(&["INFO", "commandstats"]);
        let loads = stats
            .lines()
            .find(|line| line.starts_with("cmdstat_script|load:"))
            .expect("a load");
        assert!(loads.contains(&format!("calls={round},")), "{loads}");
        server.run::<()>(&["SCRIPT", "FLUSH"]);
    }
}

#[tokio::test]
async fn a_restarted_redis_is_found_again_by_waiting_requests() {
    let mut server = RedisServer::start();
    let store = store(&server.url());
    call(&store).await.expect("it runs");
    server.kill();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { call(&store).await }
    });
    // The request is waiting for a connection now, or for its loss to be noticed.
    let restarted = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    });
    let server = restarted.await.expect("a restart");
    match waiting.await.expect("no panic") {
        Ok(_) => {}
        Err(error) => panic!("a request that was not sent must wait: {error}"),
    }
    eventually("all connections are back", || async {
        call(&store).await.ok()
    })
    .await;
    drop(server);
}

#[tokio::test]
async fn without_redis_a_call_fails_within_its_deadline() {
    let mut server = RedisServer::start();
    let mut options = RedisOptions::new(server.url());
    // Longer than a busy machine stalls.
    options.timeout = Duration::from_secs(4);
    let store = store_with(options);
    call(&store).await.expect("it runs");
    server.kill();
    let started = Instant::now();
    let error = call(&store).await.expect_err("nobody is there");
    assert!(
        started.elapsed() < Duration::from_secs(12),
        "{:?}",
        started.elapsed()
    );
    let StoreError::Unavailable(unavailable) = error else {
        panic!("{error}")
    };
    assert!(!unavailable.effect_unknown(), "{unavailable}");
    assert!(store.ping(Duration::from_millis(100)).await.is_err());
}

#[tokio::test]
async fn a_lost_reply_is_reported_and_not_sent_again() {
    let server = RedisServer::start();
    let mut options = RedisOptions::new(server.url());
    // Longer than a busy machine stalls.
    options.timeout = Duration::from_secs(4);
    options.connections = 1;
    let store = store_with(options);
    call(&store).await.expect("it runs");
    let before = scripts_run(&server);
    server.freeze();
    let started = Instant::now();
    let error = call(&store).await.expect_err("no reply");
    assert!(
        started.elapsed() < Duration::from_secs(12),
        "{:?}",
        started.elapsed()
    );
    let no_reply = matches!(error, StoreError::Unavailable(Unavailable::NoReply { .. }));
    assert!(no_reply, "{error}");
    server.thaw();
    call(&store).await.expect("the connection is replaced");
    let run = scripts_run(&server) - before;
    assert!(
        (1..=2).contains(&run),
        "ours, and perhaps the one that got no reply: {run}"
    );
}

fn scripts_run(server: &RedisServer) -> u64 {
    let stats: String = server.run(&["INFO", "commandstats"]);
    let calls = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let digits = calls.and_then(|calls| calls.split(',').next());
    digits
        .and_then(|digits| digits.parse().ok())
        .expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_run_even_if_redis_keeps_forgetting_them() {
    let server = RedisServer::start();
    let store = store(&server.url());
    call(&store).await.expect("it runs");
    let stop = Arc::new(AtomicBool::new(false));
    let flushing = tokio::task::spawn_blocking({
        let (url, stop) = (server.url(), Arc::clone(&stop));
        move || {
            let client = redis::Client::open(url).expect("a url");
            let mut connection = client.get_connection().expect("it runs");
            while !stop.load(Ordering::Relaxed) {
                let flush = redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection);
                flush.expect("it runs");
            }
        }
    });
    let mut failed = Vec::new();
    for _ in 0..100 {
        failed.extend(call(&store).await.err());
    }
    stop.store(true, Ordering::Relaxed);
    flushing.await.expect("it runs");
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test]
async fn a_full_redis_is_distinguished_from_an_unavailable_one() {
    let server = RedisServer::start();
    let store = store(&server.url());
    call(&store).await.expect("it runs");
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    call(&store).await.expect("a start needs no memory");
    let keys: Vec<_> = (0..12).map(|key| format!("{{t}}:{key}")).collect();
    let args: Vec<i64> = (0..22).collect();
    let error = store
        .send(
            Lane::Request,
            &Call::new(&RESERVE.script, &keys).with(&args),
        )
        .await;
    let error = error.expect_err("a hold takes memory");
    assert!(matches!(error, StoreError::Full), "{error}");
}

#[tokio::test]
async fn a_corrupt_record_names_script_and_line() {
    let store = store(&shared().url());
    store.secret().await.expect("it runs");
    let key = format!("{}:text", store.keys().prefix());
    shared().run::<()>(&["SET", &key, "x"]);
    let error = store
        .send(Lane::Request, &Call::new(&META.script, &[key]))
        .await
        .expect_err("not a hash");
    let StoreError::Script {
        script,
        place,
        message,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((script, place.as_str()), ("meta", "deployment/meta.lua:34"));
    assert!(message.starts_with("WRONGTYPE"), "{message}");
}

#[tokio::test]
async fn risky_settings_are_found() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let mut options = RedisOptions::new(server.url());
    let refused = store_with(options.clone()).inspect().await;
    let message = refused.expect_err("it evicts").to_string();
    assert!(
        message.contains("allkeys-lru") && message.contains("BUDGET_ALLOW_UNSAFE_REDIS"),
        "{message}"
    );
    options.allow_unsafe = true;
    let findings = store_with(options)
        .inspect()
        .await
        .expect("it can be asked");
    let has = |text: &str| {
        findings
            .iter()
            .any(|finding| finding.message.contains(text))
    };
    assert!(
        has("allkeys-lru") && has("hash-max-listpack-value is 64"),
        "{findings:?}"
    );
}

#[tokio::test]
async fn a_tls_server_is_reached_through_a_private_authority_with_a_client_certificate() {
    let (_server, port) = RedisServer::start_with_tls();
    let read = |name: &str| std::fs::read(tls_file(name)).expect("a fixture");
    let mut options = RedisOptions::new(format!("rediss://localhost:{port}"));
    options.tls = Some(TlsCertificates {
        client_tls: Some(ClientTlsConfig {
            client_cert: read("server.pem"),
            client_key: read("server.key"),
        }),
        root_cert: Some(read("ca.pem")),
    });
    options.timeout = Duration::from_secs(4);
    call(&store_with(options.clone())).await.expect("it runs");
    options.tls = None;
    call(&store_with(options))
        .await
        .expect_err("the authority is not a public one");
}
