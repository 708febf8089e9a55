//! Bulk actions on ledgers: the outcome and the event of each row.

use serde_json::{Value, json};

use crate::admin::bulk_actions::actions::stocked;
use crate::harness::admin_fixture::AdminFixture;
use crate::harness::bulk_calls::{BUDGETS, fund, ids, words};

pub(crate) fn set(fixture: &AdminFixture, agent: usize, fields: &[&str]) {
    let key = fixture.budget_key("umbra", &format!("tenant:umbra/agent:a{agent}"));
    fixture
        .redis()
        .run::<()>(&[&["HSET", &key], fields].concat());
}

#[tokio::test]
async fn rule_44_each_row_is_decided_by_its_own_state() {
    let (app, fixture) = stocked(8).await;
    fixture
        .redis()
        .run::<()>(&["DEL", &fixture.budget_key("umbra", "tenant:umbra/agent:a0")]);
    set(&fixture, 1, &["status", "FROZEN"]);
    set(&fixture, 2, &["status", "CLOSED"]);
    set(&fixture, 3, &["remaining", "10", "spent", "990"]);
    set(&fixture, 5, &["debt", "-"]);
    let response = app
        .post_as_admin(BUDGETS, &fund("umbra", "DEBIT", 11, "k1"))
        .await;
    assert_eq!(
        ids(&response, "succeeded"),
        ["ledger-4", "ledger-6", "ledger-7"]
    );
    assert_eq!(
        words(&response, "failed"),
        [
            ("ledger-1", "INVALID_TRANSITION"),
            ("ledger-2", "INVALID_TRANSITION"),
            ("ledger-3", "BUDGET_EXCEEDED")
        ]
        .map(|(id, word)| (id.to_owned(), word.to_owned())),
        "one that is gone or cannot be read does not even match"
    );
    assert!(
        response
            .text("/failed/2/message")
            .contains("Only 10 TOKENS remain")
    );
}

#[tokio::test]
async fn rule_44_other_units_fail_and_missing_debt_is_skipped() {
    let (app, fixture) = stocked(3).await;
    let body = json!({
        "tenant_id": "umbra", "scope": "tenant:umbra/agent:a0", "unit": "CREDITS", "allocated": {"unit": "CREDITS", "amount": 5},
    });
    let made = app.post_as_admin("/v1/admin/budgets", body).await;
    let credits = made.text("/ledger_id").to_owned();
    let response = app
        .post_as_admin(BUDGETS, &fund("umbra", "RESET", 11, "k1"))
        .await;
    assert_eq!(ids(&response, "succeeded").len(), 3);
    assert_eq!(
        words(&response, "failed"),
        [(credits.clone(), "INVALID_TRANSITION".to_owned())]
    );

    set(
        &fixture,
        1,
        &["debt", "4", "remaining", "7", "status", "FROZEN"],
    );
    set(&fixture, 2, &["debt", "4", "remaining", "7"]);
    set(&fixture, 0, &["status", "FROZEN"]);
    let response = app
        .post_as_admin(BUDGETS, &fund("umbra", "REPAY_DEBT", 6, "k2"))
        .await;
    assert_eq!(ids(&response, "succeeded"), ["ledger-2"]);
    assert_eq!(
        words(&response, "skipped"),
        [("ledger-0".to_owned(), "ALREADY_IN_TARGET_STATE".to_owned())]
    );
    assert_eq!(
        words(&response, "failed"),
        [
            (credits, "INVALID_TRANSITION"),
            ("ledger-1".to_owned(), "INVALID_TRANSITION")
        ]
        .map(|(id, word)| (id, word.to_owned()))
    );
    let ledger = fixture.ledger("tenant:umbra/agent:a2").await;
    assert_eq!(
        (
            ledger.debt.value(),
            ledger.allocated.value(),
            ledger.remaining.value()
        ),
        (0, 13, 13),
        "the surplus is allocated"
    );
}

#[tokio::test]
async fn rule_45_each_success_emits_one_event_and_the_action_one_audit_entry() {
    let (app, fixture) = stocked(4).await;
    set(&fixture, 1, &["remaining", "1", "spent", "999"]);
    set(
        &fixture,
        2,
        &[
            "debt",
            "5",
            "remaining",
            "995",
            "is_over_limit",
            "1",
            "base_debt",
            "5",
        ],
    );
    let mut body = fund("umbra", "DEBIT", 100, "a key");
    body["reason"] = json!("less");
    body["filter"]["search"] = json!(" UMBRA ");
    let response = app.post_as_admin(BUDGETS, &body).await;
    let request_id = response.header("x-request-id").expect("an id").to_owned();
    let trace_id = response
        .header("x-service-trace-id")
        .expect("an id")
        .to_owned();
    let correlation = format!("budget_bulk_action:debit:{request_id}");
    let events = fixture.events("umbra");
    let funded: Vec<&Value> = events
        .iter()
        .filter(|event| event["event_type"] == "budget.debited")
        .collect();
    let emitted: Vec<_> = funded
        .iter()
        .map(|event| event["data"]["ledger_id"].as_str().expect("an id"))
        .collect();
    assert_eq!(emitted, ["ledger-0", "ledger-2", "ledger-3"]);
    assert_eq!(ids(&response, "succeeded"), emitted);
    for event in &events[1..] {
        assert_eq!(event["correlation_id"], correlation, "{event}");
        assert_eq!(
            (
                &event["request_id"],
                &event["trace_id"],
                &event["actor"]["type"]
            ),
            (&json!(request_id), &json!(trace_id), &json!("admin"))
        );
    }
    assert_eq!(funded[0]["data"]["reason"], "less");
    assert_eq!(funded[0]["data"]["new_state"]["allocated"], 900);

    let recorded = fixture.tenant_audit("umbra").into_iter();
    let recorded: Vec<_> = recorded
        .filter(|entry| entry.get("operation") == Some("bulkActionBudgets"))
        .collect();
    assert_eq!(recorded.len(), 1);
    let value = |name: &str| recorded[0].get(name).unwrap_or_default().to_owned();
    let parsed = |name: &str| serde_json::from_str::<Value>(&value(name)).expect("JSON");
    for (name, expected) in [
        ("status", "200"),
        ("resource_type", "budget"),
        ("resource_id", "bulk-action"),
        ("request_id", &request_id),
        ("trace_id", &trace_id),
        ("metadata.action", "DEBIT"),
        ("metadata.idempotency_key", "a key"),
        ("metadata.actor_type", "admin_on_behalf_of"),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    for (name, expected) in [
        ("total_matched", json!(4)),
        ("succeeded", json!(3)),
        ("failed", json!(1)),
        ("skipped", json!(0)),
        ("succeeded_ids", json!(["ledger-0", "ledger-2", "ledger-3"])),
        ("failed_rows", response.at("/failed").clone()),
        ("skipped_rows", json!([])),
        ("filter", json!({"tenant_id": "umbra", "search": "UMBRA"})),
    ] {
        let stored = [format!("metadata.{name}"), format!("metadata_json.{name}")];
        let stored = stored.iter().find(|name| recorded[0].get(name).is_some());
        assert_eq!(parsed(stored.expect("a member")), expected, "{name}");
    }
    let took: i64 = value("metadata.duration_ms").parse().expect("a number");
    assert!((0..10_000).contains(&took));
}

#[tokio::test]
async fn rule_46_spent_with_another_action_is_refused() {
    let (app, _) = stocked(0).await;
    let mut body = fund("umbra", "CREDIT", 1, "k");
    body["spent"] = json!({"unit": "TOKENS", "amount": 1});
    let response = app
        .post_as_admin(BUDGETS, &body)
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(response.text("/message").contains("spent"));
    body["action"] = json!("RESET_SPENT");
    body["spent"]["unit"] = json!("CREDITS");
    app.post_as_admin(BUDGETS, &body)
        .await
        .refused(400, "UNIT_MISMATCH");
    let mut none = fund("umbra", "RESET", 1, "k");
    none.as_object_mut().expect("an object").remove("amount");
    app.post_as_admin(BUDGETS, &none)
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_reset_of_spent_reports_whether_a_figure_was_given() {
    let (app, fixture) = stocked(2).await;
    set(
        &fixture,
        0,
        &["spent", "400", "remaining", "600", "base_spent", "400"],
    );
    let mut body = fund("umbra", "RESET_SPENT", 2_000, "k1");
    assert_eq!(
        ids(&app.post_as_admin(BUDGETS, &body).await, "succeeded").len(),
        2
    );
    let ledger = fixture.ledger("tenant:umbra/agent:a0").await;
    assert_eq!(
        (
            ledger.allocated.value(),
            ledger.spent.value(),
            ledger.remaining.value()
        ),
        (2_000, 0, 2_000)
    );
    body["idempotency_key"] = json!("k2");
    body["spent"] = json!({"unit": "TOKENS", "amount": 1_900});
    assert_eq!(
        ids(&app.post_as_admin(BUDGETS, &body).await, "succeeded").len(),
        2
    );
    let events = fixture.events("umbra").into_iter();
    let events: Vec<_> = events
        .filter(|event| event["event_type"] != "tenant.created")
        .collect();
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["event_type"].as_str().expect("a type"))
        .collect();
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == "budget.reset_spent")
            .count(),
        4
    );
    assert_eq!(events[0]["data"]["spent_override_provided"], false);
    assert_eq!(
        events.last().expect("events")["correlation_id"],
        events[events.len() - 2]["correlation_id"]
    );
    assert!(
        kinds.contains(&"budget.threshold_crossed"),
        "thresholds are emitted with the action: {kinds:?}"
    );
}

#[tokio::test]
async fn rows_of_a_closed_tenant_fail_and_those_of_a_suspended_one_do_not() {
    let (app, fixture) = stocked(2).await;
    fixture.set_status("umbra", "SUSPENDED");
    let response = app
        .post_as_admin(BUDGETS, &fund("umbra", "CREDIT", 1, "k1"))
        .await;
    assert_eq!(ids(&response, "succeeded").len(), 2);
    fixture.set_status("umbra", "CLOSED");
    let mut body = fund("umbra", "CREDIT", 1, "k2");
    body["amount"]["unit"] = json!("CREDITS");
    let response = app.post_as_admin(BUDGETS, &body).await;
    let failed: Vec<_> = words(&response, "failed")
        .into_iter()
        .map(|(_, word)| word)
        .collect();
    assert_eq!(
        failed,
        ["TENANT_CLOSED", "TENANT_CLOSED"],
        "before the unit"
    );
}

#[tokio::test]
async fn a_figure_beyond_64_bits_fails_its_row_alone() {
    let (app, fixture) = stocked(2).await;
    set(
        &fixture,
        0,
        &[
            "allocated",
            "9223372036854775807",
            "remaining",
            "9223372036854775807",
        ],
    );
    let response = app
        .post_as_admin(BUDGETS, &fund("umbra", "CREDIT", 1, "k1"))
        .await;
    assert_eq!(
        words(&response, "failed"),
        [("ledger-0".to_owned(), "INVALID_TRANSITION".to_owned())]
    );
    let response = app
        .post_as_admin(BUDGETS, &fund("umbra", "DEBIT", 1, "k2"))
        .await;
    assert_eq!(ids(&response, "succeeded").len(), 2);
    assert_eq!(
        fixture
            .ledger("tenant:umbra/agent:a0")
            .await
            .allocated
            .value(),
        i64::MAX - 1
    );
}
