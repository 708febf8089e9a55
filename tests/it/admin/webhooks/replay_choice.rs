//! The events that a replay chooses, their order and cost.

use budget_authority::domain::event::tenant_digest;
use budget_authority::domain::ids::Partition;
use budget_authority::domain::log_entry::EntryId;
use budget_authority::store::Day;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::admin::http::umbra_on;
use crate::admin::webhooks::replay::{queued, replay, umbra_partition, unlock};
use crate::admin::webhooks::subscriptions::{HOOKS, URL, hooked, made};
use crate::harness::app::TestApp;
use crate::harness::event_log::{EventLog, follow, partition_of};
use crate::harness::receiver::public_names;
use crate::harness::redis::RedisCluster;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

const DAY_MS: i64 = 86_400_000;

/// A subscription of the operator; its id.
async fn systems(app: &TestApp, types: &[&str]) -> String {
    let body = json!({"url": URL, "event_types": types});
    let made = app.post_as_admin(HOOKS, body).await.expect(201);
    made.text("/subscription/subscription_id").to_owned()
}

async fn count(app: &TestApp, id: &str, body: Value) -> Value {
    unlock(app, id).await;
    replay(app, id, body)
        .await
        .expect(202)
        .at("/events_queued")
        .clone()
}

/// A service with time for a lot of events, which a test on a busy machine takes longer to read.
async fn with_long_timeout() -> TestApp {
    let settings = ["--redis-timeout-ms", "30000"];
    umbra_on(TestApp::spawn_reaching(public_names(), &settings).await).await
}

/// Appends `count` events to a tenant's log, and pointers to them.
async fn append_events(app: &TestApp, tenant: &str, event_type: &str, count: usize) {
    let log = EventLog::on(&app.store);
    let at_ms = log.now_ms().await;
    let script = "local first for i = 1, ARGV[1] do local id = redis.call('XADD', KEYS[1], '*', 'type', ARGV[2], \
        'at_ms', ARGV[3], 'trace_id', '0123456789abcdef0123456789abcdef', 'scope', 'tenant:other') first = first or id end \
        return first";
    for _ in 0..count / 1_000 {
        let (key, at) = (log.log(tenant, at_ms), at_ms.to_string());
        let first: String = app
            .run(&["EVAL", script, "1", &key, "1000", event_type, &at])
            .await;
        let first = EntryId::parse(&first).expect("an entry");
        log.point(tenant, at_ms, first, 1_000).await;
    }
}

#[tokio::test]
async fn w10_a_replay_is_ordered_by_time_partition_tenant_and_entry() {
    let app = hooked().await;
    let id = systems(&app, &["tenant.updated"]).await;
    let mut log = EventLog::on(&app.store);
    let tenants = ["umbra", "second", "third"];
    let at_ms = log.now_ms().await - 2 * DAY_MS;
    let mut expected = Vec::new();
    for (tenant, ms) in [
        (0, 4),
        (2, 3),
        (1, 3),
        (2, 5),
        (1, 5),
        (0, 5),
        (1, 5),
        (0, 5),
    ] {
        let (tenant, at_ms) = (tenants[tenant], at_ms + ms);
        let entry = log.emit(tenant, at_ms, &[]).await;
        expected.push((at_ms, partition_of(tenant), tenant_digest(tenant), entry));
    }
    expected.sort();
    let expected: Vec<String> = expected
        .iter()
        .map(|(_, partition, digest, entry)| format!("evt_{partition}_{digest}_{entry}"))
        .collect();
    // None of them is in the view, some are, and all.
    for _ in 0..2 {
        assert_eq!(count(&app, &id, json!({})).await, 8);
        assert_eq!(queued(&app, Partition::FIRST).await.last(), Some(&expected));
        follow(&app.store).await;
    }
    log.emit("second", at_ms + 9, &[]).await;
    assert_eq!(
        count(&app, &id, json!({})).await,
        9,
        "one is behind the view"
    );
    let window = |from: i64, to: i64| {
        let moment = |ms| {
            budget_authority::domain::moment::Moment::from_ms(ms)
                .expect("a time")
                .to_string()
        };
        json!({"from": moment(at_ms + from), "to": moment(at_ms + to)})
    };
    assert_eq!(count(&app, &id, window(4, 5)).await, 6);
    assert_eq!(count(&app, &id, window(6, 9)).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_a_replay_chooses_from_all_nodes() {
    let cluster = block_in_place(RedisCluster::start);
    let app = TestApp::spawn_on(&cluster.url(), LONG_REDIS_TIMEOUT).await;
    let body = json!({"url": "https://93.184.216.34/in", "event_types": ["tenant.updated"]});
    let id = app.post_as_admin(HOOKS, body).await.expect(201);
    let id = id.text("/subscription/subscription_id").to_owned();
    let mut log = EventLog::on(&app.store);
    let at_ms = log.now_ms().await;
    for n in 0..30 {
        log.emit(&format!("tenant-{n}"), at_ms, &[]).await;
        if n == 20 {
            follow(&app.store).await;
        }
    }
    assert_eq!(count(&app, &id, json!({})).await, 30);
    assert_eq!(queued(&app, Partition::FIRST).await[0].len(), 30);
}

#[tokio::test]
async fn w35_events_of_other_types_do_not_count_towards_the_bound_of_a_replay() {
    let app = with_long_timeout().await;
    let (own, system) = (
        made(&app, json!({"url": URL, "event_types": ["tenant.updated"]})).await,
        systems(&app, &["tenant.updated"]).await,
    );
    let mut log = EventLog::on(&app.store);
    let at_ms = log.now_ms().await;
    log.emit("umbra", at_ms, &[]).await;
    follow(&app.store).await;
    // More events of other types than may be examined, and more logs of tenants and days.
    append_events(&app, "umbra", "budget.funded", 21_000).await;
    let days = app.store.keys().days(umbra_partition());
    let today = Day::of_ms(at_ms);
    for first in (0..21_000).step_by(1_000) {
        let members =
            (first..first + 1_000).flat_map(|n| ["0".to_owned(), format!("t{n}:{today}")]);
        let words = ["ZADD".to_owned(), days.clone()].into_iter().chain(members);
        app.run::<i64>(&words.collect::<Vec<_>>()).await;
    }
    for id in [&own, &system] {
        assert_eq!(count(&app, id, json!({})).await, 1);
    }
}

#[tokio::test]
async fn too_many_events_of_the_types_are_refused() {
    let app = with_long_timeout().await;
    let filtered =
        json!({"url": URL, "event_types": ["budget.funded"], "scope_filter": "tenant:umbra"});
    let id = made(&app, filtered).await;
    let event = json!({"operation": "CREDIT", "amount": {"amount": 1, "unit": "TOKENS"}});
    let path = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
    app.post_as_admin(path, event).await.expect(200);
    append_events(&app, "umbra", "budget.funded", 19_000).await;
    assert_eq!(count(&app, &id, json!({})).await, 1);
    append_events(&app, "umbra", "tenant.updated", 1_000).await;
    assert_eq!(count(&app, &id, json!({})).await, 1, "others do not count");
    append_events(&app, "umbra", "budget.funded", 1_000).await;
    unlock(&app, &id).await;
    let refused = replay(&app, &id, json!({}))
        .await
        .refused(400, "INVALID_REQUEST");
    let message = refused.text("/message");
    assert!(
        message.contains("20000") && message.contains("from and to"),
        "{message}"
    );
    // The claim was given back.
    let lock = app.store.keys().replay_lock(umbra_partition(), &id);
    assert_eq!(app.run::<i64>(&["EXISTS", &lock]).await, 0);
}

#[tokio::test]
async fn a_replay_leaves_out_the_events_about_the_webhooks_own_failures() {
    let app = hooked().await;
    let types = [
        "webhook.disabled",
        "system.webhook_delivery_failed",
        "webhook.updated",
    ];
    let (id, other) = (systems(&app, &types).await, systems(&app, &types).await);
    let mut log = EventLog::on(&app.store);
    let at_ms = log.now_ms().await;
    let details = json!({"subscription_id": id}).to_string();
    for facts in [
        [
            ("type", "webhook.disabled"),
            ("data.subscription_id", id.as_str()),
        ],
        [
            ("type", "system.webhook_delivery_failed"),
            ("data.details", &details),
        ],
        [("type", "webhook.updated"), ("data.subscription_id", &id)],
    ] {
        log.emit("__system__", at_ms, &facts).await;
    }
    assert_eq!(count(&app, &id, json!({})).await, 1);
    assert_eq!(count(&app, &other, json!({})).await, 3);
    follow(&app.store).await;
    assert_eq!(count(&app, &id, json!({})).await, 1);
}

#[tokio::test]
async fn damaged_events_hide_no_others_from_a_replay() {
    let app = hooked().await;
    let (own, system) = (
        made(&app, json!({"url": URL, "event_types": ["tenant.updated"]})).await,
        systems(&app, &["tenant.updated"]).await,
    );
    let mut log = EventLog::on(&app.store);
    let at_ms = log.now_ms().await;
    log.emit("umbra", at_ms, &[("trace_id", "")]).await;
    log.emit("umbra", at_ms, &[]).await;
    let gone = log.emit("umbra", at_ms, &[]).await;
    app.run::<i64>(&["XDEL", &log.log("umbra", at_ms), &gone.to_string()])
        .await;
    for _ in 0..2 {
        for id in [&own, &system] {
            let queued = count(&app, id, json!({})).await.as_i64().expect("a number");
            assert!((1..=2).contains(&queued), "{queued}");
        }
        follow(&app.store).await;
    }
}

#[tokio::test]
async fn categories_and_requested_types_narrow_a_replay() {
    let app = hooked().await;
    let id = systems(&app, &["tenant.updated", "webhook.paused"]).await;
    let body = json!({"event_categories": ["tenant"]});
    app.patch_as_admin(&format!("{HOOKS}/{id}"), body)
        .await
        .expect(200);
    let mut log = EventLog::on(&app.store);
    let at_ms = log.now_ms().await - DAY_MS;
    for event_type in [
        "tenant.updated",
        "tenant.suspended",
        "webhook.paused",
        "webhook.resumed",
    ] {
        log.emit("umbra", at_ms, &[("type", event_type)]).await;
    }
    for _ in 0..2 {
        let to = json!({"to": budget_authority::domain::moment::Moment::from_ms(at_ms).expect("a time").to_string()});
        assert_eq!(count(&app, &id, to.clone()).await, 3);
        for (types, expected) in [
            (json!(["tenant.suspended"]), 1),
            (
                json!(["tenant.suspended", "tenant.updated", "tenant.updated"]),
                2,
            ),
            (json!(["webhook.resumed", "webhook.paused"]), 1),
            (json!(["webhook.resumed"]), 0),
            (json!([]), 0),
        ] {
            let mut body = to.clone();
            body["event_types"] = types;
            assert_eq!(count(&app, &id, body.clone()).await, expected, "{body}");
        }
        follow(&app.store).await;
    }
}
