//! The worker that turns ledgers in time.

use budget_authority::dispatcher::Turns;
use budget_authority::dispatcher::sweep::{ClockMetrics, ClockWatch};
use prometheus::Registry;
use serde_json::json;

use super::{ROOT, age, hourly, indexed, of_type, stored};
use crate::harness::app::TestApp;
use crate::harness::event_log::everywhere;

/// A pass of a worker over all partitions: how many ledgers it turned, and for how many that failed.
async fn pass(app: &TestApp) -> (i64, usize) {
    let registry = Registry::new();
    let clock = ClockMetrics::register(&registry).expect("a fresh registry");
    let worker = Turns::new(app.store.clone(), ClockWatch::new(clock), &registry);
    let worker = worker.expect("a fresh registry");
    let pass = worker
        .run_once(&everywhere(), |_| {})
        .await
        .expect("Redis answers");
    (pass.done, pass.failed)
}

#[tokio::test]
async fn a_ledger_turns_in_time_and_rests_when_nothing_moves() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    app.post_event("e", ROOT, 60, json!({})).await.expect(201);
    assert!(indexed(&app).await.is_some());
    assert_eq!(pass(&app).await, (0, 0));
    age(&app, 1).await;
    assert_eq!(pass(&app).await, (1, 0));
    assert_eq!(stored(&app).await, [100, 100, 0, 0, 0]);
    assert_eq!(of_type(&app, "budget.period_started").await.len(), 1);
    // Nothing is left to turn until it is used.
    assert_eq!(indexed(&app).await, None);
    app.post_event("f", ROOT, 1, json!({})).await.expect(201);
    assert!(indexed(&app).await.is_some());
    assert_eq!(of_type(&app, "budget.period_started").await.len(), 1);
}

#[tokio::test]
async fn a_ledger_with_a_hold_keeps_turning() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    app.held(ROOT, 10, json!({})).await;
    for turns in 1..=3 {
        age(&app, 1).await;
        assert_eq!(pass(&app).await, (1, 0));
        assert!(indexed(&app).await.is_some());
        assert_eq!(of_type(&app, "budget.period_started").await.len(), turns);
    }
    assert_eq!(stored(&app).await, [100, 90, 10, 0, 0]);
}

#[tokio::test]
async fn damaged_ledgers_are_put_off_and_delay_no_other() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    app.post_event("e", ROOT, 60, json!({})).await.expect(201);
    age(&app, 1).await;
    let index = app.store.keys().turns(app.callers[0].partition);
    for entry in [
        "acme TOKENS tenant:acme/app:gone",
        "nonsense",
        "acme TOKENS",
    ] {
        app.run::<()>(&["ZADD", &index, "0", entry]).await;
    }
    assert_eq!(pass(&app).await, (1, 3));
    assert_eq!(pass(&app).await, (0, 0));
    assert_eq!(stored(&app).await, [100, 100, 0, 0, 0]);
}

#[tokio::test]
async fn a_tenant_whose_log_is_damaged_is_put_off_and_delays_no_other() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    app.post_event("e", ROOT, 60, json!({})).await.expect(201);
    age(&app, 1).await;
    let partition = app.callers[0].partition;
    let log = app
        .store
        .keys()
        .events(partition, "acme", app.store.today());
    app.run::<()>(&["DEL", &log]).await;
    app.run::<()>(&["SET", &log, "damaged"]).await;
    assert_eq!(pass(&app).await, (0, 1));
    app.run::<()>(&["DEL", &log]).await;
    assert_eq!(pass(&app).await, (0, 0), "it is looked at again later");
    assert_eq!(stored(&app).await, [100, 40, 0, 60, 0]);
}

#[tokio::test]
async fn entries_of_closed_ledgers_leave_the_index() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    app.post_event("e", ROOT, 60, json!({})).await.expect(201);
    age(&app, 1).await;
    app.set_ledger(ROOT, &[("status", "CLOSED")]).await;
    assert_eq!(pass(&app).await, (0, 0));
    assert_eq!(indexed(&app).await, None);
    assert_eq!(stored(&app).await, [100, 40, 0, 60, 0]);
}

#[tokio::test]
async fn many_ledgers_turn_once_beside_requests_that_use_them() {
    const LEDGERS: usize = 60;
    let app = TestApp::spawn().await;
    let scope = |number: usize| format!("{ROOT}/app:a{number}");
    for number in 0..LEDGERS {
        let body = json!({
            "tenant_id": "acme", "scope": scope(number), "unit": "TOKENS", "allocated": {"unit": "TOKENS", "amount": 10},
            "period": {"every": "P1D"},
        });
        app.post_as_admin("/v1/admin/budgets", body)
            .await
            .expect(201);
        app.post_event(&format!("e{number}"), &scope(number), 7, json!({}))
            .await
            .expect(201);
        let past = [
            ("period_start", "2026-01-01T00:00:00.000Z"),
            ("period_end", "2026-01-02T00:00:00.000Z"),
            ("turns_at_ms", "1767312000000"),
        ];
        app.set_ledger(&scope(number), &past).await;
        let index = app.store.keys().turns(app.callers[0].partition);
        app.run::<()>(&[
            "ZADD",
            &index,
            "1767312000000",
            &format!("acme TOKENS {}", scope(number)),
        ])
        .await;
    }
    let worked = async {
        while of_type(&app, "budget.period_started").await.len() < LEDGERS {
            pass(&app).await;
        }
    };
    let used = async {
        for number in (0..LEDGERS).rev() {
            app.create(&format!("r{number}"), &scope(number), 10, json!({}))
                .await
                .expect(200);
        }
    };
    tokio::join!(worked, used);
    pass(&app).await;
    assert_eq!(of_type(&app, "budget.period_started").await.len(), LEDGERS);
}
