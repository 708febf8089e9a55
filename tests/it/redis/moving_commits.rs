//! Commits, releases, refunds and budgets by templates while the slot of their tenant moves: what is written, is written at once.

use reqwest::Method;
use serde_json::json;
use tokio::task::block_in_place;

use super::slots::{MovingSlot, repeated_request, repetitions};
use crate::evidence::fixture::ON;
use crate::harness::app::TestApp;
use crate::harness::ledger_audit::LedgerAudit;
use crate::harness::random_clients::RESERVATIONS;
use crate::harness::runtime_calls::{ask_body, tokens};

/// A ledger in debt, by name alone: without one, the index does not exist, and no commit begins while its slot moves.
async fn index_a_debt(app: &TestApp) -> String {
    let keys = app.store.keys();
    let index = keys.over_limit_or_in_debt(app.callers[0].partition);
    app.run::<()>(&["ZADD", &index, "1", "debt other TOKENS tenant:other"])
        .await;
    index
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limited_commit_waits_for_migrating_counts_and_is_counted_once() {
    for counts in ["of this minute", "of an earlier minute", "none"] {
        let (moving, _) = MovingSlot::with(ON).await;
        let app = &moving.app;
        let limits = json!({"rate_limits": {"max_commits_per_minute": 100}});
        let policy = app.policy("p", "tenant:acme", limits).await;
        let held = app.reserve("counted", 100).await;
        let id = held.text("/reservation_id").to_owned();
        let rates = app.store.keys().rates(app.callers[0].partition, "acme");
        let index = index_a_debt(app).await;
        match counts {
            "none" => app.run::<()>(&["DEL", &rates]).await,
            "of an earlier minute" => app.run(&["HSET", &rates, "minute_ms", "0"]).await,
            _ => {}
        }
        // Counts of an earlier minute are removed and written anew, which is tried before they have moved.
        let first = |key: &str| counts == "of this minute" && key == rates;
        let resharding = block_in_place(|| moving.begin_move(first));
        let before = repetitions(app);
        let body = json!({"idempotency_key": "c", "actual": tokens(60)});
        let path = format!("/v1/reservations/{id}/commit");
        let committing = moving.send(Method::POST, path, Some(body));
        repeated_request(&committing, app, before).await;
        block_in_place(|| resharding.finish());
        let response = committing.await.expect("no panic");
        assert_eq!(response.amount("charged"), Some(60), "{response:?}");
        let field = format!("committed {policy} tenant:acme");
        let counted: Option<i64> = app.run(&["HGET", &rates, &field]).await;
        assert_eq!(counted, Some(1), "counts: {counts}");
        app.run::<()>(&["DEL", &index]).await;
        let audit = LedgerAudit::run(app, 0).await;
        assert_eq!(audit.figure("tenant:acme", "spent"), 60);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_hold_queues_its_evidence_once_although_an_index_has_moved() {
    let (commit, release) = (
        json!({"idempotency_key": "e", "actual": tokens(60)}),
        json!({"idempotency_key": "e"}),
    );
    for (end, body) in [("commit", commit), ("release", release)] {
        let (moving, _) = MovingSlot::with(ON).await;
        let app = &moving.app;
        let other_grace = json!({"grace_period_ms": 0});
        let held = app.create("held", "tenant:acme", 100, other_grace).await;
        let id = held.text("/reservation_id").to_owned();
        let index = index_a_debt(app).await;
        let keys = app.store.keys();
        let rates = keys.rates(app.callers[0].partition, "acme");
        app.run::<()>(&["HSET", &rates, "minute_ms", "0"]).await;
        let unsigned = keys.unsigned(app.callers[0].partition);
        let queued: i64 = app.run(&["XLEN", &unsigned]).await;

        let resharding = block_in_place(|| moving.begin_move(|key| key.ends_with(":other_graces")));
        let before = repetitions(app);
        let path = format!("/v1/reservations/{id}/{end}");
        let ending = moving.send(Method::POST, path, Some(body));
        repeated_request(&ending, app, before).await;
        block_in_place(|| resharding.finish());
        let response = ending.await.expect("no panic");
        assert_eq!(response.status, 200, "{response:?}");
        let now_queued: i64 = app.run(&["XLEN", &unsigned]).await;
        assert_eq!(now_queued, queued + 1, "{end}");
        app.run::<()>(&["DEL", &index]).await;
        LedgerAudit::run(app, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_waits_for_migrating_records_and_gives_back_once() {
    for ledger_first in [false, true] {
        let (moving, id) = MovingSlot::new().await;
        let app = &moving.app;
        app.commit(&id, "c", 200).await.expect(200);
        let index = index_a_debt(app).await;
        let resharding =
            block_in_place(|| moving.begin_move(|key| key.contains(":budget:") == ledger_first));
        let before = repetitions(app);
        let body = json!({"idempotency_key": "r", "amount": tokens(80), "reason": "a mistake"});
        let path = format!("/v1/reservations/{id}/refund");
        let refunding = moving.send(Method::POST, path, Some(body));
        repeated_request(&refunding, app, before).await;
        block_in_place(|| resharding.finish());
        let response = refunding.await.expect("no panic");
        assert_eq!(response.amount("charged"), Some(120), "{response:?}");
        app.run::<()>(&["DEL", &index]).await;
        let audit = LedgerAudit::run(app, 0).await;
        assert_eq!(audit.figure("tenant:acme", "spent"), 120);
        assert_eq!(audit.events_of("reservation.refunded"), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_by_a_template_is_created_once_although_its_tenants_keys_move() {
    let parts: [fn(&str) -> bool; 3] = [
        |key| key.contains(":budget:"),
        |key| key.contains(":events:") || key.contains(":audit:"),
        |key| key.contains(":polic"),
    ];
    for (number, first) in parts.into_iter().enumerate() {
        let (moving, _) = MovingSlot::new().await;
        let app = &moving.app;
        let templates = json!([{"unit": "TOKENS", "allocated": tokens(500)}]);
        let templates = json!({"budget_templates": templates});
        app.policy("p", "tenant:acme/agent:*", templates).await;
        let resharding = block_in_place(|| moving.begin_move(first));
        let before = repetitions(app);
        let body = ask_body("first", "tenant:acme/agent:bot", 60);
        let reserving = moving.send(Method::POST, RESERVATIONS.to_owned(), Some(body));
        repeated_request(&reserving, app, before).await;
        block_in_place(|| resharding.finish());
        let response = reserving.await.expect("no panic");
        assert_eq!(response.status, 200, "{number}: {response:?}");
        let audit = LedgerAudit::run(app, 0).await;
        assert_eq!(audit.figure("tenant:acme/agent:bot", "reserved"), 60);
        assert_eq!(audit.events_of("budget.created"), 1, "{number}");
    }
}
