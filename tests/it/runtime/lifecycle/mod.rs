//! The life of a reservation over HTTP, written once and run on every Redis topology.

mod overage;

use std::collections::BTreeSet;

use budget_authority::store::Store;
use serde_json::{Value, json};
use std::net::SocketAddr;

use crate::harness::app::TestApp;
use crate::harness::eventually;
use crate::harness::redis::shared;
use crate::harness::redis_fixture::now_ms;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::tokens;
use crate::harness::three_scopes::ThreeScopes;

/// The names of the tenants that [`live`] makes of one.
pub fn cast(name: &str) -> Vec<String> {
    let overage = (0..overage::TABLE.len()).map(|row| format!("{name}-o{row}"));
    let single = ["life", "list", "dead", "other"].map(|part| format!("{name}-{part}"));
    overage.chain(single).collect()
}

/// All of it, for tenants whose names begin with `name`. Each request must get the right response the first time.
pub async fn live(store: &Store, service: SocketAddr, name: &str) {
    let tenant =
        async |part: &str| ThreeScopes::of_tenant(store, service, &format!("{name}-{part}")).await;
    let (life, other) = (tenant("life").await, tenant("other").await);
    tokio::join!(
        reserve_and_finish(&life, &other),
        async { lists(&tenant("list").await).await },
        async { dead_holds(&tenant("dead").await).await },
        async {
            for (row, case) in overage::TABLE.iter().enumerate() {
                overage::check(&tenant(&format!("o{row}")).await, case).await;
            }
        },
    );
}

fn on(id: &str, operation: &str) -> String {
    format!("/v1/reservations/{id}/{operation}")
}

async fn reserve_and_finish(tenant: &ThreeScopes, other: &ThreeScopes) {
    tenant.ledgers([[1_000, 0], [800, 0], [500, 0]]).await;
    let untouched = [[1_000, 0, 0, 0], [800, 0, 0, 0], [500, 0, 0, 0]];

    // Decisions change nothing.
    let mut dry = tenant.request("dry", "estimate", 300);
    dry["dry_run"] = json!(true);
    let allowed = tenant.post_twice("/v1/reservations", &dry, 200).await;
    assert_eq!(allowed.text("decision"), "ALLOW");
    assert_eq!(allowed.body.get("reservation_id"), None);
    let mut too_much = tenant.request("dry too much", "estimate", 501);
    too_much["dry_run"] = json!(true);
    let denied = tenant.post_twice("/v1/reservations", &too_much, 200).await;
    assert_eq!(denied.text("reason_code"), "BUDGET_EXCEEDED");
    let question = tenant.request("d1", "estimate", 500);
    let decided = tenant.post_twice("/v1/decide", &question, 200).await;
    assert_eq!(decided.text("decision"), "ALLOW");
    let question = tenant.request("d2", "estimate", 501);
    let decided = tenant.post_twice("/v1/decide", &question, 200).await;
    assert_eq!(decided.text("decision"), "DENY");
    assert_eq!(tenant.figures().await, untouched);

    // Every scope has a hold.
    let create = tenant.request("r1", "estimate", 300);
    let reserved = tenant.post_twice("/v1/reservations", &create, 200).await;
    let id = reserved.text("reservation_id").to_owned();
    assert_eq!(reserved.body["affected_scopes"], json!(tenant.scopes()));
    assert_eq!(reserved.body["balances"].as_array().map(Vec::len), Some(3));
    let held = [[700, 300, 0, 0], [500, 300, 0, 0], [200, 300, 0, 0]];
    assert_eq!(tenant.figures().await, held);
    let changed = tenant.request("r1", "estimate", 301);
    tenant
        .refused("/v1/reservations", &changed, 409, "IDEMPOTENCY_MISMATCH")
        .await;
    let second = tenant.request("r2", "estimate", 201);
    tenant
        .refused("/v1/reservations", &second, 409, "BUDGET_EXCEEDED")
        .await;
    let second = tenant.request("r2", "estimate", 100);
    let second = tenant.post("/v1/reservations", &second, 200).await;
    let second = second.text("reservation_id").to_owned();

    // It is extended, read, and hidden from others.
    let expires_at_ms = reserved.body["expires_at_ms"].as_i64().expect("a time");
    let extend = json!({"idempotency_key": "x", "extend_by_ms": 5_000});
    let extended = tenant.post_twice(&on(&id, "extend"), &extend, 200).await;
    assert_eq!(extended.body["expires_at_ms"], expires_at_ms + 5_000);
    let path = format!("/v1/reservations/{id}");
    let found = tenant.get(&path, 200).await;
    assert_eq!(found.text("status"), "ACTIVE");
    assert_eq!(found.body["expires_at_ms"], expires_at_ms + 5_000);
    other.get(&path, 403).await;
    tenant.get("/v1/reservations/nothing", 404).await;

    // It ends once.
    let commit = json!({"idempotency_key": "c", "actual": tokens(200)});
    let committed = tenant.post_twice(&on(&id, "commit"), &commit, 200).await;
    assert_eq!(committed.amount("charged"), Some(200));
    assert_eq!(committed.amount("released"), Some(100));
    let changed = json!({"idempotency_key": "c", "actual": tokens(201)});
    tenant
        .refused(&on(&id, "commit"), &changed, 409, "IDEMPOTENCY_MISMATCH")
        .await;
    let late = json!({"idempotency_key": "c2", "actual": tokens(200)});
    tenant
        .refused(&on(&id, "commit"), &late, 409, "RESERVATION_FINALIZED")
        .await;
    let release = json!({"idempotency_key": "c"});
    tenant
        .refused(&on(&id, "release"), &release, 409, "RESERVATION_FINALIZED")
        .await;
    let released = tenant
        .post_twice(&on(&second, "release"), &release, 200)
        .await;
    assert_eq!(released.amount("released"), Some(100));
    let again = tenant.post("/v1/reservations", &create, 200).await;
    assert_eq!(
        (again.lasting(), &again.body["remaining_ttl_ms"]),
        (reserved.lasting(), &json!(0))
    );

    // An event charges without a hold.
    let event = tenant.request("c", "actual", 40);
    let applied = tenant.post_twice("/v1/events", &event, 201).await;
    assert_eq!(applied.text("status"), "APPLIED");
    let spent = [[760, 0, 240, 0], [560, 0, 240, 0], [260, 0, 240, 0]];
    assert_eq!(tenant.figures().await, spent);
    tenant.audit().await;
}

/// Follows cursors to the end; the rows of `member` in order.
async fn pages(tenant: &ThreeScopes, path: &str, member: &str) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = tenant.get(&format!("{path}{cursor}"), 200).await;
        rows.extend(page.body[member].as_array().expect("rows").iter().cloned());
        match page.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
        assert!(rows.len() < 1_000, "it ends");
    }
    rows
}

async fn lists(tenant: &ThreeScopes) {
    tenant.ledgers([[1_000, 0], [1_000, 0], [1_000, 0]]).await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(tenant.reserve(&format!("r{n}"), 10 + n).await);
    }
    let commit = json!({"idempotency_key": "c", "actual": tokens(1)});
    tenant.post(&on(&ids[2], "commit"), &commit, 200).await;
    let id = |row: &Value| row["reservation_id"].as_str().expect("an id").to_owned();
    let listed = pages(
        tenant,
        "/v1/reservations?limit=2&sort_dir=asc",
        "reservations",
    )
    .await;
    let created: Vec<_> = listed
        .iter()
        .map(|row| row["created_at_ms"].as_i64())
        .collect();
    assert!(created.is_sorted(), "{created:?}");
    let all: BTreeSet<_> = ids.iter().cloned().collect();
    assert_eq!(
        (listed.len(), listed.iter().map(id).collect::<BTreeSet<_>>()),
        (7, all)
    );
    let largest = pages(
        tenant,
        "/v1/reservations?limit=3&sort_by=reserved&sort_dir=desc",
        "reservations",
    )
    .await;
    assert!(largest.iter().map(id).eq(ids.iter().rev().cloned()));
    let committed = pages(
        tenant,
        "/v1/reservations?status=COMMITTED&limit=1",
        "reservations",
    )
    .await;
    assert_eq!(
        committed.iter().map(id).collect::<Vec<_>>(),
        [ids[2].clone()]
    );
    let path = format!(
        "/v1/balances?tenant={}&include_children=true&limit=1",
        tenant.name
    );
    let ledgers = pages(tenant, &path, "balances").await;
    let scopes = ledgers
        .iter()
        .map(|row| row["scope_path"].as_str().expect("a path"));
    assert!(scopes.eq(tenant.scopes()));
    tenant.audit().await;
}

/// An expired hold blocks no other request, although no sweeper runs.
async fn dead_holds(tenant: &ThreeScopes) {
    tenant.ledgers([[1_000, 0], [800, 0], [500, 0]]).await;
    let mut dying = tenant.request("dead", "estimate", 450);
    dying["ttl_ms"] = json!(1_000);
    dying["grace_period_ms"] = json!(0);
    let reserved = tenant.post("/v1/reservations", &dying, 200).await;
    let id = reserved.text("reservation_id");
    let ends_ms = reserved.body["expires_at_ms"].as_i64().expect("a time");
    eventually("its time is over", || async {
        now_ms(&tenant.store).await > ends_ms
    })
    .await;
    tenant.get(&format!("/v1/reservations/{id}"), 410).await;
    let commit = json!({"idempotency_key": "late", "actual": tokens(100)});
    tenant
        .refused(&on(id, "commit"), &commit, 410, "RESERVATION_EXPIRED")
        .await;
    tenant
        .post_twice("/v1/events", &tenant.request("late", "actual", 100), 201)
        .await;
    tenant.reserve("next", 400).await;
    let figures = [[500, 400, 100, 0], [300, 400, 100, 0], [0, 400, 100, 0]];
    assert_eq!(tenant.figures().await, figures);
    let again = tenant.post("/v1/reservations", &dying, 200).await;
    assert_eq!(again.body["remaining_ttl_ms"], 0);
    let ledger_audit = tenant.audit().await;
    assert_eq!(ledger_audit.events_of("reservation.expired"), 1);
}

#[tokio::test]
async fn on_one_redis() {
    let app = TestApp::spawn_on(&shared().url(), LONG_REDIS_TIMEOUT).await;
    live(&app.store, app.address, "one").await;
}
