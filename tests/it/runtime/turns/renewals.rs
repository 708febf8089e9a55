//! RENEW: a new period by hand; and changes of a period.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ROOT, age, figures, found, hourly, of_type, path, stored};
use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

async fn renew(app: &TestApp, body: Value) -> Response {
    app.post_as_admin(&path("/fund"), body).await
}

async fn patch(app: &TestApp, body: Value) -> Response {
    app.patch_as_admin("/v1/admin/budgets?scope=tenant:acme&unit=TOKENS", body)
        .await
}

#[tokio::test]
async fn a_new_period_by_hand_keeps_its_end() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({"rollover_policy": "CARRY_FORWARD", "period": {"every": "PT1H", "carry_limit": tokens(50)}})).await;
    app.post_event("e", ROOT, 30, json!({})).await.expect(201);
    app.held(ROOT, 20, json!({})).await;
    let bounds = |ledger: &Value| [ledger["period_start"].clone(), ledger["period_end"].clone()];
    let before = bounds(&found(&app).await);
    let response = renew(&app, json!({"operation": "RENEW", "reason": "trial"}))
        .await
        .expect(200);
    assert_eq!(response.amount("/new_allocated"), Some(150));
    assert_eq!(response.amount("/previous_spent"), Some(30));
    assert_eq!(stored(&app).await, [150, 130, 20, 0, 0]);
    assert_eq!(bounds(&found(&app).await), before);
    let started = of_type(&app, "budget.period_started").await;
    let facts = [
        "data.operation",
        "data.carried",
        "data.previous.allocated",
        "data.previous.spent",
        "data.reason",
        "actor",
    ];
    let lines: Vec<_> = started.iter().map(|event| event.line(&facts)).collect();
    assert_eq!(
        lines,
        [format!(
            "budget.period_started {ROOT} RENEW 50 100 30 trial admin_on_behalf_of"
        )]
    );
}

#[tokio::test]
async fn without_a_period_only_what_is_spent_starts_anew() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 100, 50).await;
    app.post_event("e", ROOT, 100, json!({})).await.expect(201);
    let awo = json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"});
    app.post_event("f", ROOT, 30, awo).await.expect(201);
    assert_eq!(stored(&app).await, [100, -30, 0, 100, 30]);
    renew(&app, json!({"operation": "RENEW"})).await.expect(200);
    assert_eq!(stored(&app).await, [100, 70, 0, 30, 0]);
    let started = of_type(&app, "budget.period_started").await;
    assert_eq!(
        (started.len(), started[0].get("data.period_start")),
        (1, "")
    );
}

#[tokio::test]
async fn a_due_ledger_turns_before_it_is_funded() {
    for (operation, amount, expected) in [
        ("CREDIT", Some(5), [105, 105, 0, 0, 0]),
        ("DEBIT", Some(100), [0, 0, 0, 0, 0]),
        ("RESET", Some(7), [7, 7, 0, 0, 0]),
        ("RENEW", None, [100, 100, 0, 0, 0]),
    ] {
        let app = TestApp::spawn().await;
        hourly(&app, 100, json!({})).await;
        app.post_event("e", ROOT, 60, json!({})).await.expect(201);
        age(&app, 1).await;
        let mut body = json!({"operation": operation});
        if let Some(amount) = amount {
            body["amount"] = tokens(amount);
        }
        renew(&app, body).await.expect(200);
        assert_eq!(stored(&app).await, expected, "{operation}");
        let started = of_type(&app, "budget.period_started").await.len();
        assert_eq!(
            started,
            if operation == "RENEW" { 2 } else { 1 },
            "{operation}"
        );
    }
}

#[tokio::test]
async fn many_budgets_are_renewed_at_once() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    app.post_event("e", ROOT, 60, json!({})).await.expect(201);
    app.held(ROOT, 10, json!({})).await;
    age(&app, 1).await;
    let body = json!({"filter": {"tenant_id": "acme"}, "action": "RENEW", "idempotency_key": "k"});
    let response = app
        .post_as_admin("/v1/admin/budgets/bulk-action", body)
        .await
        .expect(200);
    assert_eq!(
        response.at("/succeeded").as_array().map(Vec::len),
        Some(1),
        "{response:?}"
    );
    assert_eq!(stored(&app).await, [100, 90, 10, 0, 0]);
    assert_eq!(of_type(&app, "budget.period_started").await.len(), 2);
}

#[tokio::test]
async fn amounts_belong_to_the_other_operations() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    for (body, message) in [
        (
            json!({"operation": "RENEW", "amount": tokens(1)}),
            "amount: must be absent with RENEW",
        ),
        (json!({"operation": "CREDIT"}), "amount: is required"),
    ] {
        let response = renew(&app, body).await.refused(400, "INVALID_REQUEST");
        assert!(response.text("/message").contains(message), "{response:?}");
    }
    app.post_as_admin(&path("/freeze"), json!({}))
        .await
        .expect(200);
    renew(&app, json!({"operation": "RENEW"}))
        .await
        .refused(409, "BUDGET_FROZEN");
}

#[tokio::test]
async fn a_changed_period_takes_effect_at_once_and_keeps_the_figures() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    app.post_event("e", ROOT, 60, json!({})).await.expect(201);
    let daily =
        json!({"period": {"every": "P1D", "time_zone": "asia/kolkata", "allocated": tokens(500)}});
    let ledger = patch(&app, daily).await.expect(200).body;
    let period = json!({"every": "P1D", "time_zone": "Asia/Kolkata", "allocated": tokens(500)});
    assert_eq!(ledger["period"], period);
    // Midnight in India.
    let start = ledger["period_start"].as_str().expect("a time");
    assert!(start.ends_with("T18:30:00.000Z"), "{start}");
    assert_eq!(figures(&app).await, [100, 40, 0, 60, 0]);
    app.create("r", ROOT, 40, json!({})).await.expect(200);
    assert_eq!(of_type(&app, "budget.period_started").await.len(), 0);
    // What is allocated now, where the period says nothing.
    let ledger = patch(&app, json!({"period": {"every": "PT1H"}}))
        .await
        .expect(200)
        .body;
    assert_eq!(ledger["period"]["allocated"], tokens(100));
    age(&app, 1).await;
    assert_eq!(figures(&app).await, [100, 60, 40, 0, 0]);
    let ledger = patch(&app, json!({"period": null})).await.expect(200).body;
    assert_eq!(ledger.get("period"), None);
    let turns_at: String = app
        .run(&["HGET", &app.ledger_key(0, ROOT), "turns_at_ms"])
        .await;
    assert_eq!((turns_at.as_str(), super::indexed(&app).await), ("", None));
    assert_eq!(stored(&app).await, [100, 60, 40, 0, 0]);
}

#[tokio::test]
async fn a_bound_of_what_is_carried_needs_the_policy_that_carries() {
    let app = TestApp::spawn().await;
    hourly(&app, 100, json!({})).await;
    let limited = json!({"every": "PT1H", "carry_limit": tokens(5)});
    let refused = patch(&app, json!({"period": limited}))
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(
        refused.text("/message").contains("carry_limit"),
        "{refused:?}"
    );
    let both = json!({"period": limited, "rollover_policy": "CARRY_FORWARD"});
    patch(&app, both).await.expect(200);
    patch(&app, json!({"rollover_policy": "NONE"}))
        .await
        .refused(400, "INVALID_REQUEST");
    let ledger = patch(
        &app,
        json!({"rollover_policy": "NONE", "period": {"every": "PT2H"}}),
    )
    .await;
    assert_eq!(ledger.expect(200).text("/rollover_policy"), "NONE");
}

#[tokio::test]
async fn what_a_period_cannot_be_is_refused_by_name() {
    let app = TestApp::spawn().await;
    let create = async |period: Value, more: (&str, Value)| {
        let mut body = json!({
            "tenant_id": "acme", "scope": ROOT, "unit": "TOKENS", "allocated": tokens(1), "period": period,
        });
        body[more.0] = more.1;
        app.as_admin(Method::POST, "/v1/admin/budgets", &body).await
    };
    let nothing = || ("metadata", json!({}));
    let every = |text: &str| json!({"every": text});
    for (period, more, named) in [
        (json!({}), nothing(), "period.every"),
        (every("PT60M"), nothing(), "period.every: must be"),
        (every("P1M1D"), nothing(), "period.every"),
        (every("P11Y"), nothing(), "period.every"),
        (every("p1m"), nothing(), "period.every"),
        (
            json!({"every": "P1M", "time_zone": "Mars/Olympus"}),
            nothing(),
            "period.time_zone: must be the IANA name",
        ),
        (
            json!({"every": "P1M", "anchor": "1969-12-31T23:59:59Z"}),
            nothing(),
            "period.anchor: must be in the years",
        ),
        (
            json!({"every": "P1M", "anchor": "2101-01-01T00:00:00Z"}),
            nothing(),
            "period.anchor",
        ),
        (
            json!({"every": "P1M", "allocated": {"unit": "CREDITS", "amount": 1}}),
            nothing(),
            "period.allocated is in CREDITS",
        ),
        (
            json!({"every": "P1M", "carry_limit": tokens(1)}),
            nothing(),
            "carry_limit",
        ),
        (
            json!({"every": "P1M", "begins": 1}),
            nothing(),
            "period.begins",
        ),
        (
            every("P1M"),
            ("period_start", json!("2026-01-01T00:00:00Z")),
            "period_start: must be absent",
        ),
        (
            every("P1M"),
            ("period_end", json!("2026-01-01T00:00:00Z")),
            "period_end: must be absent",
        ),
    ] {
        let response = create(period.clone(), more).await;
        let message = response.text("/message");
        assert_eq!(response.status, 400, "{period}: {response:?}");
        assert!(message.contains(named), "{period}: {message}");
    }
    let stored: i64 = app.run(&["EXISTS", &app.ledger_key(0, ROOT)]).await;
    assert_eq!(stored, 0);
}
