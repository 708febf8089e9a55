//! Denials as events: which responses are denials, their facts, and how many events at most.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::redis_fixture::now_ms;
use crate::harness::runtime_calls::{Event, ask_body, event_body, with};
use crate::runtime::reserve::DENYING_STATES;

const ROOT: &str = "tenant:acme";

async fn only_event(app: &TestApp, number: usize) -> Event {
    let events = app.events().await;
    assert_eq!(events.len(), number, "{events:?}");
    events[number - 1].clone()
}

#[tokio::test]
async fn each_denial_emits_its_reason_and_scope() {
    let app = TestApp::spawn().await;
    let mut number = 0;
    for row in DENYING_STATES {
        let scope = row.place(&app).await;
        let blocked = row.blocked_scope();
        let remaining = app.stored_ledger(&blocked).await.remaining.to_string();
        for question in ["live", "dry run", "decide"] {
            let key = format!("{} {question}", row.name);
            let response = match question {
                "live" => app.create(&key, &scope, 10_000, json!({})).await,
                "dry run" => app.dry_run(&key, &scope, 10_000).await,
                _ => app.decide(&key, &scope, 10_000).await,
            };
            number += 1;
            let event = only_event(&app, number).await;
            let reason = match response.at("/reason_code") {
                Value::String(reason) => reason.clone(),
                _ => response.error().1.to_owned(),
            };
            let emitted = [
                ("type", "reservation.denied"),
                ("scope", &scope),
                ("data.reason_code", &reason),
                ("data.unit", "TOKENS"),
                ("data.requested_amount", "10000"),
                ("data.action_kind", "llm.completion"),
                ("data.action_name", "openai:gpt-4o-mini"),
                (
                    "request_id",
                    response.headers["x-request-id"].to_str().expect("text"),
                ),
            ];
            for (name, value) in emitted {
                assert_eq!(event.get(name), value, "{name}, {key}");
            }
            if reason == row.reason && reason != "BUDGET_EXCEEDED" {
                assert_eq!(event.get("data.blocked_by_scope"), blocked, "{key}");
                assert_eq!(event.get("data.remaining"), remaining, "{key}");
            }
        }
    }
    assert_eq!(app.outbox().await.len(), number);
}

#[tokio::test]
async fn a_denial_without_a_ledger_names_no_scope() {
    let app = TestApp::spawn().await;
    assert_eq!(app.decide("k1", ROOT, 5).await.at("/decision"), "DENY");
    assert_eq!(app.dry_run("k2", ROOT, 5).await.at("/decision"), "DENY");
    app.set_tenant(&[("status", "SUSPENDED")]).await;
    app.decide("k3", ROOT, 5).await;
    app.set_tenant(&[("status", "CLOSED")]).await;
    app.decide("k4", ROOT, 5).await;
    app.reserve("k5", 5).await.refused(409, "TENANT_CLOSED");
    let events = app.events().await;
    let facts = [
        "data.reason_code",
        "data.requested_amount",
        "data.blocked_by_scope",
        "data.remaining",
    ];
    let lines: Vec<_> = events.iter().map(|event| event.line(&facts)).collect();
    let reasons = [
        "BUDGET_NOT_FOUND",
        "BUDGET_NOT_FOUND",
        "TENANT_SUSPENDED",
        "TENANT_CLOSED",
        "TENANT_CLOSED",
    ];
    let expected = reasons.map(|reason| format!("reservation.denied tenant:acme {reason} 5"));
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn the_subject_is_emitted_as_it_was_sent() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1, 0).await;
    let more = json!({"action": {"kind": "k", "name": "n", "tags": ["b", "a"]}});
    let mut body = with(ask_body("k", "tenant:acme/agent:Bot", 5), more);
    body["subject"]["dimensions"] = json!({"run": "7"});
    app.post("/v1/reservations", body.clone())
        .await
        .refused(409, "BUDGET_EXCEEDED");
    let event = only_event(&app, 1).await;
    let subject: Value = serde_json::from_str(event.get("data.subject")).expect("JSON");
    assert_eq!(subject, body["subject"]);
    assert_eq!(event.get("data.action_tags"), r#"["b","a"]"#);
    assert_eq!(event.get("scope"), "tenant:acme/agent:bot");
}

#[tokio::test]
async fn other_refusals_emit_no_denial() {
    let app = TestApp::spawn().await;
    let credits = json!({"estimate": {"unit": "CREDITS", "amount": 1}});
    app.reserve("none", 1).await;
    app.post("/v1/events", event_body("none", ROOT, 1)).await;
    app.budget(ROOT, 1_000, 0).await;
    app.post(
        "/v1/reservations",
        with(ask_body("unit", ROOT, 1), credits.clone()),
    )
    .await;
    app.post("/v1/decide", with(ask_body("unit", ROOT, 1), credits))
        .await;
    app.reserve("", 1).await;
    app.create("foreign", "tenant:bolt", 1, json!({})).await;
    let id = app
        .held(ROOT, 100, json!({"overage_policy": "REJECT"}))
        .await;
    app.create(ROOT, ROOT, 5_000, json!({})).await;
    app.commit(&id, "c", 101).await;
    app.commit("nonsense", "c", 1).await;
    app.post_event("e", ROOT, 5_000, json!({"overage_policy": "REJECT"}))
        .await;
    app.set_ledger(ROOT, &[("status", "FROZEN")]).await;
    app.post_event("e", ROOT, 1, json!({})).await;
    app.set_tenant(&[("status", "SUSPENDED")]).await;
    app.reserve("suspended", 1).await;
    app.set_tenant(&[("status", "closed")]).await;
    app.reserve("unreadable", 1).await;
    app.set_tenant(&[("status", "ACTIVE")]).await;
    app.set_key(&[("permissions", " balances:read ")]).await;
    app.reserve("forbidden", 1).await;
    assert!(app.events().await.is_empty() && app.outbox().await.is_empty());
}

#[tokio::test]
async fn only_denials_that_are_decided_again_emit_again() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1, 0).await;
    for _ in 0..3 {
        app.decide("k1", ROOT, 5).await;
        app.dry_run("k2", ROOT, 5).await;
    }
    assert_eq!(app.events().await.len(), 2, "decisions are kept");
    for _ in 0..3 {
        app.reserve("k3", 5).await;
    }
    assert_eq!(
        app.events().await.len(),
        5,
        "a refused reserve is judged afresh"
    );
}

/// Denials of one minute beyond the rate, emitted by the first denial of a later minute.
#[tokio::test]
async fn denials_above_the_rate_are_counted_exactly_and_rolled_up_in_one_event() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1, 0).await;
    app.with_left_in_minute(Duration::from_secs(25)).await;
    let (caller, keys) = (&app.callers[0], app.store.keys());
    let counted = keys.denials(caller.partition, "acme");
    // As after 597 denials of this minute: three are left.
    let minute = (now_ms(&app.store).await / 60_000 * 60_000).to_string();
    app.set(&counted, &[("minute_ms", &minute), ("count", "597")])
        .await;
    for number in 0..11 {
        let key = format!("k{number}");
        match number % 3 {
            0 => drop(app.decide(&key, ROOT, 100 + number).await),
            1 => drop(app.dry_run(&key, ROOT, 100 + number).await),
            _ => drop(app.reserve(&key, 100 + number).await),
        }
    }
    assert_eq!(app.events().await.len(), 3);
    let waiting: Vec<String> = app
        .run(&["ZRANGE", &keys.denials_due(caller.partition), "0", "-1"])
        .await;
    assert_eq!(waiting, ["acme"], "the minute waits for its sum");
    let minute: i64 = app.run(&["HGET", &counted, "minute_ms"]).await;
    let past = (minute - 60_000).to_string();
    app.set(&counted, &[("minute_ms", &past)]).await;
    app.decide("next", ROOT, 200).await;
    let events = app.events().await;
    let facts = ["data.requested_amount", "metadata.count"];
    let lines: Vec<_> = events.iter().map(|event| event.line(&facts)).collect();
    let expected = ["100", "101", "102", "103 8", "200"]
        .map(|facts| format!("reservation.denied {ROOT} {facts}"));
    assert_eq!(lines, expected);
    for event in &events {
        // The correlation id of a denial is derived from it, and that of the rollup too.
        assert_eq!(event.get("kind"), "llm.completion", "{event:?}");
    }
    let waiting: i64 = app
        .run(&["ZCARD", &keys.denials_due(caller.partition)])
        .await;
    assert_eq!(waiting, 0);
}
