//! Alerts that do not flood: a threshold that rose falls below a band, after ten seconds; exhaustion likewise.

use serde_json::{Value, json};

use crate::harness::app::TestApp;
use crate::harness::bulk_calls::{BUDGETS, fund};
use crate::harness::runtime_calls::ledger;

const ROOT: &str = "tenant:acme";
const FUND: &str = "/v1/admin/budgets/fund?scope=tenant:acme&unit=TOKENS&tenant_id=acme";
const CROSSED: &str = "budget.threshold_crossed";
/// In milliseconds.
const LONG_AGO: i64 = 1_000;
const FAR_AHEAD: i64 = 4_102_444_800_000;

/// A ledger of 1,000 with the default thresholds: 0.8, 0.95 and 1.
struct AlertFixture {
    app: TestApp,
    seen: usize,
    keys: usize,
}

impl AlertFixture {
    async fn new() -> Self {
        let app = TestApp::spawn().await;
        let budget = json!({
            "tenant_id": "acme", "scope": ROOT, "unit": "TOKENS", "allocated": {"unit": "TOKENS", "amount": 1_000},
        });
        let created = app.post_as_admin("/v1/admin/budgets", budget).await;
        created.expect(201);
        let seen = app.events().await.len();
        Self { app, seen, keys: 0 }
    }

    fn key(&mut self) -> String {
        self.keys += 1;
        format!("key-{}", self.keys)
    }

    async fn hold(&mut self, amount: i64) -> String {
        let key = self.key();
        let reserved = self.app.reserve(&key, amount).await.expect(200);
        reserved.text("/reservation_id").to_owned()
    }

    async fn release(&self, id: &str) {
        self.app.release(id, "r").await.expect(200);
    }

    async fn fund(&mut self, operation: &str, amount: i64) {
        let body = json!({
            "operation": operation, "amount": {"unit": "TOKENS", "amount": amount}, "idempotency_key": self.key(),
        });
        self.app.post_as_admin(FUND, body).await.expect(200);
    }

    /// The alerts since the last call: threshold in per cent, direction, and what remains.
    async fn emitted(&mut self) -> Vec<String> {
        let events = self.app.events().await;
        let fresh = events[self.seen..].iter();
        let alerts = fresh.filter_map(|event| {
            let (direction, remaining) = (event.get("data.direction"), event.get("data.remaining"));
            match event.get("type") {
                CROSSED => {
                    let threshold: i64 = event
                        .get("data.threshold_millionths")
                        .parse()
                        .expect("a number");
                    Some(format!("{} {direction} {remaining}", threshold / 10_000))
                }
                "budget.exhausted" => Some("exhausted".to_owned()),
                _ => None,
            }
        });
        let alerts = alerts.collect();
        self.seen = events.len();
        alerts
    }

    async fn emits(&mut self, expected: &[&str]) {
        assert_eq!(self.emitted().await, expected);
    }

    async fn age(&self) {
        self.app.announced_at(ROOT, LONG_AGO).await;
    }

    async fn announced(&self) -> String {
        let stored: Option<String> = self
            .app
            .run(&["HGET", &self.app.ledger_key(0, ROOT), "announced"])
            .await;
        stored.unwrap_or_default()
    }
}

#[tokio::test]
async fn holds_that_come_and_go_around_a_threshold_do_not_flood() {
    let mut fixture = AlertFixture::new().await;
    fixture.hold(700).await;
    for _ in 0..3 {
        for expected in [&["80 rising 150"][..], &[], &[]] {
            let id = fixture.hold(150).await;
            fixture.emits(expected).await;
            fixture.release(&id).await;
            fixture.emits(&[]).await;
        }
        fixture.age().await;
        fixture.hold(0).await;
        fixture.emits(&["80 falling 300"]).await;
        assert_eq!(fixture.announced().await, "");
    }
    // The first operation after the ten seconds raises use: it emits what has fallen first.
    let id = fixture.hold(150).await;
    fixture.release(&id).await;
    fixture.age().await;
    fixture.emits(&["80 rising 150"]).await;
    fixture.hold(150).await;
    fixture.emits(&["80 falling 300", "80 rising 150"]).await;
}

#[tokio::test]
async fn a_threshold_falls_only_below_its_band() {
    let mut fixture = AlertFixture::new().await;
    fixture.hold(749).await;
    let (above, within, below) = (
        fixture.hold(49).await,
        fixture.hold(1).await,
        fixture.hold(1).await,
    );
    fixture.emits(&["80 rising 200"]).await;
    fixture.age().await;
    fixture.release(&above).await;
    fixture.release(&within).await;
    fixture.emits(&[]).await;
    fixture.hold(49).await;
    fixture.emits(&[]).await;
    let id = fixture.hold(1).await;
    fixture.emits(&[]).await;
    fixture.release(&id).await;
    fixture.release(&below).await;
    fixture.emits(&[]).await;
    let stored = fixture.announced().await;
    assert_eq!(
        stored,
        format!("800000 {LONG_AGO} 0"),
        "nothing new is announced"
    );
    assert!(stored.len() <= 64);
}

#[tokio::test]
async fn thresholds_fall_together_and_rise_again_at_once() {
    let mut fixture = AlertFixture::new().await;
    fixture.hold(500).await;
    let (most, rest) = (fixture.hold(340).await, fixture.hold(160).await);
    fixture
        .emits(&["80 rising 160", "95 rising 0", "100 rising 0", "exhausted"])
        .await;
    fixture.release(&rest).await;
    fixture.emits(&[]).await;
    fixture.age().await;
    let id = fixture.hold(1).await;
    fixture.emits(&["100 falling 160", "95 falling 160"]).await;
    fixture.release(&id).await;
    fixture.release(&most).await;
    fixture.emits(&["80 falling 500"]).await;
    fixture.hold(460).await;
    fixture.emits(&["80 rising 40", "95 rising 40"]).await;
}

#[tokio::test]
async fn every_operation_on_the_ledger_emits_falling_thresholds() {
    for operation in ["release", "commit", "usage event", "expiry", "reserve"] {
        let mut fixture = AlertFixture::new().await;
        let (low, high) = (fixture.hold(100).await, fixture.hold(700).await);
        fixture.emits(&["80 rising 200"]).await;
        fixture.release(&high).await;
        let denied = fixture.app.reserve("too much", 1_000).await;
        denied.refused(409, "BUDGET_EXCEEDED");
        fixture.age().await;
        fixture.app.decide("d", ROOT, 10).await.expect(200);
        fixture.app.extend(&low, "e", 10).await.expect(200);
        fixture.emits(&[]).await;
        let app = &fixture.app;
        let expected = match operation {
            "release" => {
                app.release(&low, "r").await.expect(200);
                "80 falling 1000"
            }
            "commit" => {
                app.commit(&low, "c", 60).await.expect(200);
                "80 falling 940"
            }
            "usage event" => {
                app.post_event("u", ROOT, 10, json!({})).await.expect(201);
                "80 falling 900"
            }
            "expiry" => {
                app.backdate(&low, 60_000).await;
                assert_eq!(app.sweep().await, 1);
                "80 falling 1000"
            }
            _ => {
                app.reserve("again", 10).await.expect(200);
                "80 falling 900"
            }
        };
        let emitted = fixture.emitted().await;
        assert_eq!(emitted, [expected], "{operation}");
    }
}

#[tokio::test]
async fn an_event_dated_in_the_future_counts_as_old() {
    let mut fixture = AlertFixture::new().await;
    let id = fixture.hold(1_000).await;
    fixture.app.announced_at(ROOT, FAR_AHEAD).await;
    fixture.emitted().await;
    fixture.release(&id).await;
    fixture
        .emits(&["100 falling 1000", "95 falling 1000", "80 falling 1000"])
        .await;
    fixture.hold(1_000).await;
    fixture
        .emits(&["80 rising 0", "95 rising 0", "100 rising 0", "exhausted"])
        .await;
}

#[tokio::test]
async fn added_thresholds_emit_nothing_until_utilization_crosses_them() {
    let mut fixture = AlertFixture::new().await;
    fixture.hold(300).await;
    let id = fixture.hold(550).await;
    fixture.emits(&["80 rising 150"]).await;
    fixture
        .app
        .set_tenant(&[("thresholds", "500000 800000 820000 900000")])
        .await;
    let small = fixture.hold(1).await;
    fixture.emits(&[]).await;
    fixture.release(&small).await;
    fixture.age().await;
    fixture.release(&id).await;
    fixture.emits(&["80 falling 700", "50 falling 700"]).await;
    fixture.hold(530).await;
    fixture
        .emits(&["50 rising 170", "80 rising 170", "82 rising 170"])
        .await;

    // Above a ledger that has announced nothing.
    let mut fixture = AlertFixture::new().await;
    let id = fixture.hold(600).await;
    fixture
        .app
        .set_tenant(&[("thresholds", "500000 800000")])
        .await;
    fixture.hold(1).await;
    fixture.emits(&[]).await;
    fixture.release(&id).await;
    fixture.emits(&["50 falling 999"]).await;
}

#[tokio::test]
async fn a_removed_threshold_is_forgotten_when_utilization_is_below_its_band() {
    let mut fixture = AlertFixture::new().await;
    let app = &fixture.app;
    app.set_tenant(&[("thresholds", "500000 800000")]).await;
    let most = fixture.hold(440).await;
    fixture.hold(100).await;
    fixture.emits(&["50 rising 460"]).await;
    fixture.app.set_tenant(&[("thresholds", "800000")]).await;
    fixture.age().await;
    fixture.hold(20).await;
    let within_its_band = fixture.announced().await;
    assert_eq!(within_its_band, format!("500000 {LONG_AGO} 0"));
    fixture.release(&most).await;
    assert_eq!(fixture.announced().await, "");
    fixture.emits(&[]).await;
    fixture.hold(680).await;
    fixture.emits(&["80 rising 200"]).await;
}

#[tokio::test]
async fn a_ledger_without_threshold_state_counts_as_having_emitted_up_to_its_utilization() {
    let mut fixture = AlertFixture::new().await;
    let (few, many) = (fixture.hold(60).await, fixture.hold(300).await);
    fixture
        .app
        .place(ROOT, 1_000, 0, ledger(150, 360, 0, 0))
        .await;
    fixture.release(&few).await;
    fixture.emits(&[]).await;
    assert_eq!(fixture.announced().await, "800000 0 0");
    fixture.hold(60).await;
    fixture.emits(&[]).await;
    fixture.release(&many).await;
    fixture.emits(&["80 falling 450"]).await;
}

#[tokio::test]
async fn exhausted_is_emitted_again_only_after_five_per_cent_remain_and_ten_seconds() {
    let mut fixture = AlertFixture::new().await;
    let of = |events: Vec<String>| {
        events
            .into_iter()
            .filter(|event| event == "exhausted")
            .count()
    };
    fixture.hold(900).await;
    let (four, six) = (fixture.hold(40).await, fixture.hold(60).await);
    assert_eq!(of(fixture.emitted().await), 1);
    fixture.release(&six).await;
    let six = fixture.hold(60).await;
    assert_eq!(of(fixture.emitted().await), 0, "at once");
    fixture.age().await;
    fixture.release(&four).await;
    fixture.hold(40).await;
    assert_eq!(of(fixture.emitted().await), 0, "four per cent");
    fixture.release(&six).await;
    fixture.hold(50).await;
    fixture.hold(10).await;
    assert_eq!(of(fixture.emitted().await), 1, "six per cent, later");
    fixture.fund("CREDIT", 10).await;
    fixture.hold(10).await;
    assert_eq!(of(fixture.emitted().await), 1, "funded");
}

#[tokio::test]
async fn exhausted_is_rearmed_without_another_operation() {
    let mut fixture = AlertFixture::new().await;
    let id = fixture.hold(1_000).await;
    fixture.release(&id).await;
    fixture.age().await;
    fixture.emitted().await;
    fixture.hold(1_000).await;
    let found = ["100 falling 1000", "95 falling 1000", "80 falling 1000"];
    let expected = [
        &found[..],
        &["80 rising 0", "95 rising 0", "100 rising 0", "exhausted"],
    ];
    fixture.emits(&expected.concat()).await;
}

#[tokio::test]
async fn funding_has_no_band_and_rearms_higher_thresholds() {
    for bulk in [false, true] {
        let mut fixture = AlertFixture::new().await;
        fixture.hold(790).await;
        let steps = [
            ("DEBIT", 100, &["80 rising 110"][..]),
            ("CREDIT", 100, &["80 falling 210"]),
            ("DEBIT", 200, &["80 rising 10", "95 rising 10"]),
            ("CREDIT", 100, &["95 falling 110"]),
        ];
        for (operation, amount, expected) in steps {
            if bulk {
                let key = fixture.key();
                let body: Value = fund("acme", operation, amount, &key);
                fixture.app.post_as_admin(BUDGETS, body).await.expect(200);
            } else {
                fixture.fund(operation, amount).await;
            }
            fixture.emits(expected).await;
        }
        // Of 900: 0.95 is armed, 0.8 is not.
        let id = fixture.hold(70).await;
        fixture.emits(&["95 rising 40"]).await;
        fixture.release(&id).await;
        fixture.emits(&[]).await;
        fixture.age().await;
        fixture.hold(0).await;
        fixture.emits(&["95 falling 110"]).await;
    }
}
