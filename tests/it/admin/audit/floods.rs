//! Refused requests of unknown callers and of tenants' keys: each is audited up to a bound; those beyond it are counted.

use std::time::Duration;

use budget_authority::domain::ids::Partition;
use budget_authority::store::Day;
use reqwest::Method;
use serde_json::json;

use crate::dispatcher::retention::{retention, run};
use crate::harness::app::TestApp;
use crate::harness::audit_chain::{append, every_lease, seal_everything};
use crate::harness::days::Entry;
use crate::harness::due_events::due_events;
use crate::harness::redis_fixture::now_ms;
use crate::harness::tenant_fixture::TenantFixture;

const DAY_MS: i64 = 86_400_000;

/// The entries of requests without a valid key.
async fn recorded(app: &TestApp) -> Vec<Entry> {
    let keys = app.store.keys();
    app.log_entries(|day| keys.audit(Partition::FIRST, "__unauth__", day))
        .await
}

fn value<'e>(entry: &'e Entry, name: &str) -> Option<&'e str> {
    let mut pairs = entry.1.chunks_exact(2);
    pairs
        .find(|pair| pair[0] == name)
        .map(|pair| pair[1].as_str())
}

#[tokio::test]
async fn keyless_requests_are_audited_up_to_a_bound_and_counted_exactly() {
    const FLOOD: usize = 650;
    let app = TestApp::spawn().await;
    app.with_left_in_minute(Duration::from_secs(35)).await;
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
async fn beyond_their_number_the_oldest_entries_of_unknown_callers_go_and_the_rest_verifies() {
    let tenant = TenantFixture::unaudited().await;
    let (store, keys, name) = (&tenant.store, tenant.store.keys(), "__unauth__");
    let now_ms = now_ms(store).await;
    let refused = [
        ("operation", "GET:/v1/admin/x"),
        ("status", "401"),
        ("request_id", "req_1"),
    ];
    let rollup = [&refused[..], &[("metadata.count", "1000")]].concat();
    for number in 0..700 {
        // The first day goes whole.
        let at_ms = if number < 300 {
            now_ms - DAY_MS
        } else {
            now_ms
        };
        let fields: &[_] = if number == 1 { &rollup } else { &refused };
        append(store, name, at_ms, fields);
    }
    seal_everything(store).await;
    let first_day = Day::of_ms(now_ms - DAY_MS);
    let indexes = [
        keys.view_rows("audit", first_day),
        keys.view_rows_of_kind("audit", name, first_day),
        keys.view_ids("audit", first_day),
    ];
    let rows = || {
        indexes
            .clone()
            .map(|index| tenant.redis().run::<i64>(&["ZCARD", &index]))
    };
    assert_eq!(rows(), [300; 3]);
    let lease = every_lease(store).await[0];
    assert_eq!(lease.partition, Partition::FIRST);
    let retention = retention(store).with_unknown_callers(250);
    let pass = run(&retention, lease).await;
    assert_eq!(
        pass.audit, 300,
        "the first page, and the rest of the first day"
    );
    assert_eq!(rows(), [0; 3]);
    let pass = run(&retention, lease).await;
    assert_eq!(pass.audit, 0, "no whole page is beyond the number");
    seal_everything(store).await;
    let report = tenant.audit_report().await;
    assert_eq!(report.findings, []);
    let chain = report.chains.iter().find(|row| row.tenant == name);
    let chain = chain.expect("it is verified");
    assert_eq!((chain.anchor_sequence, chain.verified), (300, 402));
    let log = |day| keys.audit(Partition::FIRST, name, day);
    let entries = tenant.log_entries(log).await;
    let read = |name| move |entry| value(entry, name);
    let counts: Vec<_> = entries.iter().filter_map(read("metadata.count")).collect();
    assert_eq!(counts, ["200", "100"]);
    let requests: Vec<_> = entries
        .iter()
        .filter_map(read("metadata.requests"))
        .collect();
    assert_eq!(requests, ["1199", "100"], "what they stood for");
}

#[tokio::test]
async fn whoever_has_a_revoked_key_is_an_unknown_caller() {
    let app = TestApp::spawn().await;
    app.set_key(&[("status", "REVOKED")]).await;
    app.get("/v1/admin/budgets").await.expect(401);
    assert_eq!(recorded(&app).await.len(), 1);
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

/// The entries of a tenant's refused requests.
async fn refused(app: &TestApp, tenant: usize) -> Vec<Entry> {
    let (keys, caller) = (app.store.keys(), &app.callers[tenant]);
    app.log_entries(|day| keys.audit(caller.partition, caller.tenant.as_str(), day))
        .await
}

#[tokio::test]
async fn forbidden_requests_are_rolled_up_per_tenant() {
    let app = TestApp::spawn().await;
    app.with_left_in_minute(Duration::from_secs(35)).await;
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
