//! Where refused requests are audited.

use budget_authority::admin::Failure;
use budget_authority::domain::caller::Caller;
use budget_authority::domain::cause::Actor;
use budget_authority::domain::ids::Partition;

use crate::harness::admin_fixture::{AdminFixture, admin_key, cause, tenant_id};

fn failure<'a>(
    caller: &'a Caller,
    cause: &'a budget_authority::domain::cause::Cause,
    status: u16,
    tenant: Option<&'a budget_authority::domain::ids::TenantId>,
) -> Failure<'a> {
    Failure {
        cause,
        method: "POST",
        path: "/v1/admin/budgets",
        status,
        code: "INVALID_REQUEST",
        message: "no",
        tenant,
        caller: Some(caller),
    }
}

#[tokio::test]
async fn a_failure_is_audited_under_its_tenant_or_a_sentinel() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let (operator, cause) = (admin_key(), cause(Actor::Admin(None)));
    let (acme, nobody) = (tenant_id("acme"), tenant_id("nobody"));
    fixture
        .admin
        .audit_failure(&failure(&operator, &cause, 409, Some(&acme)))
        .await;
    fixture
        .admin
        .audit_failure(&failure(&operator, &cause, 400, Some(&nobody)))
        .await;
    fixture
        .admin
        .audit_failure(&failure(&operator, &cause, 404, None))
        .await;
    fixture
        .admin
        .audit_failure(&failure(&operator, &cause, 401, Some(&acme)))
        .await;

    let entries = fixture.tenant_audit("acme");
    assert_eq!(entries.len(), 2, "the creation and the failure");
    assert_eq!(entries[1].get("operation"), Some("POST:/v1/admin/budgets"));
    assert_eq!(entries[1].get("sequence"), Some("2"));
    assert_eq!(entries[1].get("status"), Some("409"));
    assert_eq!(fixture.audit(nobody.partition(), "__admin__").len(), 1);
    assert!(fixture.tenant_audit("nobody").is_empty());
    assert_eq!(fixture.audit(Partition::FIRST, "__admin__").len(), 1);
    let unknown = fixture.audit(Partition::FIRST, "__unauth__");
    assert_eq!(unknown.len(), 1);
    assert_eq!(
        unknown[0].get("request_id"),
        cause.request_id.as_ref().map(|id| id.as_str())
    );

    let days: Vec<String> = fixture.redis().run(&[
        "ZRANGE",
        &fixture.store.keys().days(Partition::FIRST),
        "0",
        "-1",
    ]);
    assert!(
        days.iter().any(|day| day.starts_with("__unauth__:")),
        "{days:?}"
    );
}
