//! Bulk actions on ledgers: which ledgers match, and that a row does what the single operation does.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::admin::bulk_actions::actions::stocked;
use crate::admin::bulk_actions::budgets::set;
use crate::harness::app::TestApp;
use crate::harness::bulk_calls::{BUDGETS, fund, ids, ledgers, words};

async fn matched(app: &TestApp, filter: Value) -> Vec<String> {
    let mut body = fund("umbra", "CREDIT", 0, &format!("{filter}"));
    for (name, value) in filter.as_object().expect("an object") {
        body["filter"][name] = value.clone();
    }
    let response = app.post_as_admin(BUDGETS, &body).await.expect(200);
    [ids(&response, "succeeded"), ids(&response, "failed")].concat()
}

#[tokio::test]
async fn filters_combine() {
    let (app, fixture) = stocked(4).await;
    ledgers(&fixture.store, "umbra", 4).await;
    set(&fixture, 0, &["allocated", "0", "remaining", "0"]);
    set(&fixture, 1, &["spent", "900", "remaining", "100"]);
    set(&fixture, 2, &["spent", "1001", "remaining", "-1"]);
    set(
        &fixture,
        3,
        &[
            "debt",
            "5",
            "is_over_limit",
            "1",
            "remaining",
            "995",
            "status",
            "FROZEN",
        ],
    );
    for (filter, expected) in [
        (json!({"status": "FROZEN"}), &["ledger-3"][..]),
        (json!({"over_limit": true}), &["ledger-3"]),
        (json!({"has_debt": true, "over_limit": false}), &[]),
        (
            json!({"has_debt": false, "utilization_min": 0.9}),
            &["ledger-1", "ledger-2"],
        ),
        (
            json!({"utilization_min": 0.9, "utilization_max": 1.0}),
            &["ledger-1"],
        ),
        (
            json!({"utilization_max": 0.0, "status": "ACTIVE"}),
            &["ledger-0"],
        ),
        (
            json!({"scope_prefix": "tenant:umbra/agent:a1"}),
            &["ledger-1"],
        ),
        (json!({"scope_prefix": "tenant:UMBRA/agent:a1"}), &[]),
        (json!({"scope_prefix": "tenant:umbra/agent:a1 1 TOK"}), &[]),
        (json!({"search": "AGENT:A2"}), &["ledger-2"]),
        (json!({"unit": "CREDITS"}), &[]),
    ] {
        // Credits of nothing end the over-limit flag and change no figure.
        set(&fixture, 3, &["is_over_limit", "1"]);
        assert_eq!(matched(&app, filter.clone()).await, expected, "{filter}");
    }
}

/// An event without the members that name the ledger and the request.
fn emitted(event: &Value) -> Value {
    let mut event = event.clone();
    for name in [
        "event_id",
        "timestamp",
        "request_id",
        "trace_id",
        "correlation_id",
        "scope",
        "actor",
    ] {
        event.as_object_mut().expect("an object").remove(name);
    }
    let data = event["data"].as_object_mut().expect("an object");
    data.remove("ledger_id");
    data.remove("scope");
    event
}

#[tokio::test]
async fn a_bulk_row_equals_the_single_operation() {
    let (app, fixture) = stocked(2).await;
    let before = [
        "remaining",
        "-290",
        "spent",
        "990",
        "reserved",
        "0",
        "debt",
        "300",
        "overdraft_limit",
        "250",
        "is_over_limit",
        "1",
        "base_spent",
        "990",
        "base_debt",
        "300",
    ];
    for (n, action) in ["CREDIT", "DEBIT", "RESET", "REPAY_DEBT", "RESET_SPENT"]
        .iter()
        .enumerate()
    {
        for agent in [0, 1] {
            set(&fixture, agent, &before);
            set(&fixture, agent, &["allocated", "1000", "status", "ACTIVE"]);
        }
        let events = fixture.events("umbra").len();
        let single = json!({"operation": action, "amount": {"unit": "TOKENS", "amount": 60 + n}, "reason": "why"});
        let path = "/v1/admin/budgets/fund?tenant_id=umbra&scope=tenant:umbra/agent:a0&unit=TOKENS";
        let single = app.post_as_admin(path, single).await;
        let mut body = fund("umbra", action, 60 + n as i64, action);
        body["filter"]["scope_prefix"] = json!("tenant:umbra/agent:a1");
        body["reason"] = json!("why");
        let response = app.post_as_admin(BUDGETS, &body).await;
        assert_eq!(
            single.is_success(),
            ids(&response, "succeeded").len() == 1,
            "{single:?} {response:?}"
        );
        if *action == "DEBIT" {
            assert_eq!(words(&response, "failed")[0].1, single.text("/error"));
        }
        let ledger = |agent: usize| {
            let key = fixture.budget_key("umbra", &format!("tenant:umbra/agent:a{agent}"));
            let fields: BTreeMap<String, String> = fixture.redis().run(&["HGETALL", &key]);
            let named = ["scope", "ledger_id", "updated_at_ms", "announced"];
            let fields = fields.into_iter();
            fields
                .filter(|(name, _)| !named.contains(&name.as_str()))
                .collect::<BTreeMap<_, _>>()
        };
        assert_eq!(ledger(0), ledger(1), "{action}");
        let events: Vec<Value> = fixture
            .events("umbra")
            .split_off(events)
            .iter()
            .map(emitted)
            .collect();
        let (one, many) = events.split_at(events.len() / 2);
        assert_eq!(one, many, "{action}");
        assert_eq!(one.is_empty(), *action == "DEBIT");
    }
}

#[tokio::test]
async fn ledgers_add_up_after_bulk_actions_of_every_kind() {
    let (app, fixture) = stocked(30).await;
    for (n, action) in ["CREDIT", "DEBIT", "RESET", "RESET_SPENT", "REPAY_DEBT"]
        .iter()
        .enumerate()
    {
        app.post_as_admin(BUDGETS, &fund("umbra", action, 100 + n as i64, action))
            .await;
    }
    let report = budget_authority::tools::verify::verify(&fixture.store, None, |_| {}).await;
    let report = report.expect("Redis answers");
    assert!(report.is_right(), "{report:?}");
}
