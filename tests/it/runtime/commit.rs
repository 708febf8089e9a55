//! Commits: what is charged, what returns, and what is refused.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{ledger, tokens};

const ROOT: &str = "tenant:acme";

#[tokio::test]
async fn a_commit_within_the_hold_charges_the_actual_amount_and_returns_the_rest() {
    let app = TestApp::spawn().await;
    let rows = [
        (200, Some(100), ledger(800, 0, 200, 0)),
        (300, None, ledger(700, 0, 300, 0)),
        (0, Some(300), ledger(1_000, 0, 0, 0)),
    ];
    for (actual, released, stored) in rows {
        let scope = format!("tenant:acme/app:a{actual}");
        app.budget(&scope, 1_000, 0).await;
        let id = app.held(&scope, 300, json!({})).await;
        assert_eq!(app.stored_ledger(&scope).await, ledger(700, 300, 0, 0));
        let response = app.commit(&id, "c", actual).await.expect(200);
        assert_eq!(response.at("/status"), "COMMITTED");
        assert_eq!(response.at("/charged"), &tokens(actual));
        assert_eq!(response.body.get("released"), released.map(tokens).as_ref());
        assert_eq!(
            app.stored_ledger(&scope).await,
            stored,
            "committed {actual}"
        );
        let found = app.found(&id).await;
        assert_eq!(found.at("/committed"), &tokens(actual));
        assert_eq!(found.at("/reserved"), &tokens(300));
        assert!(found.at("/finalized_at_ms").is_i64());
    }
}

#[tokio::test]
async fn after_a_rejected_overage_the_same_key_can_commit_less() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app
        .held(ROOT, 300, json!({"overage_policy": "REJECT"}))
        .await;
    app.commit(&id, "c", 301)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(app.stored_ledger(ROOT).await, ledger(700, 300, 0, 0));
    app.commit(&id, "c", 300).await.expect(200);
    assert_eq!(app.stored_ledger(ROOT).await, ledger(700, 0, 300, 0));
}

#[tokio::test]
async fn a_capped_commit_blocks_further_reserves() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 340, 0).await;
    let id = app.held(ROOT, 300, json!({})).await;
    assert_eq!(app.commit(&id, "c", 400).await.at("/charged"), &tokens(340));
    app.set_ledger(ROOT, &[("allocated", "5000"), ("remaining", "4660")])
        .await;
    app.reserve("k", 1)
        .await
        .refused(409, "OVERDRAFT_LIMIT_EXCEEDED");
}

#[tokio::test]
async fn another_unit_is_refused_and_the_reservation_stays_active() {
    let app = TestApp::spawn().await;
    let scope = "tenant:acme/agent:a";
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(scope, 300, json!({})).await;
    let path = format!("/v1/reservations/{id}/commit");
    let body = json!({"idempotency_key": "c", "actual": {"unit": "CREDITS", "amount": 1}});
    let response = app.post(&path, body).await.refused(400, "UNIT_MISMATCH");
    let details =
        json!({"scope": scope, "requested_unit": "CREDITS", "expected_units": ["TOKENS"]});
    assert_eq!(response.at("/details"), &details);
    assert_eq!(app.found(&id).await.at("/status"), "ACTIVE");
    app.commit(&id, "c", 300).await.expect(200);
}

#[tokio::test]
async fn a_commit_succeeds_in_every_state_of_a_ledger() {
    let app = TestApp::spawn().await;
    let frozen: &[(&str, &str)] = &[("status", "FROZEN")];
    let owing: &[(&str, &str)] = &[
        ("debt", "700"),
        ("remaining", "0"),
        ("overdraft_limit", "900"),
    ];
    let states = [
        frozen,
        &[("status", "CLOSED")],
        &[("is_over_limit", "1")],
        owing,
    ];
    for (row, state) in states.into_iter().enumerate() {
        let scope = format!("tenant:acme/app:row{row}");
        app.budget(&scope, 1_000, 0).await;
        let id = app.held(&scope, 300, json!({})).await;
        app.set_ledger(&scope, state).await;
        assert_eq!(app.commit(&id, "c", 200).await.status, 200, "row {row}");
        let stored = app.stored_ledger(&scope).await;
        assert_eq!((stored.reserved, stored.spent), (0, 200), "row {row}");
        assert_eq!(stored.over, row == 2, "nothing but funding clears the flag");
    }
}

#[tokio::test]
async fn a_budget_made_after_the_reserve_is_not_charged() {
    let app = TestApp::spawn().await;
    let scope = "tenant:acme/agent:a";
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(scope, 300, json!({})).await;
    app.budget(scope, 500, 0).await;
    let response = app.commit(&id, "c", 400).await;
    assert_eq!(response.at("/balances").as_array().map(Vec::len), Some(1));
    assert_eq!(app.stored_ledger(scope).await, ledger(500, 0, 0, 0));
    assert_eq!(app.stored_ledger(ROOT).await, ledger(600, 0, 400, 0));
}

#[tokio::test]
async fn a_missing_budget_is_an_error_and_is_not_recreated() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let id = app.held(ROOT, 300, json!({})).await;
    app.run::<()>(&["DEL", &app.ledger_key(0, ROOT)]).await;
    let before = app.everything().await;
    app.commit(&id, "c", 300)
        .await
        .refused(500, "INTERNAL_ERROR");
    app.release(&id, "r").await.refused(500, "INTERNAL_ERROR");
    assert!(app.everything().await == before);
}

#[tokio::test]
async fn an_overflow_is_refused_before_the_first_write() {
    let app = TestApp::spawn().await;
    let scope = "tenant:acme/agent:a";
    app.budget(ROOT, 1_000, 0).await;
    app.budget(scope, 1_000, 0).await;
    let id = app.held(scope, 300, json!({})).await;
    let max = i64::MAX.to_string();
    app.set_ledger(scope, &[("spent", &max)]).await;
    let before = app.everything().await;
    app.commit(&id, "c", 300)
        .await
        .refused(500, "INTERNAL_ERROR");
    assert!(app.everything().await == before);
}

#[tokio::test]
async fn one_of_fifty_parallel_commits_charges() {
    for (keys, repeated) in [(1, 50), (50, 1)] {
        let app = Arc::new(TestApp::spawn().await);
        app.budget(ROOT, 1_000, 0).await;
        let id: Arc<str> = app.held(ROOT, 300, json!({})).await.into();
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..50 {
            let (app, id) = (app.clone(), id.clone());
            let key = format!("c{}", number % keys);
            calls.spawn(async move { app.commit(&id, &key, 200).await });
        }
        let responses = calls.join_all().await;
        let (good, late): (Vec<_>, Vec<_>) = responses
            .iter()
            .partition(|response| response.status == 200);
        assert_eq!(good.len(), repeated);
        let bodies: Vec<&Value> = good.iter().map(|response| &response.body).collect();
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
        for response in late {
            assert_eq!(response.error(), (409, "RESERVATION_FINALIZED"));
        }
        assert_eq!(app.stored_ledger(ROOT).await, ledger(800, 0, 200, 0));
    }
}

#[tokio::test]
async fn one_of_a_concurrent_commit_and_release_wins() {
    let app = Arc::new(TestApp::spawn().await);
    app.budget(ROOT, 10_000, 0).await;
    let mut spent = 0;
    for round in 0..20 {
        let response = app.reserve(&format!("k{round}"), 10).await;
        let id = response.text("/reservation_id").to_owned();
        let (committed, released) = tokio::join!(app.commit(&id, "x", 10), app.release(&id, "x"));
        let statuses = (committed.status, released.status);
        assert!([(200, 409), (409, 200)].contains(&statuses), "{statuses:?}");
        spent += if committed.status == 200 { 10 } else { 0 };
    }
    assert_eq!(
        app.stored_ledger(ROOT).await,
        ledger(10_000 - spent, 0, spent, 0)
    );
}
