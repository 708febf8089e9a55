//! Changing and freezing budgets.

use budget_authority::admin::{AdminError, BudgetUpdate};
use budget_authority::domain::amount::Unit;
use budget_authority::domain::budget::funding::{BudgetStatus, FundingOperation};
use budget_authority::domain::budget::ledger::BudgetLedger;
use budget_authority::domain::fields::Patch;
use budget_authority::domain::json::FreeObject;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::refusal::admin::AdminRefusal;
use budget_authority::domain::refusal::{Denial, Refusal};
use budget_authority::ledger::LedgerError;
use serde_json::json;

use crate::harness::desk::{Desk, admin_key, ask, asking, funding, refusal, scope};
use crate::harness::estate::Estate;

const ROOT: &str = "tenant:acme";

async fn desk() -> Desk {
    let desk = Desk::new();
    desk.tenant("acme").await;
    desk.budget("acme", ROOT, 1_000).await;
    desk
}

async fn update(desk: &Desk, update: BudgetUpdate) -> Result<BudgetLedger, AdminError> {
    desk.admin
        .update_budget(&scope(ROOT), Unit::Tokens, &update, &ask().request())
        .await
}

async fn freeze(desk: &Desk, frozen: bool) -> Result<BudgetLedger, AdminError> {
    desk.admin
        .freeze_budget(
            &scope(ROOT),
            Unit::Tokens,
            frozen,
            Some("audit"),
            &ask().request(),
        )
        .await
}

fn limit(overdraft_limit: i64) -> BudgetUpdate {
    BudgetUpdate {
        overdraft_limit: Some(overdraft_limit),
        ..BudgetUpdate::default()
    }
}

fn set(desk: &Desk, fields: &[&str]) {
    let key = desk.budget_key("acme", ROOT);
    desk.redis().run::<()>(&[&["HSET", &key], fields].concat());
}

fn types(desk: &Desk) -> Vec<String> {
    desk.event_types("acme").split_off(2)
}

#[tokio::test]
async fn rule_37_a_limit_below_the_debt_makes_the_ledger_over_it_and_equality_ends_that() {
    let desk = desk().await;
    set(
        &desk,
        &["debt", "600", "overdraft_limit", "1000", "remaining", "400"],
    );
    for (new, over) in [(599, true), (600, false), (0, true), (i64::MAX, false)] {
        let ledger = update(&desk, limit(new)).await.expect("changed");
        assert_eq!((ledger.overdraft_limit, ledger.is_over_limit), (new, over));
        assert_eq!(
            (ledger.debt, ledger.remaining, ledger.allocated),
            (600, 400, 1_000)
        );
    }
    let (updated, entered, exited) = (
        "budget.updated",
        "budget.over_limit_entered",
        "budget.over_limit_exited",
    );
    assert_eq!(
        types(&desk),
        [
            updated, entered, updated, exited, updated, entered, updated, exited
        ]
    );
    let event = &desk.events("acme")[3];
    assert_eq!(
        event["data"],
        json!({"scope": ROOT, "unit": "TOKENS", "debt": 600, "overdraft_limit": 599, "is_over_limit": true,
            "debt_utilization": 600.0 / 599.0})
    );
}

#[tokio::test]
async fn a_change_of_nothing_judges_the_flag_anew_and_tells_of_no_update() {
    let desk = desk().await;
    set(&desk, &["is_over_limit", "1"]); // as a capped charge leaves it
    let ledger = update(&desk, BudgetUpdate::default())
        .await
        .expect("as it is");
    assert!(!ledger.is_over_limit);
    update(&desk, limit(0)).await.expect("as it is");
    assert_eq!(types(&desk), ["budget.over_limit_exited"]);
}

#[tokio::test]
async fn the_overage_policy_is_set_and_taken_out_and_labels_stay_hidden() {
    let desk = desk().await;
    let free = FreeObject::from_stored("{\"a\":1}".to_owned()).expect("an object");
    let change = BudgetUpdate {
        commit_overage_policy: Patch::Set(OveragePolicy::Reject),
        metadata: Patch::Set(free),
        ..BudgetUpdate::default()
    };
    let ledger = update(&desk, change.clone()).await.expect("changed");
    assert_eq!(ledger.commit_overage_policy, Some(OveragePolicy::Reject));
    update(&desk, change).await.expect("as it is");
    let key = desk.budget_key("acme", ROOT);
    assert_eq!(
        desk.redis().run::<String>(&["HGET", &key, "metadata"]),
        "{\"a\":1}"
    );
    let cleared = BudgetUpdate {
        commit_overage_policy: Patch::Clear,
        metadata: Patch::Clear,
        ..BudgetUpdate::default()
    };
    let ledger = update(&desk, cleared.clone()).await.expect("changed");
    assert_eq!(ledger.commit_overage_policy, None);
    assert_eq!(desk.redis().run::<i64>(&["HEXISTS", &key, "metadata"]), 0);
    update(&desk, cleared).await.expect("as it is");
    assert_eq!(types(&desk), ["budget.updated", "budget.updated"]);
    let event = desk.events("acme").pop().expect("an event");
    assert_eq!(
        event["data"],
        json!({"ledger_id": ledger.ledger_id, "scope": ROOT, "unit": "TOKENS", "operation": "UPDATE"})
    );
    assert_eq!(
        (&event["actor"]["type"], &event["scope"]),
        (&json!("admin"), &json!(ROOT))
    );
    let entry = &desk.tenant_audit("acme")[2];
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
}

#[tokio::test]
async fn rule_36_a_frozen_ledger_is_not_funded_but_changed_and_not_frozen_again() {
    let desk = desk().await;
    assert_eq!(refusal(freeze(&desk, false).await), AdminRefusal::NotFrozen);
    let ledger = freeze(&desk, true).await.expect("frozen");
    assert_eq!(
        (ledger.status, ledger.remaining),
        (BudgetStatus::Frozen, 1_000)
    );
    assert_eq!(
        refusal(freeze(&desk, true).await),
        AdminRefusal::AlreadyFrozen
    );
    let credit = funding(Some("acme"), ROOT, FundingOperation::Credit, 1);
    let funded = desk
        .admin
        .fund_budget(&admin_key(), &credit, &ask().request())
        .await;
    assert_eq!(refusal(funded), AdminRefusal::BudgetFrozen);
    let changed = update(&desk, limit(5)).await.expect("changed");
    assert_eq!(
        (changed.status, changed.overdraft_limit),
        (BudgetStatus::Frozen, 5)
    );
    assert_eq!(
        freeze(&desk, false)
            .await
            .expect("not frozen any more")
            .status,
        BudgetStatus::Active
    );
    assert_eq!(
        types(&desk),
        ["budget.frozen", "budget.updated", "budget.unfrozen"]
    );
    let event = &desk.events("acme")[2];
    assert_eq!(
        event["data"],
        json!({"ledger_id": ledger.ledger_id, "scope": ROOT, "unit": "TOKENS", "operation": "STATUS_CHANGE", "reason": "audit"})
    );
    let entry = desk.tenant_audit("acme").pop().expect("an entry");
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
async fn a_freeze_counts_from_the_next_request_on_and_what_is_held_settles() {
    let estate = Estate::new().await;
    for place in ["", "/agent:a"] {
        estate.budget(place, 1_000).await;
    }
    let id = estate.hold("k", "/agent:a", 10).await.expect("held");
    freeze(&estate.desk, true).await.expect("frozen");
    let denied = estate.hold("l", "/agent:a", 10).await;
    assert!(
        matches!(&denied, Err(LedgerError::Refused(Refusal::Denied { denial: Denial::BudgetFrozen, scope, .. })) if scope == ROOT),
        "{denied:?}"
    );
    let commit = budget_authority::ledger::Commit {
        reservation_id: id,
        idempotency_key: budget_authority::domain::ids::IdempotencyKey::parse("c").expect("a key"),
        payload_hash: budget_authority::domain::payload_hash::PayloadHash::of_body(
            &budget_authority::domain::json::Json::Null,
        ),
        actual: crate::harness::desk::tokens(7),
        metrics: None,
        metadata: None,
    };
    let cause = crate::harness::desk::cause(budget_authority::domain::cause::Actor::Admin);
    let committed = estate.ledger.commit(&estate.caller, &commit, &cause).await;
    assert_eq!(committed.expect("committed").charged, 7);
    freeze(&estate.desk, false)
        .await
        .expect("not frozen any more");
    estate.hold("l", "/agent:a", 10).await.expect("held");
}

#[tokio::test]
async fn refusals_stand_in_their_order() {
    let desk = desk().await;
    let absent = scope("tenant:acme/agent:none");
    let nobody = scope("tenant:nobody-at-all");
    for of in [&absent, &nobody] {
        let updated = desk
            .admin
            .update_budget(of, Unit::Tokens, &limit(1), &ask().request())
            .await;
        assert_eq!(refusal(updated), AdminRefusal::BudgetNotFound);
        let frozen = desk
            .admin
            .freeze_budget(of, Unit::Tokens, true, None, &ask().request())
            .await;
        assert_eq!(refusal(frozen), AdminRefusal::BudgetNotFound);
    }
    desk.set_status("acme", "SUSPENDED");
    update(&desk, limit(1)).await.expect("an operator may");
    desk.set_status("acme", "ACTIVE");
    set(&desk, &["status", "CLOSED"]);
    assert_eq!(
        refusal(update(&desk, limit(2)).await),
        AdminRefusal::BudgetClosed
    );
    for frozen in [true, false] {
        assert_eq!(
            refusal(freeze(&desk, frozen).await),
            AdminRefusal::BudgetClosed
        );
    }
    desk.set_status("acme", "CLOSED");
    let updated = desk
        .admin
        .update_budget(&absent, Unit::Tokens, &limit(1), &ask().request())
        .await;
    assert_eq!(refusal(updated), AdminRefusal::TenantClosed);
    set(&desk, &["status", "THAWING", "debt", "much"]);
    desk.set_status("acme", "ACTIVE");
    assert!(matches!(
        refusal(update(&desk, limit(2)).await),
        AdminRefusal::Corrupt(_)
    ));
    assert!(matches!(
        refusal(freeze(&desk, true).await),
        AdminRefusal::Corrupt(_)
    ));
}

#[tokio::test]
async fn a_repeated_freeze_under_its_key_answers_again() {
    let desk = desk().await;
    let freeze = |frozen: bool, payload: &'static str| {
        let desk = &desk;
        async move {
            let ask = asking(Some("k"), payload);
            let of = scope(ROOT);
            desk.admin
                .freeze_budget(&of, Unit::Tokens, frozen, None, &ask.request())
                .await
        }
    };
    let first = freeze(true, "1").await.expect("frozen");
    let again = freeze(true, "1").await.expect("answered again");
    assert_eq!(again.updated_at, first.updated_at);
    assert_eq!(
        refusal(freeze(true, "2").await),
        AdminRefusal::IdempotencyMismatch
    );
    freeze(false, "1").await.expect("another operation");
    assert_eq!(types(&desk), ["budget.frozen", "budget.unfrozen"]);
}
