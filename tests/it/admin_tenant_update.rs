//! Changing, suspending and reactivating tenants.

use std::collections::BTreeMap;

use budget_authority::admin::{AdminError, TenantUpdate};
use budget_authority::domain::admin_refusal::AdminRefusal;
use budget_authority::domain::fields::Patch;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::refusal::Refusal;
use budget_authority::domain::tenant::TenantStatus;
use budget_authority::domain::tenant_record::Tenant;
use budget_authority::ledger::LedgerError;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin_http::{BUDGETS, TENANTS, get, post, tokens, umbra};
use crate::harness::app::{ADMIN_KEY, Said, TestApp};
use crate::harness::desk::{Desk, ask, asking, refusal, tenant_id};
use crate::harness::estate::Estate;
use crate::harness::redis::RedisServer;

fn to(status: TenantStatus) -> TenantUpdate {
    TenantUpdate {
        status: Some(status),
        ..TenantUpdate::default()
    }
}

fn named(name: &str) -> TenantUpdate {
    TenantUpdate {
        name: Some(name.to_owned()),
        ..TenantUpdate::default()
    }
}

async fn update(desk: &Desk, update: &TenantUpdate) -> Result<Tenant, AdminError> {
    let updated = desk
        .admin
        .update_tenant(&tenant_id("acme"), update, &ask().request())
        .await;
    updated.map(|updated| updated.tenant)
}

async fn desk() -> Desk {
    let desk = Desk::new();
    desk.tenant("acme").await;
    desk
}

pub async fn patch(app: &TestApp, path: &str, body: Value) -> Said {
    let request = app.request(Method::PATCH, path).json(&body);
    app.send(request.header("X-Admin-API-Key", ADMIN_KEY)).await
}

#[tokio::test]
async fn each_change_has_one_event_that_names_what_changed() {
    let desk = desk().await;
    let ttl = TenantUpdate {
        default_reservation_ttl_ms: Some(5_000),
        max_reservation_extensions: Some(0),
        ..TenantUpdate::default()
    };
    let labels = TenantUpdate {
        metadata: Some(Patch::Set(BTreeMap::from([(
            "a".to_owned(),
            "b".to_owned(),
        )]))),
        ..TenantUpdate::default()
    };
    let mixed = TenantUpdate {
        default_commit_overage_policy: Some(OveragePolicy::Reject),
        ..named("Acme two")
    };
    let suspended = TenantUpdate {
        status: Some(TenantStatus::Suspended),
        ..named("Acme three")
    };
    let cleared = TenantUpdate {
        metadata: Some(Patch::Clear),
        ..to(TenantStatus::Active)
    };
    for change in [&ttl, &labels, &mixed, &suspended, &cleared] {
        update(&desk, change).await.expect("changed");
    }
    let tenant = update(&desk, &TenantUpdate::default())
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
    let told: Vec<_> = desk.events("acme")[1..]
        .iter()
        .map(|event| (event["event_type"].clone(), event["data"].clone()))
        .collect();
    let data = |fields: &[&str]| json!({"tenant_id": "acme", "changed_fields": fields});
    let moved = |from: &str, to: &str, fields: &[&str]| json!({"tenant_id": "acme", "previous_status": from, "new_status": to, "changed_fields": fields});
    assert_eq!(
        told,
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
    assert!(desk.events("acme")[1].get("correlation_id").is_none());
}

#[tokio::test]
async fn rule_15_the_time_of_the_last_suspension_stays() {
    let desk = desk().await;
    let suspended = update(&desk, &to(TenantStatus::Suspended))
        .await
        .expect("suspended");
    assert!(suspended.suspended_at.is_some() && suspended.updated_at.is_some());
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    let active = update(&desk, &to(TenantStatus::Active))
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
    let desk = desk().await;
    let closed = update(&desk, &to(TenantStatus::Closed))
        .await
        .expect("closed");
    for status in [TenantStatus::Active, TenantStatus::Suspended] {
        assert_eq!(
            refusal(update(&desk, &to(status)).await),
            AdminRefusal::LeavingClosed
        );
    }
    let renamed = update(&desk, &named("Late Acme")).await.expect("renamed");
    assert_eq!(
        (renamed.status, renamed.name.as_str(), renamed.closed_at),
        (TenantStatus::Closed, "Late Acme", closed.closed_at)
    );
    let types = desk.event_types("acme");
    assert_eq!(
        types[1..],
        ["tenant.closed", "tenant.updated"],
        "invariant 2"
    );
}

#[tokio::test]
async fn rule_17_a_change_of_nothing_is_booked_but_no_event() {
    let desk = desk().await;
    let tenant = update(
        &desk,
        &TenantUpdate {
            ..to(TenantStatus::Active)
        },
    )
    .await
    .expect("as it is");
    assert!(tenant.updated_at.is_some());
    let same = TenantUpdate {
        max_reservation_ttl_ms: Some(3_600_000),
        ..named("acme")
    };
    update(&desk, &same).await.expect("as it is");
    assert_eq!(desk.event_types("acme"), ["tenant.created"]);
    let audit = desk.tenant_audit("acme");
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
    let desk = Desk::new();
    assert_eq!(
        refusal(update(&desk, &to(TenantStatus::Closed)).await),
        AdminRefusal::TenantNotFound
    );
    let keys = desk.store.keys().clone();
    let closings = keys.closings(tenant_id("acme").partition());
    for key in [desk.tenant_key("acme"), closings] {
        assert_eq!(desk.redis().run::<i64>(&["EXISTS", &key]), 0);
    }
    desk.tenant("acme").await;
    desk.set_status("acme", "DORMANT");
    assert_eq!(
        refusal(update(&desk, &to(TenantStatus::Closed)).await),
        AdminRefusal::TenantUnreadable
    );
}

#[tokio::test]
async fn an_idempotency_key_stands_for_one_change() {
    let desk = desk().await;
    let change = |name: &'static str, payload: &'static str| {
        let desk = &desk;
        async move {
            let ask = asking(Some("k"), payload);
            desk.admin
                .update_tenant(&tenant_id("acme"), &named(name), &ask.request())
                .await
        }
    };
    let first = change("One", "{\"name\":\"One\"}")
        .await
        .expect("changed")
        .tenant;
    update(&desk, &named("Two")).await.expect("changed");
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
        AdminRefusal::IdempotencyMismatch
    );
    let now = desk
        .admin
        .get_tenant(&tenant_id("acme"))
        .await
        .expect("a tenant");
    assert_eq!(now.name, "Two");
}

#[tokio::test]
async fn concurrent_changes_lose_nothing() {
    let desk = desk().await;
    let (a, b) = (
        named("Both"),
        TenantUpdate {
            max_reservation_extensions: Some(7),
            ..TenantUpdate::default()
        },
    );
    let (one, two) = tokio::join!(update(&desk, &a), update(&desk, &b));
    one.and(two).expect("both");
    let tenant = desk
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
async fn a_change_counts_from_the_next_request_on() {
    let estate = Estate::new().await;
    estate.budget("", 1_000).await;
    let ttl = TenantUpdate {
        max_reservation_ttl_ms: Some(2_000),
        ..TenantUpdate::default()
    };
    update(&estate.desk, &ttl).await.expect("changed");
    let id = estate.hold("k", "", 10).await.expect("held");
    let record = estate.account().await.reservations[id.as_str()].clone();
    let lifetime = record["expires_at_ms"].parse::<i64>().expect("ms")
        - record["created_at_ms"].parse::<i64>().expect("ms");
    assert_eq!(lifetime, 2_000, "an hour was asked for");
    update(&estate.desk, &to(TenantStatus::Suspended))
        .await
        .expect("suspended");
    assert!(matches!(
        estate.hold("l", "", 10).await,
        Err(LedgerError::Refused(Refusal::TenantSuspended))
    ));
    update(&estate.desk, &to(TenantStatus::Active))
        .await
        .expect("reactivated");
    estate.hold("l", "", 10).await.expect("held");
}

#[tokio::test]
async fn a_suspended_tenant_closes_too() {
    let estate = Estate::new().await;
    estate.budget("", 1_000).await;
    estate.hold("k", "", 10).await.expect("held");
    update(&estate.desk, &to(TenantStatus::Suspended))
        .await
        .expect("suspended");
    let before = estate.account().await;
    estate.close().await;
    let after = estate.check_closed(&before).await;
    assert_eq!(
        after.events.last().expect("events")["data.previous_status"],
        "SUSPENDED"
    );
}

#[tokio::test]
async fn tenants_are_changed_over_http() {
    let app = umbra().await;
    let path = &format!("{TENANTS}/umbra");
    let said = patch(
        &app,
        path,
        json!({"name": "Umbra two", "metadata": {"team": "x"}, "status": null}),
    )
    .await;
    assert_eq!(said.status, 200, "{said:?}");
    assert_eq!(
        (said.text("/name"), said.text("/metadata/team")),
        ("Umbra two", "x")
    );
    assert!(
        said.at("/updated_at").is_string() && said.header("x-service-cascade-status").is_none()
    );
    let cleared = patch(&app, path, json!({"metadata": null})).await;
    assert_eq!(cleared.at("/metadata"), &Value::Null);
    // Rule 14.
    let fixed = patch(
        &app,
        path,
        json!({"reservation_expiry_policy": "GRACE_ONLY"}),
    )
    .await;
    assert_eq!(fixed.error(), (400, "INVALID_REQUEST"));
    let unknown = patch(&app, "/v1/admin/tenants/NOBODY", json!({})).await;
    assert_eq!(unknown.error(), (404, "TENANT_NOT_FOUND"));
    // Rule 18: the name of a literal route is a tenant's like any other.
    let bulk = json!({"tenant_id": "bulk-action", "name": "b"});
    assert_eq!(post(&app, TENANTS, bulk).await.status, 201);
    let path = &format!("{TENANTS}/bulk-action");
    assert_eq!(
        patch(&app, path, json!({"status": "SUSPENDED"}))
            .await
            .text("/status"),
        "SUSPENDED"
    );
    assert_eq!(get(&app, path).await.text("/status"), "SUSPENDED");
    assert_eq!(
        patch(&app, path, json!({"status": "CLOSED"})).await.status,
        200
    );
    let leaving = patch(&app, path, json!({"status": "ACTIVE"})).await;
    assert_eq!(leaving.error(), (400, "INVALID_REQUEST"));
    let budget = json!({"tenant_id": "bulk-action", "scope": "tenant:bulk-action", "unit": "TOKENS", "allocated": tokens(1)});
    assert_eq!(
        post(&app, BUDGETS, budget).await.error(),
        (409, "TENANT_CLOSED")
    );
}

#[tokio::test]
async fn a_close_that_something_stands_against_is_told_and_booked_once() {
    let app = umbra().await;
    let store = &app.world.store;
    let umbra = tenant_id("umbra");
    let key = store
        .keys()
        .budget(umbra.partition(), "umbra", "TOKENS", "tenant:umbra");
    app.world.redis(&["HSET", &key, "debt", "some"]).await;
    let said = patch(
        &app,
        &format!("{TENANTS}/umbra"),
        json!({"status": "CLOSED"}),
    )
    .await;
    assert_eq!(said.error(), (500, "INTERNAL_ERROR"));
    assert_eq!(
        said.at("/details/failed_resources"),
        &json!(["budget:tenant:umbra:TOKENS"])
    );
    assert_eq!(
        get(&app, &format!("{TENANTS}/umbra")).await.text("/status"),
        "CLOSED"
    );
    let entries = Desk::on(store.clone()).audit(umbra.partition(), "umbra");
    let of_request: Vec<_> = entries
        .iter()
        .filter(|entry| entry.get("request_id") == said.header("x-request-id"))
        .filter(|entry| entry.get("operation") != Some("tenant_close_cascade"))
        .collect();
    assert_eq!(of_request.len(), 1, "{of_request:?}");
    assert_eq!(of_request[0].get("status"), Some("500"));
}

/// The request is answered though Redis goes away in the middle of the close: what it was for has happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_that_cannot_go_on_answers_that_it_is_in_progress() {
    let redis = tokio::task::block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&redis.url(), &["--redis-timeout-ms", "400"]).await;
    let estate = Estate::on(app.world.store.clone(), "umbra").await;
    estate.crowd(50, 30_000).await;
    let (store, key) = (
        app.world.store.clone(),
        estate.keys().closing(estate.tenant.partition(), "umbra"),
    );
    let watch = tokio::spawn(async move {
        let mut look = redis::cmd("EXISTS");
        look.arg(&key);
        loop {
            let seen = store.query(&key, &look).await;
            if seen.is_ok_and(|seen| redis::from_redis_value::<bool>(seen).expect("a flag")) {
                let mut pause = redis::cmd("CLIENT");
                pause.arg("PAUSE").arg(2_000).arg("WRITE");
                return store.query(&key, &pause).await;
            }
        }
    });
    let said = patch(
        &app,
        &format!("{TENANTS}/umbra"),
        json!({"status": "CLOSED"}),
    )
    .await;
    watch.await.expect("no panic").expect("paused");
    assert_eq!(
        (said.status.as_u16(), said.text("/status")),
        (200, "CLOSED"),
        "{said:?}"
    );
    assert_eq!(said.header("x-service-cascade-status"), Some("in_progress"));
    assert_eq!(said.header("retry-after"), Some("1"));
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    assert!(estate.active().await > 0 && estate.is_closing().await);
    let again = patch(
        &app,
        &format!("{TENANTS}/umbra"),
        json!({"status": "CLOSED"}),
    )
    .await;
    assert_eq!(
        (again.status.as_u16(), again.header("retry-after")),
        (200, None)
    );
    assert!(!estate.is_closing().await);
}
