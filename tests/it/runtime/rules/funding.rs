//! Funding: its effect on the figures of a ledger, once.

use reqwest::Method;
use serde_json::json;

use super::{INVALID, events, fund, in_debt, is_over, limit, root};
use crate::admin::http::{BUDGETS, TENANTS, key, umbra};
use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

const EXCEEDED: (u16, &str) = (409, "BUDGET_EXCEEDED");

/// Holds this much of `umbra`.
async fn hold(app: &TestApp, amount: i64) {
    let (_, key) = key(app, &["reservations:create"]).await;
    let body = json!({
        "idempotency_key": "held", "subject": {"tenant": "umbra"}, "action": {"kind": "llm", "name": "m"},
        "estimate": tokens(amount),
    });
    app.post_with(&key, "/v1/reservations", &body)
        .await
        .expect(200);
}

#[tokio::test]
async fn rule_26_a_debit_takes_at_most_what_remains() {
    let app = umbra().await;
    hold(&app, 40).await;
    assert_eq!(fund(&app, "DEBIT", 61, json!({})).await.error(), EXCEEDED);
    assert_eq!(root(&app).await, [100, 60, 40, 0, 0]);
    fund(&app, "DEBIT", 60, json!({})).await.expect(200);
    assert_eq!(root(&app).await, [40, 0, 40, 0, 0]);
    assert_eq!(fund(&app, "DEBIT", 1, json!({})).await.error(), EXCEEDED);
    fund(&app, "DEBIT", 0, json!({})).await.expect(200);
}

#[tokio::test]
async fn rule_27_a_reset_below_spent_makes_remaining_negative() {
    let app = umbra().await;
    hold(&app, 70).await;
    fund(&app, "RESET", 30, json!({})).await.expect(200);
    assert_eq!(root(&app).await, [30, -40, 70, 0, 0]);
    assert_eq!(fund(&app, "DEBIT", 0, json!({})).await.error(), EXCEEDED);
}

#[tokio::test]
async fn rule_28_a_new_period_keeps_holds_and_debt_and_reports_whether_spent_was_given() {
    let app = in_debt().await;
    for (more, given) in [(json!({}), false), (json!({"spent": tokens(0)}), true)] {
        fund(&app, "RESET_SPENT", 12_000, more).await.expect(200);
        assert_eq!(root(&app).await, [12_000, 11_400, 0, 0, 600]);
        let event = events(&app, "budget.reset_spent").pop().expect("an event");
        assert_eq!(event["data"]["spent_override_provided"], given, "{event}");
    }
    let app = umbra().await;
    hold(&app, 70).await;
    fund(&app, "RESET_SPENT", 200, json!({"spent": tokens(150)})).await;
    assert_eq!(root(&app).await, [200, -20, 70, 150, 0]);
}

#[tokio::test]
async fn rule_29_only_repaying_ends_being_over_the_limit_and_equality_is_enough() {
    let app = in_debt().await;
    assert!(is_over(&app).await);
    fund(&app, "CREDIT", 5_000, json!({})).await;
    fund(&app, "REPAY_DEBT", 99, json!({})).await;
    assert!(is_over(&app).await);
    assert!(events(&app, "budget.over_limit_exited").is_empty());
    fund(&app, "REPAY_DEBT", 1, json!({})).await;
    assert!(!is_over(&app).await);
    fund(&app, "REPAY_DEBT", 1, json!({})).await;
    let emitted = events(&app, "budget.over_limit_exited");
    assert_eq!(emitted.len(), 1, "{emitted:?}");
    assert_eq!(
        (
            &emitted[0]["data"]["debt"],
            &emitted[0]["data"]["is_over_limit"]
        ),
        (&json!(500), &json!(false))
    );
}

#[tokio::test]
async fn rule_30_what_is_repaid_beyond_the_debt_is_credited() {
    let app = in_debt().await;
    fund(&app, "REPAY_DEBT", 1_000, json!({})).await;
    assert_eq!(root(&app).await, [10_400, 400, 0, 10_000, 0]);
}

#[tokio::test]
async fn rule_31_the_greatest_amount_is_exact_and_one_more_is_refused() {
    let app = umbra().await;
    fund(&app, "RESET", i64::MAX, json!({})).await.expect(200);
    assert_eq!(fund(&app, "CREDIT", 1, json!({})).await.error(), INVALID);
    assert_eq!(root(&app).await, [i64::MAX, i64::MAX, 0, 0, 0]);
    fund(&app, "DEBIT", 1, json!({})).await.expect(200);
    assert_eq!(root(&app).await[..2], [i64::MAX - 1, i64::MAX - 1]);
}

#[tokio::test]
async fn rule_32_the_ledger_equation_holds_after_every_operation() {
    let app = in_debt().await;
    for (operation, amount, more) in [
        ("CREDIT", 777, json!({})),
        ("DEBIT", 77, json!({})),
        ("RESET", 9_000, json!({})),
        ("REPAY_DEBT", 250, json!({})),
        ("RESET_SPENT", 500, json!({"spent": tokens(499)})),
        ("REPAY_DEBT", 999, json!({})),
        ("RESET_SPENT", 0, json!({})),
    ] {
        let response = fund(&app, operation, amount, more).await;
        assert_eq!(response.status, 200, "{operation}: {response:?}");
        let [allocated, remaining, reserved, spent, debt] = root(&app).await;
        assert_eq!(
            remaining,
            allocated - spent - reserved - debt,
            "{operation} {amount}"
        );
        let figure = |name: &str| response.at(&format!("/new_{name}/amount")).as_i64();
        assert_eq!(
            (figure("allocated"), figure("remaining")),
            (Some(allocated), Some(remaining))
        );
    }
    limit(&app, 1).await;
    let [allocated, remaining, reserved, spent, debt] = root(&app).await;
    assert_eq!(remaining, allocated - spent - reserved - debt);
}

#[tokio::test]
async fn rule_33_a_repeated_funding_moves_nothing_and_its_key_names_one_scope_and_tenant() {
    let app = umbra().await;
    let by_key = json!({"idempotency_key": "f1"});
    let first = fund(&app, "CREDIT", 5, by_key.clone()).await;
    let again = fund(&app, "CREDIT", 5, by_key.clone()).await;
    assert_eq!(
        (again.status, &again.body),
        (200, &first.body),
        "with its timestamp"
    );
    assert_eq!(
        (root(&app).await[0], events(&app, "budget.funded").len()),
        (105, 1)
    );
    fund(&app, "CREDIT", 6, by_key)
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");

    let agent = json!({"tenant_id": "umbra", "scope": "tenant:umbra/agent:a", "unit": "TOKENS", "allocated": tokens(1)});
    app.post_as_admin(BUDGETS, agent).await;
    app.post_as_admin(TENANTS, json!({"tenant_id": "penumbra", "name": "P"}))
        .await;
    let theirs = json!({"tenant_id": "penumbra", "scope": "tenant:penumbra", "unit": "TOKENS", "allocated": tokens(1)});
    app.post_as_admin(BUDGETS, theirs).await;
    let elsewhere = async |tenant: &str, scope: &str| {
        let path = format!("{BUDGETS}/fund?tenant_id={tenant}&scope={scope}&unit=TOKENS");
        app.post_as_admin(
            &path,
            json!({"operation": "CREDIT", "amount": tokens(5), "idempotency_key": "f1"}),
        )
        .await
    };
    elsewhere("umbra", "tenant:umbra/agent:a")
        .await
        .refused(409, "IDEMPOTENCY_MISMATCH");
    let independent = elsewhere("penumbra", "tenant:penumbra").await;
    assert_eq!(
        independent.at("/new_allocated"),
        &tokens(6),
        "{independent:?}"
    );
}

#[tokio::test]
async fn rule_35_a_refused_funding_may_be_repeated_under_its_key() {
    let app = umbra().await;
    let by_key = json!({"idempotency_key": "d1"});
    assert_eq!(
        fund(&app, "DEBIT", 150, by_key.clone()).await.error(),
        EXCEEDED
    );
    fund(&app, "CREDIT", 50, json!({})).await;
    let response = fund(&app, "DEBIT", 150, by_key.clone()).await;
    assert_eq!((response.status, root(&app).await[0]), (200, 0));
    assert_eq!(fund(&app, "DEBIT", 150, by_key).await.body, response.body);
}

/// Spends while an operator moves funds: the ledger is that of some order of both, and nothing is oversubscribed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn funding_that_races_with_reservations_loses_and_oversubscribes_nothing() {
    let app = umbra().await;
    fund(&app, "RESET", 0, json!({})).await;
    let (_, key) = key(&app, &["reservations:create", "reservations:commit"]).await;
    let (app, key) = (std::sync::Arc::new(app), std::sync::Arc::new(key));
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..4_i64 {
        let app = app.clone();
        tasks.spawn(async move {
            let mut granted = 0;
            for round in 0..40 {
                let (operation, sign) = [("CREDIT", 1), ("DEBIT", -1), ("CREDIT", 1)][round % 3];
                let response = fund(&app, operation, 10 + worker, json!({})).await;
                match response.status {
                    200 => granted += sign * (10 + worker),
                    _ => assert_eq!(response.error(), EXCEEDED, "{response:?}"),
                }
            }
            (granted, 0)
        });
    }
    for worker in 0..4 {
        let (app, key) = (app.clone(), key.clone());
        tasks.spawn(async move {
            let mut spent = 0;
            for round in 0..40 {
                let body = json!({
                    "idempotency_key": format!("{worker}-{round}"), "subject": {"tenant": "umbra"},
                    "action": {"kind": "llm", "name": "m"}, "estimate": tokens(7),
                });
                let held = app.post_with(&key, "/v1/reservations", &body).await;
                if held.status != 200 {
                    assert_eq!(held.error(), EXCEEDED, "{held:?}");
                    continue;
                }
                let path = format!("/v1/reservations/{}/commit", held.text("/reservation_id"));
                let commit = json!({"idempotency_key": "c", "actual": tokens(7)});
                app.post_with(&key, &path, &commit).await.expect(200);
                spent += 7;
            }
            (0, spent)
        });
    }
    let totals = tasks.join_all().await;
    let [granted, spent] = [
        totals.iter().map(|(granted, _)| granted).sum(),
        totals.iter().map(|(_, spent)| spent).sum(),
    ];
    let remaining: i64 = granted - spent;
    assert_eq!(root(&app).await, [granted, remaining, 0, spent, 0]);
    assert!(remaining >= 0 && spent > 0, "{totals:?}");
}

/// The same by a tenant's own key, whose request needs no name of its own.
#[tokio::test]
async fn a_tenant_funds_its_own_ledger() {
    let app = umbra().await;
    let (_, key) = key(&app, &["budgets:write"]).await;
    let path = format!("{BUDGETS}/fund?scope=tenant:umbra&unit=TOKENS");
    let body = json!({"operation": "CREDIT", "amount": tokens(1)});
    let response: Response = app.by_key(&key, Method::POST, &path, &body).await;
    assert_eq!(
        (response.status, response.at("/new_allocated")),
        (200, &tokens(101))
    );
    let unnamed = app.post_as_admin(&path, body).await;
    assert_eq!(
        unnamed.error(),
        INVALID,
        "an operator names the tenant: {unnamed:?}"
    );
}
