//! Issuing and revoking API keys.

use budget_authority::admin::NewApiKey;
use budget_authority::domain::api_key::permission::{ApiKeyStatus, Permission};
use budget_authority::domain::moment::Moment;
use budget_authority::domain::refusal::admin::AdminRefusal;

use crate::harness::desk::{Desk, ask, asking, new_key, refusal, tenant_id};

const DAY_MS: i64 = 86_400_000;

#[tokio::test]
async fn a_key_is_kept_as_a_digest_and_lives_ninety_days() {
    let desk = Desk::new();
    desk.tenant("acme").await;
    let created = desk
        .admin
        .create_api_key(&new_key("acme"), &ask().request())
        .await
        .expect("a key");
    assert_eq!(
        created.expires_at.as_ms() - created.created_at.as_ms(),
        90 * DAY_MS
    );
    assert_eq!(created.permissions, Permission::DEFAULT);
    assert!(created.key.visible_prefix().starts_with("sk_live_"));

    let (text, id) = (created.key.expose(), created.key.key_id());
    let partition = tenant_id("acme").partition();
    let key = desk.store.keys().api_key(partition, id.as_str());
    let record: Vec<String> = desk.redis().run(&["HGETALL", &key]);
    let keys: Vec<String> = desk.redis().run(&[
        "ZRANGE",
        &desk.store.keys().api_keys(partition, "acme"),
        "0",
        "-1",
    ]);
    assert_eq!(keys, [id.as_str()]);
    assert!(record.contains(&created.key.hash().to_string()));
    let events = serde_json::to_string(&desk.events("acme")).expect("JSON");
    let audit = format!("{:?}", desk.tenant_audit("acme"));
    let secret = &text[text.len() - 32..];
    assert!(
        ![format!("{record:?}"), events, audit]
            .iter()
            .any(|shown| shown.contains(secret))
    );
    let event = desk.events("acme").pop().expect("an event");
    assert_eq!(event["event_type"], "api_key.created");
    assert_eq!(
        event["data"]["permissions"].as_array().map(Vec::len),
        Some(10)
    );
}

#[tokio::test]
async fn a_key_is_refused_for_a_tenant_that_cannot_have_one() {
    let desk = Desk::new();
    desk.tenant("acme").await;
    let create = |key: NewApiKey| {
        let desk = &desk;
        async move { refusal(desk.admin.create_api_key(&key, &ask().request()).await) }
    };
    assert_eq!(create(new_key("nobody")).await, AdminRefusal::OwnerNotFound);
    assert_eq!(
        create(new_key("No Such")).await,
        AdminRefusal::OwnerNotFound
    );
    let dead = NewApiKey {
        expires_at: Moment::from_ms(1),
        ..new_key("acme")
    };
    assert_eq!(create(dead).await, AdminRefusal::ExpiresInThePast);
    desk.set_status("acme", "SUSPENDED");
    assert_eq!(create(new_key("acme")).await, AdminRefusal::TenantNotActive);
    desk.set_status("acme", "CLOSED");
    assert_eq!(create(new_key("acme")).await, AdminRefusal::TenantClosed);
    desk.set_status("acme", "?");
    assert_eq!(
        create(new_key("acme")).await,
        AdminRefusal::TenantUnreadable
    );
    assert_eq!(desk.event_types("acme"), ["tenant.created"]);
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_once_and_cannot_be_revoked_again() {
    let desk = Desk::new();
    desk.tenant("acme").await;
    let caller = desk.key("acme", &[Permission::BudgetsRead], &[]).await;
    desk.admin
        .check_access(&caller, "budgets:read", None)
        .await
        .expect("a good key");
    let budget_authority::domain::caller::Caller::Tenant(key) = &caller else {
        panic!("a tenant's key")
    };
    let id = key.key_id.as_str();
    let owner = desk
        .admin
        .owner_of_key(id)
        .await
        .expect("readable")
        .expect("known");
    assert_eq!(owner.as_str(), "acme");
    let revoke = |payload: Option<&'static str>| {
        let (desk, owner) = (&desk, &owner);
        async move {
            desk.admin
                .revoke_api_key(id, owner, Some("leaked"), &asking(payload, "{}").request())
                .await
        }
    };
    let revoked = revoke(Some("k")).await.expect("revoked");
    assert_eq!(revoked.status, ApiKeyStatus::Revoked);
    assert_eq!(revoked.revoked_reason.as_deref(), Some("leaked"));
    assert!(revoked.revoked_at.is_some());
    let refused = refusal(desk.admin.check_access(&caller, "budgets:read", None).await);
    assert!(matches!(refused, AdminRefusal::Unauthorized(_)));
    assert_eq!(refusal(revoke(None).await), AdminRefusal::KeyRevoked);
    // The key of the first attempt brings its answer back.
    assert_eq!(
        revoke(Some("k")).await.expect("answered again").revoked_at,
        revoked.revoked_at
    );

    let event = desk.events("acme").pop().expect("an event");
    assert_eq!(
        event["data"],
        serde_json::json!({"key_id": id, "key_name": "ci", "previous_status": "ACTIVE", "new_status": "REVOKED"})
    );
    let entry = desk.tenant_audit("acme").pop().expect("an entry");
    assert_eq!(entry.get("metadata.reason"), Some("leaked"));
    assert_eq!(entry.get("metadata.name"), Some("ci"));
    assert_eq!(entry.get("resource_id"), Some(id));
}

#[tokio::test]
async fn an_expired_key_may_be_revoked_but_not_one_of_a_closed_tenant() {
    let desk = Desk::new();
    desk.tenant("acme").await;
    let created = desk
        .admin
        .create_api_key(&new_key("acme"), &ask().request())
        .await
        .expect("a key");
    let id = created.key.key_id().as_str();
    let key = desk.store.keys().api_key(tenant_id("acme").partition(), id);
    desk.redis()
        .run::<()>(&["HSET", &key, "expires_at_ms", "1"]);
    desk.set_status("acme", "CLOSED");
    let acme = tenant_id("acme");
    let closed = desk
        .admin
        .revoke_api_key(id, &acme, None, &ask().request())
        .await;
    assert_eq!(refusal(closed), AdminRefusal::TenantClosed);
    desk.set_status("acme", "SUSPENDED");
    desk.admin
        .revoke_api_key(id, &acme, None, &ask().request())
        .await
        .expect("revoked");
    assert_eq!(
        desk.events("acme").pop().expect("an event")["data"]["previous_status"],
        "EXPIRED"
    );
    let unknown = desk
        .admin
        .revoke_api_key("key_05f_abc", &acme, None, &ask().request())
        .await;
    assert_eq!(refusal(unknown), AdminRefusal::KeyNotFound);
    assert_eq!(
        desk.admin
            .owner_of_key("key_3ff_abcdefghij12")
            .await
            .expect("readable"),
        None
    );
}
