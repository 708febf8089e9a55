//! Reservations that were extended beyond the time that lists usually cover.

use serde_json::json;

use super::{Fixture, texts};
use crate::harness::app::TestApp;
use crate::harness::days::days_around;
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

const DAY_MS: i64 = 86_400_000;

/// Moves the creation of a reservation into the past, with its place in the index.
async fn age(list: &Fixture, id: &str, days: i64) {
    let fixture = &list.app;
    let (keys, partition) = (fixture.store.keys(), fixture.callers[0].partition);
    let key = keys.reservation(partition, id);
    let now = crate::harness::redis_fixture::now_ms(&fixture.store).await;
    let created = now - days * DAY_MS;
    let then = keys.reservations(
        partition,
        "acme",
        budget_authority::store::Day::of_ms(created),
    );
    let created = created.to_string();
    fixture
        .run::<()>(&[
            "HSET",
            &key,
            "created_at_ms",
            &created,
            "max_extensions",
            "1000",
        ])
        .await;
    for day in days_around(&fixture.store) {
        let index = keys.reservations(partition, "acme", day);
        fixture.run::<()>(&["ZREM", &index, id]).await;
    }
    fixture.run::<()>(&["ZADD", &then, &created, id]).await;
}

#[tokio::test]
async fn a_hold_that_was_extended_for_months_is_listed_and_the_first_page_costs_one_call() {
    let redis = RedisServer::start();
    let app = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    app.budget("tenant:acme", 1_000_000, 0).await;
    app.set_tenant(&[("status", "ACTIVE")]).await;
    let mut ids = Vec::new();
    for key in ["old", "older", "new"] {
        ids.push(
            app.reserve(key, 10)
                .await
                .text("/reservation_id")
                .to_owned(),
        );
    }
    let list = Fixture { app, ids };
    age(&list, &list.ids[0], 100).await;
    age(&list, &list.ids[1], 300).await;
    assert_eq!(
        list.keys("").await,
        ["new"],
        "unknown, since no extension was recorded"
    );
    for id in &list.ids[..2] {
        let body = json!({"idempotency_key": "e", "extend_by_ms": 1_000});
        list.app
            .post(&format!("/v1/reservations/{id}/extend"), body)
            .await
            .expect(200);
    }
    for query in [
        "",
        "sort_dir=asc",
        "sort_by=reserved",
        "sort_by=status&sort_dir=asc",
    ] {
        assert_eq!(list.keys(query).await, ["new", "old", "older"], "{query}");
    }
    for (query, order) in [
        ("", ["new", "old", "older"]),
        ("sort_dir=asc", ["older", "old", "new"]),
    ] {
        for limit in 1..=3 {
            assert_eq!(
                texts(&list.walk(query, limit).await, "idempotency_key"),
                order,
                "{query} by {limit}"
            );
        }
    }
    let moment = |days: i64| {
        let ms = list_now(&list) - days * DAY_MS;
        budget_authority::domain::moment::Moment::from_ms(ms)
            .expect("a date")
            .to_string()
    };
    let window = format!("from={}&to={}", moment(150), moment(50));
    assert_eq!(list.keys(&window).await, ["old"]);
    assert_eq!(list.keys(&format!("to={}", moment(150))).await, ["older"]);

    let calls = || {
        let stats: String = redis.run(&["INFO", "commandstats"]);
        let line = stats
            .lines()
            .find(|line| line.starts_with("cmdstat_evalsha:"));
        let count = line.and_then(|line| line.split(['=', ',']).nth(1));
        count.expect("a count").parse::<u64>().expect("a number")
    };
    list.app.reserve("newest", 10).await;
    let mut least = u64::MAX;
    // The replica has calls of its own now and then: the least of five is without them.
    for _ in 0..5 {
        let before = calls();
        list.get("limit=1").await;
        least = least.min(calls() - before);
    }
    assert_eq!(least, 1);
}

fn list_now(list: &Fixture) -> i64 {
    list.app.store.clock().now_ms()
}

#[tokio::test]
async fn a_short_extension_does_not_change_the_tenant() {
    let list = Fixture::new().await;
    let id = &list.ids[2];
    let body = json!({"idempotency_key": "e", "extend_by_ms": DAY_MS});
    list.app
        .post(&format!("/v1/reservations/{id}/extend"), body)
        .await
        .expect(200);
    let fixture = &list.app;
    let tenant = fixture
        .store
        .keys()
        .tenant(fixture.callers[0].partition, "acme");
    let life: Option<String> = fixture.run(&["HGET", &tenant, "longest_life_ms"]).await;
    assert_eq!(life, None);
}

#[tokio::test]
async fn an_impossible_window_is_still_authenticated() {
    let app = TestApp::spawn().await;
    let revoked = app.add_key(0, &[("status", "REVOKED")]).await;
    for query in ["from=2100-01-01T00:00:00Z", "to=1999-01-01T00:00:00Z"] {
        let response = app
            .get_with(&revoked, &format!("/v1/reservations?{query}"))
            .await;
        assert_eq!(response.status, 401, "{query}: {response:?}");
    }
}
