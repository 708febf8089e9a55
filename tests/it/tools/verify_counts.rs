//! `ledger verify` finds counts and indexes of the overview that differ from the records.

use budget_authority::domain::amount::Unit;
use budget_authority::domain::budget::ledger::BudgetUpdateRequest;
use budget_authority::domain::budget::ledger::FundingOperation;
use budget_authority::tools::verify::verify;

use crate::harness::admin_fixture::{
    AdminFixture, admin_key, ask, funding, new_budget, scope, tenant_id,
};

/// The sentences of all differences.
async fn differences(fixture: &AdminFixture) -> Vec<String> {
    let report = verify(&fixture.store, None, |_| {})
        .await
        .expect("Redis answers");
    assert_eq!(report.unverified, [""; 0]);
    let sentence = |d: &budget_authority::tools::verify::Difference| {
        format!("{} {} {}: {}", d.tenant, d.what, d.id, d.detail)
    };
    report.differences.iter().map(sentence).collect()
}

#[tokio::test]
async fn wrong_counts_are_found() {
    let fixture = AdminFixture::new();
    for tenant in ["acme", "bolt", "cask"] {
        fixture.tenant(tenant).await;
        fixture
            .budget(tenant, &format!("tenant:{tenant}"), 10)
            .await;
    }
    fixture
        .admin
        .freeze_budget(
            &scope("tenant:acme"),
            Unit::Tokens,
            true,
            None,
            &ask().request(),
        )
        .await
        .expect("it is frozen");
    assert_eq!(differences(&fixture).await, [""; 0]);
    let partition = tenant_id("acme").partition();
    let counts = fixture.store.keys().counts(partition);
    fixture
        .redis()
        .run::<i64>(&["HINCRBY", &counts, "budget TOKENS ACTIVE", "2"]);
    fixture
        .redis()
        .run::<i64>(&["HDEL", &counts, "tenant ACTIVE"]);
    assert_eq!(
        differences(&fixture).await,
        [format!(
            "* counts {partition}: budget TOKENS ACTIVE is 2, the records give 0; tenant ACTIVE is 0, the records give 1"
        )]
    );
    fixture.redis().run::<i64>(&["DEL", &counts]);
    assert!(
        differences(&fixture).await[0].contains("budget TOKENS FROZEN is 0, the records give 1")
    );
    let one = verify(&fixture.store, Some(&tenant_id("acme")), |_| {}).await;
    assert!(
        one.expect("Redis answers").is_right(),
        "counts are the partition's, not the tenant's"
    );
}

#[tokio::test]
async fn a_wrong_entry_in_the_index_of_debts_is_found() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    let new = new_budget(Some("acme"), "tenant:acme", 10);
    fixture
        .admin
        .create_budget(&admin_key(), &new, &scope(&new.scope), &ask().request())
        .await
        .expect("a ledger");
    let (partition, record) = (
        tenant_id("acme").partition(),
        fixture.budget_key("acme", "tenant:acme"),
    );
    let over_limit_or_in_debt = fixture.store.keys().over_limit_or_in_debt(partition);
    // As a debt that no script has indexed.
    fixture.redis().run::<i64>(&[
        "HSET",
        &record,
        "debt",
        "5",
        "base_debt",
        "5",
        "remaining",
        "5",
    ]);
    let wrong =
        "acme ledger tenant:acme TOKENS: the index of ledgers over limit or in debt has it wrong";
    assert_eq!(differences(&fixture).await, [wrong]);
    // Whatever changes the ledger next notes both.
    let repay = funding(Some("acme"), "tenant:acme", FundingOperation::RepayDebt, 1);
    fixture
        .admin
        .fund_budget(&admin_key(), &repay, &ask().request())
        .await
        .expect("it is paid");
    assert_eq!(differences(&fixture).await, [""; 0]);
    let entries = || {
        fixture.redis().run::<Vec<String>>(&[
            "ZRANGE",
            &over_limit_or_in_debt,
            "0",
            "-1",
            "WITHSCORES",
        ])
    };
    assert_eq!(
        entries(),
        [
            "over acme TOKENS tenant:acme",
            "-5",
            "debt acme TOKENS tenant:acme",
            "4"
        ]
    );
    let update = BudgetUpdateRequest {
        overdraft_limit: Some(crate::harness::admin_fixture::tokens(4)),
        ..BudgetUpdateRequest::default()
    };
    fixture
        .admin
        .update_budget(
            &scope("tenant:acme"),
            Unit::Tokens,
            &update,
            &ask().request(),
        )
        .await
        .expect("it is changed");
    assert_eq!(entries(), ["debt acme TOKENS tenant:acme", "4"]);
    fixture.redis().run::<i64>(&[
        "ZADD",
        &over_limit_or_in_debt,
        "-1",
        "over acme TOKENS tenant:acme",
    ]);
    assert_eq!(differences(&fixture).await, [wrong]);
    fixture.redis().run::<i64>(&[
        "ZREM",
        &over_limit_or_in_debt,
        "over acme TOKENS tenant:acme",
    ]);
    let repay = funding(Some("acme"), "tenant:acme", FundingOperation::RepayDebt, 4);
    fixture
        .admin
        .fund_budget(&admin_key(), &repay, &ask().request())
        .await
        .expect("it is paid");
    assert_eq!(entries(), [""; 0]);
    assert_eq!(differences(&fixture).await, [""; 0]);
    // A name that stayed, as an older release leaves it.
    fixture
        .redis()
        .run::<i64>(&["HSET", &record, "over_limit_by", "r1"]);
    let stayed =
        "acme ledger tenant:acme TOKENS: `r1` took it over its limit, but it is not over it";
    assert_eq!(differences(&fixture).await, [stayed]);
}

#[tokio::test]
async fn a_ledger_that_turns_must_be_in_the_index() {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    fixture.budget("acme", "tenant:acme", 10).await;
    let record = fixture.budget_key("acme", "tenant:acme");
    assert_eq!(differences(&fixture).await, [""; 0]);
    let set = |at_ms: &str| {
        fixture
            .redis()
            .run::<i64>(&["HSET", &record, "turns_at_ms", at_ms])
    };
    let wrong = "acme ledger tenant:acme TOKENS: the index of ledgers that turn has it wrong";
    set("5000");
    let unread = "acme ledger tenant:acme TOKENS: it is corrupt: `terms` is empty, so its terms do not apply";
    assert_eq!(differences(&fixture).await, [unread]);
    let marked = ["HSET", &record, "terms", "1"];
    fixture.redis().run::<i64>(&marked);
    assert_eq!(differences(&fixture).await, [wrong]);
    let index = fixture.store.keys().turns(tenant_id("acme").partition());
    let entry = "acme TOKENS tenant:acme";
    fixture.redis().run::<i64>(&["ZADD", &index, "6000", entry]);
    assert_eq!(differences(&fixture).await, [""; 0]);
    set("0");
    assert_eq!(differences(&fixture).await, [wrong]);
}
