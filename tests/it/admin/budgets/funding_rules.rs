//! Funding besides its figures: permissions, order of refusals, events, repetitions.

use budget_authority::admin::Funding;
use budget_authority::domain::api_key::permission::Permission;
use budget_authority::domain::budget::ledger::FundingOperation::{Credit, Debit};
use budget_authority::domain::caller::Caller;
use budget_authority::domain::refusal::{AccessRefusal, BudgetRefusal, Refusal, TenantRefusal};
use budget_authority::domain::scope::ScopeFilter;

use crate::admin::budgets::funding::{A, ROOT, by, figures_of, fixture, fund, spent};
use crate::harness::admin_fixture::{
    admin_key, ask, asking, closed, corrupt, funding, refusal, refused_budget, scope, tenant_id,
};

#[tokio::test]
async fn funding_is_checked_in_the_documented_order() {
    let fixture = fixture(A).await;
    fixture.tenant("other").await;
    fixture.budget("other", "tenant:other", 1).await;
    let key = fixture.key("acme", &[Permission::AdminWrite], &[]).await;
    let narrow = fixture
        .key("acme", &[Permission::BudgetsWrite], &["agent:*"])
        .await;
    let reader = fixture.key("acme", &[Permission::AdminRead], &[]).await;
    let of = |tenant: Option<&str>, scope: &str| funding(tenant, scope, Credit, 1);
    let foreign = |of: &str| BudgetRefusal::OfOtherTenant(scope(of).path().clone()).into();
    let not_found = |of: &str| refused_budget(BudgetRefusal::NotFound, of);
    let rows: Vec<(Caller, Funding, Refusal)> = vec![
        (
            reader,
            by(Credit, 1),
            AccessRefusal::NotPermitted("budgets:write".to_owned()).into(),
        ),
        (
            narrow.clone(),
            by(Credit, 1),
            AccessRefusal::ScopeForbidden(ScopeFilter::new(["agent:*".to_owned()])).into(),
        ),
        (
            narrow,
            of(None, "tenant:acme/agent:x"),
            not_found("tenant:acme/agent:x"),
        ),
        (
            key.clone(),
            of(None, "tenant:other"),
            foreign("tenant:other"),
        ),
        (
            key.clone(),
            of(None, "tenant:other/app:none"),
            foreign("tenant:other/app:none"),
        ),
        (admin_key(), of(None, ROOT), TenantRefusal::IdMissing.into()),
        (admin_key(), of(Some("other"), ROOT), foreign(ROOT)),
        (
            admin_key(),
            of(Some("nobody"), "tenant:nobody"),
            not_found("tenant:nobody"),
        ),
        (
            admin_key(),
            of(Some("a.b"), "tenant:a.b"),
            not_found("tenant:a.b"),
        ),
    ];
    for (caller, funding, expected) in rows {
        let outcome = fixture
            .admin
            .fund_budget(&caller, &funding, &ask().request())
            .await;
        assert_eq!(refusal(outcome), expected, "{funding:?}");
    }
    // A tenant's key may name any tenant: its own counts.
    fixture
        .admin
        .fund_budget(&key, &of(Some("other"), ROOT), &ask().by(&key).request())
        .await
        .expect("funded");
    assert_eq!(
        fixture.events("acme").pop().expect("an event")["actor"]["type"],
        "api_key"
    );

    let budget = fixture.budget_key("acme", ROOT);
    for (status, expected) in [
        ("FROZEN", refused_budget(BudgetRefusal::Frozen, ROOT)),
        ("CLOSED", refused_budget(BudgetRefusal::Closed, ROOT)),
    ] {
        fixture
            .redis()
            .run::<()>(&["HSET", &budget, "status", status]);
        assert_eq!(refusal(fund(&fixture, &by(Credit, 1)).await), expected);
    }
    fixture
        .redis()
        .run::<()>(&["HSET", &budget, "status", "ACTIVE"]);
    fixture.set_status("acme", "SUSPENDED");
    fund(&fixture, &by(Credit, 1))
        .await
        .expect("the operator may");
    let by_key = fixture
        .admin
        .fund_budget(&key, &by(Credit, 1), &ask().request())
        .await;
    let suspended = TenantRefusal::KeysSuspended(tenant_id("acme"));
    assert_eq!(refusal(by_key), suspended.into());
}

#[tokio::test]
async fn a_repeated_funding_gets_the_same_response_and_moves_nothing() {
    let fixture = fixture(A).await;
    let fund = |key: &'static str, payload: &'static str, amount: i64| {
        let fixture = &fixture;
        async move {
            let funding = by(Debit, amount);
            fixture
                .admin
                .fund_budget(
                    &admin_key(),
                    &funding,
                    &asking(Some(key), payload).request(),
                )
                .await
        }
    };
    let first = figures_of(fund("k", "{\"a\":1}", 1_000).await.expect("debited"));
    let again = fund("k", "{\"a\":1}", 1_000).await.expect("again");
    assert_eq!(figures_of(again), first);
    assert_eq!(
        refusal(fund("k", "{\"a\":2}", 1_000).await),
        AccessRefusal::IdempotencyMismatch.into()
    );
    assert_eq!(fixture.ledger(ROOT).await.remaining.value(), 5_000);

    // A refused attempt may be repeated under its key.
    let Refusal::Budget(BudgetRefusal::Exceeded { balance, .. }) =
        refusal(fund("l", "{}", 5_001).await)
    else {
        panic!("less remains");
    };
    assert_eq!(balance.remaining.value(), 5_000);
    crate::admin::budgets::funding::fund(&fixture, &by(Credit, 1))
        .await
        .expect("credited");
    fund("l", "{}", 5_001).await.expect("debited");

    fixture.set_status("acme", "CLOSED");
    let again = fund("k", "{\"a\":1}", 1_000).await.expect("again");
    assert_eq!(figures_of(again), first);
    assert_eq!(refusal(fund("m", "{}", 1).await), closed("acme"));
    let debits = fixture
        .event_types("acme")
        .iter()
        .filter(|kind| *kind == "budget.debited")
        .count();
    assert_eq!(debits, 2);
}

#[tokio::test]
async fn a_corrupt_ledger_is_named_and_left_alone() {
    let fixture = fixture(A).await;
    let key = fixture.budget_key("acme", ROOT);
    fixture.redis().run::<()>(&["HSET", &key, "spent", "a lot"]);
    assert_eq!(corrupt(fund(&fixture, &by(Credit, 1)).await), key);
    let allocated: String = fixture.redis().run(&["HGET", &key, "allocated"]);
    assert_eq!(allocated, "10000");
}

#[tokio::test]
async fn a_funding_event_has_the_ledger_before_and_after() {
    let fixture = fixture(A).await;
    let with_reason = Funding {
        reason: Some("new month".to_owned()),
        ..spent(12_000, 0)
    };
    fund(&fixture, &with_reason).await.expect("reset");
    let event = fixture.events("acme").pop().expect("an event");
    let state = |allocated, remaining, spent| {
        serde_json::json!({"allocated": allocated, "remaining": remaining, "debt": 0, "spent": spent,
            "reserved": 1_000, "status": "ACTIVE"})
    };
    assert_eq!(event["event_type"], "budget.reset_spent");
    assert_eq!(event["actor"]["type"], "admin_on_behalf_of");
    assert_eq!(event["data"]["previous_state"], state(10_000, 6_000, 3_000));
    assert_eq!(event["data"]["new_state"], state(12_000, 11_000, 0));
    assert_eq!(event["data"]["spent_override_provided"], true);
    assert_eq!(event["data"]["reason"], "new month");
    let entry = fixture.tenant_audit("acme").pop().expect("an entry");
    for (name, value) in [
        ("operation", "fundBudget"),
        ("resource_id", "tenant:acme:TOKENS"),
        ("metadata.funding_operation", "RESET_SPENT"),
        ("metadata.previous_spent", "3000"),
        ("metadata.new_spent", "0"),
        ("metadata.spent_override_provided", "true"),
        ("metadata.reason", "new month"),
    ] {
        assert_eq!(entry.get(name), Some(value), "{name}");
    }
}
