//! Evidence of requests that budgets with limits and budgets that observe decide.

use serde_json::{Value, json};

use super::fixture::EvidenceFixture;
use crate::harness::runtime_calls::{ask_body, tokens};

const SCOPE: &str = "tenant:acme";

#[tokio::test]
async fn a_refund_stands_beside_evidence() {
    let issued = EvidenceFixture::spawn(&[]).await;
    let app = &issued.app;
    app.budget(SCOPE, 100, 0).await;
    let id = app.held(SCOPE, 50, json!({})).await;
    app.commit(&id, "c", 50).await.expect(200);
    let body = json!({"idempotency_key": "k", "amount": tokens(20), "reason": "wrong"});
    let path = format!("/v1/reservations/{id}/refund");
    app.post(&path, body).await.expect(200);
    assert_eq!(app.found(&id).await.at("/refunded"), &tokens(20));
    for list in ["/v1/reservations", "/v1/reservations?include=evidence"] {
        let listed = app.get(list).await.expect(200);
        assert_eq!(listed.at("/reservations/0/refunded"), &tokens(20), "{list}");
    }
}

#[tokio::test]
async fn e10_a_full_window_is_attested_and_what_was_observed_is_not() {
    let mut issued = EvidenceFixture::spawn(&[]).await;
    let budget = |scope: &str, more: (&str, Value)| {
        let mut body =
            json!({"tenant_id": "acme", "scope": scope, "unit": "TOKENS", "allocated": tokens(10)});
        body[more.0] = more.1;
        body
    };
    let app = format!("{SCOPE}/app:chat");
    let limits = json!([{"every": "PT1H", "amount": tokens(5)}]);
    for body in [
        budget(SCOPE, ("enforcement", json!("OBSERVE"))),
        budget(&app, ("limits", limits)),
    ] {
        let made = issued.app.post_as_admin("/v1/admin/budgets", body).await;
        made.expect(201);
    }
    let reserve = async |key: &str, scope: &str, amount: i64| {
        let body = ask_body(key, scope, amount);
        issued.app.post("/v1/reservations", body).await
    };
    let held = reserve("k1", SCOPE, 11).await.expect(200);
    assert_eq!(held.at("/observed/0/reason"), &json!("BUDGET_EXCEEDED"));
    let refused = reserve("k2", &app, 6).await;
    let refused = refused.refused(409, "BUDGET_EXCEEDED");
    let decided = issued
        .app
        .post("/v1/decide", ask_body("k3", SCOPE, 11))
        .await;
    assert_ne!(decided.expect(200).at("/observed"), &Value::Null);
    let pass = issued.sign().await;
    assert_eq!((pass.signed, pass.quarantined), (3, 0));
    let mut limits = Vec::new();
    for key in issued.envelopes().await {
        let text: String = issued.app.run(&["GET", &key]).await;
        assert!(!text.contains("observed"), "{text}");
        let envelope: Value = serde_json::from_str(&text).expect("JSON");
        let response = &envelope["payload"]["error"]["response"];
        limits.extend(response["details"].get("limit").cloned());
    }
    assert_eq!(limits, [refused.at("/details/limit").clone()]);
}
