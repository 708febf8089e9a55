//! More events of operations: the overdraft limit, expiry, pointers for the dispatcher, and what emits nothing.

use budget_authority::store::Day;
use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{ask_body, ledger, over, tokens};

const ROOT: &str = "tenant:acme";
const AWO: &str = "ALLOW_WITH_OVERDRAFT";

async fn emitted(app: &TestApp, event_type: &str) -> usize {
    let events = app.events().await;
    events
        .iter()
        .filter(|event| event.get("type") == event_type)
        .count()
}

#[tokio::test]
async fn going_over_the_limit_emits_one_event() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 100, 0).await;
    for number in 0..3 {
        app.post_event(&format!("e{number}"), ROOT, 90, json!({}))
            .await
            .expect(201);
    }
    assert_eq!(app.stored_ledger(ROOT).await, over(ledger(0, 0, 100, 0)));
    assert_eq!(emitted(&app, "budget.over_limit_entered").await, 1);
    app.set_ledger(ROOT, &[("is_over_limit", "0")]).await;
    app.post_event("again", ROOT, 1, json!({})).await;
    assert_eq!(emitted(&app, "budget.over_limit_entered").await, 2);
}

#[tokio::test]
async fn debt_above_a_lowered_limit_is_noticed_by_the_next_charge() {
    let app = TestApp::spawn().await;
    app.place(ROOT, 1_000, 10, ledger(500, 0, 0, 50)).await;
    let awo = json!({"overage_policy": AWO});
    let response = app.post_event("e", ROOT, 100, awo).await;
    assert_eq!((response.status, response.body.get("charged")), (201, None));
    assert_eq!(app.stored_ledger(ROOT).await, over(ledger(400, 0, 550, 50)));
    let events = app.events().await;
    assert_eq!(events.len(), 1, "{events:?}");
    let facts = ["data.debt", "data.overdraft_limit"];
    assert_eq!(
        events[0].line(&facts),
        "budget.over_limit_entered tenant:acme 50 10"
    );
}

#[tokio::test]
async fn debt_of_an_event_names_no_reservation() {
    let app = TestApp::spawn().await;
    app.place(ROOT, 1_000, 100, ledger(40, 0, 0, 0)).await;
    app.post_event("e", ROOT, 100, json!({"overage_policy": AWO}))
        .await;
    let events = app.events().await;
    let facts = [
        "data.debt_incurred",
        "data.total_debt",
        "data.overdraft_limit",
        "data.overage_policy",
    ];
    let lines: Vec<_> = events.iter().map(|event| event.line(&facts)).collect();
    let expected = [
        "budget.threshold_crossed tenant:acme",
        "budget.debt_incurred tenant:acme 60 60 100 ALLOW_WITH_OVERDRAFT",
        "budget.exhausted tenant:acme",
    ];
    assert_eq!(lines, expected);
    assert_eq!(events[1].get("data.reservation_id"), "");
}

#[tokio::test]
async fn an_expiry_is_emitted_before_its_falling_thresholds() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let (one, two) = ("tenant:acme/app:one", "tenant:acme/app:two");
    for scope in [one, two] {
        let id = app.held(scope, 400, json!({})).await;
        app.backdate(&id, 60_000).await;
    }
    app.announced_at(ROOT, 1_000).await;
    let before = app.events().await.len();
    assert_eq!((before, app.sweep().await), (1, 2));
    let events = app.events().await;
    let mut lines: Vec<_> = events[1..]
        .iter()
        .map(|event| event.line(&["data.direction"]))
        .collect();
    lines[..2].sort();
    let expected = [
        format!("reservation.expired {one}"),
        format!("reservation.expired {two}"),
        "budget.threshold_crossed tenant:acme falling".to_owned(),
    ];
    assert_eq!(lines, expected);
    assert!(
        events[1..]
            .iter()
            .all(|event| event.get("source") == "expiry-sweeper")
    );
    assert_eq!(app.stored_ledger(ROOT).await, ledger(1_000, 0, 0, 0));
    assert_eq!((app.sweep().await, app.events().await.len()), (0, 4));
}

#[tokio::test]
async fn an_operation_writes_one_pointer_for_all_its_events() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    app.reserve("quiet", 100).await;
    assert!(app.outbox().await.is_empty());
    app.reserve("loud", 900).await;
    app.reserve("denied", 1).await;
    app.reserve("loud", 900).await;
    let pointers = app.outbox().await;
    let counts: Vec<_> = pointers
        .iter()
        .map(|pointer| pointer.get("count"))
        .collect();
    assert_eq!(counts, ["4", "1"]);
    let (caller, store) = (&app.callers[0], &app.store);
    for pointer in &pointers {
        assert_eq!(pointer.get("tenant"), "acme");
        let day = Day::parse(pointer.get("day")).expect("a day");
        let log = store.keys().events(caller.partition, "acme", day);
        let first = pointer.get("first");
        let entries: Vec<(String, Vec<String>)> = app.run(&["XRANGE", &log, first, first]).await;
        assert_eq!(entries.len(), 1, "{pointer:?}");
    }
}

#[tokio::test]
async fn no_threshold_crossed_emits_nothing() {
    let app = TestApp::spawn().await;
    app.place(ROOT, 1_000, 0, ledger(500, 0, 0, 0)).await;
    let id = app.held(ROOT, 100, json!({})).await;
    app.extend(&id, "e", 10).await;
    app.decide("k", ROOT, 100).await;
    app.dry_run("d", ROOT, 100).await;
    app.commit(&id, "c", 50).await;
    let id = app.held("tenant:acme/app:r", 100, json!({})).await;
    app.release(&id, "r").await;
    app.post_event("p", ROOT, 10, json!({})).await;
    let zero = app.dry_run("z", ROOT, 0).await;
    assert_eq!(zero.at("/balances/0/remaining"), &tokens(440));
    assert!(app.events().await.is_empty());
    app.place(ROOT, 1_000, 0, ledger(0, 0, 0, 0)).await;
    assert_eq!(app.dry_run("x", ROOT, 0).await.at("/decision"), "ALLOW");
    app.reserve("y", 0).await.expect(200);
    assert!(
        app.events().await.is_empty(),
        "nothing of nothing exhausts nothing"
    );
}

#[tokio::test]
async fn events_carry_the_trace_that_the_client_sent() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 100, 0).await;
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let request = app.request(reqwest::Method::POST, "/v1/reservations");
    let request = request.json(&ask_body("k", ROOT, 100));
    let request = request.header("X-Service-API-Key", &app.keys[0]);
    let response = app
        .send(request.header("traceparent", format!("00-{trace}-{parent}-01")))
        .await;
    assert_eq!(response.headers["x-service-trace-id"], trace);
    let events = app.events().await;
    assert_eq!(events.len(), 4);
    for event in &events {
        assert_eq!(
            (event.get("trace_id"), event.get("trace_flags")),
            (trace, "01")
        );
    }
}

#[tokio::test]
async fn a_client_cannot_forge_facts_of_an_event() {
    let app = TestApp::spawn().await;
    app.budget(ROOT, 1_000, 0).await;
    let kind = "x\nactor admin\nsource elsewhere";
    let action = json!({"kind": kind, "name": "y\nkey_id key_000_none"});
    let id = app.held(ROOT, 10, json!({"action": action})).await;
    app.post_event("e", ROOT, 900, json!({"action": action}))
        .await;
    app.commit(&id, "c", 500).await;
    app.create("k", ROOT, 5_000, json!({"action": action}))
        .await;
    let events = app.events().await;
    assert!(events.len() > 4, "{events:?}");
    for event in &events {
        assert_eq!(
            (event.get("actor"), event.get("source")),
            ("api_key", "service-server")
        );
        assert_eq!(event.get("key_id"), app.callers[0].key_id.as_str());
        let emitted = [event.get("kind"), event.get("data.action_kind")];
        assert!(emitted.contains(&kind), "{event:?}");
    }
}
