//! Events of the runtime plane in the log, as they will be delivered.

use serde_json::{Value, json};

use crate::admin::http::{BUDGETS, TENANTS, key};
use crate::harness::admin_fixture::AdminFixture;
use crate::harness::app::TestApp;
use crate::harness::runtime_calls::tokens;
use reqwest::Method;

/// A tenant `umbra` with a ledger at its root, and a key that may spend.
struct SpendingTenant {
    app: TestApp,
    secret: String,
}

impl SpendingTenant {
    async fn new(allocated: i64, overdraft_limit: i64) -> Self {
        let app = TestApp::spawn().await;
        app.post_as_admin(TENANTS, json!({"tenant_id": "umbra", "name": "Umbra"}))
            .await;
        let budget = json!({
            "tenant_id": "umbra", "scope": "tenant:umbra", "unit": "TOKENS",
            "allocated": tokens(allocated), "overdraft_limit": tokens(overdraft_limit),
        });
        app.post_as_admin(BUDGETS, budget).await.expect(201);
        let permissions = [
            "reservations:create",
            "reservations:commit",
            "reservations:release",
        ];
        let (_, secret) = key(&app, &permissions).await;
        Self { app, secret }
    }

    async fn spend(&self, path: &str, body: Value) -> Value {
        let by_key = [("X-Service-API-Key", self.secret.as_str())];
        self.app.call(Method::POST, path, &by_key, &body).await.body
    }

    async fn reserve(&self, key: &str, kind: &str, amount: i64) -> Value {
        let body = json!({
            "idempotency_key": key, "subject": {"tenant": "umbra", "app": "chat"},
            "action": {"kind": kind, "name": "m", "tags": ["t"]}, "estimate": tokens(amount),
            "overage_policy": "ALLOW_WITH_OVERDRAFT",
        });
        self.spend("/v1/reservations", body).await
    }

    async fn commit(&self, reservation: &Value, key: &str, amount: i64) -> Value {
        let id = reservation["reservation_id"].as_str().expect("an id");
        let body = json!({"idempotency_key": key, "actual": tokens(amount)});
        self.spend(&format!("/v1/reservations/{id}/commit"), body)
            .await
    }

    /// The events since the key was made, each rendered whole.
    fn events(&self) -> Vec<Value> {
        let fixture = AdminFixture::on(self.app.store.clone());
        let events = fixture.events("umbra").into_iter();
        events
            .skip_while(|event| event["event_type"] != "api_key.created")
            .skip(1)
            .collect()
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["event_type"].as_str().expect("a text"))
        .collect()
}

#[tokio::test]
async fn a_commit_beyond_the_remaining_amount_emits_cause_before_effect() {
    let tenant = SpendingTenant::new(100, 50).await;
    let held = tenant.reserve("r1", "model.call", 90).await;
    tenant.commit(&held, "c1", 120).await;
    let events = tenant.events();
    assert_eq!(
        types(&events),
        [
            "budget.threshold_crossed",
            "reservation.commit_overage",
            "budget.threshold_crossed",
            "budget.threshold_crossed",
            "budget.debt_incurred",
            "budget.exhausted",
        ]
    );
    assert_eq!(events[1]["data"]["overage"], 30);
    assert_eq!(events[1]["scope"], "tenant:umbra/app:chat");
    assert_eq!(events[4]["data"]["debt_incurred"], 20);
    assert_eq!(events[4]["data"]["overage_policy"], "ALLOW_WITH_OVERDRAFT");
    assert_eq!(events[5]["data"]["threshold"], 1.0);
    assert_eq!(events[0]["data"]["utilization"], 0.9);
    for event in &events[1..] {
        assert_eq!(event["request_id"], events[1]["request_id"]);
        assert_eq!(event["timestamp"], events[1]["timestamp"]);
        assert_eq!(event["source"], "service-server");
        assert_eq!(event["actor"]["type"], "api_key");
    }
}

#[tokio::test]
async fn a_denial_and_its_exhausted_event_share_their_correlation_id() {
    let tenant = SpendingTenant::new(100, 0).await;
    tenant.reserve("r1", "model.call", 100).await;
    let denied = tenant.reserve("r2", "model.call", 1).await;
    assert_eq!(denied["error"], "BUDGET_EXCEEDED");
    let events = tenant.events();
    let of_type = |wanted: &str| {
        events
            .iter()
            .find(|event| event["event_type"] == wanted)
            .expect("an event")
    };
    let (exhausted, denial) = (of_type("budget.exhausted"), of_type("reservation.denied"));
    assert_eq!(exhausted["correlation_id"], denial["correlation_id"]);
    assert_eq!(
        denial["data"],
        json!({
            "scope": "tenant:umbra/app:chat", "unit": "TOKENS", "reason_code": "BUDGET_EXCEEDED",
            "requested_amount": 1, "remaining": 0,
            "action": {"kind": "model.call", "name": "m", "tags": ["t"]},
            "subject": {"tenant": "umbra", "app": "chat"},
            "deny_detail": {"blocked_by_scope": "tenant:umbra"},
        })
    );
}

#[tokio::test]
async fn an_action_cannot_inject_facts_into_an_event() {
    let tenant = SpendingTenant::new(100, 50).await;
    let kind = "x\nactor admin\nrequest_id forged";
    let held = tenant.reserve("r1", kind, 90).await;
    tenant.commit(&held, "c1", 120).await;
    let events = tenant.events();
    assert!(events.len() > 3);
    for event in events {
        assert_eq!(event["actor"]["type"], "api_key");
        assert_ne!(event["request_id"], "forged");
    }
}
