//! Issuing and revoking API keys.

use budget_authority::domain::api_key::ApiKeyCreateRequest;
use budget_authority::domain::api_key::permission::{ApiKeyStatus, Permission};
use budget_authority::domain::api_key::secret::KeyId;
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::moment::Moment;
use budget_authority::domain::refusal::{AccessRefusal, ApiKeyRefusal, Refusal, TenantRefusal};
use budget_authority::domain::scope::ScopeFilter;

use crate::harness::admin_fixture::{
    AdminFixture, ask, asking, closed, corrupt, key_text, new_key, refusal, tenant_id,
};

const DAY_MS: i64 = 86_400_000;

#[tokio::test]
async fn a_key_is_stored_as_a_digest_and_expires_after_ninety_days() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let created = fixture
        .admin
        .create_api_key(&new_key("acme"), &ask().request())
        .await
        .expect("a key");
    assert_eq!(
        created.expires_at.as_ms() - created.created_at.as_ms(),
        90 * DAY_MS
    );
    let default = Dialect::Service.words().default_permissions;
    assert_eq!(created.permissions, default);
    assert!(created.key_prefix.starts_with("sk_live_"));

    let (text, id) = (&created.key_secret, &created.key_id);
    let partition = tenant_id("acme").partition();
    let key = fixture.store.keys().api_key(partition, id.as_str());
    let record: Vec<String> = fixture.redis().run(&["HGETALL", &key]);
    let keys: Vec<String> = fixture.redis().run(&[
        "ZRANGE",
        &fixture.store.keys().api_keys(partition, "acme"),
        "0",
        "-1",
    ]);
    assert_eq!(keys, [id.as_str()]);
    assert!(record.contains(&key_text(&created).hash().as_str().to_owned()));
    let events = serde_json::to_string(&fixture.events("acme")).expect("JSON");
    let audit = format!("{:?}", fixture.tenant_audit("acme"));
    let secret = &text[text.len() - 32..];
    assert!(
        ![format!("{record:?}"), events, audit]
            .iter()
            .any(|text| text.contains(secret))
    );
    let event = fixture.events("acme").pop().expect("an event");
    assert_eq!(event["event_type"], "api_key.created");
    assert_eq!(
        event["data"]["permissions"].as_array().map(Vec::len),
        Some(10)
    );
}

#[tokio::test]
async fn the_audit_entry_of_a_new_key_names_its_scopes_and_creator() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    for filter in [None, Some(["tenant:acme/app:x", "agent:y"])] {
        let key = ApiKeyCreateRequest {
            scope_filter: filter.map(|entries| ScopeFilter::new(entries.map(str::to_owned))),
            ..new_key("acme")
        };
        let created = fixture.admin.create_api_key(&key, &ask().request()).await;
        let created = created.expect("a key");
        let entry = fixture.tenant_audit("acme").pop().expect("an entry");
        assert_eq!(entry.get("resource_id"), Some(created.key_id.as_str()));
        assert_eq!(entry.get("key_id"), None, "no key has acted");
        assert_eq!(entry.get("metadata.actor_type"), Some("admin"));
        let entries = filter.map(|entries| entries.join(" "));
        assert_eq!(entry.get("metadata.scope_filter"), entries.as_deref());
    }
}

#[tokio::test]
async fn a_key_is_refused_for_a_tenant_that_cannot_have_one() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let create = |key: ApiKeyCreateRequest| {
        let fixture = &fixture;
        async move { fixture.admin.create_api_key(&key, &ask().request()).await }
    };
    let no_owner = |tenant: &str| Refusal::from(TenantRefusal::OwnerNotFound(tenant.to_owned()));
    assert_eq!(refusal(create(new_key("nobody")).await), no_owner("nobody"));
    assert_eq!(
        refusal(create(new_key("No Such")).await),
        no_owner("No Such")
    );
    let dead = ApiKeyCreateRequest {
        expires_at: Moment::from_ms(1),
        ..new_key("acme")
    };
    assert_eq!(
        refusal(create(dead).await),
        ApiKeyRefusal::ExpiresInThePast.into()
    );
    fixture.set_status("acme", "SUSPENDED");
    let inactive = TenantRefusal::NotActive(tenant_id("acme"));
    assert_eq!(refusal(create(new_key("acme")).await), inactive.into());
    fixture.set_status("acme", "CLOSED");
    assert_eq!(refusal(create(new_key("acme")).await), closed("acme"));
    fixture.set_status("acme", "?");
    assert_eq!(corrupt(create(new_key("acme")).await), "tenant:acme");
    assert_eq!(fixture.event_types("acme"), ["tenant.created"]);
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_once_and_cannot_be_revoked_again() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let caller = fixture.key("acme", &[Permission::BudgetsRead], &[]).await;
    fixture
        .store
        .admin_access(&caller, "budgets:read", "")
        .await
        .expect("a good key");
    let budget_authority::domain::caller::Caller::Tenant(key) = &caller else {
        panic!("a tenant's key")
    };
    let id = key.key_id.as_str();
    let owner = fixture
        .admin
        .owner_of_key(&key.key_id)
        .await
        .expect("readable")
        .expect("known");
    assert_eq!(owner.as_str(), "acme");
    let revoke = |payload: Option<&'static str>| {
        let fixture = &fixture;
        async move {
            fixture
                .admin
                .revoke_api_key(id, Some("leaked"), &asking(payload, "{}").request())
                .await
        }
    };
    let revoked = revoke(Some("k")).await.expect("revoked");
    assert_eq!(revoked.status, ApiKeyStatus::Revoked);
    assert_eq!(revoked.revoked_reason.as_deref(), Some("leaked"));
    assert!(revoked.revoked_at.is_some());
    let refused = refusal(
        fixture
            .store
            .admin_access(&caller, "budgets:read", "")
            .await,
    );
    assert!(matches!(
        refused,
        Refusal::Access(AccessRefusal::Unauthorized(_))
    ));
    let revoked_already = ApiKeyRefusal::Revoked(id.to_owned());
    assert_eq!(refusal(revoke(None).await), revoked_already.into());
    // The key of the first attempt gets its response.
    assert_eq!(
        revoke(Some("k")).await.expect("answered again").revoked_at,
        revoked.revoked_at
    );

    let event = fixture.events("acme").pop().expect("an event");
    assert_eq!(
        event["data"],
        serde_json::json!({"key_id": id, "key_name": "ci", "previous_status": "ACTIVE", "new_status": "REVOKED"})
    );
    let entry = fixture.tenant_audit("acme").pop().expect("an entry");
    assert_eq!(entry.get("metadata.reason"), Some("leaked"));
    assert_eq!(entry.get("metadata.name"), Some("ci"));
    assert_eq!(entry.get("resource_id"), Some(id));
}

#[tokio::test]
async fn an_expired_key_may_be_revoked_but_not_one_of_a_closed_tenant() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let created = fixture
        .admin
        .create_api_key(&new_key("acme"), &ask().request())
        .await
        .expect("a key");
    let id = created.key_id.as_str();
    let key = fixture
        .store
        .keys()
        .api_key(tenant_id("acme").partition(), id);
    fixture
        .redis()
        .run::<()>(&["HSET", &key, "expires_at_ms", "1"]);
    fixture.set_status("acme", "CLOSED");
    let refused = fixture
        .admin
        .revoke_api_key(id, None, &ask().request())
        .await;
    assert_eq!(refusal(refused), closed("acme"));
    fixture.set_status("acme", "SUSPENDED");
    fixture
        .admin
        .revoke_api_key(id, None, &ask().request())
        .await
        .expect("revoked");
    assert_eq!(
        fixture.events("acme").pop().expect("an event")["data"]["previous_status"],
        "EXPIRED"
    );
    let unknown = fixture
        .admin
        .revoke_api_key("key_05f_abc", None, &ask().request())
        .await;
    let no_key = ApiKeyRefusal::NotFound("key_05f_abc".to_owned());
    assert_eq!(refusal(unknown), no_key.into());
    let nobodys = KeyId::parse("key_3ff_abcdefghij12").expect("a key id");
    let owner = fixture.admin.owner_of_key(&nobodys).await;
    assert_eq!(owner.expect("readable"), None);
}
