//! Idempotency entries of fundings: no jump of the clock ends them, and retention deletes them when their time is over.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::retention::{retention, run};
use crate::admin::http::umbra_on;
use crate::harness::admin_fixture::tenant_id;
use crate::harness::app::TestApp;

const HOUR_MS: i64 = 3_600_000;

/// Credits a ledger, alone and in bulk, each under an idempotency key; the statuses.
pub(super) async fn credit(app: &TestApp) -> [u16; 2] {
    let amount = json!({"unit": "TOKENS", "amount": 10});
    let single = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
    let alone = json!({"operation": "CREDIT", "amount": amount, "idempotency_key": "single"});
    let bulk = json!({
        "action": "CREDIT", "amount": amount, "idempotency_key": "bulk",
        "filter": {"tenant_id": "umbra"},
    });
    [
        app.as_admin(Method::POST, single, &alone).await.status,
        app.as_admin(Method::POST, "/v1/admin/budgets/bulk-action", &bulk)
            .await
            .status,
    ]
}

pub(super) async fn allocated(app: &TestApp) -> i64 {
    let path = "/v1/admin/budgets/lookup?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
    let found = app.as_admin(Method::GET, path, &Value::Null).await;
    let found = found.expect(200);
    found.at("/allocated/amount").as_i64().expect("a figure")
}

#[tokio::test]
async fn entries_of_fundings_have_no_ttl_and_end_with_retention() {
    let app = umbra_on(TestApp::spawn().await).await;
    assert_eq!(credit(&app).await, [200, 200]);
    assert_eq!(credit(&app).await, [200, 200]);
    assert_eq!(allocated(&app).await, 120, "a retry credits nothing");

    let (keys, partition) = (app.store.keys(), tenant_id("umbra").partition());
    let index = keys.idempotency_due(partition);
    let entries: Vec<String> = app.run(&["ZRANGE", &index, "0", "-1"]).await;
    assert!(entries.len() >= 2, "{entries:?}");
    let now = app.now_ms().await;
    for entry in &entries {
        // A TTL would end with a jump of the clock, and a retry would credit again.
        assert_eq!(app.run::<i64>(&["PTTL", entry]).await, -1, "{entry}");
        let due_ms: f64 = app.run(&["ZSCORE", &index, entry]).await;
        assert!(due_ms as i64 > now, "{entry}");
    }

    let retention = retention(&app.store);
    let lasting = Duration::from_secs(60);
    let lease = app.lease_of(partition, "d", lasting).await;
    assert_eq!(run(&retention, lease).await.idempotency, 0);
    assert_eq!(credit(&app).await, [200, 200]);
    assert_eq!(allocated(&app).await, 120, "nothing is due yet");

    for entry in &entries[1..] {
        let past = (now - HOUR_MS).to_string();
        app.run::<i64>(&["ZADD", &index, &past, entry]).await;
    }
    let due = i64::try_from(entries.len()).expect("few") - 1;
    assert_eq!(run(&retention, lease).await.idempotency, due);
    let left: Vec<String> = app.run(&["ZRANGE", &index, "0", "-1"]).await;
    assert_eq!(left, entries[..1]);
    let kept = entries.iter().map(String::as_str);
    let exists: Vec<&str> = ["EXISTS"].into_iter().chain(kept).collect();
    assert_eq!(app.run::<i64>(&exists).await, 1, "the others are gone");
}
