//! Replays of past events, and the list of deliveries.

use budget_authority::domain::event::tenant_digest;
use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::domain::moment::Moment;
use budget_authority::domain::webhook::SubscriptionId;
use budget_authority::store::Day;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::webhooks::subscriptions::{HOOKS, OWN, URL, hook, hooked, made, patch};
use crate::harness::app::TestApp;
use crate::harness::response::Response;
use crate::harness::runtime_calls::tokens;

pub(crate) async fn replay(app: &TestApp, id: &str, body: Value) -> Response {
    app.as_admin(Method::POST, &format!("{HOOKS}/{id}/replay"), &body)
        .await
}

async fn fund(app: &TestApp, times: usize) {
    for _ in 0..times {
        let path = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
        let body = json!({"operation": "CREDIT", "amount": tokens(1)});
        app.post_as_admin(path, body).await.expect(200);
    }
}

/// The queued events of each replay in the owner's partition.
pub(crate) async fn queued(app: &TestApp, partition: Partition) -> Vec<Vec<String>> {
    let keys = app.store.keys();
    let mut all = Vec::new();
    let waiting: Vec<String> = app
        .run(&["ZRANGE", &keys.replays(partition), "0", "-1"])
        .await;
    for id in waiting {
        let kept = keys.replay_events(partition, &id);
        let kept: Vec<String> = app.run(&["LRANGE", &kept, "0", "-1"]).await;
        // Id, type of the event, place and trace.
        let event = |delivery: &String| {
            let words: Vec<&str> = delivery.split(' ').collect();
            assert!(words[0].starts_with("dlv_"), "{delivery}");
            format!("evt_{}_{}_{}", words[2], tenant_digest(words[3]), words[5])
        };
        all.push(kept.iter().map(event).collect());
    }
    all
}

/// Lets the next replay begin, as the end of this one would.
pub(crate) async fn unlock(app: &TestApp, id: &str) {
    let partition = SubscriptionId::parse(id).expect("an id").partition();
    app.run::<i64>(&["DEL", &app.store.keys().replay_lock(partition, id)])
        .await;
}

pub(crate) fn umbra_partition() -> Partition {
    TenantId::parse("umbra").expect("an id").partition()
}

#[tokio::test]
async fn a_tenant_replays_events_to_its_own_subscription() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    fund(&app, 3).await;
    let (_, key) = crate::admin::http::key(&app, &["webhooks:write"]).await;
    let path = format!("{OWN}/{id}/replay");
    let replay = async |body: &Value| app.by_key(&key, Method::POST, &path, body).await;
    let queued = replay(&json!({"max_events": 3})).await.expect(202);
    assert_eq!(queued.at("/events_queued"), &json!(3));
    replay(&json!({})).await.refused(409, "REPLAY_IN_PROGRESS");
    let audited = app.admin_fixture().tenant_audit("umbra");
    let mut replays = audited
        .iter()
        .filter(|entry| entry.get("operation") == Some("replayTenantEvents"));
    let entry = replays.next().expect("an entry");
    assert_eq!(
        (entry.get("metadata.actor_type"), entry.get("status")),
        (Some("api_key"), Some("202"))
    );
    // An operator has an operation of its own.
    app.post_as_admin(&path, json!({}))
        .await
        .refused(401, "UNAUTHORIZED");
    unlock(&app, &id).await;
    let none = json!({"event_types": ["budget.debited"]});
    let mut replayed = 0;
    let limited = loop {
        let response = replay(&none).await;
        if response.status != 202 {
            break response;
        }
        replayed += 1;
        // A minute may end in between.
        assert!(replayed <= 20);
    };
    let limited = limited.refused(429, "LIMIT_EXCEEDED");
    assert!(limited.header("retry-after").is_some(), "{limited:?}");
    assert!(replayed >= 8);
}

#[tokio::test]
async fn a_replay_queues_matching_events_in_order() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    fund(&app, 3).await;
    let response = replay(&app, &id, json!({})).await.expect(202);
    assert_eq!(
        (
            response.at("/events_queued"),
            response.at("/estimated_completion_seconds")
        ),
        (&json!(3), &json!(1))
    );
    assert!(response.text("/replay_id").starts_with("replay_"));
    let fixture = app.admin_fixture();
    let funded: Vec<String> = fixture
        .events("umbra")
        .iter()
        .filter(|event| event["event_type"] == "budget.funded")
        .map(|event| event["event_id"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(queued(&app, umbra_partition()).await, [funded]);
    let entry = fixture.tenant_audit("umbra").pop().expect("an entry");
    assert_eq!(
        (
            entry.get("operation"),
            entry.get("status"),
            entry.get("metadata.events_queued")
        ),
        (Some("replayEvents"), Some("202"), Some("3"))
    );
    for (body, count) in [
        (json!({"event_types": ["budget.debited"]}), 0),
        (
            json!({"event_types": ["budget.funded", "tenant.created"]}),
            3,
        ),
        (json!({"from": "2099-01-01T00:00:00Z"}), 0),
        (json!({"to": "2020-01-01T00:00:00Z"}), 0),
        (
            json!({"from": "2099-01-01T00:00:00Z", "to": "2020-01-01T00:00:00Z"}),
            0,
        ),
        (
            json!({"from": "2020-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z", "max_events": 3}),
            3,
        ),
    ] {
        unlock(&app, &id).await;
        let response = replay(&app, &id, body.clone()).await;
        assert_eq!(
            response.at("/events_queued"),
            &json!(count),
            "{body}: {response:?}"
        );
    }
    unlock(&app, &id).await;
    patch(&app, &id, json!({"scope_filter": "tenant:umbra/*"})).await;
    assert_eq!(
        replay(&app, &id, json!({})).await.at("/events_queued"),
        &json!(0)
    );
    patch(&app, &id, json!({"scope_filter": null, "status": "PAUSED"})).await;
    let paused = replay(&app, &id, json!({})).await;
    assert_eq!(
        (paused.status, paused.at("/events_queued")),
        (202, &json!(0)),
        "{paused:?}"
    );
}

#[tokio::test]
async fn a_replay_above_its_limit_queues_nothing() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    fund(&app, 4).await;
    let response = replay(&app, &id, json!({"max_events": 3}))
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(response.text("/message").contains("max_events"));
    assert!(queued(&app, umbra_partition()).await.is_empty());
    // The claim was given back.
    replay(&app, &id, json!({"max_events": 4}))
        .await
        .expect(202);
    for body in [
        json!({"max_events": 0}),
        json!({"max_events": 1001}),
        json!({"from": "yesterday"}),
        json!({"event_types": ["moon.landed"]}),
        json!({"cursor": "x"}),
    ] {
        assert_eq!(
            replay(&app, &id, body.clone()).await.error(),
            (400, "INVALID_REQUEST"),
            "{body}"
        );
    }
    replay(&app, "whsub_05f_0123456789abcdef01234567", json!({}))
        .await
        .refused(404, "WEBHOOK_NOT_FOUND");
}

#[tokio::test]
async fn a_subscription_has_one_replay_at_a_time() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let (fixture, keys) = (app.admin_fixture(), app.store.keys());
    let lock = keys.replay_lock(umbra_partition(), &id);
    fixture
        .redis()
        .run::<String>(&["SET", &lock, "somebody", "PX", "60000"]);
    replay(&app, &id, json!({}))
        .await
        .refused(409, "REPLAY_IN_PROGRESS");
    fixture.redis().run::<i64>(&["DEL", &lock]);
    // One that finds nothing ends at once.
    replay(&app, &id, json!({})).await.expect(202);
    let none = replay(&app, &id, json!({})).await.expect(202);
    assert_eq!(none.at("/events_queued"), &json!(0));
    fund(&app, 1).await;
    let first = replay(&app, &id, json!({})).await.expect(202);
    let second = replay(&app, &id, json!({})).await;
    let second = second.refused(409, "REPLAY_IN_PROGRESS");
    assert!(second.text("/message").contains(&id), "{second:?}");
    let holder: String = fixture.redis().run(&["GET", &lock]);
    assert_eq!(holder, first.text("/replay_id"));
    let left_ms: i64 = fixture.redis().run(&["PTTL", &lock]);
    assert!((86_000_000..=86_400_000).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn the_operators_subscription_replays_events_of_all_tenants() {
    let app = hooked().await;
    let tenant = json!({"tenant_id": "second", "name": "S"});
    app.post_as_admin("/v1/admin/tenants", tenant)
        .await
        .expect(201);
    let made = app
        .post_as_admin(
            HOOKS,
            json!({"url": URL, "event_types": ["tenant.created", "webhook.created"]}),
        )
        .await;
    let id = made.text("/subscription/subscription_id").to_owned();
    let response = replay(&app, &id, json!({})).await;
    assert_eq!(
        response.at("/events_queued"),
        &json!(3),
        "two tenants and itself: {response:?}"
    );
    let own = replay_of_second(&app).await;
    assert_eq!(
        own.at("/events_queued"),
        &json!(1),
        "a tenant's gets its own alone: {own:?}"
    );
}

async fn replay_of_second(app: &TestApp) -> Response {
    let body = json!({"url": URL, "event_types": ["tenant.created"]});
    let made = app
        .post_as_admin(&format!("{HOOKS}?tenant_id=second"), body)
        .await;
    let id = made.text("/subscription/subscription_id").to_owned();
    replay(app, &id, json!({})).await
}

const TRACE_ID: &str = "5b8efff798038103d269b633813fc60c";

#[tokio::test]
async fn w27_deliveries_are_listed_newest_first_by_status_and_time() {
    let app = hooked().await;
    let id = made(&app, hook(URL)).await;
    let path = format!("{HOOKS}/{id}/deliveries");
    assert_eq!(
        app.get_as_admin(&path).await.body,
        json!({"deliveries": [], "has_more": false})
    );
    let (fixture, keys) = (app.admin_fixture(), app.store.keys());
    let partition = umbra_partition();
    // Around a midnight, because each day has an index of its own.
    let midnight = app.store.today().start_ms();
    let time_of = |n: i64| midnight - 1_000 + n / 3 * 1_000;
    let event = format!("{partition} umbra 20260409 1775745000000-7");
    for n in 0..7_i64 {
        let (delivery, at_ms) = (format!("dlv_{n}"), time_of(n));
        let status = if n % 2 == 0 { "SUCCESS" } else { "RETRYING" };
        let record = keys.delivery(partition, &delivery);
        let fields = [
            ("subscription", id.as_str()),
            ("place", &event),
            ("type", "budget.funded"),
            ("status", status),
            ("at_ms", &at_ms.to_string()),
            ("attempts", "1"),
            ("response_status", "500"),
            ("trace", TRACE_ID),
        ];
        let mut words = vec!["HSET", &record];
        words.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
        fixture.redis().run::<i64>(&words);
        let index = keys.deliveries(partition, &id, Day::of_ms(at_ms));
        let member = format!("{n:010} {delivery}");
        fixture
            .redis()
            .run::<i64>(&["ZADD", &index, &at_ms.to_string(), &member]);
    }
    let walk = |query: String| {
        let (app, path) = (&app, &path);
        async move {
            let (mut ids, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = app
                    .get_as_admin(&format!("{path}?limit=2&{query}{cursor}"))
                    .await
                    .expect(200);
                for row in page.at("/deliveries").as_array().expect("rows") {
                    let number: i32 = row["delivery_id"].as_str().expect("an id")[4..]
                        .parse()
                        .expect("a number");
                    ids.push(number);
                }
                match page.at("/next_cursor").as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => return ids,
                }
            }
        }
    };
    let moment = |n: i64| Moment::from_ms(time_of(n)).expect("a time");
    let between = |from: i64, to: i64| format!("from={}&to={}", moment(from), moment(to));
    assert_eq!(walk(String::new()).await, [6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(walk("status=SUCCESS".to_owned()).await, [6, 4, 2, 0]);
    assert_eq!(walk(between(3, 5)).await, [5, 4, 3]);
    assert_eq!(walk(between(0, 2)).await, [2, 1, 0]);
    assert_eq!(walk(between(6, 0)).await, Vec::<i32>::new());
    let row = app.get_as_admin(&format!("{path}?limit=1")).await;
    assert_eq!(
        row.at("/deliveries/0"),
        &json!({
            "delivery_id": "dlv_6", "subscription_id": id, "event_type": "budget.funded",
            "event_id": format!("evt_{partition}_{}_1775745000000-7", tenant_digest("umbra")),
            "status": "SUCCESS", "attempted_at": moment(6).to_string(), "attempts": 1, "response_status": 500,
            "trace_id": TRACE_ID, "trace_flags": "01", "traceparent_inbound_valid": false,
        })
    );
    for query in ["status=GONE", "from=yesterday", "limit=x", "cursor=x"] {
        let response = app.get_as_admin(&format!("{path}?{query}")).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
    }
}
