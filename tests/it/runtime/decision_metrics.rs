//! The metrics of the runtime plane.

use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{ledger, tokens};

const ROOT: &str = "tenant:acme";

impl TestApp {
    /// The series of a metric that are not 0: labels and value, in the order of labels.
    fn counted(&self, name: &str) -> Vec<String> {
        let text = self.telemetry.render().expect("metrics");
        let series = text.lines().filter_map(|line| line.strip_prefix(name));
        let mut series: Vec<_> = series
            .filter(|line| !line.ends_with(" 0"))
            .map(|line| line.replace(['{', '}', '"'], ""))
            .collect();
        series.sort_unstable();
        series
    }
}

#[tokio::test]
async fn decisions_are_counted_once_with_their_reason_and_unit() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    for _ in 0..3 {
        let response = app.create("one", ROOT, 100, json!({})).await;
        assert_eq!(response.status, 200);
        assert_eq!(app.decide("d", ROOT, 5_000).await.at("/decision"), "DENY");
        assert_eq!(app.dry_run("t", ROOT, 10).await.at("/decision"), "ALLOW");
        app.post_event("u", ROOT, 7, json!({})).await.expect(201);
    }
    // A refusal is no replay.
    for _ in 0..2 {
        let refused = app.create("much", ROOT, 5_000, json!({})).await;
        assert_eq!(refused.error(), (409, "BUDGET_EXCEEDED"));
    }
    let wrong = app.create("one", ROOT, 99, json!({})).await;
    assert_eq!(wrong.error(), (409, "IDEMPOTENCY_MISMATCH"));
    let other = json!({"estimate": {"unit": "CREDITS", "amount": 1}});
    let mismatch = app.create("unit", ROOT, 1, other).await;
    assert_eq!(mismatch.error(), (400, "UNIT_MISMATCH"));
    let expected = [
        "operation=decide,reason=BUDGET_EXCEEDED,unit=TOKENS 1",
        "operation=dry_run,reason=,unit=TOKENS 1",
        "operation=reserve,reason=,unit=TOKENS 1",
        "operation=reserve,reason=BUDGET_EXCEEDED,unit=TOKENS 2",
        "operation=reserve,reason=UNIT_MISMATCH,unit=CREDITS 1",
        "operation=usage_event,reason=,unit=TOKENS 1",
    ];
    let counted = app.counted("budget_decisions_total");
    let mut without_decision: Vec<_> = counted
        .iter()
        .map(|line| line.split_once(',').expect("labels"))
        .collect();
    without_decision.sort_by_key(|(_, rest)| *rest);
    let rests: Vec<_> = without_decision.iter().map(|(_, rest)| *rest).collect();
    assert_eq!(rests, expected);
    let denied = counted.iter().filter(|it| it.starts_with("decision=DENY"));
    assert_eq!(denied.count(), 3, "{counted:?}");
}

#[tokio::test]
async fn caps_and_ends_of_reservations_are_counted() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    app.policy("p", ROOT, json!({"caps": {"max_tokens": 5}}))
        .await;
    let id = app.held(ROOT, 100, json!({})).await;
    for _ in 0..2 {
        app.extend(&id, "e", 1_000).await.expect(200);
        app.release(&id, "r").await.expect(200);
        let finalized = app.commit(&id, "c", 1).await;
        assert_eq!(finalized.error(), (409, "RESERVATION_FINALIZED"));
    }
    let missing = app.release("r000-none", "r").await;
    assert_eq!(missing.status, 404);
    assert_eq!(
        app.counted("budget_decisions_total"),
        [
            "decision=ALLOW,operation=extend,reason=,unit=TOKENS 1",
            "decision=ALLOW,operation=release,reason=,unit=TOKENS 1",
            "decision=ALLOW_WITH_CAPS,operation=reserve,reason=,unit=TOKENS 1",
            "decision=DENY,operation=commit,reason=RESERVATION_FINALIZED,unit=TOKENS 2",
            "decision=DENY,operation=release,reason=NOT_FOUND,unit= 1",
        ]
    );
}

#[tokio::test]
async fn commits_are_counted_by_overage_policy_and_by_size_against_their_hold() {
    const AIA: &str = "ALLOW_IF_AVAILABLE";
    const AWO: &str = "ALLOW_WITH_OVERDRAFT";
    let app = TestApp::spawn().await;
    // Remaining beside a hold of 300, policy, overdraft limit, what is used.
    let rows = [
        (700, "REJECT", 0, 300),
        (700, "REJECT", 0, 400),
        (700, AIA, 0, 200),
        (700, AIA, 0, 400),
        (40, AIA, 0, 400),
        (700, AWO, 50, 400),
        (40, AWO, 100, 400),
        (40, AWO, 0, 400),
        (40, AWO, 10, 400),
    ];
    for (row, (remaining, policy, limit, used)) in rows.into_iter().enumerate() {
        let scope = format!("tenant:acme/app:row{row}");
        app.budget(&scope, 1_000, limit).await;
        let policy = json!({"overage_policy": policy});
        let id = app.held(&scope, 300, policy).await;
        let before = ledger(remaining, 300, 700 - remaining, 0);
        app.place(&scope, 1_000, limit, before).await;
        for _ in 0..2 {
            let status = app.commit(&id, "c", used).await.status;
            // Once more is a replay, or refused again.
            if status != 200 {
                break;
            }
        }
    }
    assert_eq!(
        app.counted("budget_commits_total"),
        [
            "outcome=beyond,overage_policy=ALLOW_IF_AVAILABLE 1",
            "outcome=beyond,overage_policy=ALLOW_WITH_OVERDRAFT 1",
            "outcome=capped,overage_policy=ALLOW_IF_AVAILABLE 1",
            "outcome=capped,overage_policy=ALLOW_WITH_OVERDRAFT 1",
            "outcome=debt,overage_policy=ALLOW_WITH_OVERDRAFT 1",
            "outcome=refused,overage_policy=ALLOW_WITH_OVERDRAFT 1",
            "outcome=refused,overage_policy=REJECT 1",
            "outcome=within,overage_policy=ALLOW_IF_AVAILABLE 1",
            "outcome=within,overage_policy=REJECT 1",
        ]
    );
}

#[tokio::test]
async fn holds_that_a_request_expires_are_counted() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    for key in ["a", "b"] {
        let more = json!({"estimate": tokens(500), "grace_period_ms": 0});
        let response = app.create(key, ROOT, 500, more).await.expect(200);
        app.backdate(response.text("/reservation_id"), 1_000).await;
    }
    app.create("c", ROOT, 1_000, json!({})).await.expect(200);
    assert_eq!(
        app.counted("budget_request_sweep_expired_total"),
        [" 2".to_owned()]
    );
}
