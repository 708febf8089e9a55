//! Requests in another unit than the ledgers count.

use budget_authority::evidence::Endpoint;
use serde_json::{Value, json};

use super::fixture::EvidenceFixture;
use crate::harness::runtime_calls::{ask_body, with};

const SCOPE: &str = "tenant:acme/app:chat";

#[tokio::test]
async fn e10_a_refused_decision_in_another_unit_is_attested() {
    let mut issued = EvidenceFixture::spawn(&[]).await;
    issued.app.budget(SCOPE, 1_000, 0).await;
    let amount = json!({"unit": "CREDITS", "amount": 5});
    let body = |key: &str, more: Value| {
        let body = with(ask_body(key, SCOPE, 5), json!({"estimate": amount}));
        with(body, more)
    };
    let mut seen = Vec::new();
    for (path, endpoint, body) in [
        ("/v1/decide", Endpoint::Decide, body("d", json!({}))),
        (
            "/v1/reservations",
            Endpoint::Reserve,
            body("dry", json!({"dry_run": true})),
        ),
        ("/v1/reservations", Endpoint::Reserve, body("r", json!({}))),
    ] {
        let refused = issued.app.post(path, body.clone()).await;
        let refused = refused.refused(400, "UNIT_MISMATCH");
        seen.push((endpoint, body, refused.body));
    }
    assert_eq!(issued.sign().await.signed, 3);
    for (endpoint, sent, got) in seen {
        let envelope = issued.check(endpoint, &sent, &got).await;
        let error = &envelope["payload"]["error"];
        assert_eq!(error["http_status"], 400);
        assert_eq!(error["endpoint"], endpoint.as_str());
        assert_eq!(error["response"]["details"], got["details"]);
        assert_eq!(error.get("reservation_id"), None);
    }
}
