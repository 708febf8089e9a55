//! Changing and freezing budgets.

use budget_authority::domain::amount::Unit;
use budget_authority::domain::budget::ledger::BudgetLedger;
use budget_authority::domain::budget::ledger::BudgetUpdateRequest;
use budget_authority::domain::budget::ledger::{BudgetStatus, FundingOperation};
use budget_authority::domain::fields::Patch;
use budget_authority::domain::ids::IdempotencyKey;
use budget_authority::domain::json::{FreeObject, Json};
use budget_authority::domain::payload_hash::{HashedRequest, PayloadHash};
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::refusal::{
    AccessRefusal, BudgetRefusal, Denial, Refusal, ReservationRefusal,
};
use budget_authority::domain::reservation::CommitRequest;
use budget_authority::store::StoreError;
use serde_json::json;

use crate::harness::admin_fixture::{
    AdminFixture, admin_key, ask, asking, closed, corrupt, funding, refusal, refused_budget, scope,
    tokens,
};
use crate::harness::tenant_fixture::TenantFixture;

const ROOT: &str = "tenant:acme";

async fn fixture() -> AdminFixture {
    let fixture = AdminFixture::new();
    fixture.tenant("acme").await;
    fixture.budget("acme", ROOT, 1_000).await;
    fixture
}

async fn update(
    fixture: &AdminFixture,
    update: BudgetUpdateRequest,
) -> Result<BudgetLedger, StoreError> {
    fixture
        .admin
        .update_budget(&scope(ROOT), Unit::Tokens, &update, &ask().request())
        .await
}

async fn freeze(fixture: &AdminFixture, frozen: bool) -> Result<BudgetLedger, StoreError> {
    fixture
        .admin
        .freeze_budget(
            &scope(ROOT),
            Unit::Tokens,
            frozen,
            Some("audit"),
            &ask().request(),
        )
        .await
}

fn limit(overdraft_limit: i64) -> BudgetUpdateRequest {
    BudgetUpdateRequest {
        overdraft_limit: Some(tokens(overdraft_limit)),
        ..BudgetUpdateRequest::default()
    }
}

fn set(fixture: &AdminFixture, fields: &[&str]) {
    let key = fixture.budget_key("acme", ROOT);
    fixture
        .redis()
        .run::<()>(&[&["HSET", &key], fields].concat());
}

fn types(fixture: &AdminFixture) -> Vec<String> {
    fixture.event_types("acme").split_off(2)
}

#[tokio::test]
async fn rule_37_a_ledger_is_over_a_limit_below_its_debt_and_not_over_an_equal_one() {
    let fixture = fixture().await;
    set(
        &fixture,
        &["debt", "600", "overdraft_limit", "1000", "remaining", "400"],
    );
    for (new, over) in [(599, true), (600, false), (0, true), (i64::MAX, false)] {
        let ledger = update(&fixture, limit(new)).await.expect("changed");
        assert_eq!(
            (ledger.overdraft_limit.value(), ledger.is_over_limit),
            (new, over)
        );
        assert_eq!(
            (
                ledger.debt.value(),
                ledger.remaining.value(),
                ledger.allocated.value()
            ),
            (600, 400, 1_000)
        );
    }
    let (updated, entered, exited) = (
        "budget.updated",
        "budget.over_limit_entered",
        "budget.over_limit_exited",
    );
    assert_eq!(
        types(&fixture),
        [
            updated, entered, updated, exited, updated, entered, updated, exited
        ]
    );
    let event = &fixture.events("acme")[3];
    assert_eq!(
        event["data"],
        json!({"scope": ROOT, "unit": "TOKENS", "debt": 600, "overdraft_limit": 599, "is_over_limit": true,
            "debt_utilization": 600.0 / 599.0})
    );
}

#[tokio::test]
async fn a_no_op_recomputes_the_flag_and_emits_no_update() {
    let fixture = fixture().await;
    set(&fixture, &["is_over_limit", "1"]); // as a capped charge leaves it
    let ledger = update(&fixture, BudgetUpdateRequest::default())
        .await
        .expect("as it is");
    assert!(!ledger.is_over_limit);
    update(&fixture, limit(0)).await.expect("as it is");
    assert_eq!(types(&fixture), ["budget.over_limit_exited"]);
}

#[tokio::test]
async fn the_overage_policy_is_set_and_removed_and_labels_stay_hidden() {
    let fixture = fixture().await;
    let free = FreeObject::from_stored("{\"a\":1}".to_owned()).expect("an object");
    let change = BudgetUpdateRequest {
        commit_overage_policy: Patch::Set(OveragePolicy::Reject),
        metadata: Patch::Set(free),
        ..BudgetUpdateRequest::default()
    };
    let ledger = update(&fixture, change.clone()).await.expect("changed");
    assert_eq!(ledger.commit_overage_policy, Some(OveragePolicy::Reject));
    update(&fixture, change).await.expect("as it is");
    let key = fixture.budget_key("acme", ROOT);
    assert_eq!(
        fixture.redis().run::<String>(&["HGET", &key, "metadata"]),
        "{\"a\":1}"
    );
    let cleared = BudgetUpdateRequest {
        commit_overage_policy: Patch::Clear,
        metadata: Patch::Clear,
        ..BudgetUpdateRequest::default()
    };
    let ledger = update(&fixture, cleared.clone()).await.expect("changed");
    assert_eq!(ledger.commit_overage_policy, None);
    assert_eq!(
        fixture.redis().run::<i64>(&["HEXISTS", &key, "metadata"]),
        0
    );
    update(&fixture, cleared).await.expect("as it is");
    assert_eq!(types(&fixture), ["budget.updated", "budget.updated"]);
    let event = fixture.events("acme").pop().expect("an event");
    assert_eq!(
        event["data"],
        json!({"ledger_id": ledger.ledger_id, "scope": ROOT, "unit": "TOKENS", "operation": "UPDATE"})
    );
    assert_eq!(
        (&event["actor"]["type"], &event["scope"]),
        (&json!("admin"), &json!(ROOT))
    );
    let entry = &fixture.tenant_audit("acme")[2];
    for (name, value) in [
        ("operation", "updateBudget"),
        ("resource_type", "budget"),
        ("resource_id", &*ledger.ledger_id),
        ("metadata.scope", ROOT),
        ("metadata.unit", "TOKENS"),
        ("metadata.commit_overage_policy", "REJECT"),
        ("status", "200"),
    ] {
        assert_eq!(entry.get(name), Some(value), "{name}");
    }
    let removal = &fixture.tenant_audit("acme")[4];
    assert_eq!(removal.get("metadata.commit_overage_policy"), Some(""));
}

#[tokio::test]
async fn rule_36_a_frozen_ledger_can_be_updated_but_not_funded_or_frozen_again() {
    let fixture = fixture().await;
    assert_eq!(
        refusal(freeze(&fixture, false).await),
        refused_budget(BudgetRefusal::NotFrozen, ROOT)
    );
    let ledger = freeze(&fixture, true).await.expect("frozen");
    assert_eq!(
        (ledger.status, ledger.remaining.value()),
        (BudgetStatus::Frozen, 1_000)
    );
    assert_eq!(
        refusal(freeze(&fixture, true).await),
        refused_budget(BudgetRefusal::AlreadyFrozen, ROOT)
    );
    let credit = funding(Some("acme"), ROOT, FundingOperation::Credit, 1);
    let funded = fixture
        .admin
        .fund_budget(&admin_key(), &credit, &ask().request())
        .await;
    assert_eq!(refusal(funded), refused_budget(BudgetRefusal::Frozen, ROOT));
    let changed = update(&fixture, limit(5)).await.expect("changed");
    assert_eq!(
        (changed.status, changed.overdraft_limit.value()),
        (BudgetStatus::Frozen, 5)
    );
    assert_eq!(
        freeze(&fixture, false)
            .await
            .expect("not frozen any more")
            .status,
        BudgetStatus::Active
    );
    assert_eq!(
        types(&fixture),
        ["budget.frozen", "budget.updated", "budget.unfrozen"]
    );
    let event = &fixture.events("acme")[2];
    assert_eq!(
        event["data"],
        json!({"ledger_id": ledger.ledger_id, "scope": ROOT, "unit": "TOKENS", "operation": "STATUS_CHANGE", "reason": "audit"})
    );
    let entry = fixture.tenant_audit("acme").pop().expect("an entry");
    assert_eq!(
        (
            entry.get("operation"),
            entry.get("resource_id"),
            entry.get("metadata.reason")
        ),
        (
            Some("unfreezeBudget"),
            Some(&*ledger.ledger_id),
            Some("audit")
        )
    );
}

#[tokio::test]
async fn a_freeze_applies_to_the_next_request_and_holds_can_still_end() {
    let tenant = TenantFixture::new().await;
    for place in ["", "/agent:a"] {
        tenant.budget(place, 1_000).await;
    }
    let id = tenant.hold("k", "/agent:a", 10).await.expect("held");
    freeze(&tenant, true).await.expect("frozen");
    let denied = tenant.hold("l", "/agent:a", 10).await;
    assert!(
        matches!(&denied, Err(StoreError::Refusal(Refusal::Reservation(ReservationRefusal::Denied { denial: Denial::BudgetFrozen, scope, .. }))) if scope == ROOT),
        "{denied:?}"
    );
    let commit = HashedRequest {
        request: CommitRequest {
            idempotency_key: IdempotencyKey::parse("c").expect("a key"),
            actual: tokens(7),
            metrics: None,
            metadata: None,
        },
        payload_hash: PayloadHash::of_body(&Json::Null),
        attested: None,
    };
    let cause =
        crate::harness::admin_fixture::cause(budget_authority::domain::cause::Actor::Admin(None));
    let committed = tenant
        .ledger
        .commit(&tenant.caller, &id, &commit, &cause)
        .await;
    assert_eq!(committed.expect("committed").charged, tokens(7));
    freeze(&tenant, false).await.expect("not frozen any more");
    tenant.hold("l", "/agent:a", 10).await.expect("held");
}

#[tokio::test]
async fn refusals_follow_the_documented_order() {
    let fixture = fixture().await;
    let absent = scope("tenant:acme/agent:none");
    let nobody = scope("tenant:nobody-at-all");
    for of in [&absent, &nobody] {
        let not_found = refused_budget(BudgetRefusal::NotFound, of.path().as_str());
        let updated = fixture
            .admin
            .update_budget(of, Unit::Tokens, &limit(1), &ask().request())
            .await;
        assert_eq!(refusal(updated), not_found);
        let frozen = fixture
            .admin
            .freeze_budget(of, Unit::Tokens, true, None, &ask().request())
            .await;
        assert_eq!(refusal(frozen), not_found);
    }
    fixture.set_status("acme", "SUSPENDED");
    update(&fixture, limit(1)).await.expect("an operator may");
    fixture.set_status("acme", "ACTIVE");
    set(&fixture, &["status", "CLOSED"]);
    assert_eq!(
        refusal(update(&fixture, limit(2)).await),
        refused_budget(BudgetRefusal::Closed, ROOT)
    );
    for frozen in [true, false] {
        assert_eq!(
            refusal(freeze(&fixture, frozen).await),
            refused_budget(BudgetRefusal::Closed, ROOT)
        );
    }
    fixture.set_status("acme", "CLOSED");
    let updated = fixture
        .admin
        .update_budget(&absent, Unit::Tokens, &limit(1), &ask().request())
        .await;
    assert_eq!(refusal(updated), closed("acme"));
    set(&fixture, &["status", "THAWING", "debt", "much"]);
    fixture.set_status("acme", "ACTIVE");
    corrupt(update(&fixture, limit(2)).await);
    corrupt(freeze(&fixture, true).await);
}

#[tokio::test]
async fn a_repeated_freeze_is_replayed() {
    let fixture = fixture().await;
    let freeze = |frozen: bool, payload: &'static str| {
        let fixture = &fixture;
        async move {
            let ask = asking(Some("k"), payload);
            let of = scope(ROOT);
            fixture
                .admin
                .freeze_budget(&of, Unit::Tokens, frozen, None, &ask.request())
                .await
        }
    };
    let first = freeze(true, "1").await.expect("frozen");
    let again = freeze(true, "1").await.expect("answered again");
    assert_eq!(again.updated_at, first.updated_at);
    assert_eq!(
        refusal(freeze(true, "2").await),
        AccessRefusal::IdempotencyMismatch.into()
    );
    freeze(false, "1").await.expect("another operation");
    assert_eq!(types(&fixture), ["budget.frozen", "budget.unfrozen"]);
}
