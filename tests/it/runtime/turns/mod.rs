//! Turns: a ledger whose period is over begins the one that contains now, once, whoever comes first.

pub(crate) mod operations;
pub(crate) mod renewals;
pub(crate) mod rollover;
pub(crate) mod worker;

use budget_authority::store::Day;
use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{Event, tokens, with};

pub(crate) const ROOT: &str = "tenant:acme";
const HOUR_MS: i64 = 3_600_000;
const BUDGETS: &str = "/v1/admin/budgets";

/// The budget of the root with an hourly period, and other members.
pub(crate) async fn hourly(app: &TestApp, allocated: i64, more: Value) {
    let body = json!({
        "tenant_id": "acme", "scope": ROOT, "unit": "TOKENS", "allocated": tokens(allocated), "period": {"every": "PT1H"},
    });
    app.post_as_admin(BUDGETS, with(body, more))
        .await
        .expect(201);
}

/// The path of an operation on the budget of the root.
pub(crate) fn path(operation: &str) -> String {
    format!("{BUDGETS}{operation}?scope={ROOT}&unit=TOKENS&tenant_id=acme")
}

/// The budget of the root, as readers see it.
pub(crate) async fn found(app: &TestApp) -> Value {
    app.get_as_admin(&path("/lookup")).await.expect(200).body
}

/// Moves the stored period of the root into the past, so that this number of periods has begun since.
pub(crate) async fn age(app: &TestApp, periods: i64) {
    let now_ms = app.now_ms().await;
    let start_ms = now_ms - now_ms.rem_euclid(HOUR_MS) - periods * HOUR_MS;
    let end_ms = start_ms + HOUR_MS;
    let text = |ms: i64| {
        budget_authority::domain::moment::Moment::from_ms(ms)
            .expect("a time")
            .to_string()
    };
    let mut fields = vec![
        ("period_start", text(start_ms)),
        ("period_end", text(end_ms)),
    ];
    let key = app.ledger_key(0, ROOT);
    let turns_at: String = app.run(&["HGET", &key, "turns_at_ms"]).await;
    if turns_at.len() > 1 {
        fields.push(("turns_at_ms", end_ms.to_string()));
        let index = app.store.keys().turns(app.callers[0].partition);
        let entry = format!("acme TOKENS {ROOT}");
        app.run::<()>(&["ZADD", &index, &end_ms.to_string(), &entry])
            .await;
    }
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    app.set_ledger(ROOT, &fields).await;
}

/// The figures of the root, as readers see them: allocated, remaining, reserved, spent, debt.
pub(crate) async fn figures(app: &TestApp) -> [i64; 5] {
    let found = found(app).await;
    ["allocated", "remaining", "reserved", "spent", "debt"]
        .map(|name| found[name]["amount"].as_i64().expect("an amount"))
}

/// The same, as they are stored.
pub(crate) async fn stored(app: &TestApp) -> [i64; 5] {
    let key = app.ledger_key(0, ROOT);
    let names = ["allocated", "remaining", "reserved", "spent", "debt"];
    let stored: Vec<i64> = app
        .run(&[&["HMGET", key.as_str()][..], &names[..]].concat())
        .await;
    stored.try_into().expect("five figures")
}

/// The events of one type.
pub(crate) async fn of_type(app: &TestApp, event_type: &str) -> Vec<Event> {
    let mut events = app.events().await;
    events.retain(|event| event.get("type") == event_type);
    events
}

/// When the root turns by itself, if it is in the index.
pub(crate) async fn indexed(app: &TestApp) -> Option<i64> {
    let index = app.store.keys().turns(app.callers[0].partition);
    let entry = format!("acme TOKENS {ROOT}");
    let score: Option<f64> = app.run(&["ZSCORE", &index, &entry]).await;
    score.map(|score| score as i64)
}

/// The bounds of the present hour.
pub(crate) async fn hour(app: &TestApp) -> [String; 2] {
    let now_ms = app.now_ms().await;
    let start_ms = now_ms - now_ms.rem_euclid(HOUR_MS);
    let text = |ms: i64| {
        budget_authority::domain::moment::Moment::from_ms(ms)
            .expect("a time")
            .to_string()
    };
    assert!(Day::of_ms(start_ms) <= app.store.today());
    [text(start_ms), text(start_ms + HOUR_MS)]
}
