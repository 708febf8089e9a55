//! Bulk actions on subscriptions after crashes and with damaged records.

use std::time::Duration;

use budget_authority::admin::bulk_actions::run::{BulkProgress, Runner};
use budget_authority::dispatcher::UnfinishedWork;
use budget_authority::domain::bulk::{Bulk, BulkAction, Row, WebhookAction};
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::store::admin::bulk::BulkPlace;
use prometheus::Registry;
use rand::RngExt;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::admin::bulk_actions::actions::stocked;
use crate::admin::bulk_actions::kill::{CAUSE, COUNT, begun, check, lease, umbra};
use crate::harness::admin_fixture::AdminFixture;
use crate::harness::app::TestApp;
use crate::harness::bulk_calls::{BUDGETS, TENANTS, fund, ids, ledgers};
use crate::harness::days::days_around;
use crate::harness::eventually;
use crate::harness::redis::RedisCluster;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

/// Subscriptions of two tenants and of the operator, in their partitions; their ids with their owners.
async fn subscriptions(fixture: &AdminFixture) -> Vec<Row> {
    let mut rows = Vec::new();
    for (owner, count) in [("umbra", 13), ("bolt", 4), ("__system__", 12)] {
        let partition = match TenantId::parse(owner) {
            Some(tenant) => tenant.partition(),
            None => Partition::FIRST,
        };
        if owner != "__system__" {
            fixture.tenant(owner).await;
        }
        let keys = fixture.store.keys();
        for n in 0..count {
            let id = format!("whsub_{partition}_{n:024x}");
            let fields = format!(
                "subscription_id {id} tenant {owner} url https://x.example event_types budget.funded status PAUSED \
                 retry_policy {{}} disable_after_failures 9 consecutive_failures 3 created_at_ms 1 version 1 watched 250000"
            );
            let (record, list) = (
                keys.webhook(partition, &id),
                keys.webhooks(partition, owner),
            );
            let fields: Vec<_> = fields.split(' ').collect();
            fixture
                .redis()
                .run::<()>(&[&["HSET", &record], &fields[..]].concat());
            fixture
                .redis()
                .run::<()>(&["HSET", &record, "retry_policy", RETRIES]);
            fixture.redis().run::<()>(&["ZADD", &list, "0", &id]);
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
async fn subscriptions_of_many_owners_are_resumed_once_each_despite_crashes() {
    for round in 0..8 {
        let fixture = AdminFixture::new();
        let rows = subscriptions(&fixture).await;
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
            thresholds_max: 64,
            rows: rows.clone(),
        };
        let claim = begun(&fixture, &place, "h", &bulk).await;
        for _ in 0..round {
            let (store, claim) = (fixture.store.clone(), claim.clone());
            let mut runner = Runner::new(store, claim).at_once(2);
            let time = Duration::from_micros(rand::rng().random_range(0..3_000));
            let _ = tokio::time::timeout(time, runner.run(Duration::from_secs(9))).await;
        }
        let progress = Runner::new(fixture.store.clone(), claim)
            .run(Duration::from_secs(9))
            .await;
        let BulkProgress::Finished(response) = progress.expect("Redis answers") else {
            panic!("not finished");
        };
        let body: Value = serde_json::from_str(&response.body).expect("JSON");
        assert_eq!(
            body["succeeded"].as_array().map(Vec::len),
            Some(rows.len()),
            "{body}"
        );
        for row in &rows {
            let partition = Partition::parse(&row.id[6..9]).expect("a partition");
            let key = fixture.store.keys().webhook(partition, &row.id);
            let read = ["HMGET", &key, "status", "version", "consecutive_failures"];
            let found: Vec<String> = fixture.redis().run(&read);
            assert_eq!(found, ["ACTIVE", "2", "0"], "round {round}: {row:?}");
        }
        for (owner, count) in [("umbra", 13), ("bolt", 4)] {
            let emitted = fixture.event_types(owner).into_iter();
            assert_eq!(
                emitted.filter(|kind| kind == "webhook.resumed").count(),
                count
            );
            let thresholds = ["HGET", &fixture.tenant_key(owner), "thresholds"];
            let watched: String = fixture.redis().run(&thresholds);
            assert_eq!(watched, "250000 800000 950000 1000000");
        }
        assert_eq!(fixture.audit(Partition::FIRST, "__admin__").len(), 1);
    }
}

#[tokio::test]
async fn rows_whose_events_cannot_be_emitted_fail_and_change_nothing() {
    let (app, fixture) = stocked(COUNT).await;
    for day in days_around(&fixture.store) {
        let keys = fixture.store.keys();
        let events = keys.events(umbra().partition(), "umbra", day);
        fixture.redis().run::<()>(&["SET", &events, "no stream"]);
    }
    let response = app
        .post_as_admin(BUDGETS, &fund("umbra", "CREDIT", 3, "k"))
        .await
        .expect(200);
    assert_eq!(ids(&response, "failed").len(), COUNT);
    assert_eq!(response.text("/failed/0/error_code"), "INTERNAL_ERROR");
    assert_eq!(
        fixture
            .ledger("tenant:umbra/agent:a0")
            .await
            .allocated
            .value(),
        1_000
    );
}

/// An action whose rows are done and whose end a dispatcher could not write at first; the request.
async fn unfinished_action(app: &TestApp, fixture: &AdminFixture, bulks: &UnfinishedWork) -> Value {
    let audit = days_around(&fixture.store).map(|day| {
        let keys = fixture.store.keys();
        keys.audit(umbra().partition(), "umbra", day)
    });
    for log in &audit {
        fixture.redis().run::<()>(&["SET", log, "no stream"]);
    }
    let body = fund("umbra", "CREDIT", 3, "k");
    app.post_as_admin(BUDGETS, &body)
        .await
        .refused(500, "INTERNAL_ERROR");
    let lease = lease(fixture).await;
    eventually("a dispatcher tries", || async {
        let pass = bulks
            .run_once(&[lease], |_| {})
            .await
            .expect("Redis answers");
        pass.failed == 1
    })
    .await;
    for log in &audit {
        fixture.redis().run::<()>(&["DEL", log]);
    }
    body
}

/// The claim of the only action, its entry in the index and the time there.
fn claim(fixture: &AdminFixture) -> (String, String, f64) {
    let keys = fixture.store.keys();
    let index = [
        "ZRANGE",
        &keys.bulks(umbra().partition()),
        "0",
        "-1",
        "WITHSCORES",
    ];
    let found: Vec<(String, f64)> = fixture.redis().run(&index);
    let (member, at_ms) = found[0].clone();
    let (tenant, digest) = member.split_once(':').expect("two parts");
    let claim = keys.bulk(umbra().partition(), tenant, digest);
    (claim, member.clone(), at_ms)
}

#[tokio::test]
async fn a_failed_finish_is_retried_without_repeating_rows() {
    let (app, fixture) = stocked(COUNT).await;
    let bulks = UnfinishedWork::new(fixture.store.clone(), &Registry::new()).expect("names");
    let body = unfinished_action(&app, &fixture, &bulks).await;
    let (claim, _, put_off_ms) = claim(&fixture);
    assert!(put_off_ms > fixture.store.clock().now_ms() as f64 + 20_000.0);
    fixture
        .redis()
        .run::<()>(&["HSET", &claim, "until_ms", "0"]);
    let response = app.post_as_admin(BUDGETS, &body).await;
    assert_eq!(ids(&response, "succeeded").len(), COUNT, "{response:?}");
    check(&fixture, COUNT, 3).await;
}

#[tokio::test]
async fn a_claim_made_before_the_clock_was_set_back_is_resumed() {
    for by_dispatcher in [true, false] {
        let (app, fixture) = stocked(COUNT).await;
        let bulks = UnfinishedWork::new(fixture.store.clone(), &Registry::new()).expect("names");
        let body = unfinished_action(&app, &fixture, &bulks).await;
        let (claim, member, at_ms) = claim(&fixture);
        let later = (at_ms as i64 + 3_600_000).to_string();
        let redis = fixture.redis();
        redis.run::<()>(&["HSET", &claim, "until_ms", &later]);
        let index = fixture.store.keys().bulks(umbra().partition());
        redis.run::<()>(&["ZADD", &index, &later, &member]);
        if by_dispatcher {
            let lease = lease(&fixture).await;
            let pass = bulks
                .run_once(&[lease], |_| {})
                .await
                .expect("Redis answers");
            assert_eq!(pass.done, 1);
        }
        let begun = std::time::Instant::now();
        let response = app.post_as_admin(BUDGETS, &body).await;
        assert_eq!(ids(&response, "succeeded").len(), COUNT, "{response:?}");
        // Half of the time that requests of these tests may wait.
        let limit = std::time::Duration::from_secs(10);
        assert!(begun.elapsed() < limit, "nobody waits");
        check(&fixture, COUNT, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_an_action_spans_all_masters() {
    let cluster = block_in_place(RedisCluster::start);
    let app = TestApp::spawn_on(&cluster.url(), LONG_REDIS_TIMEOUT).await;
    let names: Vec<String> = (0..24).map(|n| format!("row-{n:02}")).collect();
    for name in &names {
        let body = json!({"tenant_id": name, "name": name});
        app.post_as_admin("/v1/admin/tenants", body)
            .await
            .expect(201);
        ledgers(&app.store, name, 12).await;
    }
    for action in ["SUSPEND", "REACTIVATE"] {
        let body =
            json!({"filter": {"search": "row-"}, "action": action, "idempotency_key": action});
        let response = app.post_as_admin(TENANTS, &body).await;
        assert_eq!(ids(&response, "succeeded"), names, "{response:?}");
    }
    for name in &names[..6] {
        let response = app
            .post_as_admin(BUDGETS, &fund(name, "CREDIT", 1, "k"))
            .await;
        assert_eq!(ids(&response, "succeeded").len(), 12, "{response:?}");
    }
    let body = json!({"filter": {"search": "row-"}, "action": "CLOSE", "idempotency_key": "c", "expected_count": 24});
    let response = app.post_as_admin(TENANTS, &body).await;
    assert_eq!(ids(&response, "succeeded"), names, "{response:?}");
    assert_eq!(app.post_as_admin(TENANTS, &body).await.body, response.body);
    for name in &names {
        let response = app.get_as_admin(&format!("/v1/admin/tenants/{name}")).await;
        assert_eq!(response.text("/status"), "CLOSED");
    }
}
