//! The events of refused keys: one per key and minute, with the exact count, and never a secret.

use std::time::Duration;

use budget_authority::api::auth::failures::AuthFailures;
use budget_authority::domain::api_key::secret::KeyId;
use budget_authority::domain::cause::Actor;
use budget_authority::domain::ids::Partition;
use budget_authority::store::Lease;
use budget_authority::store::dispatcher::auth_failed::Subject;
use reqwest::Method;
use serde_json::Value;
use tokio::task::block_in_place;

use crate::harness::admin_fixture::{cause, envelopes, tenant_id};
use crate::harness::app::TestApp;
use crate::harness::due_events::due_events;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::redis::RedisServer;
use crate::harness::{eventually, patient, store_with};

const SYSTEM: &str = "__system__";

/// The events in a log, as they would be delivered.
async fn emitted(fixture: &LedgerFixture, partition: Partition, tenant: &str) -> Vec<Value> {
    let keys = fixture.store.keys();
    let log = |day| keys.events(partition, tenant, day);
    envelopes(partition, tenant, fixture.log_entries(log).await)
}

/// The same once there are `count`: they are emitted off the request path.
async fn emitted_soon(
    app: &TestApp,
    partition: Partition,
    tenant: &str,
    number: usize,
) -> Vec<Value> {
    eventually("enough events", || async {
        let events = emitted(app, partition, tenant).await;
        match events.len() >= number {
            true => Ok(events),
            false => Err(events),
        }
    })
    .await
}

#[tokio::test]
async fn a_refused_key_emits_an_event_with_its_reason_and_without_its_secret() {
    let app = TestApp::spawn().await;
    let partition = app.callers[0].partition;
    let revoked = app.add_key(0, &[("status", "REVOKED")]).await;
    let response = app
        .get_with(&revoked, "/v1/reservations")
        .await
        .refused(401, "UNAUTHORIZED");
    let events = emitted_soon(&app, partition, "acme", 1).await;
    let event = &events[0];
    assert_eq!(event["event_type"], "api_key.auth_failed");
    assert_eq!(event["category"], "api_key");
    assert_eq!(event["tenant_id"], "acme");
    assert_eq!(event["source"], "service-server");
    assert_eq!(event["request_id"], response.text("/request_id"));
    assert_eq!(event["trace_id"], response.text("/trace_id"));
    assert_eq!(event["metadata"]["count"], 1);
    assert_eq!(event["data"]["failure_reason"], "key_revoked");
    assert_eq!(event["data"]["source_ip"], "127.0.0.1");
    assert_eq!(event["actor"]["type"], "api_key");
    assert_eq!(event["actor"]["source_ip"], "127.0.0.1");
    let key_id = event["data"]["key_id"].as_str().expect("a known key");
    assert_eq!(event["actor"]["key_id"], key_id);
    assert!(key_id.starts_with("key_"));
    assert!(event.get("scope").is_none() && event.get("correlation_id").is_none());
    assert!(!event.to_string().contains(&revoked[23..]));
}

#[tokio::test]
async fn unknown_keys_share_one_event_on_both_planes() {
    let app = TestApp::spawn().await;
    for key in ["nonsense", "sk_live_000aaaaaaaaaaaa"] {
        app.get_with(key, "/v1/reservations").await;
    }
    let request = app.request(Method::GET, "/v1/admin/tenants");
    app.send(request.header("X-Admin-API-Key", "wrong"))
        .await
        .expect(401);
    let events = emitted_soon(&app, Partition::FIRST, SYSTEM, 1).await;
    let event = &events[0];
    assert_eq!(event["event_type"], "api_key.auth_failed");
    assert_eq!(event["tenant_id"], SYSTEM);
    assert_eq!(event["data"]["failure_reason"], "invalid_format");
    assert!(event["data"].get("key_id").is_none());
    assert!(event["actor"].get("key_id").is_none());
}

#[tokio::test]
async fn a_request_without_a_key_is_not_counted() {
    let app = TestApp::spawn().await;
    for path in ["/v1/reservations", "/v1/admin/tenants", "/v1/nothing"] {
        app.send(app.request(Method::GET, path)).await.expect(401);
    }
    app.get_with("nonsense", "/v1/reservations").await;
    let events = emitted_soon(&app, Partition::FIRST, SYSTEM, 1).await;
    assert_eq!(events[0]["metadata"]["count"], 1);
}

fn counts(events: &[Value]) -> Vec<i64> {
    let count = |event: &Value| event["metadata"]["count"].as_i64().expect("a count");
    events.iter().map(count).collect()
}

/// Moves the counts to a past minute.
async fn backdate(fixture: &LedgerFixture, partition: Partition, member: &str) {
    let keys = fixture.store.keys();
    let counter = keys.auth_failures(partition, member);
    fixture
        .run::<()>(&["HSET", &counter, "minute_ms", "0"])
        .await;
    let index = keys.auth_failures_due(partition);
    fixture
        .run::<()>(&["ZADD", &index, "XX", "1", member])
        .await;
}

#[tokio::test]
async fn two_replicas_count_every_failure_and_emit_once_a_minute() {
    let fixture = LedgerFixture::new().await;
    let store = fixture.store.clone();
    let caller = &fixture.callers[0];
    let (key_id, partition) = (caller.key_id.clone(), caller.partition);
    let subject = Subject::Key {
        tenant: tenant_id("acme"),
        key_id: key_id.clone(),
    };
    let replicas = [(); 2].map(|()| AuthFailures::new(store.clone()));
    let refuse = |replica: &AuthFailures, number: usize| {
        for _ in 0..number {
            let actor = Actor::ApiKey(key_id.clone());
            replica.count(subject.clone(), "key_expired", || cause(actor));
        }
    };
    fixture.with_left_in_minute(Duration::from_secs(25)).await;
    let now_ms = store.clock().now_ms();
    for (replica, number) in replicas.iter().zip([3, 4]) {
        refuse(replica, number);
        replica.run_once(now_ms).await.expect("Redis answers");
        refuse(replica, 1_000);
        replica.run_once(now_ms).await.expect("Redis answers");
    }
    assert_eq!(counts(&emitted(&fixture, partition, "acme").await), [3]);
    for replica in &replicas {
        replica.run_last().await.expect("Redis answers");
    }
    assert_eq!(counts(&emitted(&fixture, partition, "acme").await), [3]);

    let member = format!("acme:{key_id}");
    let lease = fixture
        .lease_of(partition, "d", Duration::from_secs(60))
        .await;
    let rollups = due_events(&store);
    let early = rollups
        .run_once(&[lease], |_| {})
        .await
        .expect("Redis answers");
    assert_eq!(early.done, 0, "the minute is not over");
    backdate(&fixture, partition, &member).await;
    let stale = Lease {
        token: lease.token - 1,
        ..lease
    };
    let mut lost = Vec::new();
    let fenced = rollups.run_once(&[stale], |lease| lost.push(lease)).await;
    assert_eq!((fenced.expect("Redis answers").done, lost.len()), (0, 1));
    for expected in [1, 0] {
        let flush = rollups
            .run_once(&[lease], |_| {})
            .await
            .expect("Redis answers");
        assert_eq!((flush.done, flush.failed), (expected, 0));
    }
    let events = emitted(&fixture, partition, "acme").await;
    assert_eq!(counts(&events), [3, 2_004]);
    assert_eq!(events[1]["data"]["failure_reason"], "key_expired");
    assert_eq!(events[1]["source"], "service-admin", "that of the first");
    // The rest marks that the minute has had its event, and has a TTL.
    let counter = store.keys().auth_failures(partition, &member);
    let ttl_ms: i64 = fixture.run(&["PTTL", &counter]).await;
    assert!((1..=60_000).contains(&ttl_ms), "{ttl_ms}");
    let index = store.keys().auth_failures_due(partition);
    let left: i64 = fixture.run(&["EXISTS", &index]).await;
    assert_eq!(left, 0);
}

#[tokio::test]
async fn keys_above_the_bound_are_counted_as_unknown() {
    let fixture = LedgerFixture::new().await;
    let failures = AuthFailures::new(fixture.store.clone());
    fixture.with_left_in_minute(Duration::from_secs(25)).await;
    for number in 0..1_030 {
        let subject = Subject::Key {
            tenant: tenant_id("acme"),
            key_id: KeyId::parse(&format!("key_05f_{number:012}")).expect("an id"),
        };
        failures.count(subject, "key_revoked", || cause(Actor::UnknownKey));
    }
    let now_ms = fixture.store.clock().now_ms();
    failures.run_once(now_ms).await.expect("Redis answers");
    let partition = tenant_id("acme").partition();
    assert_eq!(emitted(&fixture, partition, "acme").await.len(), 1_024);
    let rest = emitted(&fixture, Partition::FIRST, SYSTEM).await;
    assert_eq!(counts(&rest), [6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_kept_while_redis_is_down_and_delay_no_request() {
    let mut server = block_in_place(RedisServer::start);
    let store = store_with(patient(&server.url()));
    store.secret().await.expect("Redis answers");
    let fixture = LedgerFixture::on(store.clone()).await;
    let failures = AuthFailures::new(store.clone());
    let count = |number: usize| {
        for _ in 0..number {
            failures.count(Subject::Unknown, "key_not_found", || {
                cause(Actor::UnknownKey)
            });
        }
    };
    let now_ms = store.clock().now_ms();
    block_in_place(|| server.kill());
    // The connection fails first: a count that may have arrived would not be sent again.
    assert!(store.ping(Duration::from_secs(1)).await.is_err());
    count(5);
    assert!(failures.run_once(now_ms).await.is_err());
    count(2);
    block_in_place(|| server.restart());
    failures.run_last().await.expect("Redis answers");
    let events = emitted(&fixture, Partition::FIRST, SYSTEM).await;
    assert_eq!(counts(&events), [7]);
}

#[tokio::test]
async fn a_service_stores_its_counts_at_shutdown() {
    let app = TestApp::spawn().await;
    app.with_left_in_minute(Duration::from_secs(25)).await;
    app.get_with("nonsense", "/v1/reservations").await;
    emitted_soon(&app, Partition::FIRST, SYSTEM, 1).await;
    for _ in 0..20 {
        app.get_with("nonsense", "/v1/reservations").await;
    }
    app.stop();
    let keys = app.store.keys();
    let counter = keys.auth_failures(Partition::FIRST, "__system__:unknown");
    crate::harness::eventually("the rest is counted", async || {
        let count: Option<i64> = app.run(&["HGET", &counter, "count"]).await;
        count.filter(|count| *count == 20)
    })
    .await;
}

#[tokio::test]
async fn refused_keys_are_counted_by_reason() {
    let app = TestApp::spawn().await;
    let good = app.add_key(0, &[]).await;
    let revoked = app.add_key(0, &[("status", "REVOKED")]).await;
    let expired = app.add_key(0, &[("expires_at_ms", "1")]).await;
    let wrong = good.replace("sk_live_", "sk_test_");
    let nobodys = format!("sk_live_000zzzzzzzzzzzz{}", "A".repeat(32));
    for key in [&revoked, &expired, &wrong, &nobodys, "x", &good] {
        app.get_with(key, "/v1/reservations").await;
        app.get_with(key, "/v1/no/such/path").await;
    }
    app.send(app.request(Method::GET, "/v1/balances")).await;
    app.send(app.request(Method::GET, "/v1/admin/tenants"))
        .await;
    let request = app.request(Method::GET, "/v1/admin/tenants");
    app.send(request.header("X-Admin-API-Key", "x")).await;
    let text = app.telemetry.render().expect("metrics");
    for (plane, reason, number) in [
        ("runtime", "key_revoked", 2),
        ("runtime", "key_expired", 2),
        ("runtime", "wrong_secret", 2),
        ("runtime", "key_not_found", 2),
        ("runtime", "invalid_format", 2),
        ("runtime", "no_key", 1),
        ("admin", "no_key", 1),
        ("admin", "wrong_admin_key", 1),
    ] {
        let line = format!(
            "budget_auth_failures_total{{plane=\"{plane}\",reason=\"{reason}\"}} {number}\n"
        );
        assert!(text.contains(&line), "{line}{text}");
    }
}
