//! Requirements of a start on Redis, and its log while it waits.

use std::time::Duration;

use budget_authority::store::RedisOptions;
use budget_authority::telemetry::error_chain;

use crate::harness::redis::{RedisServer, free_port};
use crate::harness::resp_server::{serve, text, texts};
use crate::harness::{eventually, http, store_with};
use crate::http::logs::Service;

const PASSWORD: &str = "redis-password-Kc4mWd";

pub(crate) async fn ended(service: &mut Service) -> bool {
    let child = std::sync::Mutex::new(&mut service.child);
    let status = eventually("the service has ended", async || {
        child.lock().expect("no panic").try_wait().expect("ours")
    });
    status.await.success()
}

#[tokio::test]
async fn a_start_on_a_redis_that_evicts_keys_is_refused_unless_a_setting_allows_it() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "volatile-ttl"]);
    let mut service = Service::start(&server.url(), "evicting", &[]);
    assert!(!ended(&mut service).await);
    let log = service.log();
    let why = "maxmemory-policy is volatile-ttl: it may throw reservations and ledgers away. Set it to noeviction; or set \
               BUDGET_ALLOW_UNSAFE_REDIS=true";
    assert!(log.contains(why), "{log}");
    let service = Service::start(&server.url(), "evicting", &["--allow-unsafe-redis"]);
    service.ready().await;
    eventually("it warns", async || {
        service.log().contains("maxmemory-policy is volatile-ttl")
    })
    .await;
}

#[tokio::test]
async fn a_replica_is_not_ready_while_redis_evicts_keys() {
    let server = RedisServer::start();
    let service = Service::start(&server.url(), "turned", &[]);
    service.ready().await;
    server.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
    let status = || async {
        http::get(&service.ready_url())
            .await
            .ok()
            .map(|r| r.status())
    };
    eventually("it is unready", || async {
        status().await.is_some_and(|status| status == 503)
    })
    .await;
    let log = service.log();
    assert!(
        log.contains("not ready") && log.contains("allkeys-lfu"),
        "{log}"
    );
    server.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(status().await.map(|s| s.as_u16()), Some(200));
}

#[tokio::test]
async fn a_failure_to_connect_has_its_cause_and_is_counted() {
    let server = RedisServer::start_with(&["--requirepass", "another"]);
    let plain = RedisServer::start();
    let secured = RedisServer::start_with_tls();
    for (case, address, cause) in [
        (
            "password",
            format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port),
            "WRONGPASS",
        ),
        (
            "host",
            format!("redis://:{PASSWORD}@missing.invalid"),
            "lookup",
        ),
        (
            "refused",
            format!("redis://:{PASSWORD}@127.0.0.1:{}", free_port()),
            "refused",
        ),
        (
            "tls",
            format!("rediss://:{PASSWORD}@127.0.0.1:{}", plain.port),
            "the server answers without TLS: the URL must begin with redis, not rediss",
        ),
        (
            "plain",
            format!("redis://:{PASSWORD}@127.0.0.1:{}", secured.1),
            "the server answers with TLS: the URL must begin with rediss, not redis",
        ),
    ] {
        let mut options = RedisOptions::new(address);
        options.timeout = Duration::from_secs(4);
        let store = store_with(options);
        let failed = store.secret().await.expect_err("it cannot connect");
        let message = error_chain(&failed);
        assert!(message.contains(cause), "{case}: {message}");
        assert!(!message.contains(PASSWORD) && !format!("{failed:?}").contains(PASSWORD));
        assert!(store.metrics().connection_failures.get() > 0, "{case}");
    }
}

#[tokio::test]
async fn the_log_repeats_why_a_start_waits_and_when_it_continues() {
    let mut server = RedisServer::start();
    server.kill();
    let service = Service::start(&server.url(), "waiting", &[]);
    let waits = |log: &str| log.matches("waiting for Redis").count();
    eventually("the cause is repeated", async || {
        (waits(&service.log()) >= 2).then_some(())
    })
    .await;
    let log = service.log();
    assert!(log.contains("refused"), "{log}");
    server.restart();
    service.ready().await;
    eventually("it is over", async || {
        service.log().contains("Redis responds, with").then_some(())
    })
    .await;
    assert!(waits(&service.log()) < 6, "{}", service.log());
}

/// A stub for a Redis that is not installed here.
#[tokio::test]
async fn a_start_on_an_old_redis_is_refused_unless_a_setting_allows_it() {
    let url = serve(|words| match words[0].as_str() {
        "INFO" => text("# Server\r\nredis_version:6.2.0\r\nmaxmemory_policy:noeviction\r\n"),
        "TIME" => texts(&["1709251200", "0"]),
        "CONFIG" => "*0\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    });
    let mut service = Service::start(&url, "old", &[]);
    assert!(!ended(&mut service).await);
    let log = service.log();
    let why = "Redis 6.2.0 is too old. Use Redis 7.0 or Valkey 7.2 or later; or set BUDGET_ALLOW_UNSAFE_REDIS=true";
    assert!(log.contains(why), "{log}");
    let mut options = RedisOptions::new(url);
    options.allow_unsafe = true;
    let findings = store_with(options).inspect().await.expect("it is allowed");
    assert!(
        findings
            .iter()
            .any(|found| found.message.contains("too old"))
    );
}
