//! Refused requests without a known caller: each is audited up to a bound; those beyond it are counted.

use std::time::Duration;

use budget_authority::dispatcher::Rollups;
use budget_authority::domain::ids::Partition;
use reqwest::Method;

use crate::harness::app::TestApp;

/// The entries of today: stream id, then names and values.
async fn booked(app: &TestApp) -> Vec<(String, Vec<String>)> {
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
async fn a_flood_of_keyless_requests_is_audited_up_to_a_bound_and_counted_exactly() {
    const FLOOD: usize = 650;
    let app = TestApp::spawn().await;
    app.with_left_in_minute(Duration::from_secs(20)).await;
    for _ in 0..FLOOD {
        let request = app.request(Method::GET, "/v1/admin/tenants");
        app.send(request).await.expect(401);
    }
    assert_eq!(booked(&app).await.len(), 600);
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
    let entries = booked(&app).await;
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

#[tokio::test]
async fn a_keyless_request_to_a_long_path_audits_a_short_entry() {
    let app = TestApp::spawn().await;
    let path = format!("/v1/admin/{}", "x".repeat(1_000));
    app.send(app.request(Method::GET, &path)).await.expect(401);
    let entries = booked(&app).await;
    let fields = entries[0].1.concat();
    assert!(fields.len() < 500, "{}: {entries:?}", fields.len());
    assert!(fields.contains("GET:/v1/admin/xxx"), "{entries:?}");
}

#[tokio::test]
async fn the_dispatcher_rolls_up_a_flood_after_which_no_request_comes() {
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
    let rollups = Rollups::new(
        store.clone(),
        "service-server",
        &prometheus::Registry::new(),
    );
    let rollups = rollups.expect("a fresh registry");
    let lease = app
        .lease_of(Partition::FIRST, "d", Duration::from_secs(60))
        .await;
    for expected in [1, 0] {
        let flush = rollups.run_once(&[lease], |_| {}).await;
        assert_eq!(flush.expect("Redis answers").done, expected);
    }
    let entries = booked(&app).await;
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
