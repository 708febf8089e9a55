//! What a new period gets from the one before, and what becomes of debt.

use serde_json::{Value, json};

use super::{ROOT, age, figures, hourly, of_type, stored};
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::tokens;

/// The figures after a number of periods, of a budget that has spent 30 of 100 and holds 20.
async fn after(periods: i64, more: Value) -> [i64; 5] {
    let app = TestApp::spawn().await;
    hourly(&app, 100, more).await;
    app.post_event("e", ROOT, 30, json!({})).await.expect(201);
    app.held(ROOT, 20, json!({})).await;
    age(&app, periods).await;
    let read = figures(&app).await;
    app.create("r", ROOT, 0, json!({})).await.expect(200);
    assert_eq!(stored(&app).await, read);
    read
}

#[tokio::test]
async fn each_policy_carries_over_what_it_says() {
    let limit = |limit: i64| json!({"every": "PT1H", "carry_limit": tokens(limit)});
    // A hold is not lost: what it takes is carried over too.
    for (periods, more, expected) in [
        (1, json!({}), [100, 80, 20, 0, 0]),
        (9, json!({"rollover_policy": "NONE"}), [100, 80, 20, 0, 0]),
        (
            1,
            json!({"rollover_policy": "CARRY_FORWARD"}),
            [170, 150, 20, 0, 0],
        ),
        (
            4,
            json!({"rollover_policy": "CARRY_FORWARD"}),
            [470, 450, 20, 0, 0],
        ),
        (
            1,
            json!({"rollover_policy": "CARRY_FORWARD", "period": limit(50)}),
            [150, 130, 20, 0, 0],
        ),
        (
            3,
            json!({"rollover_policy": "CARRY_FORWARD", "period": limit(200)}),
            [300, 280, 20, 0, 0],
        ),
        (
            1,
            json!({"rollover_policy": "CAP_AT_ALLOCATED"}),
            [170, 150, 20, 0, 0],
        ),
        (
            5,
            json!({"rollover_policy": "CAP_AT_ALLOCATED"}),
            [200, 180, 20, 0, 0],
        ),
        (
            2,
            json!({"period": {"every": "PT1H", "allocated": tokens(40)}}),
            [40, 20, 20, 0, 0],
        ),
    ] {
        assert_eq!(
            after(periods, more.clone()).await,
            expected,
            "{periods} {more}"
        );
    }
}

#[tokio::test]
async fn new_periods_repay_debt() {
    let app = TestApp::spawn().await;
    let more =
        json!({"overdraft_limit": tokens(300), "commit_overage_policy": "ALLOW_WITH_OVERDRAFT"});
    hourly(&app, 100, more).await;
    app.post_event("e", ROOT, 100, json!({})).await.expect(201);
    app.post_event("f", ROOT, 250, json!({})).await.expect(201);
    assert_eq!(figures(&app).await, [100, -250, 0, 100, 250]);
    app.set_ledger(ROOT, &[("overdraft_limit", "200"), ("is_over_limit", "1")])
        .await;
    age(&app, 1).await;
    app.create("r", ROOT, 1, json!({}))
        .await
        .refused(409, "DEBT_OUTSTANDING");
    assert_eq!(stored(&app).await, [100, -150, 0, 100, 150]);
    assert_eq!(of_type(&app, "budget.over_limit_exited").await.len(), 1);
    age(&app, 2).await;
    app.create("s", ROOT, 50, json!({})).await.expect(200);
    // 100 of the debt in the first of the two, 50 in the second.
    assert_eq!(stored(&app).await, [100, 0, 50, 50, 0]);
}

#[tokio::test]
async fn a_turn_announces_thresholds_that_rise_and_no_others() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({"rollover_policy": "CARRY_FORWARD"})).await;
    let crossed = async || of_type(&app, "budget.threshold_crossed").await.len();
    app.post_event("e", ROOT, 90, json!({})).await.expect(201);
    assert_eq!(crossed().await, 1);
    // 90 % falls to 0.
    age(&app, 1).await;
    app.held(ROOT, 10, json!({})).await;
    assert_eq!(
        (crossed().await, figures(&app).await),
        (1, [110, 100, 10, 0, 0])
    );
    // It may rise again at once.
    app.post_event("f", ROOT, 85, json!({})).await.expect(201);
    assert_eq!(crossed().await, 2);
    // 95 of 110 become 10 of 10.
    let period =
        json!({"period": {"every": "PT1H", "allocated": tokens(10)}, "rollover_policy": "NONE"});
    app.patch_as_admin("/v1/admin/budgets?scope=tenant:acme&unit=TOKENS", period)
        .await
        .expect(200);
    app.create("plan", ROOT, 0, json!({})).await.expect(200);
    age(&app, 1).await;
    app.create("r", ROOT, 0, json!({})).await;
    let events = of_type(&app, "budget.threshold_crossed").await;
    let risen: Vec<_> = events[2..]
        .iter()
        .map(|event| event.line(&["data.threshold_millionths", "data.direction"]))
        .collect();
    let expected = ["950000", "1000000"]
        .map(|share| format!("budget.threshold_crossed {ROOT} {share} rising"));
    assert_eq!(risen, expected);
}
