//! Each operation of the runtime plane meets a ledger that is due: it turns first, once, and then the operation has its usual effect.

use serde_json::json;

use super::{ROOT, age, figures, found, hour, hourly, indexed, of_type, path, stored};
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::tokens;

#[tokio::test]
async fn a_new_period_has_its_allocation_again() {
    for app in TestApp::spawn_both().await {
        hourly(&app, 100, json!({})).await;
        app.post_event("e1", ROOT, 60, json!({})).await.expect(201);
        app.create("r1", ROOT, 50, json!({})).await.expect(409);
        age(&app, 1).await;
        app.create("r2", ROOT, 100, json!({})).await.expect(200);
        assert_eq!(stored(&app).await, [100, 0, 100, 0, 0]);
        let started = of_type(&app, "budget.period_started").await;
        let [start, end] = hour(&app).await;
        let facts = [
            "data.operation",
            "data.period_start",
            "data.period_end",
            "data.carried",
            "data.previous.allocated",
            "data.previous.spent",
            "data.previous.debt",
        ];
        let lines: Vec<_> = started.iter().map(|event| event.line(&facts)).collect();
        let expected = format!("budget.period_started {ROOT} PERIOD {start} {end} 0 100 60 0");
        assert_eq!(lines, [expected]);
        assert_eq!(started[0].get("data.previous.period_end"), start);
        assert_eq!(started[0].get("actor"), "scheduler");
        assert!(started[0].get("request_id").starts_with("req_"));
    }
}

#[tokio::test]
async fn each_operation_turns_the_ledger_once() {
    const OPERATIONS: [&str; 8] = [
        "reserve",
        "dry run",
        "decide",
        "event",
        "commit",
        "release",
        "extend",
        "admin release",
    ];
    for operation in OPERATIONS {
        let app = TestApp::spawn().await;
        hourly(&app, 1_000, json!({})).await;
        app.post_event("e", ROOT, 100, json!({})).await.expect(201);
        let id = app.held(ROOT, 300, json!({})).await;
        age(&app, 2).await;
        let response = match operation {
            "reserve" => app.create("k", ROOT, 700, json!({})).await,
            "dry run" => app.dry_run("k", ROOT, 700).await,
            "decide" => app.decide("k", ROOT, 700).await,
            "event" => app.post_event("k", ROOT, 700, json!({})).await,
            "commit" => app.commit(&id, "k", 200).await,
            "release" => app.release(&id, "k").await,
            "extend" => app.extend(&id, "k", 1_000).await,
            _ => app.admin_release(&id, "k").await,
        };
        assert!(response.is_success(), "{operation}: {response:?}");
        let expected = match operation {
            "reserve" => [1_000, 0, 1_000, 0, 0],
            "event" => [1_000, 0, 300, 700, 0],
            "commit" => [1_000, 800, 0, 200, 0],
            "release" | "admin release" => [1_000, 1_000, 0, 0, 0],
            _ => [1_000, 700, 300, 0, 0],
        };
        assert_eq!(stored(&app).await, expected, "{operation}");
        let started = of_type(&app, "budget.period_started").await;
        assert_eq!(started.len(), 1, "{operation}");
        assert_eq!(app.found(&id).await.status, 200);
    }
}

#[tokio::test]
async fn a_hold_is_charged_where_it_ends() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    let id = app.held(ROOT, 30, json!({})).await;
    age(&app, 1).await;
    assert_eq!(figures(&app).await, [100, 70, 30, 0, 0]);
    app.commit(&id, "c", 20).await.expect(200);
    assert_eq!(figures(&app).await, [100, 80, 0, 20, 0]);
}

#[tokio::test]
async fn readers_see_the_new_period_and_write_nothing() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({"overdraft_limit": tokens(10)})).await;
    let awo = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
    app.post_event("e", ROOT, 100, json!({})).await.expect(201);
    app.post_event("f", ROOT, 10, awo).await.expect(201);
    let record = |app: &TestApp| app.ledger_key(0, ROOT);
    let before: std::collections::BTreeMap<String, String> =
        app.run(&["HGETALL", &record(&app)]).await;
    age(&app, 1).await;
    let aged: std::collections::BTreeMap<String, String> =
        app.run(&["HGETALL", &record(&app)]).await;
    assert_ne!(aged, before);
    // The new allocation has repaid the debt.
    assert_eq!(figures(&app).await, [100, 90, 0, 10, 0]);
    let [start, end] = hour(&app).await;
    let ledger = found(&app).await;
    assert_eq!(
        (&ledger["period_start"], &ledger["period_end"]),
        (&json!(start), &json!(end))
    );
    assert_eq!(app.figures(ROOT).await, (90, 0, 10, 0));
    let rows = app
        .all_as_admin("/v1/admin/budgets?tenant_id=acme&has_debt=true&", "ledgers")
        .await;
    assert_eq!(rows.len(), 0);
    let rows = app
        .all_as_admin("/v1/admin/budgets?tenant_id=acme&sort_by=debt&", "ledgers")
        .await;
    assert_eq!(rows, [ledger]);
    let overview = app.get_as_admin("/v1/admin/overview").await.expect(200);
    assert_eq!(overview.at("/debt_scopes"), &json!([]));
    let after: std::collections::BTreeMap<String, String> =
        app.run(&["HGETALL", &record(&app)]).await;
    assert_eq!(after, aged);
    assert_eq!(of_type(&app, "budget.period_started").await.len(), 0);
}

#[tokio::test]
async fn a_ledger_in_which_nothing_moved_turns_without_an_event() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({"rollover_policy": "CARRY_FORWARD"})).await;
    assert_eq!(indexed(&app).await, None);
    age(&app, 3).await;
    app.create("r", ROOT, 350, json!({})).await.expect(200);
    assert_eq!(stored(&app).await, [400, 50, 350, 0, 0]);
    assert_eq!(of_type(&app, "budget.period_started").await.len(), 0);
    let ends_ms =
        budget_authority::domain::moment::Moment::parse(&hour(&app).await[1]).expect("a time");
    assert_eq!(indexed(&app).await, Some(ends_ms.as_ms()));
}

#[tokio::test]
async fn nothing_turns_back() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    app.post_event("e1", ROOT, 60, json!({})).await.expect(201);
    // Redis's clock was set back: the stored period has not begun yet.
    age(&app, -5).await;
    app.create("r", ROOT, 50, json!({})).await.expect(409);
    app.create("s", ROOT, 40, json!({})).await.expect(200);
    assert_eq!(figures(&app).await, [100, 0, 40, 60, 0]);
    assert_eq!(of_type(&app, "budget.period_started").await.len(), 0);
}

#[tokio::test]
async fn of_many_requests_at_once_one_turns_the_ledger() {
    let app = TestApp::spawn().await;
    hourly(&app, 10_000, json!({})).await;
    for round in 1..=5 {
        app.post_event(&format!("e{round}"), ROOT, 100, json!({}))
            .await
            .expect(201);
        age(&app, 1).await;
        let create = async |number: usize| {
            app.create(&format!("{round}.{number}"), ROOT, 10, json!({}))
                .await
                .status
        };
        let requests = (0..32).map(create);
        let statuses = futures_of(requests).await;
        assert_eq!(statuses, [200; 32], "round {round}");
        assert_eq!(of_type(&app, "budget.period_started").await.len(), round);
        assert_eq!(figures(&app).await[3], 0);
    }
}

/// Runs all of them at the same time.
async fn futures_of<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pinned: Vec<_> = futures.map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut is_done = true;
        for (future, output) in pinned.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(ready) => *output = Some(ready),
                    std::task::Poll::Pending => is_done = false,
                }
            }
        }
        if is_done {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    outputs
        .into_iter()
        .map(|output| output.expect("all are done"))
        .collect()
}

#[tokio::test]
async fn a_frozen_budget_turns_and_a_closed_one_does_not() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    let id = app.held(ROOT, 30, json!({})).await;
    app.post_event("e", ROOT, 60, json!({})).await.expect(201);
    app.post_as_admin(&path("/freeze"), json!({}))
        .await
        .expect(200);
    age(&app, 1).await;
    app.create("r", ROOT, 1, json!({}))
        .await
        .refused(409, "BUDGET_FROZEN");
    app.commit(&id, "c", 30).await.expect(200);
    assert_eq!(stored(&app).await, [100, 70, 0, 30, 0]);
    app.set_ledger(ROOT, &[("status", "CLOSED")]).await;
    age(&app, 1).await;
    app.create("s", ROOT, 1, json!({}))
        .await
        .refused(409, "BUDGET_CLOSED");
    assert_eq!(stored(&app).await, [100, 70, 0, 30, 0]);
}
