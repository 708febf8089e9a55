//! How windows end and begin.

use budget_authority::domain::budget::limit::Windows;
use budget_authority::domain::record::Stored as _;
use serde_json::json;

use super::{ROOT, found, limit, limited, used};
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{tokens, with};

const HOUR_MS: i64 = 3_600_000;

/// Moves the stored windows of the root into the past, or into the future.
async fn age(app: &TestApp, by_ms: i64) {
    let key = app.ledger_key(0, ROOT);
    let stored: String = app.run(&["HGET", &key, "limits"]).await;
    let moved = stored.lines().skip(1).map(|line| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for word in &mut words[2..5] {
            *word = (word.parse::<i64>().expect("a time") - by_ms).to_string();
        }
        words.join(" ")
    });
    let moved = format!("0 0\n{}", moved.collect::<Vec<_>>().join("\n"));
    let windows = Windows::from_field("limits", &moved).expect("limits");
    app.set_ledger(ROOT, &[("limits", &windows.to_string())])
        .await;
    if let Some(at_ms) = windows.turns_at_ms() {
        app.set_ledger(ROOT, &[("turns_at_ms", &at_ms.to_string())])
            .await;
    }
}

#[tokio::test]
async fn a_window_of_one_length_begins_anew_without_a_turn() {
    let app = TestApp::spawn().await;
    limited(&app, ROOT, json!([limit("PT1H", 50), limit("P1W", 1_000)])).await;
    app.post_event("e1", ROOT, 50, json!({})).await.expect(201);
    app.create("r1", ROOT, 1, json!({})).await.expect(409);
    let before = found(&app).await;
    age(&app, 5 * HOUR_MS).await;
    // Readers see the window that contains now.
    let now = found(&app).await;
    assert_eq!(now[0]["window_end"], before[0]["window_end"]);
    assert_eq!(now[0]["used"], tokens(0));
    app.create("r2", ROOT, 50, json!({})).await.expect(200);
    app.post_event("e2", ROOT, 7, json!({})).await.expect(201);
    assert_eq!(used(&app).await[0], 7);
    assert_eq!(
        found(&app).await[0],
        with(before[0].clone(), json!({"used": tokens(7)}))
    );
    let key = app.ledger_key(0, ROOT);
    let turns: String = app.run(&["HGET", &key, "turns_at_ms"]).await;
    assert_eq!(turns, "");
}

#[tokio::test]
async fn a_window_that_follows_a_calendar_turns_with_its_ledger_and_in_silence() {
    let app = TestApp::spawn().await;
    let day = with(limit("P1D", 50), json!({"time_zone": "Asia/Tokyo"}));
    limited(&app, ROOT, json!([day])).await;
    app.post_event("e1", ROOT, 50, json!({})).await.expect(201);
    app.create("r1", ROOT, 1, json!({})).await.expect(409);
    let before = found(&app).await;
    let events = app.events().await.len();
    age(&app, 24 * HOUR_MS).await;
    assert_eq!(
        found(&app).await[0],
        with(before[0].clone(), json!({"used": tokens(0)}))
    );
    app.create("r2", ROOT, 50, json!({})).await.expect(200);
    app.post_event("e2", ROOT, 7, json!({})).await.expect(201);
    assert_eq!(
        found(&app).await[0],
        with(before[0].clone(), json!({"used": tokens(7)}))
    );
    let later = app.events().await;
    assert_eq!(later.len(), events, "{later:?}");
}

#[tokio::test]
async fn a_window_that_ends_leaves_the_budget_over_its_limit() {
    let app = TestApp::spawn().await;
    let day = with(limit("P1D", 50), json!({"time_zone": "Asia/Tokyo"}));
    limited(&app, ROOT, json!([day])).await;
    app.post_event("e1", ROOT, 5, json!({})).await.expect(201);
    app.set_ledger(ROOT, &[("is_over_limit", "1")]).await;
    age(&app, 24 * HOUR_MS).await;
    let balance = app.get("/v1/balances?tenant=acme").await.expect(200);
    assert_eq!(balance.at("/balances/0/is_over_limit"), &json!(true));
    let refused = app.create("r", ROOT, 1, json!({})).await;
    refused.refused(409, "OVERDRAFT_LIMIT_EXCEEDED");
    assert_eq!(used(&app).await, [0]);
    let key = app.ledger_key(0, ROOT);
    let over: String = app.run(&["HGET", &key, "is_over_limit"]).await;
    assert_eq!(over, "1");
}

#[tokio::test]
async fn a_clock_that_goes_back_charges_the_present_window() {
    let app = TestApp::spawn().await;
    limited(&app, ROOT, json!([limit("PT1H", 50)])).await;
    age(&app, -3 * HOUR_MS).await;
    let ahead = found(&app).await;
    app.post_event("e1", ROOT, 50, json!({})).await.expect(201);
    app.create("r1", ROOT, 1, json!({})).await.expect(409);
    assert_eq!(
        found(&app).await[0],
        with(ahead[0].clone(), json!({"used": tokens(50)}))
    );
}
