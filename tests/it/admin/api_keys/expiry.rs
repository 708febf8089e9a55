//! The expiry of an API key emits one event, whichever worker emits it and however often it crashes.

use std::time::Duration;

use budget_authority::admin::{ApiKeyFilter, ApiKeyQuery, ApiKeySort};
use budget_authority::dispatcher::{DueEvents, Pass};
use budget_authority::domain::api_key::ApiKeyCreateRequest;
use budget_authority::domain::moment::Moment;
use budget_authority::store::Lease;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::harness::admin_fixture::{AdminFixture, ask, new_key, tenant_id};
use crate::harness::due_events::due_events;
use crate::harness::process::Process;
use crate::harness::redis::RedisServer;
use crate::harness::{eventually, patient, store_with};

/// An admin fixture with a tenant `acme` and `count` keys whose time is over, some of which were revoked before; the ids of the
/// others.
async fn fixture(expired: usize, revoked: usize) -> (AdminFixture, Vec<String>) {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let mut ids = Vec::new();
    for number in 0..expired + revoked {
        let id = key(&fixture).await;
        end(&fixture, &id).await;
        match number < revoked {
            true => {
                fixture
                    .set_key_of("acme", &id, &["status", "REVOKED"])
                    .await
            }
            false => ids.push(id),
        }
    }
    (fixture, ids)
}

async fn key(fixture: &AdminFixture) -> String {
    let created = fixture
        .admin
        .create_api_key(&new_key("acme"), &ask().request())
        .await;
    let created = created.expect("a key");
    created.key_id.to_string()
}

/// Expires a key.
async fn end(fixture: &AdminFixture, id: &str) {
    fixture
        .set_key_of("acme", id, &["expires_at_ms", "1"])
        .await;
    let index = fixture.store.keys().expiring(tenant_id("acme").partition());
    fixture
        .run::<()>(&["ZADD", &index, "1", &format!("acme:{id}")])
        .await;
}

async fn lease(fixture: &AdminFixture) -> Lease {
    let partition = tenant_id("acme").partition();
    fixture
        .lease_of(partition, "d", Duration::from_secs(60))
        .await
}

async fn pass(worker: &DueEvents, lease: Lease) -> Pass {
    let pass = worker
        .run_once(&[lease], |_| panic!("the lease is ours"))
        .await;
    pass.expect("Redis answers")
}

/// The keys of the expiry events, in order.
fn emitted(events: &[Value]) -> Vec<String> {
    let expired = events
        .iter()
        .filter(|event| event["event_type"] == "api_key.expired");
    expired
        .map(|event| event["data"]["key_id"].as_str().expect("an id").to_owned())
        .collect()
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

#[tokio::test]
async fn an_expired_key_emits_one_event_with_its_facts() {
    let (fixture, ids) = fixture(1, 0).await;
    let open = key(&fixture).await;
    let (worker, lease) = (due_events(&fixture.store), lease(&fixture).await);
    assert_eq!(pass(&worker, lease).await.done, 1);
    for _ in 0..2 {
        let pass = pass(&worker, lease).await;
        assert_eq!((pass.done, pass.failed, pass.more), (0, 0, false));
    }
    let events = fixture.events("acme");
    assert_eq!(emitted(&events), ids);
    let event = events.last().expect("an event");
    assert_eq!(
        event["data"],
        json!({"key_id": ids[0], "key_name": "ci", "previous_status": "ACTIVE", "new_status": "EXPIRED"})
    );
    assert_eq!(
        (&event["category"], &event["tenant_id"]),
        (&json!("api_key"), &json!("acme"))
    );
    assert_eq!(event["source"], "expiry-sweeper");
    assert_eq!(event["actor"], json!({"type": "system"}));
    assert!(event.get("request_id").is_none() && event["trace_id"].is_string());
    // Only keys that have not expired yet stay in the index.
    let index = fixture.store.keys().expiring(tenant_id("acme").partition());
    let left: Vec<String> = fixture.redis().run(&["ZRANGE", &index, "0", "-1"]);
    assert_eq!(left, [format!("acme:{open}")]);
}

#[tokio::test]
async fn an_expiry_waits_until_its_event_can_be_emitted() {
    let (fixture, ids) = fixture(1, 0).await;
    let (worker, lease) = (due_events(&fixture.store), lease(&fixture).await);
    let partition = tenant_id("acme").partition();
    let keys = fixture.store.keys();
    // A new day, which would have to be registered.
    fixture
        .run::<()>(&["HDEL", &keys.tenant(partition, "acme"), "day"])
        .await;
    fixture
        .run::<()>(&["SET", &keys.days(partition), "no registry"])
        .await;
    let failed = pass(&worker, lease).await;
    assert_eq!((failed.done, failed.failed), (0, 1));
    assert_eq!(emitted(&fixture.events("acme")), [""; 0]);
    fixture.run::<()>(&["DEL", &keys.days(partition)]).await;
    assert_eq!(pass(&worker, lease).await.done, 1);
    assert_eq!(emitted(&fixture.events("acme")), ids);
}

#[tokio::test]
async fn a_key_stays_in_the_index_until_it_expires() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let now_ms = fixture.now_ms().await;
    let soon = ApiKeyCreateRequest {
        expires_at: Moment::from_ms(now_ms + 8_000),
        ..new_key("acme")
    };
    let created = fixture.admin.create_api_key(&soon, &ask().request()).await;
    let id = created.expect("a key").key_id.to_string();
    let (worker, lease) = (due_events(&fixture.store), lease(&fixture).await);
    assert_eq!(pass(&worker, lease).await.done, 0);
    eventually("it is emitted", async || {
        pass(&worker, lease).await.done == 1
    })
    .await;
    assert!(fixture.now_ms().await >= now_ms + 8_000);
    assert_eq!(emitted(&fixture.events("acme")), [id]);
}

#[tokio::test]
async fn a_revoked_key_leaves_the_index_without_an_expiry_event() {
    let (fixture, ids) = fixture(2, 3).await;
    let gone = key(&fixture).await;
    end(&fixture, &gone).await;
    let partition = tenant_id("acme").partition();
    fixture
        .run::<()>(&["DEL", &fixture.store.keys().api_key(partition, &gone)])
        .await;
    let (worker, lease) = (due_events(&fixture.store), lease(&fixture).await);
    assert_eq!(pass(&worker, lease).await.done, 2);
    assert_eq!(sorted(emitted(&fixture.events("acme"))), sorted(ids));
    let index = fixture.store.keys().expiring(partition);
    assert_eq!(fixture.redis().run::<i64>(&["ZCARD", &index]), 0);
}

#[tokio::test]
async fn rule_83_a_key_that_expired_before_its_tenant_closed_still_emits_one_event() {
    let (fixture, ids) = fixture(1, 0).await;
    fixture.set_status("acme", "CLOSED");
    let (worker, lease) = (due_events(&fixture.store), lease(&fixture).await);
    assert_eq!(pass(&worker, lease).await.done, 1);
    assert_eq!(pass(&worker, lease).await.done, 0);
    assert_eq!(emitted(&fixture.events("acme")), ids);
    let filter = ApiKeyFilter {
        tenant_id: Some("acme".to_owned()),
        ..ApiKeyFilter::default()
    };
    let query = ApiKeyQuery::new(filter, ApiKeySort::CreatedAt, true, 10);
    let listed = fixture.admin.list_api_keys(&query).await.expect("a list");
    assert_eq!(listed.rows[0].status.as_str(), "EXPIRED");
}

#[tokio::test]
async fn a_former_owner_of_the_partition_emits_nothing() {
    let (fixture, _) = fixture(1, 0).await;
    let (worker, lease) = (due_events(&fixture.store), lease(&fixture).await);
    let stale = Lease {
        token: lease.token - 1,
        ..lease
    };
    let mut lost = Vec::new();
    let pass_of_former = worker.run_once(&[stale], |lease| lost.push(lease)).await;
    assert_eq!(pass_of_former.expect("Redis answers").done, 0);
    assert_eq!(lost, [stale]);
    assert!(emitted(&fixture.events("acme")).is_empty());
    assert_eq!(pass(&worker, lease).await.done, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_workers_at_once_emit_each_expiry_once() {
    let (fixture, ids) = fixture(100, 20).await;
    let lease = lease(&fixture).await;
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let worker = due_events(&fixture.store);
        workers.spawn(async move {
            let mut emitted = 0;
            loop {
                let pass = pass(&worker, lease).await;
                emitted += pass.done;
                if !pass.more {
                    return emitted;
                }
            }
        });
    }
    let counts = workers.join_all().await;
    assert_eq!(counts.iter().sum::<i64>(), 100, "{counts:?}");
    assert_eq!(sorted(emitted(&fixture.events("acme"))), sorted(ids));
}

#[tokio::test]
async fn an_index_entry_without_a_key_is_reported_and_delays_no_other() {
    let (fixture, ids) = fixture(1, 0).await;
    let index = fixture.store.keys().expiring(tenant_id("acme").partition());
    fixture.run::<()>(&["ZADD", &index, "0", "nonsense"]).await;
    let (worker, lease) = (due_events(&fixture.store), lease(&fixture).await);
    let pass = pass(&worker, lease).await;
    assert_eq!((pass.done, pass.failed), (1, 1));
    assert_eq!(emitted(&fixture.events("acme")), ids);
}

#[tokio::test]
async fn many_entries_without_a_key_delay_a_key_by_one_pass() {
    let (fixture, ids) = fixture(1, 0).await;
    let index = fixture.store.keys().expiring(tenant_id("acme").partition());
    for number in 0..64 {
        let name = format!("nonsense {number}");
        fixture.run::<()>(&["ZADD", &index, "0", &name]).await;
    }
    let (worker, lease) = (due_events(&fixture.store), lease(&fixture).await);
    let before = pass(&worker, lease).await;
    assert_eq!((before.done, before.failed), (0, 64));
    let pass = pass(&worker, lease).await;
    assert_eq!((pass.done, pass.failed), (1, 0));
    assert_eq!(emitted(&fixture.events("acme")), ids);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_dispatchers_emit_every_expiry_once() {
    const KEYS: usize = 600;
    let server = block_in_place(|| RedisServer::start_with(&["--appendfsync", "always"]));
    let url = server.url();
    let store = store_with(patient(&url));
    let fixture = AdminFixture::on(store.clone());
    fixture.tenant("acme").await;
    let mut ids = Vec::new();
    for _ in 0..KEYS {
        let id = key(&fixture).await;
        end(&fixture, &id).await;
        ids.push(id);
    }
    let (keys, partition) = (store.keys(), tenant_id("acme").partition());
    let index = keys.expiring(partition);
    let left = || server.run::<usize>(&["ZCARD", &index]);
    let prefix = store.keys().prefix();
    let mut dispatchers = [(); 2].map(|()| Process::dispatcher(&url, prefix));
    // Each is killed once it has emitted something.
    for dispatcher in &mut dispatchers {
        let before = block_in_place(left);
        eventually("an event is emitted", async || {
            block_in_place(left) < before || before == 0
        })
        .await;
        block_in_place(|| dispatcher.restart());
    }
    eventually("all are emitted", async || block_in_place(left) == 0).await;
    let log = |day| keys.events(partition, "acme", day);
    let events = fixture.log_facts(log).await.into_iter();
    let expired: Vec<String> = events
        .filter(|facts| facts["type"] == "api_key.expired")
        .map(|facts| facts["data.key_id"].clone())
        .collect();
    assert_eq!(sorted(expired), sorted(ids));
}
