//! Live reserves: which scopes they hold, why they are denied, what they grant.

use budget_authority::domain::amount::Unit;
use serde_json::{Value, json};

use super::lack_of_funds::ends;
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{State, ask_body, ledger, over, tokens};

const ROOT: &str = "tenant:acme";
const AGENT: &str = "tenant:acme/agent:a";

#[tokio::test]
async fn the_remaining_amount_can_be_reserved_to_the_last_unit() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let all = app.reserve("k1", 1_000).await.expect(200);
    assert_eq!(all.at("/decision"), "ALLOW");
    assert_eq!(all.at("/reserved"), &tokens(1_000));
    assert_eq!(all.at("/balances/0/remaining"), &tokens(0));
    let denied = app.reserve("k2", 1).await.refused(409, "BUDGET_EXCEEDED");
    let details = json!({
        "scope": ROOT, "unit": "TOKENS", "requested": 1, "remaining": 0, "allocated": 1_000, "spent": 0, "reserved": 1_000,
        "debt": 0, "holds_expire_by": ends(&all),
    });
    assert_eq!(denied.at("/details"), &details);
    assert_eq!(app.stored_ledger(ROOT).await, ledger(0, 1_000, 0, 0));
}

#[tokio::test]
async fn a_reserve_of_zero_passes_with_zero_remaining_and_not_below() {
    let app = TestApp::spawn().await;
    let rows = [
        ("tenant:acme/app:zero", 0, 0, 200, "none"),
        ("tenant:acme/app:owes", -1, 1, 409, "DEBT_OUTSTANDING"),
        ("tenant:acme/app:short", -1, 0, 409, "BUDGET_EXCEEDED"),
    ];
    for (scope, remaining, debt, status, code) in rows {
        app.place(scope, 1_000, 5, ledger(remaining, 0, 0, debt))
            .await;
        let response = app.create(scope, scope, 0, json!({})).await;
        assert_eq!(response.error(), (status, code), "{scope}");
    }
}

#[tokio::test]
async fn a_scope_without_funds_leaves_every_other_scope_untouched() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    app.budget(AGENT, 100, 0).await;
    let response = app
        .create("k", AGENT, 200, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(response.at("/details/scope"), AGENT);
    assert_eq!(app.stored_ledger(ROOT).await, ledger(1_000, 0, 0, 0));
    assert_eq!(app.stored_ledger(AGENT).await, ledger(100, 0, 0, 0));
}

#[tokio::test]
async fn all_enclosing_scopes_are_affected_and_only_the_budgeted_ones_have_balances() {
    let app = TestApp::spawn().await;
    app.budget(AGENT, 100, 0).await;
    let response = app.create("k", AGENT, 40, json!({})).await;
    assert_eq!(response.at("/affected_scopes"), &json!([ROOT, AGENT]));
    assert_eq!(response.at("/scope_path"), AGENT);
    let balance = json!([{
        "scope": "agent:a", "scope_path": AGENT, "remaining": tokens(60), "reserved": tokens(40), "spent": tokens(0),
        "allocated": tokens(100),
    }]);
    assert_eq!(response.at("/balances"), &balance);
}

#[tokio::test]
async fn a_level_that_the_subject_skips_is_another_scope() {
    let app = TestApp::spawn().await;
    let deep = "tenant:acme/workspace:prod/agent:a";
    app.budget(deep, 100, 0).await;
    app.budget(AGENT, 100, 0).await;
    app.create("k", AGENT, 40, json!({})).await.expect(200);
    assert_eq!(app.stored_ledger(deep).await, ledger(100, 0, 0, 0));
    assert_eq!(app.stored_ledger(AGENT).await, ledger(60, 40, 0, 0));
}

#[tokio::test]
async fn scopes_are_lower_case_and_subjects_stay_as_they_were_sent() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme/workspace:prod", 100, 0).await;
    let id = app
        .held(
            "tenant:acme/workspace:Prod",
            40,
            json!({"metadata": {"B": 2, "a": 1}}),
        )
        .await;
    let stored = app.stored_ledger("tenant:acme/workspace:prod").await;
    assert_eq!(stored, ledger(60, 40, 0, 0));
    let found = app.found(&id).await;
    assert_eq!(found.at("/subject/workspace"), "Prod");
    assert_eq!(found.at("/scope_path"), "tenant:acme/workspace:prod");
    assert_eq!(found.at("/metadata"), &json!({"B": 2, "a": 1}));
}

#[tokio::test]
async fn scopes_budgeted_in_other_units_are_skipped() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    app.budget_in(AGENT, Unit::Credits, 1, 0).await;
    let response = app.create("k", AGENT, 40, json!({})).await.expect(200);
    assert_eq!(response.at("/balances").as_array().map(Vec::len), Some(1));
    assert_eq!(app.stored_ledger(ROOT).await, ledger(960, 40, 0, 0));
}

#[tokio::test]
async fn a_path_with_only_other_units_is_a_mismatch_at_the_outermost_scope() {
    let app = TestApp::spawn().await;
    let deep = "tenant:acme/workspace:w/agent:a";
    app.budget_in(deep, Unit::UsdMicrocents, 9, 0).await;
    let units = [Unit::RiskPoints, Unit::Credits];
    for unit in units {
        app.budget_in("tenant:acme/workspace:w", unit, 9, 0).await;
    }
    let details = json!({
        "scope": "tenant:acme/workspace:w", "requested_unit": "TOKENS", "expected_units": ["CREDITS", "RISK_POINTS"],
    });
    let event = crate::harness::runtime_calls::event_body("k", deep, 1);
    for (path, body) in [
        ("/v1/reservations", ask_body("k", deep, 1)),
        ("/v1/decide", ask_body("k", deep, 1)),
        ("/v1/events", event),
    ] {
        let response = app.post(path, body).await;
        assert_eq!(response.error(), (400, "UNIT_MISMATCH"), "{path}");
        assert_eq!(response.at("/details"), &details, "{path}");
    }
    assert!(app.events().await.is_empty());
}

#[tokio::test]
async fn a_path_without_budgets_is_not_found_in_words_that_clients_match() {
    let app = TestApp::spawn().await;
    let other = "Budget not found for provided scope: workspace:prod";
    let own = "Budget not found for provided scope: tenant:acme/agent:a";
    app.budget("tenant:acme/agent:b", 1, 0).await;
    for (scope, message) in [(AGENT, own), ("workspace:prod", other)] {
        let event = crate::harness::runtime_calls::event_body("k", scope, 1);
        for (path, body) in [
            ("/v1/reservations", ask_body("k", scope, 1)),
            ("/v1/events", event),
        ] {
            let response = app.post(path, body).await;
            assert_eq!(response.error(), (404, "NOT_FOUND"), "{path}");
            assert_eq!(response.text("/message"), message, "{path}");
        }
    }
    assert!(app.events().await.is_empty());
}

/// A state of two ledgers, outer and inner, and what denies a reserve of 10 there.
pub struct DenyingState {
    pub name: &'static str,
    outer: &'static str,
    inner: &'static str,
    pub reason: &'static str,
    blocked: usize,
}

/// Class before class, over all scopes: status, over-limit, debt, funds.
pub const DENYING_STATES: [DenyingState; 14] = [
    denying_state("funds", "empty", "good", "BUDGET_EXCEEDED", 0),
    denying_state("inner-funds", "good", "empty", "BUDGET_EXCEEDED", 1),
    denying_state("both-funds", "empty", "empty", "BUDGET_EXCEEDED", 0),
    denying_state("limit-is-no-funds", "good", "limit", "BUDGET_EXCEEDED", 1),
    denying_state("debt", "debt", "empty", "DEBT_OUTSTANDING", 0),
    denying_state("inner-debt", "empty", "debt", "DEBT_OUTSTANDING", 1),
    denying_state("over", "over", "empty", "OVERDRAFT_LIMIT_EXCEEDED", 0),
    denying_state("inner-over", "empty", "over", "OVERDRAFT_LIMIT_EXCEEDED", 1),
    denying_state(
        "over-and-debt",
        "owes-over",
        "good",
        "OVERDRAFT_LIMIT_EXCEEDED",
        0,
    ),
    denying_state(
        "over-hides-debt",
        "debt",
        "over",
        "OVERDRAFT_LIMIT_EXCEEDED",
        1,
    ),
    denying_state("frozen", "empty", "frozen", "BUDGET_FROZEN", 1),
    denying_state("closed", "over", "closed", "BUDGET_CLOSED", 1),
    denying_state("frozen-first", "frozen", "closed", "BUDGET_FROZEN", 0),
    denying_state("closed-first", "closed", "frozen", "BUDGET_CLOSED", 0),
];

const fn denying_state(
    name: &'static str,
    outer: &'static str,
    inner: &'static str,
    reason: &'static str,
    blocked: usize,
) -> DenyingState {
    DenyingState {
        name,
        outer,
        inner,
        reason,
        blocked,
    }
}

impl DenyingState {
    /// Writes the two ledgers; returns the inner scope.
    pub async fn place(&self, app: &TestApp) -> String {
        let outer = format!("tenant:acme/workspace:{}", self.name);
        let inner = format!("{outer}/agent:a");
        place(app, &outer, self.outer).await;
        place(app, &inner, self.inner).await;
        inner
    }

    /// The scope that denies.
    pub fn blocked_scope(&self) -> String {
        let outer = format!("tenant:acme/workspace:{}", self.name);
        match self.blocked {
            0 => outer,
            _ => format!("{outer}/agent:a"),
        }
    }
}

async fn place(app: &TestApp, scope: &str, state: &str) {
    let found = match state {
        "empty" | "frozen" | "limit" => ledger(9, 0, 0, 0),
        "debt" => ledger(900, 0, 0, 1),
        "over" => over(ledger(900, 0, 0, 0)),
        "owes-over" => over(ledger(-200, 0, 0, 200)),
        _ => ledger(900, 0, 0, 0),
    };
    app.place(
        scope,
        1_000,
        if state == "limit" { 500 } else { 100 },
        found,
    )
    .await;
    match state {
        "frozen" => app.set_ledger(scope, &[("status", "FROZEN")]).await,
        "closed" => app.set_ledger(scope, &[("status", "CLOSED")]).await,
        _ => {}
    }
}

#[tokio::test]
async fn the_most_severe_reason_of_all_scopes_denies_and_nothing_is_held() {
    let app = TestApp::spawn().await;
    for row in DENYING_STATES {
        let scope = row.place(&app).await;
        let before = app.stored_ledger(&scope).await;
        let policy = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
        let response = app.create(row.name, &scope, 10, policy).await;
        assert_eq!(response.error(), (409, row.reason), "{}", row.name);
        let (scope_of, message) = (row.blocked_scope(), response.text("/message"));
        assert_eq!(
            response.at("/details/scope"),
            &json!(scope_of),
            "{}",
            row.name
        );
        assert!(message.contains(&scope_of), "{message}");
        assert_eq!(app.stored_ledger(&scope).await, before, "{}", row.name);
    }
    assert_eq!(
        app.get("/v1/reservations").await.at("/reservations"),
        &json!([])
    );
}

#[tokio::test]
async fn two_hundred_parallel_reserves_succeed_up_to_the_budget() {
    let app = std::sync::Arc::new(TestApp::spawn().await);
    app.budget(ROOT, 1_000, 0).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..200 {
        let app = app.clone();
        calls.spawn(async move { app.reserve(&format!("k{number}"), 10).await.status });
    }
    let statuses = calls.join_all().await;
    let count = |expected| {
        statuses
            .iter()
            .filter(|status| **status == expected)
            .count()
    };
    assert_eq!((count(200), count(409)), (100, 100));
    assert_eq!(app.stored_ledger(ROOT).await, ledger(0, 1_000, 0, 0));
}

#[tokio::test]
async fn the_time_to_live_comes_from_the_request_or_the_tenant_and_is_capped() {
    const DEFAULT: &str = "default_reservation_ttl_ms";
    const MAX: &str = "max_reservation_ttl_ms";
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let rows: [(State, Value, i64); 7] = [
        (&[], json!({}), 60_000),
        (&[], json!({"ttl_ms": 1_000}), 1_000),
        (&[], json!({"ttl_ms": 86_400_000}), 3_600_000),
        (&[(DEFAULT, "5000")], json!({}), 5_000),
        (&[(DEFAULT, "5000")], json!({"ttl_ms": 7_000}), 7_000),
        (&[(DEFAULT, "90000"), (MAX, "30000")], json!({}), 30_000),
        (&[(MAX, "7200000")], json!({"ttl_ms": 7_000_000}), 7_000_000),
    ];
    for (row, (tenant, more, granted)) in rows.into_iter().enumerate() {
        let record = app.tenant_key();
        app.run::<()>(&["DEL", &record]).await;
        if !tenant.is_empty() {
            app.set_tenant(&[("status", "ACTIVE")]).await;
            app.set_tenant(tenant).await;
        }
        let response = app.create(&format!("k{row}"), ROOT, 1, more).await;
        assert_eq!(
            response.at("/remaining_ttl_ms"),
            granted,
            "row {row}: {response:?}"
        );
        let found = app.found(response.text("/reservation_id")).await;
        let created = found.at("/created_at_ms").as_i64().expect("a time");
        assert_eq!(
            response.at("/expires_at_ms"),
            created + granted,
            "row {row}"
        );
    }
}

#[tokio::test]
async fn amounts_beyond_doubles_are_held_exactly() {
    let app = TestApp::spawn().await;
    let (max, odd) = (i64::MAX, 9_007_199_254_740_993);
    app.budget(ROOT, max, 0).await;
    let response = app.reserve("k1", odd).await;
    assert_eq!(
        response.at("/balances/0/remaining"),
        &tokens(9_214_364_837_600_034_814)
    );
    let id = response.text("/reservation_id").to_owned();
    assert_eq!(app.stored_ledger(ROOT).await, ledger(max - odd, odd, 0, 0));
    assert_eq!(app.found(&id).await.at("/reserved"), &tokens(odd));
    assert_eq!(app.reserve("k1", odd).await.body["reserved"], tokens(odd));
    assert_eq!(app.commit(&id, "c", odd).await.at("/charged"), &tokens(odd));
    assert_eq!(app.stored_ledger(ROOT).await, ledger(max - odd, 0, odd, 0));
    let listed = app.get("/v1/reservations").await;
    assert_eq!(listed.at("/reservations/0/committed"), &tokens(odd));
    app.budget(AGENT, max, 0).await;
    app.budget(ROOT, max, 0).await;
    app.create("k2", AGENT, max, json!({})).await.expect(200);
    assert_eq!(app.stored_ledger(AGENT).await, ledger(0, max, 0, 0));
}
