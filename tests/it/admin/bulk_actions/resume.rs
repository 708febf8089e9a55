//! Bulk actions on subscriptions whoever dies, and such as find something broken on their way.

use std::time::Duration;

use budget_authority::admin::bulk_actions::run::{Runner, Turn};
use budget_authority::dispatcher::BulkActions;
use budget_authority::domain::bulk::{Bulk, BulkAction, Row, WebhookAction};
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::store::admin::bulk::BulkPlace;
use prometheus::Registry;
use rand::RngExt;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::admin::bulk_actions::actions::stocked;
use crate::admin::bulk_actions::kill::{CAUSE, COUNT, begun, check, lease, umbra};
use crate::admin::http::{get, post};
use crate::harness::app::TestApp;
use crate::harness::bulk::{BUDGETS, TENANTS, bulk, fund, ids, ledgers};
use crate::harness::client::PATIENT;
use crate::harness::desk::Desk;
use crate::harness::eventually;
use crate::harness::redis::RedisCluster;

/// Subscriptions of two tenants and of the operator, in their partitions; their ids with their owners.
async fn subscriptions(desk: &Desk) -> Vec<Row> {
    let mut rows = Vec::new();
    for (owner, count) in [("umbra", 13), ("bolt", 4), ("__system__", 12)] {
        let partition = match TenantId::parse(owner) {
            Some(tenant) => tenant.partition(),
            None => Partition::FIRST,
        };
        if owner != "__system__" {
            desk.tenant(owner).await;
        }
        let keys = desk.store.keys();
        for n in 0..count {
            let id = format!("whsub_{partition}_{n:024x}");
            let fields = format!(
                "subscription_id {id} tenant {owner} url https://x.example event_types budget.funded status PAUSED \
                 retry_policy {{}} disable_after_failures 9 consecutive_failures 3 created_at_ms 1 version 1 millionths 250000"
            );
            let (record, list) = (
                keys.webhook(partition, &id),
                keys.webhooks(partition, owner),
            );
            let fields: Vec<_> = fields.split(' ').collect();
            desk.redis()
                .run::<()>(&[&["HSET", &record], &fields[..]].concat());
            desk.redis()
                .run::<()>(&["HSET", &record, "retry_policy", RETRIES]);
            desk.redis().run::<()>(&["ZADD", &list, "0", &id]);
            rows.push(Row {
                id,
                place: owner.to_owned(),
            });
        }
    }
    rows
}

const RETRIES: &str =
    r#"{"max_retries":5,"initial_delay_ms":1000,"backoff_multiplier":2.0,"max_delay_ms":60000}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_of_many_owners_are_resumed_once_each_whoever_dies() {
    for round in 0..8 {
        let desk = Desk::new();
        let rows = subscriptions(&desk).await;
        let place = BulkPlace {
            partition: Partition::FIRST,
            tenant: "__admin__".to_owned(),
            digest: "d".to_owned(),
        };
        let bulk = Bulk {
            action: BulkAction::Webhooks(WebhookAction::Resume),
            cause: CAUSE.to_owned(),
            filter: "{}".to_owned(),
            idempotency_key: "k".to_owned(),
            audit_tenant: "__admin__".to_owned(),
            gone_row: "GONE".to_owned(),
            rows: rows.clone(),
        };
        let claim = begun(&desk, &place, "h", &bulk).await;
        for _ in 0..round {
            let (store, claim) = (desk.store.clone(), claim.clone());
            let mut runner = Runner::new(store, claim).at_once(2);
            let time = Duration::from_micros(rand::rng().random_range(0..3_000));
            let _ = tokio::time::timeout(time, runner.run(Duration::from_secs(9))).await;
        }
        let turn = Runner::new(desk.store.clone(), claim)
            .run(Duration::from_secs(9))
            .await;
        let Turn::Finished(answer) = turn.expect("Redis answers") else {
            panic!("not finished");
        };
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(
            body["succeeded"].as_array().map(Vec::len),
            Some(rows.len()),
            "{body}"
        );
        for row in &rows {
            let partition = Partition::parse(&row.id[6..9]).expect("a partition");
            let key = desk.store.keys().webhook(partition, &row.id);
            let read = ["HMGET", &key, "status", "version", "consecutive_failures"];
            let found: Vec<String> = desk.redis().run(&read);
            assert_eq!(found, ["ACTIVE", "2", "0"], "round {round}: {row:?}");
        }
        for (owner, count) in [("umbra", 13), ("bolt", 4)] {
            let told = desk.event_types(owner).into_iter();
            assert_eq!(told.filter(|kind| kind == "webhook.resumed").count(), count);
            let thresholds = ["HGET", &desk.tenant_key(owner), "thresholds"];
            let watched: String = desk.redis().run(&thresholds);
            assert_eq!(watched, "250000 800000 950000 1000000");
        }
        assert_eq!(desk.audit(Partition::FIRST, "__admin__").len(), 1);
    }
}

#[tokio::test]
async fn rows_whose_events_cannot_be_told_fail_and_change_nothing() {
    let (app, desk) = stocked(COUNT).await;
    let events = desk
        .store
        .keys()
        .events(umbra().partition(), "umbra", desk.store.today());
    desk.redis().run::<()>(&["SET", &events, "no stream"]);
    let said = bulk(&app, BUDGETS, &fund("umbra", "CREDIT", 3, "k")).await;
    assert_eq!(said.status, 200, "{said:?}");
    assert_eq!(ids(&said, "failed").len(), COUNT);
    assert_eq!(said.text("/failed/0/error_code"), "INTERNAL_ERROR");
    assert_eq!(desk.ledger("tenant:umbra/agent:a0").await.allocated, 1_000);
}

#[tokio::test]
async fn an_end_that_cannot_be_written_is_tried_again_and_no_row_is() {
    let (app, desk) = stocked(COUNT).await;
    let audit = desk
        .store
        .keys()
        .audit(umbra().partition(), "umbra", desk.store.today());
    desk.redis()
        .run::<()>(&["RENAME", &audit, &format!("{audit}:aside")]);
    desk.redis().run::<()>(&["SET", &audit, "no stream"]);
    let body = fund("umbra", "CREDIT", 3, "k");
    let said = bulk(&app, BUDGETS, &body).await;
    assert_eq!(said.error(), (500, "INTERNAL_ERROR"), "{said:?}");
    let bulks = BulkActions::new(desk.store.clone(), &Registry::new()).expect("names");
    let lease = lease(&desk.store).await;
    eventually("a dispatcher tries", || async {
        let pass = bulks.run_once(&[lease]).await.expect("Redis answers");
        (pass.failed == 1).then_some(())
    })
    .await;
    desk.redis().run::<()>(&["DEL", &audit]);
    let index = desk.store.keys().bulks(umbra().partition());
    let put_off: Vec<(String, f64)> =
        desk.redis()
            .run(&["ZRANGE", &index, "0", "-1", "WITHSCORES"]);
    assert!(
        put_off[0].1 > desk.store.clock().now_ms() as f64 + 20_000.0,
        "put off"
    );
    let keys = desk.store.keys();
    let (tenant, digest) = put_off[0].0.split_once(':').expect("two parts");
    let claim = keys.bulk(umbra().partition(), tenant, digest);
    desk.redis().run::<()>(&["HSET", &claim, "until_ms", "0"]);
    let said = bulk(&app, BUDGETS, &body).await;
    assert_eq!(ids(&said, "succeeded").len(), COUNT, "{said:?}");
    check(&desk, COUNT, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_the_rows_lie_on_all_masters_and_the_claim_on_one() {
    let cluster = block_in_place(RedisCluster::start);
    let app = TestApp::spawn_on(&cluster.url(), PATIENT).await;
    let names: Vec<String> = (0..24).map(|n| format!("row-{n:02}")).collect();
    for name in &names {
        let body = json!({"tenant_id": name, "name": name});
        assert_eq!(post(&app, "/v1/admin/tenants", body).await.status, 201);
        ledgers(&app.world.store, name, 12).await;
    }
    for action in ["SUSPEND", "REACTIVATE"] {
        let body =
            json!({"filter": {"search": "row-"}, "action": action, "idempotency_key": action});
        let said = bulk(&app, TENANTS, &body).await;
        assert_eq!(ids(&said, "succeeded"), names, "{said:?}");
    }
    for name in &names[..6] {
        let said = bulk(&app, BUDGETS, &fund(name, "CREDIT", 1, "k")).await;
        assert_eq!(ids(&said, "succeeded").len(), 12, "{said:?}");
    }
    let body = json!({"filter": {"search": "row-"}, "action": "CLOSE", "idempotency_key": "c", "expected_count": 24});
    let said = bulk(&app, TENANTS, &body).await;
    assert_eq!(ids(&said, "succeeded"), names, "{said:?}");
    assert_eq!(bulk(&app, TENANTS, &body).await.body, said.body);
    for name in &names {
        let said = get(&app, &format!("/v1/admin/tenants/{name}")).await;
        assert_eq!(said.text("/status"), "CLOSED");
    }
}
