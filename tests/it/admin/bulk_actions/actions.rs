//! The gates of bulk actions, in their order, and their idempotency.

use std::time::{Duration, Instant};

use budget_authority::domain::ids::Partition;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::{get, post};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::bulk::{BUDGETS, TENANTS, WEBHOOKS, bulk, fund, ids, ledgers};
use crate::harness::desk::Desk;

/// A service with a tenant `umbra` that has so many ledgers.
pub(crate) async fn stocked(count: usize) -> (TestApp, Desk) {
    let app = TestApp::spawn().await;
    let desk = Desk::on(app.world.store.clone());
    desk.tenant("umbra").await;
    ledgers(&desk.store, "umbra", count).await;
    (app, desk)
}

fn untouched(desk: &Desk) -> bool {
    desk.event_types("umbra") == ["tenant.created"]
}

#[tokio::test]
async fn rule_18_a_tenant_of_the_name_of_the_path_can_be_read_and_changed() {
    let app = TestApp::spawn().await;
    let body = json!({"tenant_id": "bulk-action", "name": "Bulk"});
    assert_eq!(post(&app, "/v1/admin/tenants", body).await.status, 201);
    assert_eq!(get(&app, TENANTS).await.text("/name"), "Bulk");
    let request = app.request(Method::PATCH, TENANTS);
    let request = request.header("X-Admin-API-Key", ADMIN_KEY);
    let said = app.send(request.json(&json!({"name": "Other"}))).await;
    assert_eq!((said.status.as_u16(), said.text("/name")), (200, "Other"));
    let no_method = app.request(Method::DELETE, TENANTS);
    let said = app
        .send(no_method.header("X-Admin-API-Key", ADMIN_KEY))
        .await;
    assert_eq!(said.status, 405);
}

#[tokio::test]
async fn rule_19_an_empty_filter_changes_nothing() {
    let app = TestApp::spawn().await;
    let desk = Desk::on(app.world.store.clone());
    desk.tenant("umbra").await;
    for filter in [
        json!({"search": "  "}),
        json!({"observe_mode": "OBSERVE"}),
        json!({}),
    ] {
        let body = json!({"filter": filter, "action": "SUSPEND", "idempotency_key": "k"});
        let said = bulk(&app, TENANTS, &body).await;
        assert_eq!(said.error(), (400, "INVALID_REQUEST"), "{said:?}");
    }
    assert!(untouched(&desk));
    let unlimited = json!({"filter": {"search": "umbra"}, "action": "SUSPEND", "idempotency_key": "k".repeat(129)});
    assert_eq!(bulk(&app, TENANTS, &unlimited).await.status, 400);
    let by_nobody = app.request(Method::POST, TENANTS).json(&unlimited);
    assert_eq!(app.send(by_nobody).await.status, 401);
}

#[tokio::test]
async fn rule_40_more_than_500_matches_are_refused_with_their_exact_number() {
    let (app, desk) = stocked(501).await;
    let said = bulk(&app, BUDGETS, &fund("umbra", "CREDIT", 1, "k")).await;
    assert_eq!(said.error(), (400, "LIMIT_EXCEEDED"), "{said:?}");
    assert_eq!(said.at("/details/total_matched"), &json!(501));
    assert!(untouched(&desk));
    // The key was not consumed; the number counts before the expectation does.
    let mut fewer = fund("umbra", "CREDIT", 1, "k");
    fewer["expected_count"] = json!(3);
    assert_eq!(
        bulk(&app, BUDGETS, &fewer).await.error(),
        (400, "LIMIT_EXCEEDED")
    );
    fewer["filter"]["search"] = json!("agent:a50");
    fewer["expected_count"] = json!(2);
    let said = bulk(&app, BUDGETS, &fewer).await;
    assert_eq!(ids(&said, "succeeded"), ["ledger-50", "ledger-500"]);
}

#[tokio::test]
async fn rule_41_another_number_than_expected_changes_nothing_and_the_key_stays_free() {
    let (app, desk) = stocked(3).await;
    let mut body = fund("umbra", "CREDIT", 1, "k");
    body["expected_count"] = json!(4);
    let said = bulk(&app, BUDGETS, &body).await;
    assert_eq!(said.error(), (409, "COUNT_MISMATCH"));
    assert_eq!(said.at("/details/total_matched"), &json!(3));
    assert!(untouched(&desk));
    body["expected_count"] = json!(3);
    let said = bulk(&app, BUDGETS, &body).await;
    assert_eq!(
        (said.status.as_u16(), ids(&said, "succeeded").len()),
        (200, 3)
    );
    let refused = desk.tenant_audit("umbra");
    let codes: Vec<_> = refused
        .iter()
        .filter_map(|entry| entry.get("error_code"))
        .collect();
    assert_eq!(codes, ["COUNT_MISMATCH"], "booked with the tenant");
}

#[tokio::test]
async fn rule_42_the_same_key_answers_the_same_and_another_body_is_refused() {
    let (app, desk) = stocked(3).await;
    let body = fund("umbra", "CREDIT", 7, "k");
    let first = bulk(&app, BUDGETS, &body).await;
    assert_eq!(first.status, 200, "{first:?}");
    ledgers(&desk.store, "umbra", 5).await; // resets the three, adds two
    let (events, audit) = (desk.events("umbra").len(), desk.tenant_audit("umbra").len());
    let again = bulk(&app, BUDGETS, &body).await;
    assert_eq!((again.status.as_u16(), &again.body), (200, &first.body));
    assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
    assert_eq!(
        (desk.events("umbra").len(), desk.tenant_audit("umbra").len()),
        (events, audit)
    );
    let mut other = body.clone();
    other["amount"]["amount"] = json!(8);
    assert_eq!(
        bulk(&app, BUDGETS, &other).await.error(),
        (409, "IDEMPOTENCY_MISMATCH")
    );
    other["expected_count"] = json!(17);
    assert_eq!(
        bulk(&app, BUDGETS, &other).await.error(),
        (409, "IDEMPOTENCY_MISMATCH"),
        "before anything is counted"
    );
    let partition = budget_authority::domain::ids::TenantId::parse("umbra")
        .expect("an id")
        .partition();
    let pattern = format!(
        "{}:{{{partition}}}:bulk:umbra:*",
        desk.store.keys().prefix()
    );
    let claims: Vec<String> = desk.redis().run(&["KEYS", &pattern]);
    let ttl: i64 = desk.redis().run(&["TTL", &claims[0]]);
    assert!((890..=900).contains(&ttl), "15 minutes: {ttl}");
    // When they are over the key is free, and rows are done anew.
    desk.redis().run::<()>(&["DEL", &claims[0]]);
    let anew = bulk(&app, BUDGETS, &other_count(&body, 5)).await;
    assert_eq!(ids(&anew, "succeeded").len(), 5, "{anew:?}");
    assert_eq!(desk.ledger("tenant:umbra/agent:a0").await.allocated, 1_007);
}

fn other_count(body: &Value, count: i64) -> Value {
    let mut body = body.clone();
    body["expected_count"] = json!(count);
    body
}

#[tokio::test]
async fn rule_43_the_lists_add_up_and_rows_that_fail_are_no_error() {
    let (app, _) = stocked(3).await;
    let said = bulk(&app, BUDGETS, &fund("umbra", "DEBIT", 5_000, "k")).await;
    assert_eq!(said.status, 200);
    assert_eq!(
        (said.at("/total_matched"), ids(&said, "failed").len()),
        (&json!(3), 3)
    );
    assert_eq!(said.text("/action"), "DEBIT");
    assert_eq!(said.text("/idempotency_key"), "k");
    let nothing = json!({
        "filter": {"tenant_id": "umbra", "status": "CLOSED"}, "action": "RESET", "idempotency_key": "none",
        "amount": {"unit": "TOKENS", "amount": 1},
    });
    let said = bulk(&app, BUDGETS, &nothing).await;
    assert_eq!(
        said.body,
        json!({"action": "RESET", "total_matched": 0, "succeeded": [], "failed": [], "skipped": [], "idempotency_key": "none"})
    );
}

#[tokio::test]
async fn header_and_body_name_one_key() {
    let (app, _) = stocked(1).await;
    for (header, status) in [("other", 400), ("k", 200)] {
        let request = app
            .request(Method::POST, BUDGETS)
            .header("X-Admin-API-Key", ADMIN_KEY)
            .header("X-Idempotency-Key", header);
        let said = app
            .send(request.json(&fund("umbra", "CREDIT", 1, "k")))
            .await;
        assert_eq!(said.status, status, "{said:?}");
    }
}

#[tokio::test]
async fn an_unknown_tenant_has_no_ledgers_and_matches_no_subscriptions() {
    let (app, desk) = stocked(1).await;
    for tenant in ["nobody", "No Tenant"] {
        let said = bulk(&app, BUDGETS, &fund(tenant, "CREDIT", 1, "k")).await;
        assert_eq!(said.error(), (404, "TENANT_NOT_FOUND"), "{said:?}");
        let body =
            json!({"filter": {"tenant_id": tenant}, "action": "PAUSE", "idempotency_key": "k"});
        let said = bulk(&app, WEBHOOKS, &body).await;
        assert_eq!(
            (said.status.as_u16(), said.at("/total_matched")),
            (200, &json!(0))
        );
    }
    let nobody = budget_authority::domain::ids::TenantId::parse("nobody").expect("an id");
    for partition in [nobody.partition(), Partition::FIRST] {
        let booked = desk.audit(partition, "__admin__").into_iter();
        let booked: Vec<_> = booked
            .filter(|entry| entry.get("operation") == Some("bulkActionWebhooks"))
            .collect();
        assert_eq!(booked.len(), 1, "{partition}");
    }
}

#[tokio::test]
async fn the_same_key_in_another_tenant_or_operation_is_another_key() {
    let (app, desk) = stocked(1).await;
    desk.tenant("bolt-2").await;
    ledgers(&desk.store, "bolt-2", 1).await;
    for tenant in ["umbra", "bolt-2"] {
        let said = bulk(&app, BUDGETS, &fund(tenant, "CREDIT", 1, "k")).await;
        assert_eq!(ids(&said, "succeeded"), ["ledger-0"], "{said:?}");
    }
    let body = json!({"filter": {"tenant_id": "umbra"}, "action": "PAUSE", "idempotency_key": "k"});
    assert_eq!(bulk(&app, WEBHOOKS, &body).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_calls_with_one_key_one_does_it_and_both_answer_the_same() {
    let (app, desk) = stocked(300).await;
    let other = app.replica(&[]).await;
    let body = fund("umbra", "CREDIT", 5, "k");
    let (one, two, three) = tokio::join!(
        bulk(&app, BUDGETS, &body),
        bulk(&other, BUDGETS, &body),
        bulk(&app, BUDGETS, &body)
    );
    assert_eq!(one.status, 200, "{one:?}");
    assert_eq!((&one.body, &one.body), (&two.body, &three.body));
    assert_eq!(ids(&one, "succeeded").len(), 300);
    let funded = desk.event_types("umbra").into_iter();
    assert_eq!(funded.filter(|kind| kind == "budget.funded").count(), 300);
    let booked = desk.tenant_audit("umbra").into_iter();
    let booked = booked.filter(|entry| entry.get("operation") == Some("bulkActionBudgets"));
    assert_eq!(booked.count(), 1);
    for n in [0, 299] {
        let ledger = desk.ledger(&format!("tenant:umbra/agent:a{n}")).await;
        assert_eq!((ledger.allocated, ledger.remaining), (1_005, 1_005));
    }
}

#[tokio::test]
async fn while_somebody_is_at_it_the_same_call_waits_and_then_asks_for_patience() {
    let (app, desk) = stocked(1).await;
    let body = fund("umbra", "CREDIT", 5, "k");
    assert_eq!(bulk(&app, BUDGETS, &body).await.status, 200);
    let partition = budget_authority::domain::ids::TenantId::parse("umbra")
        .expect("an id")
        .partition();
    let pattern = format!(
        "{}:{{{partition}}}:bulk:umbra:*",
        desk.store.keys().prefix()
    );
    let claims: Vec<String> = desk.redis().run(&["KEYS", &pattern]);
    // As of a runner that never ends and goes on to renew its lease.
    desk.redis().run::<()>(&["HDEL", &claims[0], "response"]);
    desk.redis()
        .run::<()>(&["HSET", &claims[0], "until_ms", "99999999999999"]);
    let begun = Instant::now();
    let said = bulk(&app, BUDGETS, &body).await;
    assert_eq!(said.error(), (503, "INTERNAL_ERROR"), "{said:?}");
    assert!(said.header("retry-after").is_some());
    assert!(begun.elapsed() >= Duration::from_secs(4), "it waited");
}

#[tokio::test]
async fn five_hundred_ledgers_are_done_in_a_moment() {
    let (app, desk) = stocked(500).await;
    let begun = Instant::now();
    let said = bulk(&app, BUDGETS, &fund("umbra", "DEBIT", 900, "k")).await;
    let took = begun.elapsed();
    assert_eq!(ids(&said, "succeeded").len(), 500, "{said:?}");
    println!("500 ledgers in {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let ledger = desk.ledger("tenant:umbra/agent:a499").await;
    assert_eq!((ledger.allocated, ledger.remaining), (100, 100));
    let partition = budget_authority::domain::ids::TenantId::parse("umbra")
        .expect("an id")
        .partition();
    let outbox = desk.store.keys().outbox(partition);
    let pointers: Vec<(String, Vec<String>)> = desk.redis().run(&["XRANGE", &outbox, "-", "+"]);
    assert!(
        pointers.len() <= 51,
        "one pointer for a script: {}",
        pointers.len()
    );
}
