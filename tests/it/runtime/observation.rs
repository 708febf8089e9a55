//! Budgets that observe: they refuse nothing for want of funds, and report what they would have refused.

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{Event, tokens, with};

const ROOT: &str = "tenant:acme";
const APP: &str = "tenant:acme/app:chat";
const BUDGETS: &str = "/v1/admin/budgets";

async fn observed(app: &TestApp, scope: &str, allocated: i64, more: Value) {
    let body = json!({
        "tenant_id": "acme", "scope": scope, "unit": "TOKENS", "allocated": tokens(allocated), "enforcement": "OBSERVE",
    });
    let created = app
        .post_as_admin(BUDGETS, with(body, more))
        .await
        .expect(201);
    assert_eq!(created.text("enforcement"), "OBSERVE");
}

async fn events_of(app: &TestApp, event_type: &str) -> Vec<Event> {
    let mut events = app.events().await;
    events.retain(|event| event.get("type") == event_type);
    events
}

fn path() -> String {
    format!("{BUDGETS}?scope={ROOT}&unit=TOKENS")
}

#[tokio::test]
async fn what_would_be_refused_is_held_and_reported() {
    for (dialect, app) in TestApp::spawn_both().await.into_iter().enumerate() {
        observed(&app, ROOT, 100, json!({})).await;
        let fits = app.create("r1", ROOT, 100, json!({})).await.expect(200);
        assert_eq!(fits.at("/observed"), &Value::Null);
        let response = app.create("r2", ROOT, 30, json!({})).await.expect(200);
        let reported = json!([{"scope": ROOT, "reason": "BUDGET_EXCEEDED"}]);
        // The clients of the other dialect refuse members that they do not know.
        let visible = if dialect == 0 {
            reported.clone()
        } else {
            Value::Null
        };
        assert_eq!(response.at("/observed"), &visible);
        assert_eq!(response.at("/balances/0/remaining"), &tokens(-30));
        // A replay is the same, and a decision and a dry run report alike.
        let again = app.create("r2", ROOT, 30, json!({})).await.expect(200);
        assert_eq!(again.at("/observed"), &visible);
        for response in [
            app.decide("d", ROOT, 1).await,
            app.dry_run("t", ROOT, 1).await,
        ] {
            assert_eq!(response.expect(200).at("/observed"), &visible);
        }
        let events = events_of(&app, "reservation.would_deny").await;
        let facts = [
            "data.reason_code",
            "data.requested_amount",
            "data.remaining",
            "data.blocked_by_scope",
        ];
        let lines: Vec<_> = events.iter().map(|event| event.line(&facts)).collect();
        let line = |amount: i64, remaining: i64| {
            format!("reservation.would_deny {ROOT} BUDGET_EXCEEDED {amount} {remaining} {ROOT}")
        };
        assert_eq!(lines, [line(30, 0), line(1, -30), line(1, -30)]);
        assert_eq!(events_of(&app, "reservation.denied").await.len(), 0);
    }
}

#[tokio::test]
async fn everything_is_charged_to_spent_and_nothing_owes() {
    let app = TestApp::spawn().await;
    observed(&app, ROOT, 100, json!({"overdraft_limit": tokens(10)})).await;
    let id = app
        .held(ROOT, 50, json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"}))
        .await;
    app.commit(&id, "c", 300).await.expect(200);
    assert_eq!(app.figures(ROOT).await, (-200, 0, 300, 0));
    for policy in ["REJECT", "ALLOW_IF_AVAILABLE", "ALLOW_WITH_OVERDRAFT"] {
        let more = json!({"overage_policy": policy});
        let charged = app.post_event(policy, ROOT, 10, more).await.expect(201);
        assert_ne!(charged.at("/charged"), &tokens(0));
    }
    assert_eq!(app.figures(ROOT).await, (-230, 0, 330, 0));
    // REJECT still compares a commit with its hold.
    let more = json!({"overage_policy": "REJECT"});
    let held = app.create("five", ROOT, 5, more).await.expect(200);
    let id = held.text("/reservation_id").to_owned();
    app.commit(&id, "c2", 6)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    app.commit(&id, "c3", 5).await.expect(200);
}

#[tokio::test]
async fn a_budget_that_enforces_beside_one_that_observes_decides_alone() {
    let app = TestApp::spawn().await;
    observed(&app, ROOT, 10, json!({})).await;
    app.budget(APP, 100, 0).await;
    app.create("r1", APP, 101, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(events_of(&app, "reservation.would_deny").await.len(), 0);
    // The overage is capped by what the one has, not by the other.
    let id = app
        .held(APP, 20, json!({"overage_policy": "ALLOW_IF_AVAILABLE"}))
        .await;
    let committed = app.commit(&id, "c", 500).await.expect(200);
    assert_eq!(committed.at("/charged"), &tokens(100));
    assert_eq!(app.figures(ROOT).await, (-90, 0, 100, 0));
    assert_eq!(app.figures(APP).await, (0, 0, 100, 0));
}

#[tokio::test]
async fn windows_debt_and_a_limit_that_is_exceeded_are_reported_too() {
    let app = TestApp::spawn().await;
    let limit = json!({"limits": [{"every": "PT1H", "amount": tokens(5)}]});
    observed(&app, ROOT, 100, limit).await;
    let reason = |response: crate::harness::response::Response| {
        response
            .expect(200)
            .at("/observed/0/reason")
            .as_str()
            .map(str::to_owned)
    };
    let reported = |text: &str| Some(text.to_owned());
    assert_eq!(
        reason(app.dry_run("t1", ROOT, 6).await),
        reported("BUDGET_EXCEEDED")
    );
    app.set_ledger(ROOT, &[("debt", "3"), ("remaining", "97")])
        .await;
    assert_eq!(
        reason(app.dry_run("t2", ROOT, 1).await),
        reported("DEBT_OUTSTANDING")
    );
    app.set_ledger(ROOT, &[("is_over_limit", "1")]).await;
    assert_eq!(
        reason(app.dry_run("t3", ROOT, 1).await),
        reported("OVERDRAFT_LIMIT_EXCEEDED")
    );
}

#[tokio::test]
async fn a_frozen_budget_and_the_range_of_64_bits_refuse() {
    let app = TestApp::spawn().await;
    observed(&app, ROOT, 100, json!({})).await;
    app.post_event("e1", ROOT, i64::MAX, json!({}))
        .await
        .expect(201);
    app.create("r1", ROOT, 1, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    for policy in ["REJECT", "ALLOW_IF_AVAILABLE", "ALLOW_WITH_OVERDRAFT"] {
        let refused = app
            .post_event(policy, ROOT, 1, json!({"overage_policy": policy}))
            .await;
        refused.refused(409, "BUDGET_EXCEEDED");
    }
    app.set_ledger(ROOT, &[("status", "FROZEN")]).await;
    app.create("r2", ROOT, 0, json!({}))
        .await
        .refused(409, "BUDGET_FROZEN");
}

#[tokio::test]
async fn holds_that_are_over_are_swept_before_anything_is_reported() {
    let app = TestApp::spawn().await;
    observed(&app, ROOT, 100, json!({})).await;
    let dead = app
        .held(ROOT, 90, json!({"ttl_ms": 1_000, "grace_period_ms": 0}))
        .await;
    app.backdate(&dead, 10_000).await;
    let held = app.create("r", ROOT, 90, json!({})).await.expect(200);
    assert_eq!(held.at("/observed"), &Value::Null);
    assert_eq!(events_of(&app, "reservation.would_deny").await.len(), 0);
}

#[tokio::test]
async fn a_request_that_is_denied_anyway_sweeps_nothing() {
    let app = TestApp::spawn().await;
    observed(&app, ROOT, 100, json!({})).await;
    app.budget(APP, 100, 0).await;
    let more = json!({"ttl_ms": 1_000, "grace_period_ms": 0});
    let dead = app.held(ROOT, 90, more).await;
    app.backdate(&dead, 10_000).await;
    app.set_ledger(APP, &[("debt", "1"), ("remaining", "99")])
        .await;
    let refused = app.create("next", APP, 50, json!({})).await;
    refused.refused(409, "DEBT_OUTSTANDING");
    let denied = app.dry_run("try", APP, 50).await.expect(200);
    assert_eq!(denied.at("/reason_code"), &json!("DEBT_OUTSTANDING"));
    assert_eq!(app.figures(ROOT).await, (10, 90, 0, 0));
}

#[tokio::test]
async fn enforcing_begins_with_what_was_observed() {
    let app = TestApp::spawn().await;
    observed(&app, ROOT, 100, json!({})).await;
    app.post_event("e1", ROOT, 150, json!({})).await.expect(201);
    let changed = app
        .patch_as_admin(&path(), json!({"enforcement": "ENFORCE"}))
        .await
        .expect(200);
    assert_eq!(changed.text("enforcement"), "ENFORCE");
    assert_eq!(changed.at("/is_over_limit"), &json!(false));
    app.create("r1", ROOT, 1, json!({}))
        .await
        .refused(409, "BUDGET_EXCEEDED");
    let changed = app
        .patch_as_admin(&path(), json!({"enforcement": "OBSERVE"}))
        .await
        .expect(200);
    assert_eq!(changed.text("enforcement"), "OBSERVE");
    app.create("r2", ROOT, 1, json!({})).await.expect(200);
    app.patch_as_admin(&path(), json!({"enforcement": "NEVER"}))
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn reports_beyond_their_bound_are_counted_apart_from_denials() {
    let app = TestApp::spawn().await;
    observed(&app, ROOT, 0, json!({})).await;
    let key = app.store.keys().denials(app.callers[0].partition, "acme");
    let names = [
        "count",
        "would.count",
        "would.suppressed",
        "would.data.reason_code",
        "suppressed",
    ];
    let mut tries = 0;
    let minute_ms = loop {
        let minute_ms = app.now_ms().await / 60_000 * 60_000;
        app.set(
            &key,
            &[
                ("minute_ms", &minute_ms.to_string()),
                ("would.count", "600"),
                ("count", "3"),
            ],
        )
        .await;
        app.dry_run(&format!("t{tries}"), ROOT, 1).await.expect(200);
        let counted: Vec<Option<String>> = app
            .run(&[&["HMGET", key.as_str()][..], &names[..]].concat())
            .await;
        let expected = [
            Some("3"),
            Some("601"),
            Some("1"),
            Some("BUDGET_EXCEEDED"),
            None,
        ];
        if counted == expected.map(|text| text.map(str::to_owned)) {
            break minute_ms;
        }
        // Another minute may have begun, once.
        tries += 1;
        assert!(tries < 2, "{counted:?}");
    };
    // The next minute begins with the sum of this one.
    let before = events_of(&app, "reservation.would_deny").await.len();
    app.set(&key, &[("minute_ms", &(minute_ms - 60_000).to_string())])
        .await;
    app.dry_run("next", ROOT, 1).await.expect(200);
    let events = events_of(&app, "reservation.would_deny")
        .await
        .split_off(before);
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].get("metadata.count"), "1");
}
