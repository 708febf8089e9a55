//! Changing, suspending and reactivating tenants.

use std::collections::BTreeMap;

use budget_authority::domain::fields::Patch;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::refusal::{AccessRefusal, Refusal, TenantRefusal};
use budget_authority::domain::tenant::Tenant;
use budget_authority::domain::tenant::TenantStatus;
use budget_authority::domain::tenant::TenantUpdateRequest;
use budget_authority::store::StoreError;
use serde_json::json;

use crate::harness::admin_fixture::{AdminFixture, ask, asking, corrupt, refusal, tenant_id};
use crate::harness::tenant_fixture::TenantFixture;

fn to(status: TenantStatus) -> TenantUpdateRequest {
    TenantUpdateRequest {
        status: Some(status),
        ..TenantUpdateRequest::default()
    }
}

fn named(name: &str) -> TenantUpdateRequest {
    TenantUpdateRequest {
        name: Some(name.to_owned()),
        ..TenantUpdateRequest::default()
    }
}

async fn update(
    fixture: &AdminFixture,
    update: &TenantUpdateRequest,
) -> Result<Tenant, StoreError> {
    let updated = fixture
        .admin
        .update_tenant(&tenant_id("acme"), update, &ask().request())
        .await;
    updated.map(|updated| updated.tenant)
}

async fn fixture() -> AdminFixture {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    fixture
}

#[tokio::test]
async fn each_change_has_one_event_that_names_what_changed() {
    let fixture = fixture().await;
    let ttl = TenantUpdateRequest {
        default_reservation_ttl_ms: Some(5_000),
        max_reservation_extensions: Some(0),
        ..TenantUpdateRequest::default()
    };
    let labels = TenantUpdateRequest {
        metadata: Patch::Set(BTreeMap::from([("a".to_owned(), "b".to_owned())])),
        ..TenantUpdateRequest::default()
    };
    let mixed = TenantUpdateRequest {
        default_commit_overage_policy: Some(OveragePolicy::Reject),
        ..named("Acme two")
    };
    let suspended = TenantUpdateRequest {
        status: Some(TenantStatus::Suspended),
        ..named("Acme three")
    };
    let cleared = TenantUpdateRequest {
        metadata: Patch::Clear,
        ..to(TenantStatus::Active)
    };
    for change in [&ttl, &labels, &mixed, &suspended, &cleared] {
        update(&fixture, change).await.expect("changed");
    }
    let tenant = update(&fixture, &TenantUpdateRequest::default())
        .await
        .expect("as it is");
    assert_eq!(
        (
            tenant.name.as_str(),
            tenant.metadata,
            tenant.default_reservation_ttl_ms,
            tenant.max_reservation_extensions
        ),
        ("Acme three", None, Some(5_000), Some(0))
    );
    let emitted: Vec<_> = fixture.events("acme")[1..]
        .iter()
        .map(|event| (event["event_type"].clone(), event["data"].clone()))
        .collect();
    let data = |fields: &[&str]| json!({"tenant_id": "acme", "changed_fields": fields});
    let moved = |from: &str, to: &str, fields: &[&str]| json!({"tenant_id": "acme", "previous_status": from, "new_status": to, "changed_fields": fields});
    assert_eq!(
        emitted,
        [
            (
                json!("tenant.settings_changed"),
                data(&["default_reservation_ttl_ms", "max_reservation_extensions"])
            ),
            (json!("tenant.updated"), data(&["metadata"])),
            (
                json!("tenant.updated"),
                data(&["name", "default_commit_overage_policy"])
            ),
            (
                json!("tenant.suspended"),
                moved("ACTIVE", "SUSPENDED", &["name"])
            ),
            (
                json!("tenant.reactivated"),
                moved("SUSPENDED", "ACTIVE", &["metadata"])
            ),
        ]
    );
    assert!(fixture.events("acme")[1].get("correlation_id").is_none());
}

#[tokio::test]
async fn rule_15_the_time_of_the_last_suspension_stays() {
    let fixture = fixture().await;
    let suspended = update(&fixture, &to(TenantStatus::Suspended))
        .await
        .expect("suspended");
    assert!(suspended.suspended_at.is_some() && suspended.updated_at.is_some());
    fixture.next_ms().await;
    let active = update(&fixture, &to(TenantStatus::Active))
        .await
        .expect("reactivated");
    assert_eq!(
        (active.status, active.suspended_at),
        (TenantStatus::Active, suspended.suspended_at)
    );
    assert!(active.updated_at > suspended.updated_at);
}

#[tokio::test]
async fn rule_16_a_closed_tenant_stays_closed_but_can_be_renamed() {
    let fixture = fixture().await;
    let closed = update(&fixture, &to(TenantStatus::Closed))
        .await
        .expect("closed");
    for status in [TenantStatus::Active, TenantStatus::Suspended] {
        assert_eq!(
            refusal(update(&fixture, &to(status)).await),
            TenantRefusal::StaysClosed(tenant_id("acme")).into()
        );
    }
    let renamed = update(&fixture, &named("Late Acme"))
        .await
        .expect("renamed");
    assert_eq!(
        (renamed.status, renamed.name.as_str(), renamed.closed_at),
        (TenantStatus::Closed, "Late Acme", closed.closed_at)
    );
    let types = fixture.event_types("acme");
    assert_eq!(
        types[1..],
        ["tenant.closed", "tenant.updated"],
        "invariant 2"
    );
}

#[tokio::test]
async fn rule_17_a_no_op_is_audited_and_emits_no_event() {
    let fixture = fixture().await;
    let tenant = update(
        &fixture,
        &TenantUpdateRequest {
            ..to(TenantStatus::Active)
        },
    )
    .await
    .expect("as it is");
    assert!(tenant.updated_at.is_some());
    let same = TenantUpdateRequest {
        max_reservation_ttl_ms: Some(3_600_000),
        ..named("acme")
    };
    update(&fixture, &same).await.expect("as it is");
    assert_eq!(fixture.event_types("acme"), ["tenant.created"]);
    let audit = fixture.tenant_audit("acme");
    assert_eq!(audit.len(), 3);
    let entry = &audit[2];
    for (name, value) in [
        ("operation", "updateTenant"),
        ("resource_type", "tenant"),
        ("resource_id", "acme"),
        ("status", "200"),
        ("metadata.name", "acme"),
        ("metadata.max_reservation_ttl_ms", "3600000"),
    ] {
        assert_eq!(entry.get(name), Some(value), "{name}");
    }
    assert_eq!(audit[1].get("metadata.new_status"), Some("ACTIVE"));
}

#[tokio::test]
async fn an_unknown_tenant_leaves_nothing_behind() {
    let fixture = AdminFixture::new();
    assert_eq!(
        refusal(update(&fixture, &to(TenantStatus::Closed)).await),
        TenantRefusal::NotFound("acme".to_owned()).into()
    );
    let keys = fixture.store.keys().clone();
    let closings = keys.closings(tenant_id("acme").partition());
    for key in [fixture.tenant_key("acme"), closings] {
        assert_eq!(fixture.redis().run::<i64>(&["EXISTS", &key]), 0);
    }
    fixture.tenant("acme").await;
    fixture.set_status("acme", "DORMANT");
    assert_eq!(
        corrupt(update(&fixture, &to(TenantStatus::Closed)).await),
        "tenant:acme"
    );
}

#[tokio::test]
async fn an_idempotency_key_names_one_change() {
    let fixture = fixture().await;
    let change = |name: &'static str, payload: &'static str| {
        let fixture = &fixture;
        async move {
            let ask = asking(Some("k"), payload);
            fixture
                .admin
                .update_tenant(&tenant_id("acme"), &named(name), &ask.request())
                .await
        }
    };
    let first = change("One", "{\"name\":\"One\"}")
        .await
        .expect("changed")
        .tenant;
    update(&fixture, &named("Two")).await.expect("changed");
    let again = change("One", "{\"name\":\"One\"}")
        .await
        .expect("answered again")
        .tenant;
    assert_eq!(
        (again.name.as_str(), again.updated_at),
        ("One", first.updated_at)
    );
    assert_eq!(
        refusal(change("Three", "{\"name\":\"Three\"}").await),
        AccessRefusal::IdempotencyMismatch.into()
    );
    let now = fixture
        .admin
        .get_tenant(&tenant_id("acme"))
        .await
        .expect("a tenant");
    assert_eq!(now.name, "Two");
}

#[tokio::test]
async fn concurrent_changes_lose_nothing() {
    let fixture = fixture().await;
    let (a, b) = (
        named("Both"),
        TenantUpdateRequest {
            max_reservation_extensions: Some(7),
            ..TenantUpdateRequest::default()
        },
    );
    let (one, two) = tokio::join!(update(&fixture, &a), update(&fixture, &b));
    one.and(two).expect("both");
    let tenant = fixture
        .admin
        .get_tenant(&tenant_id("acme"))
        .await
        .expect("a tenant");
    assert_eq!(
        (tenant.name.as_str(), tenant.max_reservation_extensions),
        ("Both", Some(7))
    );
}

#[tokio::test]
async fn a_change_applies_to_the_next_request() {
    let tenant = TenantFixture::new().await;
    tenant.budget("", 1_000).await;
    let ttl = TenantUpdateRequest {
        max_reservation_ttl_ms: Some(2_000),
        ..TenantUpdateRequest::default()
    };
    update(&tenant, &ttl).await.expect("changed");
    let id = tenant.hold("k", "", 10).await.expect("held");
    let record = tenant.account().await.reservations[id.as_str()].clone();
    let lifetime = record["expires_at_ms"].parse::<i64>().expect("ms")
        - record["created_at_ms"].parse::<i64>().expect("ms");
    assert_eq!(lifetime, 2_000, "an hour was asked for");
    update(&tenant, &to(TenantStatus::Suspended))
        .await
        .expect("suspended");
    assert!(matches!(
        tenant.hold("l", "", 10).await,
        Err(StoreError::Refusal(Refusal::Tenant(
            TenantRefusal::Suspended(_)
        )))
    ));
    update(&tenant, &to(TenantStatus::Active))
        .await
        .expect("reactivated");
    tenant.hold("l", "", 10).await.expect("held");
}

#[tokio::test]
async fn a_suspended_tenant_closes_too() {
    let tenant = TenantFixture::new().await;
    tenant.budget("", 1_000).await;
    tenant.hold("k", "", 10).await.expect("held");
    update(&tenant, &to(TenantStatus::Suspended))
        .await
        .expect("suspended");
    let before = tenant.account().await;
    tenant.close().await;
    let after = tenant.check_closed(&before).await;
    assert_eq!(
        after.events.last().expect("events")["data.previous_status"],
        "SUSPENDED"
    );
}
