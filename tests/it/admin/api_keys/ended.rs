//! API keys that have ended: revoked, expired, or closed with their tenant.

use crate::admin::http::{KEYS, TENANTS, key, umbra};
use crate::harness::app::ADMIN_KEY;
use reqwest::Method;
use serde_json::{Value, json};

use super::changes::{change, changed, emitted, revoke};

#[tokio::test]
async fn rule_51_a_key_that_has_ended_is_neither_revoked_again_nor_changed() {
    let app = umbra().await;
    let (id, _) = key(&app, &[]).await;
    revoke(&app, &id).await.expect(200);
    revoke(&app, &id).await.refused(409, "KEY_REVOKED");
    let refused = change(&app, &id, json!({"name": "n"}))
        .await
        .refused(409, "INVALID_REQUEST");
    assert!(refused.text("/message").contains("REVOKED"));
    let (id, _) = key(&app, &[]).await;
    app.set_key_of("umbra", &id, &["expires_at_ms", "1"]).await;
    let refused = change(&app, &id, json!({"permissions": ["budgets:read"]}))
        .await
        .refused(409, "INVALID_REQUEST");
    assert!(refused.text("/message").contains("EXPIRED"));
    assert_eq!(emitted(&app), 0);
    let revoked = revoke(&app, &id).await;
    assert_eq!(
        revoked.text("/status"),
        "REVOKED",
        "an expired key may be revoked"
    );
}

#[tokio::test]
async fn rule_52_revocation_is_200_with_the_record() {
    let app = umbra().await;
    let (id, _) = key(&app, &["budgets:read"]).await;
    let response = revoke(&app, &id).await.expect(200);
    assert_eq!(response.text("/key_id"), id);
    assert_eq!(response.text("/status"), "REVOKED");
    assert_eq!(response.at("/permissions"), &json!(["budgets:read"]));
}

#[tokio::test]
async fn rule_53_the_whole_key_is_returned_once_and_never_stored() {
    let app = umbra().await;
    let (id, secret) = key(&app, &["budgets:write"]).await;
    changed(
        &app,
        &id,
        json!({"name": "n", "permissions": ["budgets:read"]}),
    )
    .await;
    let listed = app.get_as_admin(KEYS).await;
    let validated = app
        .post_as_admin("/v1/auth/validate", json!({"key_secret": secret}))
        .await;
    let revoked = revoke(&app, &id).await;
    app.post_as_admin("/v1/auth/validate", json!({"key_secret": secret}))
        .await;
    let secret = &secret[secret.len() - 32..];
    let fixture = app.admin_fixture();
    for text in [
        format!("{listed:?}"),
        format!("{validated:?}"),
        format!("{revoked:?}"),
        format!("{:?}", fixture.events("umbra")),
        format!("{:?}", fixture.tenant_audit("umbra")),
    ] {
        assert!(!text.contains(secret), "{text}");
        assert!(!text.contains("\"hash\""), "{text}");
    }
}

#[tokio::test]
async fn rule_83_an_expired_key_stays_expired_when_its_tenant_closes() {
    let app = umbra().await;
    let (expired, _) = key(&app, &[]).await;
    let (open, _) = key(&app, &[]).await;
    app.set_key_of("umbra", &expired, &["expires_at_ms", "1"])
        .await;
    let close = app.request(Method::PATCH, &format!("{TENANTS}/umbra"));
    let close = close.header("X-Admin-API-Key", ADMIN_KEY);
    app.send(close.json(&json!({"status": "CLOSED"})))
        .await
        .expect(200);
    for (status, id) in [("EXPIRED", &expired), ("REVOKED", &open)] {
        let listed = app
            .get_as_admin(&format!("{KEYS}?tenant_id=umbra&status={status}"))
            .await;
        assert_eq!(listed.at("/keys/0/key_id"), &json!(id), "{status}");
        assert_eq!(listed.at("/keys/1"), &Value::Null);
        change(&app, id, json!({}))
            .await
            .refused(409, "TENANT_CLOSED");
    }
}
