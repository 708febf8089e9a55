//! Validation of a key by an operator: always a 200, and no more than the key's holder may know.

use budget_authority::domain::ids::Partition;
use serde_json::{Value, json};

use crate::admin::auth::VALIDATE;
use crate::admin::http::{KEYS, key, umbra};
use crate::harness::app::TestApp;
use crate::harness::eventually;

async fn validate(app: &TestApp, secret: &str) -> Value {
    let response = app
        .post_as_admin(VALIDATE, json!({"key_secret": secret}))
        .await
        .expect(200);
    response.body
}

#[tokio::test]
async fn rule_55_a_key_is_checked_by_record_secret_status_expiry_and_tenant_in_this_order() {
    let app = umbra().await;
    let body = json!({"tenant_id": "umbra", "name": "n", "permissions": ["budgets:read"], "scope_filter": ["agent:x"]});
    let made = app.post_as_admin(KEYS, body).await;
    let (id, secret) = (made.text("/key_id"), made.text("/key_secret"));
    let good = validate(&app, secret).await;
    assert_eq!(
        good,
        json!({"valid": true, "tenant_id": "umbra", "key_id": id, "permissions": ["budgets:read"],
            "scope_filter": ["agent:x"], "expires_at": made.text("/expires_at")})
    );
    let wrong = format!(
        "{}{}",
        &secret[..secret.len() - 1],
        if secret.ends_with('A') { 'B' } else { 'A' }
    );
    let nobodys = json!({"valid": false, "tenant_id": "", "reason": "KEY_NOT_FOUND"});
    let unknown = format!("sk_live_000zzzzzzzzzzzz{}", "A".repeat(32));
    for text in [&unknown, "nonsense", "cyc_live_x"] {
        assert_eq!(validate(&app, text).await, nobodys, "{text}");
    }
    let invalid = json!({"valid": false, "tenant_id": "", "key_id": id, "reason": "INVALID_KEY"});
    assert_eq!(validate(&app, &wrong).await, invalid);

    let reason = async |expected: &str| {
        let response = validate(&app, secret).await;
        let wanted = json!({"valid": false, "tenant_id": "umbra", "key_id": id,
            "expires_at": response["expires_at"], "reason": expected});
        assert_eq!(response, wanted);
        assert!(response["expires_at"].is_string());
        assert_eq!(
            validate(&app, &wrong).await,
            invalid,
            "{expected}: nothing is emitted"
        );
    };
    let fixture = app.admin_fixture();
    for (status, expected) in [
        ("SUSPENDED", "TENANT_SUSPENDED"),
        ("CLOSED", "TENANT_CLOSED"),
        ("?", "INTERNAL_ERROR"),
    ] {
        fixture.set_status("umbra", status);
        reason(expected).await;
    }
    app.run::<()>(&["DEL", &fixture.tenant_key("umbra")]).await;
    reason("TENANT_NOT_FOUND").await;
    app.set_key_of("umbra", id, &["expires_at_ms", "1"]).await;
    reason("KEY_EXPIRED").await;
    app.set_key_of("umbra", id, &["status", "REVOKED"]).await;
    reason("KEY_REVOKED").await;
}

#[tokio::test]
async fn validation_is_for_operators_and_checks_its_request() {
    let app = umbra().await;
    for body in [
        json!({}),
        json!({"key_secret": ""}),
        json!({"key_secret": "  "}),
        json!({"key_secret": null}),
        json!({"key_secret": 7}),
        json!({"key_secret": "x", "tenant_id": "umbra"}),
    ] {
        let response = app.post_as_admin(VALIDATE, body.clone()).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{body}");
    }
    let (_, secret) = key(&app, &["admin:read"]).await;
    let padded = validate(&app, &format!(" {secret} ")).await;
    assert_eq!(padded["valid"], true);
}

#[tokio::test]
async fn a_key_that_fails_validation_emits_an_event_and_no_audit_entry() {
    let app = umbra().await;
    let (id, secret) = key(&app, &[]).await;
    app.set_key_of("umbra", &id, &["status", "REVOKED"]).await;
    let fixture = app.admin_fixture();
    let entries = fixture.tenant_audit("umbra").len();
    for _ in 0..3 {
        validate(&app, &secret).await;
    }
    validate(&app, "nonsense").await;
    let event = eventually("the bad key emits an event", async || {
        let events = fixture.events("umbra").into_iter();
        let mut failed = events.filter(|event| event["event_type"] == "api_key.auth_failed");
        failed.next()
    })
    .await;
    assert_eq!(event["actor"]["type"], "api_key");
    assert_eq!(event["actor"]["key_id"], id);
    assert_eq!(event["source"], "service-admin");
    assert_eq!(event["data"]["failure_reason"], "key_revoked");
    assert_eq!(event["data"]["key_id"], id);
    assert_eq!(event["data"]["source_ip"], "127.0.0.1");
    assert_eq!(fixture.tenant_audit("umbra").len(), entries);
    let recorded = fixture.audit(Partition::FIRST, "__admin__");
    assert!(recorded.is_empty(), "{recorded:?}");
    // A good key is no failure.
    let (_, secret) = key(&app, &[]).await;
    validate(&app, &secret).await;
}
