//! Bulk actions on ledgers: what becomes of each row, and what is told of it.

use serde_json::{Value, json};

use crate::admin::bulk_actions::actions::stocked;
use crate::harness::bulk::{BUDGETS, bulk, fund, ids, words};
use crate::harness::desk::Desk;

pub(crate) fn set(desk: &Desk, agent: usize, fields: &[&str]) {
    let key = desk.budget_key("umbra", &format!("tenant:umbra/agent:a{agent}"));
    desk.redis().run::<()>(&[&["HSET", &key], fields].concat());
}

#[tokio::test]
async fn rule_44_each_row_is_judged_by_its_own_state() {
    let (app, desk) = stocked(8).await;
    desk.redis()
        .run::<()>(&["DEL", &desk.budget_key("umbra", "tenant:umbra/agent:a0")]);
    set(&desk, 1, &["status", "FROZEN"]);
    set(&desk, 2, &["status", "CLOSED"]);
    set(&desk, 3, &["remaining", "10", "spent", "990"]);
    set(&desk, 5, &["debt", "-"]);
    let said = bulk(&app, BUDGETS, &fund("umbra", "DEBIT", 11, "k1")).await;
    assert_eq!(
        ids(&said, "succeeded"),
        ["ledger-4", "ledger-6", "ledger-7"]
    );
    assert_eq!(
        words(&said, "failed"),
        [
            ("ledger-1", "INVALID_TRANSITION"),
            ("ledger-2", "INVALID_TRANSITION"),
            ("ledger-3", "BUDGET_EXCEEDED")
        ]
        .map(|(id, word)| (id.to_owned(), word.to_owned())),
        "one that is gone or cannot be read does not even match"
    );
    assert!(
        said.text("/failed/2/message")
            .contains("Only 10 TOKENS remain")
    );
}

#[tokio::test]
async fn rule_44_units_of_another_kind_fail_and_debt_that_is_not_there_is_skipped() {
    let (app, desk) = stocked(3).await;
    let body = json!({
        "tenant_id": "umbra", "scope": "tenant:umbra/agent:a0", "unit": "CREDITS", "allocated": {"unit": "CREDITS", "amount": 5},
    });
    let made = crate::admin::http::post(&app, "/v1/admin/budgets", body).await;
    let credits = made.text("/ledger_id").to_owned();
    let said = bulk(&app, BUDGETS, &fund("umbra", "RESET", 11, "k1")).await;
    assert_eq!(ids(&said, "succeeded").len(), 3);
    assert_eq!(
        words(&said, "failed"),
        [(credits.clone(), "INVALID_TRANSITION".to_owned())]
    );

    set(
        &desk,
        1,
        &["debt", "4", "remaining", "7", "status", "FROZEN"],
    );
    set(&desk, 2, &["debt", "4", "remaining", "7"]);
    set(&desk, 0, &["status", "FROZEN"]);
    let said = bulk(&app, BUDGETS, &fund("umbra", "REPAY_DEBT", 6, "k2")).await;
    assert_eq!(ids(&said, "succeeded"), ["ledger-2"]);
    assert_eq!(
        words(&said, "skipped"),
        [("ledger-0".to_owned(), "ALREADY_IN_TARGET_STATE".to_owned())]
    );
    assert_eq!(
        words(&said, "failed"),
        [
            (credits, "INVALID_TRANSITION"),
            ("ledger-1".to_owned(), "INVALID_TRANSITION")
        ]
        .map(|(id, word)| (id, word.to_owned()))
    );
    let ledger = desk.ledger("tenant:umbra/agent:a2").await;
    assert_eq!(
        (ledger.debt, ledger.allocated, ledger.remaining),
        (0, 13, 13),
        "the surplus is allocated"
    );
}

#[tokio::test]
async fn rule_45_each_success_has_one_event_and_the_call_one_audit_entry() {
    let (app, desk) = stocked(4).await;
    set(&desk, 1, &["remaining", "1", "spent", "999"]);
    set(
        &desk,
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
    let said = bulk(&app, BUDGETS, &body).await;
    let request_id = said.header("x-request-id").expect("an id").to_owned();
    let trace_id = said.header("x-service-trace-id").expect("an id").to_owned();
    let correlation = format!("budget_bulk_action:debit:{request_id}");
    let events = desk.events("umbra");
    let funded: Vec<&Value> = events
        .iter()
        .filter(|event| event["event_type"] == "budget.debited")
        .collect();
    let told: Vec<_> = funded
        .iter()
        .map(|event| event["data"]["ledger_id"].as_str().expect("an id"))
        .collect();
    assert_eq!(told, ["ledger-0", "ledger-2", "ledger-3"]);
    assert_eq!(ids(&said, "succeeded"), told);
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

    let booked = desk.tenant_audit("umbra").into_iter();
    let booked: Vec<_> = booked
        .filter(|entry| entry.get("operation") == Some("bulkActionBudgets"))
        .collect();
    assert_eq!(booked.len(), 1);
    let value = |name: &str| booked[0].get(name).unwrap_or_default().to_owned();
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
        ("failed_rows", said.at("/failed").clone()),
        ("skipped_rows", json!([])),
        ("filter", json!({"tenant_id": "umbra", "search": "UMBRA"})),
    ] {
        let stored = [format!("metadata.{name}"), format!("metadata_json.{name}")];
        let stored = stored.iter().find(|name| booked[0].get(name).is_some());
        assert_eq!(parsed(stored.expect("a member")), expected, "{name}");
    }
    let took: i64 = value("metadata.duration_ms").parse().expect("a number");
    assert!((0..10_000).contains(&took));
}

#[tokio::test]
async fn rule_46_spent_with_another_action_is_refused_whatever_matches() {
    let (app, _) = stocked(0).await;
    let mut body = fund("umbra", "CREDIT", 1, "k");
    body["spent"] = json!({"unit": "TOKENS", "amount": 1});
    let said = bulk(&app, BUDGETS, &body).await;
    assert_eq!(said.error(), (400, "INVALID_REQUEST"));
    assert!(said.text("/message").contains("spent"));
    body["action"] = json!("RESET_SPENT");
    body["spent"]["unit"] = json!("CREDITS");
    assert_eq!(
        bulk(&app, BUDGETS, &body).await.error(),
        (400, "UNIT_MISMATCH")
    );
    let mut none = fund("umbra", "RESET", 1, "k");
    none.as_object_mut().expect("an object").remove("amount");
    assert_eq!(
        bulk(&app, BUDGETS, &none).await.error(),
        (400, "INVALID_REQUEST")
    );
}

#[tokio::test]
async fn a_reset_of_what_is_spent_tells_whether_it_was_given() {
    let (app, desk) = stocked(2).await;
    set(
        &desk,
        0,
        &["spent", "400", "remaining", "600", "base_spent", "400"],
    );
    let mut body = fund("umbra", "RESET_SPENT", 2_000, "k1");
    assert_eq!(ids(&bulk(&app, BUDGETS, &body).await, "succeeded").len(), 2);
    let ledger = desk.ledger("tenant:umbra/agent:a0").await;
    assert_eq!(
        (ledger.allocated, ledger.spent, ledger.remaining),
        (2_000, 0, 2_000)
    );
    body["idempotency_key"] = json!("k2");
    body["spent"] = json!({"unit": "TOKENS", "amount": 1_900});
    assert_eq!(ids(&bulk(&app, BUDGETS, &body).await, "succeeded").len(), 2);
    let events = desk.events("umbra").into_iter();
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
        "thresholds are told with the action: {kinds:?}"
    );
}

#[tokio::test]
async fn a_tenant_that_is_closed_meanwhile_fails_its_rows_and_a_suspended_one_does_not() {
    let (app, desk) = stocked(2).await;
    desk.set_status("umbra", "SUSPENDED");
    let said = bulk(&app, BUDGETS, &fund("umbra", "CREDIT", 1, "k1")).await;
    assert_eq!(ids(&said, "succeeded").len(), 2);
    desk.set_status("umbra", "CLOSED");
    let mut body = fund("umbra", "CREDIT", 1, "k2");
    body["amount"]["unit"] = json!("CREDITS");
    let said = bulk(&app, BUDGETS, &body).await;
    let failed: Vec<_> = words(&said, "failed")
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
    let (app, desk) = stocked(2).await;
    set(
        &desk,
        0,
        &[
            "allocated",
            "9223372036854775807",
            "remaining",
            "9223372036854775807",
        ],
    );
    let said = bulk(&app, BUDGETS, &fund("umbra", "CREDIT", 1, "k1")).await;
    assert_eq!(
        words(&said, "failed"),
        [("ledger-0".to_owned(), "INVALID_TRANSITION".to_owned())]
    );
    let said = bulk(&app, BUDGETS, &fund("umbra", "DEBIT", 1, "k2")).await;
    assert_eq!(ids(&said, "succeeded").len(), 2);
    assert_eq!(
        desk.ledger("tenant:umbra/agent:a0").await.allocated,
        i64::MAX - 1
    );
}
