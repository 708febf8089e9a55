//! Creating and looking up ledgers.

use budget_authority::domain::amount::{Amount, Unit};
use budget_authority::domain::api_key::permission::Permission;
use budget_authority::domain::budget::ledger::BudgetCreateRequest;
use budget_authority::domain::budget::ledger::{BudgetStatus, RolloverPolicy};
use budget_authority::domain::json::FreeObject;
use budget_authority::domain::moment::Moment;
use budget_authority::domain::refusal::{
    AccessRefusal, BadKey, BudgetRefusal, Refusal, TenantRefusal,
};
use budget_authority::domain::scope::ScopeFilter;

use crate::harness::admin_fixture::{
    AdminFixture, admin_key, ask, asking, closed, new_budget, refusal, refused_budget, scope,
    tenant_id, tokens,
};

const BOTH: &[Permission] = &[Permission::BudgetsRead, Permission::BudgetsWrite];

#[tokio::test]
async fn a_new_ledger_has_its_allocation_and_its_hot_fields_first() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let new = BudgetCreateRequest {
        overdraft_limit: Some(tokens(7)),
        period_start: Moment::parse("2026-01-01T00:00:00Z"),
        metadata: FreeObject::from_stored("{\"a\":null}".to_owned()),
        ..new_budget(Some("acme"), "tenant:acme/agent:Bob", i64::MAX)
    };
    let ledger = fixture
        .admin
        .create_budget(
            &admin_key(),
            &new,
            &scope(&new.scope),
            &ask().by(&admin_key()).request(),
        )
        .await
        .expect("a ledger");
    assert_eq!(ledger.scope.as_str(), "tenant:acme/agent:bob");
    assert_eq!(
        (ledger.allocated.value(), ledger.remaining.value()),
        (i64::MAX, i64::MAX)
    );
    assert_eq!(
        (
            ledger.reserved.value(),
            ledger.spent.value(),
            ledger.debt.value(),
            ledger.overdraft_limit.value()
        ),
        (0, 0, 0, 7)
    );
    assert_eq!(
        (ledger.status, ledger.rollover_policy),
        (BudgetStatus::Active, Some(RolloverPolicy::None))
    );
    assert_eq!(ledger.period_start, new.period_start);

    let fields: Vec<String> = fixture.redis().run(&[
        "HKEYS",
        &fixture.budget_key("acme", "tenant:acme/agent:bob"),
    ]);
    let first = [
        "status",
        "remaining",
        "reserved",
        "spent",
        "allocated",
        "debt",
        "overdraft_limit",
        "is_over_limit",
        "announced",
    ];
    assert_eq!(fields[..9], first);
    let index = fixture
        .store
        .keys()
        .budgets(tenant_id("acme").partition(), "acme");
    let members: Vec<String> = fixture.redis().run(&["ZRANGE", &index, "0", "-1"]);
    assert_eq!(members, ["tenant:acme/agent:bob 1 TOKENS"]);
    let event = fixture.events("acme").pop().expect("an event");
    assert_eq!(event["scope"], "tenant:acme/agent:bob");
    assert_eq!(event["actor"]["type"], "admin_on_behalf_of");
    assert_eq!(event["data"]["operation"], "CREATE");
    let entry = fixture.tenant_audit("acme").pop().expect("an entry");
    assert_eq!(entry.get("resource_id"), Some(ledger.ledger_id.as_str()));
    assert_eq!(entry.get("metadata.actor_type"), Some("admin_on_behalf_of"));

    for spelling in [
        "tenant:acme/agent:BOB",
        "tenant:acme/agent:bob",
        "tenant:ACME/agent:bob",
    ] {
        let found = fixture
            .admin
            .lookup_budget(&admin_key(), &scope(spelling), Unit::Tokens)
            .await
            .expect("a ledger");
        assert_eq!(found.ledger_id, ledger.ledger_id);
    }
}

#[tokio::test]
async fn a_create_is_checked_in_the_documented_order() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let key = fixture.key("acme", BOTH, &["agent:*"]).await;
    let reader = fixture.key("acme", &[Permission::BudgetsRead], &[]).await;
    let root = "tenant:acme";
    let agent = "tenant:acme/agent:x";
    let admin = admin_key();
    let outside = |of: &str, tenant: &str| {
        Refusal::from(TenantRefusal::Outside {
            member: "scope",
            value: of.to_owned(),
            tenant: tenant.to_owned(),
        })
    };
    for (caller, new, expected) in [
        (
            &reader,
            new_budget(None, root, 1),
            AccessRefusal::NotPermitted("budgets:write".to_owned()).into(),
        ),
        (
            &key,
            new_budget(Some("acme"), root, 1),
            AccessRefusal::ScopeForbidden(ScopeFilter::new(["agent:*".to_owned()])).into(),
        ),
        (
            &key,
            new_budget(Some("acme"), agent, 1),
            TenantRefusal::IdPresent.into(),
        ),
        (
            &key,
            new_budget(None, "tenant:other/agent:x", 1),
            outside("tenant:other/agent:x", "acme"),
        ),
        (
            &key,
            new_budget(None, root, 1),
            AccessRefusal::ScopeForbidden(ScopeFilter::new(["agent:*".to_owned()])).into(),
        ),
        (
            &admin,
            new_budget(None, root, 1),
            TenantRefusal::IdMissing.into(),
        ),
        (
            &admin,
            new_budget(Some(" "), root, 1),
            TenantRefusal::IdMissing.into(),
        ),
        (
            &admin,
            new_budget(Some("acme"), "tenant:ACME", 1),
            outside("tenant:acme", "acme"),
        ),
        (
            &admin,
            new_budget(Some("nobody"), "tenant:nobody", 1),
            TenantRefusal::OwnerNotFound("nobody".to_owned()).into(),
        ),
        (
            &admin,
            new_budget(Some("NO"), "tenant:NO", 1),
            TenantRefusal::OwnerNotFound("NO".to_owned()).into(),
        ),
    ] {
        assert_eq!(
            refusal(
                fixture
                    .admin
                    .create_budget(caller, &new, &scope(&new.scope), &ask().request())
                    .await
            ),
            expected,
            "{new:?}"
        );
    }
    let ok = new_budget(None, agent, 1);
    fixture
        .admin
        .create_budget(&key, &ok, &scope(&ok.scope), &ask().by(&key).request())
        .await
        .expect("a ledger");
    assert_eq!(
        refusal(
            fixture
                .admin
                .create_budget(&key, &ok, &scope(&ok.scope), &ask().request())
                .await
        ),
        refused_budget(BudgetRefusal::Duplicate, agent)
    );
    let other_unit = BudgetCreateRequest {
        allocated: Amount::new(Unit::Credits, 0).expect("an amount"),
        ..new_budget(None, agent, 1)
    };
    fixture
        .admin
        .create_budget(
            &key,
            &other_unit,
            &scope(&other_unit.scope),
            &ask().request(),
        )
        .await
        .expect("a second unit");
    assert_eq!(
        fixture.events("acme").pop().expect("an event")["data"]["unit"],
        "CREDITS"
    );
}

#[tokio::test]
async fn a_suspended_or_closed_tenant_gets_no_ledger() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let key = fixture.key("acme", BOTH, &[]).await;
    let (by_admin, by_key) = (
        new_budget(Some("acme"), "tenant:acme", 1),
        new_budget(None, "tenant:acme", 1),
    );
    for (status, admin_refusal, key_refusal) in [
        (
            "SUSPENDED",
            TenantRefusal::NotActive(tenant_id("acme")).into(),
            TenantRefusal::KeysSuspended(tenant_id("acme")).into(),
        ),
        ("CLOSED", closed("acme"), closed("acme")),
    ] {
        fixture.set_status("acme", status);
        assert_eq!(
            refusal(
                fixture
                    .admin
                    .create_budget(
                        &admin_key(),
                        &by_admin,
                        &scope(&by_admin.scope),
                        &ask().request()
                    )
                    .await
            ),
            admin_refusal
        );
        assert_eq!(
            refusal(
                fixture
                    .admin
                    .create_budget(&key, &by_key, &scope(&by_key.scope), &ask().request())
                    .await
            ),
            key_refusal
        );
    }
    fixture
        .redis()
        .run::<()>(&["DEL", &fixture.tenant_key("acme")]);
    let without_tenant = refusal(
        fixture
            .admin
            .create_budget(&key, &by_key, &scope(&by_key.scope), &ask().request())
            .await,
    );
    let not_owned = AccessRefusal::Unauthorized(BadKey::NotOwned);
    assert_eq!(without_tenant, not_owned.into());
}

#[tokio::test]
async fn a_repeated_create_returns_the_first_ledger() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let new = new_budget(Some("acme"), "tenant:acme", 5);
    let create = || async {
        fixture
            .admin
            .create_budget(
                &admin_key(),
                &new,
                &scope(&new.scope),
                &asking(Some("k"), "{}").request(),
            )
            .await
            .expect("a ledger")
            .ledger_id
    };
    let first = create().await;
    fixture.set_status("acme", "CLOSED");
    assert_eq!(create().await, first);
    assert_eq!(
        fixture.event_types("acme"),
        ["tenant.created", "budget.created"]
    );
}

#[tokio::test]
async fn a_foreign_scope_is_refused_before_it_is_looked_up() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    fixture.tenant("other").await;
    fixture.budget("other", "tenant:other", 5).await;
    let key = fixture.key("acme", BOTH, &[]).await;
    let narrow = fixture.key("acme", BOTH, &["app:x"]).await;
    let foreign = |of: &str| BudgetRefusal::OfOtherTenant(scope(of).path().clone()).into();
    let not_found = |of: &str| refused_budget(BudgetRefusal::NotFound, of);
    for (caller, of, expected) in [
        (&key, "tenant:other", foreign("tenant:other")),
        (
            &key,
            "tenant:other/app:none",
            foreign("tenant:other/app:none"),
        ),
        (&key, "tenant:nobody", foreign("tenant:nobody")),
        (&key, "tenant:acme", not_found("tenant:acme")),
        (
            &narrow,
            "tenant:other",
            AccessRefusal::ScopeForbidden(ScopeFilter::new(["app:x".to_owned()])).into(),
        ),
        (&narrow, "tenant:acme/app:x", not_found("tenant:acme/app:x")),
        (&admin_key(), "tenant:acme", not_found("tenant:acme")),
        (&admin_key(), "tenant:a.b", not_found("tenant:a.b")),
    ] {
        assert_eq!(
            refusal(
                fixture
                    .admin
                    .lookup_budget(caller, &scope(of), Unit::Tokens)
                    .await
            ),
            expected,
            "{of}"
        );
    }
    let writer = fixture.key("acme", &[Permission::AdminRead], &[]).await;
    assert_eq!(
        refusal(
            fixture
                .admin
                .lookup_budget(&writer, &scope("tenant:acme"), Unit::Tokens)
                .await
        ),
        not_found("tenant:acme")
    );
}
