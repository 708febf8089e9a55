//! Refused requests of unknown callers and of tenants' keys: each is audited up to a bound; those beyond it are counted.

use std::time::Duration;

use budget_authority::domain::ids::Partition;
use reqwest::Method;
use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::due_events::due_events;

/// The entries of today: stream id, then names and values.
async fn recorded(app: &TestApp) -> Vec<(String, Vec<String>)> {
    let store = &app.store;
    let log = store
        .keys()
        .audit(Partition::FIRST, "__unauth__", store.today());
    app.run(&["XRANGE", &log, "-", "+"]).await
}

fn value<'e>(entry: &'e (String, Vec<String>), name: &str) -> Option<&'e str> {
    let mut pairs = entry.1.chunks_exact(2);
    pairs
        .find(|pair| pair[0] == name)
        .map(|pair| pair[1].as_str())
}

#[tokio::test]
async fn keyless_requests_are_audited_up_to_a_bound_and_counted_exactly() {
    const FLOOD: usize = 650;
    let app = TestApp::spawn().await;
    app.with_left_in_minute(Duration::from_secs(20)).await;
    for _ in 0..FLOOD {
        let request = app.request(Method::GET, "/v1/admin/tenants");
        app.send(request).await.expect(401);
    }
    assert_eq!(recorded(&app).await.len(), 600);
    let keys = app.store.keys();
    let due: Vec<String> = app
        .run(&[
            "ZRANGE",
            &keys.audit_failures_due(Partition::FIRST),
            "0",
            "-1",
        ])
        .await;
    assert_eq!(due, ["__unauth__"], "the minute waits for its sum");
    let counter = app
        .store
        .keys()
        .audit_failures(Partition::FIRST, "__unauth__");
    let minute: i64 = app.run(&["HGET", &counter, "minute_ms"]).await;
    app.set(&counter, &[("minute_ms", &(minute - 60_000).to_string())])
        .await;
    app.send(app.request(Method::GET, "/v1/admin/x")).await;
    let entries = recorded(&app).await;
    assert_eq!(entries.len(), 602);
    let sum = &entries[600];
    assert_eq!(value(sum, "metadata.count"), Some("50"));
    assert_eq!(value(sum, "operation"), Some("GET:/v1/admin/tenants"));
    assert_eq!(value(sum, "error_code"), Some("UNAUTHORIZED"));
    for (number, entry) in entries.iter().enumerate() {
        assert_eq!(
            value(entry, "sequence"),
            Some((number + 1).to_string().as_str())
        );
    }
}

/// Whoever has no key must not fill the memory that all tenants share.
#[tokio::test]
async fn beyond_their_share_strangers_have_one_entry_a_minute_with_the_exact_count() {
    let app = TestApp::spawn().await;
    app.with_left_in_minute(Duration::from_secs(20)).await;
    let keys = app.store.keys();
    let chain = keys.chain(Partition::FIRST, "__unauth__");
    app.set(&chain, &[("sequence", "7999")]).await;
    let ask = async || app.send(app.request(Method::GET, "/v1/admin/x")).await;
    for _ in 0..4 {
        ask().await.expect(401);
    }
    // A revoked key is a stranger's as well, wherever its record is.
    app.set_key(&[("status", "REVOKED")]).await;
    app.get("/v1/admin/budgets").await.expect(401);
    assert_eq!(recorded(&app).await.len(), 1, "the last of their share");
    let counter = keys.audit_failures(Partition::FIRST, "__unauth__");
    let minute: i64 = app.run(&["HGET", &counter, "minute_ms"]).await;
    app.set(&counter, &[("minute_ms", &(minute - 60_000).to_string())])
        .await;
    ask().await.expect(401);
    let entries = recorded(&app).await;
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!(value(&entries[1], "metadata.count"), Some("4"));
    assert_eq!(value(&entries[1], "operation"), Some("GET:/v1/admin/x"));
    assert_eq!(value(&entries[1], "sequence"), Some("8001"));

    // Retention has made room.
    app.set(&chain, &[("anchor_sequence", "2")]).await;
    ask().await.expect(401);
    assert_eq!(recorded(&app).await.len(), 3);
}

#[tokio::test]
async fn a_keyless_request_to_a_long_path_audits_a_short_entry() {
    let app = TestApp::spawn().await;
    let path = format!("/v1/admin/{}", "x".repeat(1_000));
    app.send(app.request(Method::GET, &path)).await.expect(401);
    let entries = recorded(&app).await;
    let fields = entries[0].1.concat();
    assert!(fields.len() < 500, "{}: {entries:?}", fields.len());
    assert!(fields.contains("GET:/v1/admin/xxx"), "{entries:?}");
}

#[tokio::test]
async fn the_dispatcher_rolls_up_a_flood_when_no_further_request_comes() {
    let app = TestApp::spawn().await;
    let (store, keys) = (&app.store, app.store.keys());
    let counter = keys.audit_failures(Partition::FIRST, "__unauth__");
    let first = [
        ("minute_ms", "0"),
        ("count", "642"),
        ("suppressed", "42"),
        ("operation", "GET:/v1/admin/x"),
        ("status", "401"),
    ];
    app.set(&counter, &first).await;
    let due = keys.audit_failures_due(Partition::FIRST);
    app.run::<i64>(&["ZADD", &due, "1", "__unauth__"]).await;
    let rollups = due_events(store);
    let lease = app
        .lease_of(Partition::FIRST, "d", Duration::from_secs(60))
        .await;
    for expected in [1, 0] {
        let flush = rollups.run_once(&[lease], |_| {}).await;
        assert_eq!(flush.expect("Redis answers").done, expected);
    }
    let entries = recorded(&app).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(value(&entries[0], "metadata.count"), Some("42"));
    assert_eq!(value(&entries[0], "operation"), Some("GET:/v1/admin/x"));
    assert_eq!(value(&entries[0], "sequence"), Some("1"));
    let left: i64 = app.run(&["EXISTS", &counter, &due]).await;
    assert_eq!(left, 0);
    let days: Vec<String> = app
        .run(&["ZRANGE", &keys.days(Partition::FIRST), "0", "-1"])
        .await;
    assert!(days[0].starts_with("__unauth__:"), "{days:?}");
}

/// The entries of today of a tenant's refused requests.
async fn refused(app: &TestApp, tenant: usize) -> Vec<(String, Vec<String>)> {
    let (store, caller) = (&app.store, &app.callers[tenant]);
    let keys = store.keys();
    let log = keys.audit(caller.partition, caller.tenant.as_str(), store.today());
    app.run(&["XRANGE", &log, "-", "+"]).await
}

#[tokio::test]
async fn forbidden_requests_are_rolled_up_per_tenant() {
    let app = TestApp::spawn().await;
    app.with_left_in_minute(Duration::from_secs(20)).await;
    let (keys, caller) = (app.store.keys(), &app.callers[0]);
    let counter = keys.audit_failures(caller.partition, "acme");
    // As after 580 entries of this minute: 20 are left.
    app.get("/v1/admin/policies?status=none").await.expect(400);
    app.set(&counter, &[("count", "580")]).await;
    let permissions = [("permissions", "reservations:create")];
    let lacking = app.add_key(0, &permissions).await;
    for number in 0..50 {
        match number % 2 {
            0 => app.get("/v1/admin/policies?status=none").await.expect(400),
            _ => {
                let refused = app.get_with(&lacking, "/v1/admin/policies").await;
                refused.expect(403)
            }
        };
    }
    app.get_as(1, "/v1/admin/policies?status=none")
        .await
        .expect(400);
    assert_eq!(refused(&app, 0).await.len(), 21);
    assert_eq!(refused(&app, 1).await.len(), 1, "no tenant hides another's");
    let due = keys.audit_failures_due(caller.partition);
    let due: Vec<String> = app.run(&["ZRANGE", &due, "0", "-1"]).await;
    assert_eq!(due, ["acme"], "the minute waits for its sum");
    // Requests of operators do not count towards the tenant's flood.
    let path = "/v1/admin/budgets/fund?scope=tenant:acme&unit=TOKENS&tenant_id=acme";
    let body = json!({"operation": "CREDIT", "amount": {"unit": "TOKENS", "amount": 1}, "idempotency_key": "f"});
    app.post_as_admin(path, body).await.expect(404);
    let operators = &refused(&app, 0).await[21];
    assert_eq!(
        value(operators, "operation"),
        Some("POST:/v1/admin/budgets/fund")
    );

    let minute: i64 = app.run(&["HGET", &counter, "minute_ms"]).await;
    app.set(&counter, &[("minute_ms", &(minute - 60_000).to_string())])
        .await;
    app.get_with(&lacking, "/v1/admin/policies")
        .await
        .expect(403);
    let entries = refused(&app, 0).await;
    assert_eq!(entries.len(), 24);
    assert_eq!(value(&entries[22], "metadata.count"), Some("30"));
    assert_eq!(value(&entries[22], "error_code"), Some("INVALID_REQUEST"));
    assert_eq!(value(&entries[23], "metadata.count"), None);
    for (number, entry) in entries.iter().enumerate() {
        let sequence = (number + 1).to_string();
        assert_eq!(value(entry, "sequence"), Some(sequence.as_str()));
    }
}

#[tokio::test]
async fn the_dispatcher_rolls_up_the_flood_of_a_tenant_into_its_own_log() {
    let app = TestApp::spawn().await;
    let (store, keys, caller) = (&app.store, app.store.keys(), &app.callers[1]);
    let counter = keys.audit_failures(caller.partition, "bolt");
    let first = [
        ("minute_ms", "0"),
        ("suppressed", "7"),
        ("status", "403"),
        ("key_id", caller.key_id.as_str()),
    ];
    app.set(&counter, &first).await;
    let due = keys.audit_failures_due(caller.partition);
    app.run::<i64>(&["ZADD", &due, "1", "bolt"]).await;
    let lasting = Duration::from_secs(60);
    let lease = app.lease_of(caller.partition, "d", lasting).await;
    let rollups = due_events(store);
    let pass = rollups.run_once(&[lease], |_| {}).await;
    assert_eq!(pass.expect("Redis answers").done, 1);
    let entries = refused(&app, 1).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(value(&entries[0], "metadata.count"), Some("7"));
    assert_eq!(value(&entries[0], "key_id"), Some(caller.key_id.as_str()));
}
