//! The deployment's record `meta`: compared while a process runs, never written again, written once to all replicas.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use budget_authority::store::{
    Keys, Lane, RedisOptions, Store, StoreError, StoreMetrics, Unavailable,
};
use budget_authority::telemetry::error_chain;

use crate::harness::app::reserve_body;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::process::Process;
use crate::harness::redis::RedisServer;
use crate::harness::{eventually, http};
use crate::http::logs::Service;

const ADMIN_KEY: &str = "admin-key-of-a-lost-deployment-32";

fn store_of(server: &RedisServer, prefix: &str, may_start: bool) -> Store {
    let mut options = RedisOptions::new(server.url());
    options.may_start = may_start;
    let metrics = StoreMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    let keys = Keys::new(prefix).expect("a prefix");
    Store::new(&options, keys, "service", metrics).expect("a usable URL")
}

fn restore(server: &RedisServer, key: &str, record: &BTreeMap<String, String>) {
    let mut words = vec!["HSET", key];
    words.extend(
        record
            .iter()
            .flat_map(|(name, value)| [name.as_str(), value]),
    );
    server.run::<()>(&words);
}

/// Deletes the record, or changes its secret; the record as it was.
fn lose(server: &RedisServer, key: &str, changed: bool) -> BTreeMap<String, String> {
    let record = server.run(&["HGETALL", key]);
    match changed {
        true => server.run::<()>(&["HSET", key, "secret", &"x".repeat(43)]),
        false => server.run::<()>(&["DEL", key]),
    }
    record
}

async fn status(service: &Service, path: &str, headers: &[(&str, &str)]) -> u16 {
    let url = service.ready_url().replace("/ready", path);
    let mut request = match path {
        "/v1/reservations" => http::client().post(url).json(&reserve_body("lost", 10)),
        _ => http::client().get(url),
    };
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.expect("a response").status().as_u16()
}

#[tokio::test]
async fn a_replica_refuses_requests_while_the_deployment_record_is_missing_or_different() {
    let server = RedisServer::start();
    for (prefix, changed, why) in [
        ("gone", false, "is missing in Redis"),
        ("other", true, "differs from that at the start"),
    ] {
        let meta = format!("{prefix}:meta");
        let fixture = LedgerFixture::on(store_of(&server, prefix, true)).await;
        fixture.budget_of(0, "tenant:acme", 1_000).await;
        let service = Service::start(&server.url(), prefix, &["--admin-keys", ADMIN_KEY]);
        service.ready().await;
        let key = [("X-Service-API-Key", fixture.keys[0].as_str())];
        let admin = [("X-Admin-API-Key", ADMIN_KEY)];
        assert_eq!(status(&service, "/v1/reservations", &key).await, 200);

        let record = lose(&server, &meta, changed);
        eventually("it is not ready", async || {
            (status(&service, "/ready", &[]).await == 503).then_some(())
        })
        .await;
        assert_eq!(status(&service, "/live", &[]).await, 200);
        assert_eq!(status(&service, "/v1/reservations", &key).await, 503);
        assert_eq!(status(&service, "/v1/admin/tenants", &admin).await, 503);
        eventually("the log says what to do", async || {
            let log = service.log();
            let line = log
                .lines()
                .find(|line| line.contains(why) && line.contains("ERROR"))?;
            assert!(
                line.contains(&meta) && line.contains("docs/operating.md"),
                "{line}"
            );
            Some(())
        })
        .await;
        if !changed {
            // A new process does not hide the loss.
            let mut second = Service::start(&server.url(), prefix, &[]);
            assert!(!crate::redis::start::ended(&mut second).await);
            assert!(
                second.log().contains("there are tenants"),
                "{}",
                second.log()
            );
            assert_eq!(server.run::<i64>(&["EXISTS", &meta]), 0);
        }
        restore(&server, &meta, &record);
        service.ready().await;
        assert_eq!(status(&service, "/v1/reservations", &key).await, 200);
        let errors = service
            .log()
            .lines()
            .filter(|line| line.contains("ERROR"))
            .count();
        assert!((1..4).contains(&errors), "{}", service.log());
    }
}

#[tokio::test]
async fn a_new_connection_checks_the_deployment_record_before_use() {
    let server = RedisServer::start();
    let store = store_of(&server, "fresh", true);
    store.secret().await.expect("a deployment");
    lose(&server, "fresh:meta", true);
    server.run::<()>(&["CLIENT", "KILL", "TYPE", "normal"]);
    let mut write = redis::cmd("SET");
    write.arg("fresh:x").arg(1);
    let failed = eventually("the record was compared", async || {
        store
            .send(Lane::Background, ("fresh:x", &write))
            .await
            .err()
            .filter(|error| matches!(error, StoreError::Unavailable(Unavailable::OtherData(_))))
    })
    .await;
    assert!(error_chain(&failed).contains("restart every process"));
    assert_eq!(server.run::<i64>(&["EXISTS", "fresh:x"]), 0);
    assert_eq!(store.metrics().other_data.get(), 1);
}

#[tokio::test]
async fn a_dispatcher_pauses_while_the_deployment_record_is_missing() {
    let server = RedisServer::start();
    let store = store_of(&server, "idle", true);
    store.secret().await.expect("a deployment");
    let _dispatcher = Process::dispatcher(&server.url(), "idle");
    let alive_until = || {
        server.run::<Vec<String>>(&["ZRANGE", "idle:{dir}:dispatchers", "0", "-1", "WITHSCORES"])
    };
    eventually("it works", async || !alive_until().is_empty()).await;
    let record = lose(&server, "idle:meta", false);
    // More than the time between two comparisons, also if the machine stalls.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let last = alive_until();
    // More than the time between two heartbeats.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(alive_until(), last);
    restore(&server, "idle:meta", &record);
    eventually("it works again", async || alive_until() != last).await;
}

/// Replicas of a later release may have written what this one does not know.
#[tokio::test]
async fn w31_a_dispatcher_refuses_data_of_a_later_layout() {
    let server = RedisServer::start();
    let store = store_of(&server, "later", true);
    store.secret().await.expect("a deployment");
    let dispatchers = "later:{dir}:dispatchers";
    let mut before = Process::dispatcher(&server.url(), "later");
    let works = || server.run::<i64>(&["EXISTS", dispatchers]) == 1;
    eventually("it works", async || works()).await;
    before.terminate();
    assert!(before.ended(Duration::from_secs(60)).await);
    server.run::<()>(&["HSET", "later:meta", "layout", "3"]);
    let mut later = Process::dispatcher(&server.url(), "later");
    assert!(!later.ended(Duration::from_secs(60)).await, "it refuses");
    assert!(!works());
    server.run::<()>(&["HSET", "later:meta", "layout", "1"]);
    let _again = Process::dispatcher(&server.url(), "later");
    eventually("it works", async || works()).await;
}

#[tokio::test]
async fn tools_do_not_create_a_deployment_record() {
    let server = RedisServer::start();
    let store = store_of(&server, "empty", false);
    let failed = store.secret().await;
    let message = failed.expect_err("there is none").to_string();
    assert!(
        message.contains("no deployment under the key prefix `empty`"),
        "{message}"
    );
    assert_eq!(server.run::<i64>(&["DBSIZE"]), 0);
}

#[tokio::test]
async fn a_new_deployment_record_waits_for_replicas() {
    let server = RedisServer::start();
    let port = server.port.to_string();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]);
    eventually("the replica is online", async || {
        server
            .run::<String>(&["INFO", "replication"])
            .contains("state=online")
    })
    .await;
    // Redis sends it no command before its first acknowledgement, which may be a second later.
    server.run::<()>(&["SET", "copied", "1"]);
    eventually("the replica follows", async || {
        replica.run::<i64>(&["EXISTS", "copied"]) == 1
    })
    .await;
    store_of(&server, "first", true)
        .secret()
        .await
        .expect("a deployment");
    assert_eq!(replica.run::<i64>(&["EXISTS", "first:meta"]), 1);
    replica.freeze();
    let begun = Instant::now();
    store_of(&server, "second", true)
        .secret()
        .await
        .expect("a deployment");
    assert!(begun.elapsed() >= Duration::from_millis(500));
    replica.thaw();
}
