//! W33: an index of a partition that holds something else than it should stops the work that needs it, and nothing else. What
//! was in it can be found again, as docs/operating.md says.

use budget_authority::domain::ids::Partition;
use serde_json::json;

use crate::admin::webhooks::subscriptions::HOOKS;
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, deliveries, fund, here};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::runtime_calls::tokens;

const SCOPE: &str = "tenant:acme";

/// Workers of the same partition that need none of these indexes.
const OTHERS: [&str; 6] = [
    "sweep",
    "retention",
    "views",
    "sealer",
    "signer_backlog",
    "due_events",
];

async fn hook(app: &TestApp, tenant: &str, receiver: &Receiver) -> String {
    let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
    let path = format!("{HOOKS}?tenant_id={tenant}");
    let made = app.post_as_admin(&path, body).await.expect(201);
    made.text("/subscription/subscription_id").to_owned()
}

async fn credit(app: &TestApp, times: usize) {
    for _ in 0..times {
        let path = "/v1/admin/budgets/fund?scope=tenant:acme&unit=TOKENS&tenant_id=acme";
        let body = json!({"operation": "CREDIT", "amount": tokens(1)});
        app.post_as_admin(path, body).await.expect(200);
    }
}

async fn arrive(receiver: &Receiver, count: usize) {
    eventually("the events arrive", || async {
        let arrived = receiver.arrived().len();
        (arrived >= count).then_some(()).ok_or(arrived)
    })
    .await;
}

/// Writes an index again from the records, where it does not fill by itself.
async fn rebuild(app: &TestApp, partition: Partition, index: &str) {
    let keys = app.store.keys();
    match index {
        "lanes" => {
            let lanes = keys.lanes(partition);
            let prefix = keys.lane(partition, "");
            for key in app.keys_like(&format!("*{{{partition}}}:lane:*")).await {
                let lane = &key[prefix.len()..];
                app.run::<i64>(&["ZADD", &lanes, "NX", "0", lane]).await;
            }
        }
        "claims" => {
            let claims = keys.claims(partition);
            let prefix = keys.delivery(partition, "");
            for key in app.keys_like(&format!("*{{{partition}}}:delivery:*")).await {
                let id = &key[prefix.len()..];
                app.run::<i64>(&["ZADD", &claims, "NX", "0", id]).await;
            }
        }
        _ => {}
    }
}

/// Whatever waits for the index arrives when it is repaired, and nothing else has to wait.
async fn stops_only_its_own_work(index: &str) {
    let app = here().await;
    app.budget(SCOPE, 1_000, 0).await;
    let partition = app.callers[0].partition;
    assert_ne!(partition, umbra());
    let slow = Receiver::start(Reply::Held).await;
    let id = hook(&app, "acme", &slow).await;
    let well = Receiver::start(Reply::Status(200, "")).await;
    hook(&app, "umbra", &well).await;
    let running = RunningDispatcher::start(&app);
    let hold = app.held(SCOPE, 10, json!({})).await;
    credit(&app, 3).await;
    arrive(&slow, 1).await;
    // One is in flight, and two wait.
    let keys = app.store.keys();
    let key = match index {
        "lanes" => keys.lanes(partition),
        "claims" => keys.claims(partition),
        "open" => keys.open_deliveries(partition),
        "fanned" => keys.fanned(partition),
        _ => keys.behind(partition),
    };
    app.run::<()>(&["SET", &key, "something else"]).await;
    slow.reply(Reply::Status(200, ""));
    app.backdate(&hold, 3_600_000).await;
    credit(&app, 1).await;
    for count in 1..4 {
        fund(&app, 1).await;
        arrive(&well, count).await;
    }
    eventually("the hold returns", || async {
        app.figures(SCOPE).await.1 == 0
    })
    .await;
    eventually("it is counted", || async {
        let metrics = running.telemetry.render().expect("metrics");
        let name = "budget_redis_unreadable_keys_total ";
        let mut lines = metrics.lines();
        lines.any(|line| line.strip_prefix(name).is_some_and(|count| count != "0"))
    })
    .await;
    let metrics = running.telemetry.render().expect("metrics");
    for worker in OTHERS {
        let passes = |result: &str| {
            format!(r#"budget_worker_passes_total{{result="{result}",worker="{worker}"}}"#)
        };
        assert!(metrics.contains(&passes("ok")), "{worker}");
        assert!(!metrics.contains(&passes("failed")), "{worker}");
    }
    app.run::<i64>(&["DEL", &key]).await;
    rebuild(&app, partition, index).await;
    eventually("all are delivered", || async {
        let rows = deliveries(&app, &id).await;
        let done = rows.iter().filter(|row| row["status"] == "SUCCESS");
        (done.count() == 4 && rows.len() == 4)
            .then_some(())
            .ok_or(rows)
    })
    .await;
}

#[tokio::test]
async fn w33_lanes_of_the_wrong_type_stop_only_the_deliveries_of_their_partition() {
    stops_only_its_own_work("lanes").await;
}

#[tokio::test]
async fn w33_claims_of_the_wrong_type_stop_only_the_deliveries_of_their_partition() {
    stops_only_its_own_work("claims").await;
}

#[tokio::test]
async fn w33_counts_of_the_wrong_type_stop_only_the_deliveries_of_their_partition() {
    stops_only_its_own_work("open").await;
}

#[tokio::test]
async fn w33_cursors_of_the_wrong_type_stop_only_the_fan_out_of_their_partition() {
    stops_only_its_own_work("fanned").await;
}

#[tokio::test]
async fn w33_an_index_behind_of_the_wrong_type_stops_only_the_fan_out_of_its_partition() {
    stops_only_its_own_work("behind").await;
}
