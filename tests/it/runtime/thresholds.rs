//! The threshold events of operations: when, once, in which order and with which facts.

use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::runtime_calls::{Event, ledger};
use crate::runtime::overage::three_scopes;

const ROOT: &str = "tenant:acme";
const AIA: &str = "ALLOW_IF_AVAILABLE";
const AWO: &str = "ALLOW_WITH_OVERDRAFT";
const CROSSED: &str = "budget.threshold_crossed tenant:acme";

fn lines(events: &[Event], facts: &[&str]) -> Vec<String> {
    events.iter().map(|event| event.line(facts)).collect()
}

/// The events since the last call, each as type, scope, threshold and direction.
struct ThresholdFixture {
    app: TestApp,
    seen: usize,
}

impl ThresholdFixture {
    async fn of(allocated: i64, limit: i64) -> Self {
        let app = TestApp::spawn().await;
        app.budget(ROOT, allocated, limit).await;
        Self { app, seen: 0 }
    }

    async fn emitted(&mut self) -> Vec<String> {
        let events = self.app.events().await;
        let fresh = lines(
            &events[self.seen..],
            &["data.threshold_millionths", "data.direction"],
        );
        self.seen = events.len();
        fresh
    }
}

#[tokio::test]
async fn thresholds_emit_rising_and_falling_events() {
    let mut fixture = ThresholdFixture::of(1_000, 0).await;
    let mut ids = Vec::new();
    let exhausted = "budget.exhausted tenant:acme 1000000 rising".to_owned();
    let rising = |t: u32| format!("{CROSSED} {t} rising");
    let falling = |t: u32| format!("{CROSSED} {t} falling");
    let steps = [
        (799, vec![]),
        (1, vec![rising(800_000)]),
        (149, vec![]),
        (51, vec![rising(950_000), rising(1_000_000), exhausted]),
    ];
    for (amount, expected) in steps {
        let response = fixture.app.reserve(&format!("k{amount}"), amount).await;
        ids.push(response.text("/reservation_id").to_owned());
        assert_eq!(fixture.emitted().await, expected, "reserve {amount}");
    }
    fixture.app.reserve("k51", 51).await;
    assert!(fixture.emitted().await.is_empty(), "a replay emits nothing");
    fixture.app.announced_at(ROOT, 1_000).await;
    fixture.app.release(&ids[3], "r").await.expect(200);
    assert_eq!(fixture.emitted().await, [falling(1_000_000)]);
    fixture.app.release(&ids[3], "r").await;
    assert!(fixture.emitted().await.is_empty());
    fixture.app.commit(&ids[0], "c", 0).await.expect(200);
    assert_eq!(
        fixture.emitted().await,
        [falling(950_000), falling(800_000)]
    );
    fixture.app.post_event("e", ROOT, 850, json!({})).await;
    let up = [
        rising(800_000),
        rising(950_000),
        rising(1_000_000),
        "budget.exhausted tenant:acme 1000000 rising".to_owned(),
    ];
    assert_eq!(fixture.emitted().await, up);
    fixture.app.post_event("e", ROOT, 850, json!({})).await;
    assert!(fixture.emitted().await.is_empty());
}

#[tokio::test]
async fn a_threshold_event_has_the_ledger_after_the_change_and_its_cause() {
    let mut fixture = ThresholdFixture::of(1_000, 0).await;
    fixture.app.post_event("e", ROOT, 100, json!({})).await;
    let response = fixture.app.reserve("k", 720).await;
    assert_eq!(fixture.emitted().await.len(), 1);
    let event = &fixture.app.events().await[0];
    let key_id = fixture.app.callers[0].key_id.to_string();
    let header = |name| response.headers[name].to_str().expect("text");
    let emitted = [
        ("data.unit", "TOKENS"),
        ("data.allocated", "1000"),
        ("data.remaining", "180"),
        ("data.spent", "100"),
        ("data.reserved", "720"),
        ("kind", "llm.completion"),
        ("source", "service-server"),
        ("actor", "api_key"),
        ("key_id", &key_id),
        ("source_ip", "127.0.0.1"),
        ("request_id", header("x-request-id")),
        ("trace_id", header("x-service-trace-id")),
    ];
    for (name, value) in emitted {
        assert_eq!(event.get(name), value, "{name}");
    }
}

#[tokio::test]
async fn thresholds_near_the_end_of_sixty_four_bits_are_exact() {
    let mut fixture = ThresholdFixture::of(i64::MAX, 0).await;
    let rising = |t: u32| format!("{CROSSED} {t} rising");
    let exhausted = "budget.exhausted tenant:acme 1000000 rising".to_owned();
    // 0.8 and 0.95 of 2^63 - 1, rounded up: 7378697629483820646 and 8762203435012037017.
    let steps = [
        (7_378_697_629_483_820_645, vec![]),
        (1, vec![rising(800_000)]),
        (1_383_505_805_528_216_370, vec![]),
        (2, vec![rising(950_000)]),
        (461_168_601_842_738_788, vec![]),
        (3, vec![rising(1_000_000), exhausted]),
    ];
    let mut sum = 0;
    for (number, (amount, expected)) in steps.into_iter().enumerate() {
        let amount = if number == 5 { i64::MAX - sum } else { amount };
        sum += amount;
        fixture
            .app
            .reserve(&format!("k{number}"), amount)
            .await
            .expect(200);
        assert_eq!(fixture.emitted().await, expected, "in use: {sum}");
    }
}

#[tokio::test]
async fn a_tenants_thresholds_apply_and_an_empty_ledger_has_none() {
    let mut fixture = ThresholdFixture::of(1_000, 1_000).await;
    fixture
        .app
        .set_tenant(&[("thresholds", "1 333333 1000000")])
        .await;
    fixture.app.reserve("k1", 1).await;
    assert_eq!(fixture.emitted().await, [format!("{CROSSED} 1 rising")]);
    fixture.app.reserve("k2", 332).await;
    assert!(fixture.emitted().await.is_empty());
    fixture.app.reserve("k3", 1).await;
    assert_eq!(
        fixture.emitted().await,
        [format!("{CROSSED} 333333 rising")]
    );
    let empty = "workspace:empty";
    fixture.app.budget(empty, 0, 500).await;
    let awo = json!({"overage_policy": AWO});
    fixture
        .app
        .post_event("e", empty, 500, awo)
        .await
        .expect(201);
    assert_eq!(
        fixture.emitted().await,
        ["budget.debt_incurred workspace:empty"]
    );
}

/// A remaining amount, an operation of `amount`, and whether it exhausts the ledger.
#[tokio::test]
async fn a_ledger_is_exhausted_when_nothing_remains() {
    let rows = [
        ("reserve", 40, 40, AIA, true),
        ("reserve", 40, 39, AIA, false),
        ("reserve", 0, 0, AIA, false),
        ("event", 40, 40, "REJECT", true),
        ("event", 40, 100, AIA, true),
        ("event", 40, 100, AWO, true),
        ("event", 0, 100, AIA, false),
        ("event", 0, 100, AWO, false),
        ("commit", 40, 340, AIA, true),
        ("commit", 40, 400, AWO, true),
        ("commit", 40, 300, AIA, false),
        ("commit", 0, 300, AIA, false),
        ("dry run", 40, 40, AIA, false),
    ];
    for (row, (operation, remaining, amount, policy, exhausts)) in rows.into_iter().enumerate() {
        let app = TestApp::spawn().await;
        app.budget(ROOT, 1_000, 100).await;
        let more = json!({"overage_policy": policy});
        let id = app.held(ROOT, 300, more.clone()).await;
        let before = ledger(remaining, 300, 0, 0);
        app.place(ROOT, 1_000, 100, before).await;
        let response = match operation {
            "reserve" => app.create("k", ROOT, amount, more).await,
            "event" => app.post_event("k", ROOT, amount, more).await,
            "commit" => app.commit(&id, "k", amount).await,
            _ => app.dry_run("k", ROOT, amount).await,
        };
        assert!(response.is_success(), "row {row}: {response:?}");
        let events = app.events().await;
        let emitted = events
            .iter()
            .filter(|event| event.get("type") == "budget.exhausted");
        assert_eq!(emitted.count(), usize::from(exhausts), "row {row}");
    }
}

#[tokio::test]
async fn one_commit_emits_its_overage_and_then_scope_by_scope_cause_before_effect() {
    let app = TestApp::spawn().await;
    let (_, id) = three_scopes(&app, "workspace:w", AWO, [200, 0, 50]).await;
    let response = app.commit(&id, "c", 400).await.expect(200);
    let events = app.events().await;
    let facts = [
        "data.threshold_millionths",
        "data.debt_incurred",
        "data.overage",
    ];
    let expected = [
        "reservation.commit_overage workspace:w/app:m/agent:i  30 100",
        "budget.threshold_crossed workspace:w 1000000",
        "budget.debt_incurred workspace:w  30",
        "budget.exhausted workspace:w 1000000",
        "budget.threshold_crossed workspace:w/app:m 950000",
        "budget.threshold_crossed workspace:w/app:m 1000000",
        "budget.exhausted workspace:w/app:m 1000000",
        "budget.over_limit_entered workspace:w/app:m",
    ];
    assert_eq!(lines(&events, &facts), expected);
    for name in ["request_id", "trace_id", "at_ms", "kind"] {
        assert!(
            events
                .iter()
                .all(|event| event.get(name) == events[0].get(name)),
            "{name}"
        );
    }
    let request_id = response.headers["x-request-id"].to_str().expect("text");
    assert_eq!(events[0].get("request_id"), request_id);
    let emitted = [
        (0, "data.estimated_amount", "300"),
        (0, "data.actual_amount", "400"),
        (0, "data.overage_policy", AWO),
        (0, "data.reservation_id", &id),
        (2, "data.total_debt", "30"),
        (2, "data.overdraft_limit", "200"),
        (2, "data.overage_policy", AWO),
        (2, "data.reservation_id", &id),
        (7, "data.debt", "0"),
        (7, "data.overdraft_limit", "0"),
        (7, "data.is_over_limit", "1"),
    ];
    for (number, name, value) in emitted {
        assert_eq!(events[number].get(name), value, "{name} of {number}");
    }
    app.commit(&id, "c", 400).await;
    app.commit(&id, "d", 400).await;
    assert_eq!(
        app.events().await.len(),
        expected.len(),
        "neither replay nor refusal emits anything"
    );
}

#[tokio::test]
async fn overage_events_have_the_requested_amount() {
    let app = TestApp::spawn().await;
    let rows = [(AIA, 0, 40), (AIA, 0, 0), (AIA, 0, 700), (AWO, 100, 0)];
    for (row, (policy, limit, remaining)) in rows.into_iter().enumerate() {
        let scope = format!("workspace:row{row}");
        app.budget(&scope, 1_000, limit).await;
        let id = app
            .held(&scope, 300, json!({"overage_policy": policy}))
            .await;
        app.place(&scope, 1_000, limit, ledger(remaining, 300, 0, 0))
            .await;
        app.commit(&id, "c", 400).await.expect(200);
        let events = app.events().await;
        let emitted = events
            .iter()
            .filter(|event| event.get("type") == "reservation.commit_overage");
        let emitted = lines(
            &emitted.cloned().collect::<Vec<_>>(),
            &["data.actual_amount", "data.overage", "data.debt_incurred"],
        );
        let expected = format!("reservation.commit_overage {scope} 400 100 {limit}");
        assert_eq!(emitted.last(), Some(&expected));
        assert_eq!(emitted.len(), row + 1);
    }
    let id = app
        .held(
            "workspace:row2/agent:r",
            10,
            json!({"overage_policy": "REJECT"}),
        )
        .await;
    let count = app.events().await.len();
    app.commit(&id, "c", 11)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    app.commit(&id, "c", 10).await.expect(200);
    assert_eq!(app.events().await.len(), count);
}

#[tokio::test]
async fn the_debt_of_a_commit_over_several_scopes_stops_at_sixty_four_bits() {
    let app = TestApp::spawn().await;
    let (outer, inner) = ("workspace:w", "workspace:w/agent:a");
    for scope in [outer, inner] {
        app.budget(scope, 0, i64::MAX).await;
    }
    let id = app.held(inner, 0, json!({"overage_policy": AWO})).await;
    app.commit(&id, "c", i64::MAX).await.expect(200);
    let emitted = lines(&app.events().await, &["data.debt_incurred"]);
    let expected = [
        format!("reservation.commit_overage {inner} {}", i64::MAX),
        format!("budget.debt_incurred {outer} {}", i64::MAX),
        format!("budget.debt_incurred {inner} {}", i64::MAX),
    ];
    assert_eq!(emitted, expected);
}
