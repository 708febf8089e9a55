//! Bulk actions on tenants: the outcome of each row, and the close of what a tenant owned.

use budget_authority::admin::bulk_actions::run::{BulkProgress, Runner};
use budget_authority::domain::bulk::{Bulk, BulkAction, Row, TenantAction};
use budget_authority::domain::ids::Partition;
use budget_authority::store::admin::bulk::{BulkClaim, BulkMode, BulkPlace, BulkState};
use serde_json::{Value, json};
use std::time::Duration;

use crate::harness::admin_fixture::{AdminFixture, tenant_id};
use crate::harness::app::TestApp;
use crate::harness::bulk_calls::{TENANTS, ids, words};
use crate::harness::tenant_fixture::TenantFixture;

async fn with_tenants(names: &[&str]) -> (TestApp, AdminFixture) {
    let app = TestApp::spawn().await;
    let fixture = app.admin_fixture();
    for name in names {
        fixture.tenant(name).await;
    }
    (app, fixture)
}

fn ask(search: &str, action: &str, key: &str) -> Value {
    json!({"filter": {"search": search}, "action": action, "idempotency_key": key})
}

fn rows(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(id, word): &(&str, &str)| ((*id).to_owned(), (*word).to_owned());
    list.iter().map(owned).collect()
}

#[tokio::test]
async fn each_row_is_decided_by_the_current_status_of_its_tenant() {
    let (app, fixture) = with_tenants(&["row-a", "row-b", "row-c", "other"]).await;
    let response = app
        .post_as_admin(TENANTS, &ask("row-b", "SUSPEND", "1"))
        .await;
    assert_eq!(ids(&response, "succeeded"), ["row-b"]);
    let response = app
        .post_as_admin(TENANTS, &ask("ROW-C", "CLOSE", "2"))
        .await;
    assert_eq!(ids(&response, "succeeded"), ["row-c"]);
    assert!(response.header("x-service-cascade-status").is_none());

    let response = app
        .post_as_admin(TENANTS, &ask("row-", "REACTIVATE", "3"))
        .await;
    assert_eq!(ids(&response, "succeeded"), ["row-b"]);
    assert_eq!(
        words(&response, "failed"),
        rows(&[("row-c", "INVALID_TRANSITION")])
    );
    assert_eq!(
        words(&response, "skipped"),
        rows(&[("row-a", "ALREADY_IN_TARGET_STATE")])
    );
    let response = app
        .post_as_admin(TENANTS, &ask("row-", "SUSPEND", "4"))
        .await;
    assert_eq!(ids(&response, "succeeded"), ["row-a", "row-b"]);
    assert_eq!(
        words(&response, "failed"),
        rows(&[("row-c", "INVALID_TRANSITION")])
    );
    let response = app.post_as_admin(TENANTS, &ask("row-", "CLOSE", "5")).await;
    assert_eq!(ids(&response, "succeeded"), ["row-a", "row-b"]);
    assert_eq!(
        words(&response, "skipped"),
        rows(&[("row-c", "ALREADY_IN_TARGET_STATE")])
    );

    assert_eq!(fixture.event_types("other"), ["tenant.created"]);
    assert_eq!(
        fixture.event_types("row-b"),
        [
            "tenant.created",
            "tenant.suspended",
            "tenant.reactivated",
            "tenant.suspended",
            "tenant.closed"
        ]
    );
    assert_eq!(
        fixture.event_types("row-c"),
        ["tenant.created", "tenant.closed"]
    );
    let recorded = fixture.audit(Partition::FIRST, "__admin__");
    let recorded: Vec<_> = recorded
        .iter()
        .filter(|entry| entry.get("operation") == Some("bulkActionTenants"))
        .collect();
    assert_eq!(recorded.len(), 5);
    assert_eq!(recorded[4].get("resource_type"), Some("tenant"));
    assert_eq!(recorded[4].get("resource_id"), Some("bulk-action"));
    // The rows' own logs have no entries of the call.
    for name in ["row-a", "row-b"] {
        let entries = fixture.tenant_audit(name);
        assert!(
            entries
                .iter()
                .all(|entry| entry.get("operation") == Some("createTenant")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn each_change_emits_an_event_with_the_action_and_its_request() {
    let (app, fixture) = with_tenants(&["row-a"]).await;
    let response = app
        .post_as_admin(TENANTS, &ask("row", "SUSPEND", "1"))
        .await;
    let request_id = response.header("x-request-id").expect("an id");
    let event = &fixture.events("row-a")[1];
    assert_eq!(
        event["data"],
        json!({"tenant_id": "row-a", "previous_status": "ACTIVE", "new_status": "SUSPENDED", "changed_fields": []})
    );
    assert_eq!(
        event["correlation_id"],
        format!("tenant_bulk_action:suspend:{request_id}")
    );
    assert_eq!(event["actor"]["type"], "admin");
}

#[tokio::test]
async fn rule_76_the_tenant_event_has_the_correlation_of_the_action_and_its_children_that_of_the_cascade()
 {
    let app = TestApp::spawn().await;
    let tenant = TenantFixture::on(app.store.clone(), "owner").await;
    tenant.populate().await;
    let before = tenant.account().await;
    let response = app
        .post_as_admin(TENANTS, &ask("owner", "CLOSE", "1"))
        .await;
    assert_eq!(ids(&response, "succeeded"), ["owner"], "{response:?}");
    let request_id = response.header("x-request-id").expect("an id");
    let account = tenant.account().await;
    assert_eq!(
        account.audit.len() - before.audit.len(),
        4 + 2 + 2,
        "an entry a child, none for the request"
    );
    let events = tenant.events("owner");
    let (parent, rest) = events.split_last().expect("events");
    assert_eq!(parent["event_type"], "tenant.closed");
    assert_eq!(
        parent["correlation_id"],
        format!("tenant_bulk_action:close:{request_id}")
    );
    let children = rest.iter().filter(|event| {
        event["event_type"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("_via_tenant_cascade"))
    });
    let children: Vec<_> = children.collect();
    assert!(children.len() >= 8, "{}", children.len());
    for child in children {
        assert_eq!(
            child["correlation_id"],
            format!("tenant_close_cascade:owner:{request_id}")
        );
        assert_eq!(child["request_id"], request_id);
    }
}

#[tokio::test]
async fn a_straggler_of_a_closed_tenant_is_ended_by_closing_it_again() {
    let app = TestApp::spawn().await;
    let tenant = TenantFixture::on(app.store.clone(), "owner").await;
    tenant.populate().await;
    app.post_as_admin(TENANTS, &ask("owner", "CLOSE", "1"))
        .await;
    tenant.set_budget("/agent:a", &["status", "ACTIVE"]).await;
    let response = app
        .post_as_admin(TENANTS, &ask("owner", "CLOSE", "2"))
        .await;
    assert_eq!(ids(&response, "succeeded"), ["owner"]);
    assert_eq!(tenant.ledger_at("/agent:a").await.status.as_str(), "CLOSED");
    let emitted = tenant.event_types("owner").into_iter();
    assert_eq!(emitted.filter(|kind| kind == "tenant.closed").count(), 1);
}

#[tokio::test]
async fn a_close_with_an_unclosable_child_fails_although_the_tenant_is_closed() {
    let app = TestApp::spawn().await;
    let tenant = TenantFixture::on(app.store.clone(), "owner").await;
    tenant.populate().await;
    tenant
        .set_budget("/agent:b", &["remaining", "no figure"])
        .await;
    let response = app
        .post_as_admin(TENANTS, &ask("owner", "CLOSE", "1"))
        .await;
    assert_eq!(
        words(&response, "failed"),
        rows(&[("owner", "INTERNAL_ERROR")])
    );
    assert!(
        response
            .text("/failed/0/message")
            .contains("budget:tenant:owner/agent:b"),
        "{response:?}"
    );
    let record = tenant.admin.get_tenant(&tenant.id).await.expect("a tenant");
    assert_eq!(record.status.as_str(), "CLOSED");
    // The next action resumes it and does not wait for the next attempt.
    tenant.set_budget("/agent:b", &["remaining", "9899"]).await;
    let response = app
        .post_as_admin(TENANTS, &ask("owner", "CLOSE", "2"))
        .await;
    assert_eq!(ids(&response, "succeeded"), ["owner"]);
}

#[tokio::test]
async fn a_close_in_progress_elsewhere_is_skipped() {
    let app = TestApp::spawn().await;
    let tenant = TenantFixture::on(app.store.clone(), "owner").await;
    tenant.populate().await;
    tenant.flip().await;
    let closings = tenant.keys().closings(tenant.id.partition());
    let soon = (tenant.store.clock().now_ms() + 9_000).to_string();
    tenant.run::<()>(&["ZADD", &closings, &soon, "owner"]).await;
    let response = app
        .post_as_admin(TENANTS, &ask("owner", "CLOSE", "1"))
        .await;
    assert_eq!(
        words(&response, "skipped"),
        rows(&[("owner", "CASCADE_IN_PROGRESS")])
    );
    assert!(tenant.is_closing().await);
    tenant.run::<()>(&["ZADD", &closings, "1", "owner"]).await;
    let response = app
        .post_as_admin(TENANTS, &ask("owner", "CLOSE", "2"))
        .await;
    assert_eq!(
        ids(&response, "succeeded"),
        ["owner"],
        "nobody was at it any more"
    );
}

/// A claim on one tenant, as a request leaves it that dies right then.
async fn claimed(fixture: &AdminFixture, action: TenantAction, rows: &[&str]) -> BulkClaim {
    let place = BulkPlace {
        partition: Partition::FIRST,
        tenant: "__admin__".to_owned(),
        digest: format!("{:016x}", rand::random::<u64>()),
    };
    let bulk = Bulk {
        action: BulkAction::Tenants(action),
        cause: "source service-admin\nactor admin\nrequest_id req_bulk\ntrace_id 0af7651916cd43dd8448eb211c80319c".to_owned(),
        filter: "{}".to_owned(),
        idempotency_key: "k".to_owned(),
        audit_tenant: "__admin__".to_owned(),
        gone_row: "GONE".to_owned(),
        thresholds_max: 64,
        rows: rows.iter().map(|id| Row::tenant(&tenant_id(id))).collect(),
    };
    match fixture
        .store
        .claim_bulk(&place, BulkMode::Begin("h", &bulk), Duration::ZERO)
        .await
    {
        Ok(BulkState::Mine(claim)) => *claim,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_action_out_of_time_closes_tenants_whose_closes_resume_on_their_own() {
    let tenant = TenantFixture::new().await;
    tenant.populate().await;
    let before = tenant.account().await;
    let claim = claimed(&tenant, TenantAction::Close, &["acme", "gone-by-now"]).await;
    let mut runner = Runner::new(tenant.store.clone(), claim).at_once(1);
    // The rows, then the time is over.
    assert_eq!(runner.step().await.expect("Redis answers"), None);
    assert_eq!(runner.step().await.expect("Redis answers"), None);
    let BulkProgress::Finished(response) = runner.run(Duration::ZERO).await.expect("Redis answers")
    else {
        panic!("not finished");
    };
    assert!(response.in_progress);
    let body: Value = serde_json::from_str(&response.body).expect("JSON");
    assert_eq!(body["succeeded"], json!([{"id": "acme"}]));
    assert_eq!(body["failed"][0]["error_code"], "NOT_FOUND");
    assert!(tenant.is_closing().await);
    let recorded = tenant.audit(Partition::FIRST, "__admin__");
    let ids = [
        "metadata.cascade_in_progress_ids",
        "metadata_json.cascade_in_progress_ids",
    ];
    assert_eq!(
        ids.iter().find_map(|name| recorded[0].get(name)),
        Some(r#"["acme"]"#)
    );
    // A dispatcher resumes at once.
    crate::admin::closing::resume::reconcile(&tenant).await;
    let after = tenant.account().await;
    assert!(!tenant.is_closing().await);
    assert_eq!(after.audit.len() - before.audit.len(), 8);
    let parent = tenant.events("acme").pop().expect("events");
    assert_eq!(
        parent["correlation_id"],
        "tenant_bulk_action:close:req_bulk"
    );
}

#[tokio::test]
async fn a_close_finishes_after_a_crash_right_after_the_status_change() {
    for steps in 0..4 {
        let tenant = TenantFixture::new().await;
        tenant.populate().await;
        let claim = claimed(&tenant, TenantAction::Close, &["acme"]).await;
        let mut runner = Runner::new(tenant.store.clone(), claim.clone());
        for _ in 0..steps {
            runner.step().await.expect("Redis answers");
        }
        drop(runner);
        let mut runner = Runner::new(tenant.store.clone(), claim);
        let progress = runner
            .run(Duration::from_secs(20))
            .await
            .expect("Redis answers");
        let BulkProgress::Finished(response) = progress else {
            panic!("{progress:?} after {steps} steps");
        };
        assert!(
            response.body.contains(r#""succeeded":[{"id":"acme"}]"#),
            "{}",
            response.body
        );
        assert!(!tenant.is_closing().await);
        let emitted = tenant.event_types("acme").into_iter();
        assert_eq!(
            emitted.filter(|kind| kind == "tenant.closed").count(),
            1,
            "after {steps} steps"
        );
        let recorded = tenant.audit(Partition::FIRST, "__admin__");
        assert_eq!(recorded.len(), 1, "after {steps} steps");
    }
}
