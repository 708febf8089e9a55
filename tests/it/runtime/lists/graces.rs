//! Active reservations sorted by expiry, where their graces differ.

use rand::random_range;
use serde_json::json;

use super::cursors::spent;
use super::expiry::scatter;
use super::{Fixture, rows, texts};
use crate::harness::app::{TestApp, reserve_body};
use crate::harness::redis::RedisServer;
use crate::harness::redis_fixture::now_ms;
use crate::harness::response::Response;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::tenant_fixture::TenantFixture;

const SORTED: &str = "sort_by=expires_at_ms&status=ACTIVE";

#[tokio::test]
async fn holds_of_different_graces_are_listed_in_the_order_of_their_expiry() {
    let app = TestApp::spawn().await;
    let _tenant = TenantFixture::bare(&app.store, "acme").await;
    app.budget("tenant:acme", 1_000, 0).await;
    let mut ids = Vec::new();
    // Due in the order b, c, a, d; the last one widens the range once more.
    for (key, ttl_ms, grace_ms) in [
        ("a", 600_000, 60_000),
        ("b", 610_000, 5_000),
        ("c", 620_000, 20_000),
        ("d", 680_000, 0),
    ] {
        let mut body = reserve_body(key, 1);
        body["ttl_ms"] = json!(ttl_ms);
        body["grace_period_ms"] = json!(grace_ms);
        let held = app.post("/v1/reservations", body).await.expect(200);
        ids.push(held.text("/reservation_id").to_owned());
    }
    let list = Fixture { app, ids };
    let query = "sort_by=expires_at_ms&status=ACTIVE&sort_dir";
    for limit in [1, 2, 3, 200] {
        let seen = list.walk(&format!("{query}=asc"), limit).await;
        assert_eq!(texts(&seen, "reservation_id"), list.ids, "{limit}");
        let mut seen = texts(
            &list.walk(&format!("{query}=desc"), limit).await,
            "reservation_id",
        );
        seen.reverse();
        assert_eq!(seen, list.ids, "{limit}");
    }
}

/// A hold as a model keeps it: expiry, id.
type Row = (i64, String);

fn expiry_of(response: &Response) -> i64 {
    response.at("/expires_at_ms").as_i64().expect("a time")
}

/// Compares the list with the model, in both directions and within a window.
async fn compare(list: &Fixture, held: &[Row], limit: usize) {
    let ids = |rows: &[Row]| -> Vec<String> { rows.iter().map(|row| row.1.clone()).collect() };
    let mut up = held.to_vec();
    up.sort();
    let mut down = held.to_vec();
    down.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let seen = list.walk(&format!("{SORTED}&sort_dir=asc"), limit).await;
    assert_eq!(texts(&seen, "reservation_id"), ids(&up), "up, {limit}");
    let seen = list.walk(SORTED, limit).await;
    assert_eq!(texts(&seen, "reservation_id"), ids(&down), "down, {limit}");
    let (from, to) = (up[up.len() / 4].0, up[up.len() / 2].0);
    let moment = |ms: i64| {
        let time = jiff::Timestamp::from_millisecond(ms).expect("a time");
        time.to_string()
    };
    let window = format!("expires_from={}&expires_to={}", moment(from), moment(to));
    up.retain(|row| (from..=to).contains(&row.0));
    let query = format!("{SORTED}&sort_dir=asc&{window}");
    let seen = list.walk(&query, limit).await;
    assert_eq!(texts(&seen, "reservation_id"), ids(&up), "window, {limit}");
}

#[tokio::test]
async fn lists_by_expiry_match_a_model_under_random_grace_periods() {
    let app = TestApp::spawn().await;
    let tenant = TenantFixture::bare(&app.store, "acme").await;
    app.budget("tenant:acme", 1_000_000, 0).await;
    let mut held: Vec<Row> = Vec::new();
    for n in 0..60 {
        let mut body = reserve_body(&format!("k{n}"), 1);
        // Many of one expiry but for the milliseconds of the clock, due at different times.
        body["ttl_ms"] = json!([600_000, 601_000, 630_000][random_range(0..3)]);
        if let Some(grace_ms) = [0, 999, 5_000, 60_000].get(random_range(0..5)) {
            body["grace_period_ms"] = json!(grace_ms);
        }
        if n % 2 == 0 {
            // So long that its bytes are counted.
            body["metadata"] = json!({"note": "x".repeat(4_000)});
        }
        let response = app.post("/v1/reservations", body).await.expect(200);
        let id = response.text("/reservation_id").to_owned();
        held.push((expiry_of(&response), id));
    }
    let list = Fixture {
        app,
        ids: Vec::new(),
    };
    for limit in [1, 7, 60, 200] {
        compare(&list, &held, limit).await;
    }
    // Each is extended, committed, released or left.
    for (n, (expiry, id)) in held.iter_mut().enumerate() {
        match n % 4 {
            0 => {
                let extended = list.app.extend(id, "x", 29_000).await.expect(200);
                *expiry = expiry_of(&extended);
            }
            1 => drop(list.app.commit(id, "c", 1).await.expect(200)),
            2 => drop(list.app.release(id, "r").await.expect(200)),
            _ => {}
        }
    }
    let mut n = 0..;
    held.retain(|_| matches!(n.next().map(|n: usize| n % 4), Some(0 | 3)));
    for limit in [1, 7, 200] {
        compare(&list, &held, limit).await;
    }
    // Nothing is left in the index of what expires, or is ended by an operator.
    for (n, (_, id)) in held.iter().enumerate() {
        match n % 2 {
            0 => list.app.backdate(id, 61_000).await,
            _ => drop(list.app.admin_release(id, "a").await.expect(200)),
        }
    }
    list.app.sweep().await;
    assert!(rows(&list.get(SORTED).await).is_empty());
    let left: i64 = list.app.run(&["EXISTS", &tenant.other_graces_key()]).await;
    assert_eq!(left, 0, "nothing is left in the index");
}

#[tokio::test]
async fn a_page_by_expiry_costs_in_proportion_to_its_rows() {
    const HOLDS: usize = 50_000;
    let redis = RedisServer::start();
    let app = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    let now = now_ms(&app.store).await;
    let ids = tenant.write_holds(HOLDS, now + 60_000).await;
    let ascending = scatter(&app, &tenant, &ids, now + 600_000, 60_000).await;
    let list = Fixture { app, ids };
    let query = format!("{SORTED}&sort_dir=asc&limit=200");
    let (mut cursor, mut most) = (String::new(), 0);
    for page in 0..20 {
        let before = spent(&redis, &["hmget"]).0;
        let found = list.get(&format!("{query}&cursor={cursor}")).await;
        most = most.max(spent(&redis, &["hmget"]).0 - before);
        assert_eq!(
            texts(&rows(&found), "reservation_id"),
            ascending[200 * page..200 * (page + 1)]
        );
        found.text("/next_cursor").clone_into(&mut cursor);
    }
    // Rows come in steps of 101 from either index.
    assert!(most <= 1_000, "{most} records are read for a page of 200");
}
