//! Lists of more budgets than can be sorted.

use redis::Cmd;
use serde_json::json;

use crate::admin::budgets::list::{list, rows, walked};
use crate::admin::http::TENANTS;
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;
use crate::harness::redis::shared;
use crate::harness::response::Response;

/// A long timeout, for a machine that runs many tests.
const PATIENT: [&str; 2] = ["--redis-timeout-ms", "20000"];

/// The number of rows that a sort without an index examines.
const BOUND: usize = 10_000;

/// Writes many ledgers at once, as an earlier release left them.
async fn crowd(app: &TestApp, tenant: &str, count: usize) {
    app.post_as_admin(TENANTS, json!({"tenant_id": tenant, "name": tenant}))
        .await
        .expect(201);
    let (partition, keys) = (tenant_id(tenant).partition(), app.store.keys());
    let index = keys.budgets(partition, tenant);
    let mut commands: Vec<(String, Cmd)> = Vec::new();
    for number in 0..count {
        let scope = format!("tenant:{tenant}/agent:x{number:05}");
        let key = keys.budget(partition, tenant, "TOKENS", &scope);
        let spent = (number % 10).to_string();
        let mut set = redis::cmd("HSET");
        set.arg(&key).arg(&[
            ("ledger_id", &*format!("id-{tenant}-{number:05}")),
            ("tenant", tenant),
            ("scope", &scope),
            ("unit", "TOKENS"),
            ("status", "ACTIVE"),
            ("allocated", "10"),
            ("remaining", "0"),
            ("reserved", "0"),
            ("spent", &spent),
            ("debt", "0"),
            ("overdraft_limit", "0"),
            ("is_over_limit", "0"),
            ("created_at_ms", "1700000000000"),
        ]);
        commands.push((key, set));
        let mut enter = redis::cmd("ZADD");
        enter.arg(&index).arg(0).arg(format!("{scope} 1 TOKENS"));
        commands.push((index.clone(), enter));
    }
    for part in commands.chunks(2_000) {
        app.store.send_all(part).await.expect("stored");
    }
}

fn agents(response: &Response) -> Vec<String> {
    let name = |scope: &str| scope.rsplit(':').next().unwrap_or_default().to_owned();
    rows(response)
        .iter()
        .map(|row| name(row["scope"].as_str().expect("a scope")))
        .collect()
}

async fn falls_back(app: &TestApp, whose: &str, last: &str) {
    let crowded = (400, "LIMIT_EXCEEDED");
    for by in [
        "utilization",
        "debt",
        "status",
        "unit",
        "commit_overage_policy",
    ] {
        let response = list(app, None, &format!("{whose}&sort_by={by}")).await;
        assert_eq!(response.error(), crowded, "{by}");
        assert!(response.text("/message").contains("10000"), "{response:?}");
    }
    let first = list(app, None, &format!("{whose}&limit=2")).await;
    assert_eq!(
        agents(&first)[0],
        last,
        "the order of scopes stands in, largest first"
    );
    let cursor = first.text("/next_cursor");
    let second = list(app, None, &format!("{whose}&limit=2&cursor={cursor}")).await;
    assert!(agents(&second)[0] < agents(&first)[1], "{second:?}");
    let explicit = list(
        app,
        None,
        &format!("{whose}&sort_by=scope&limit=2&cursor={cursor}"),
    )
    .await;
    assert_eq!(
        agents(&explicit),
        agents(&second),
        "the cursor is one of that order"
    );
    list(
        app,
        None,
        &format!("{whose}&sort_by=utilization&cursor={cursor}"),
    )
    .await
    .refused(400, "INVALID_REQUEST");
    // The index narrows them to few enough.
    let query =
        format!("{whose}&scope_prefix=tenant:crowd/agent:x0001&sort_by=utilization&limit=3");
    assert_eq!(
        agents(&list(app, None, &query).await),
        ["x00019", "x00018", "x00017"]
    );
    // A filter without an index shortens pages, and their cursors continue.
    let query = format!("{whose}&sort_by=scope&sort_dir=asc&search=x09999");
    let short = list(app, None, &query).await;
    assert_eq!(
        (rows(&short).len(), short.at("/has_more")),
        (0, &json!(true))
    );
    let found = walked(app, None, &query).await;
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn ten_thousand_budgets_are_sorted_and_one_more_is_refused() {
    let app = TestApp::spawn_on(&shared().url(), &PATIENT).await;
    crowd(&app, "crowd", BOUND).await;
    let most = list(&app, None, "tenant_id=crowd&limit=2").await;
    assert_eq!(
        agents(&most),
        ["x09999", "x09989"],
        "by utilization, then by id"
    );
    let cursor = most.text("/next_cursor").to_owned();
    let (partition, keys) = (tenant_id("crowd").partition(), app.store.keys());
    let index = keys.budgets(partition, "crowd");
    // An index entry is enough: it can be ahead of its ledger.
    app.run::<()>(&["ZADD", &index, "0", "tenant:crowd/agent:x10000 1 TOKENS"])
        .await;
    let response = list(&app, None, &format!("tenant_id=crowd&cursor={cursor}")).await;
    assert_eq!(
        response.error(),
        (400, "LIMIT_EXCEEDED"),
        "an order that was begun is kept"
    );
    falls_back(&app, "tenant_id=crowd", "x09999").await;
}

#[tokio::test]
async fn the_bound_is_the_same_over_all_tenants() {
    let settings = [&PATIENT[..], &["--allow-cross-tenant-list"]].concat();
    let app = TestApp::spawn_on(&shared().url(), &settings).await;
    crowd(&app, "crowd", BOUND - 1).await;
    crowd(&app, "one", 1).await;
    let most = list(&app, None, "limit=1").await;
    assert_eq!(agents(&most), ["x09989"]);
    crowd(&app, "two", 1).await;
    list(&app, None, "sort_by=utilization")
        .await
        .refused(400, "LIMIT_EXCEEDED");
    let first = list(&app, None, "limit=3").await;
    assert_eq!(
        agents(&first),
        ["x00000", "x00000", "x09998"],
        "tenant by tenant"
    );
    let rest = walked(
        &app,
        None,
        "sort_by=tenant_id&sort_dir=asc&limit=100&search=x0999",
    )
    .await;
    assert_eq!(rest.len(), 9);
}
