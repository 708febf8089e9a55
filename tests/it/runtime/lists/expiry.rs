//! Active reservations sorted by expiry, however many there are.

use serde_json::json;

use super::{Fixture, rows, texts};
use crate::harness::app::{TestApp, reserve_body};
use crate::harness::redis::shared;
use crate::harness::redis_fixture::now_ms;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::tenant_fixture::TenantFixture;

const HOLDS: usize = 10_400;

/// A service that waits for Redis as long as pages of many rows take beside other tests.
async fn with_long_timeout() -> TestApp {
    TestApp::spawn_on(&shared().url(), LONG_REDIS_TIMEOUT).await
}

/// Gives each hold an expiry within `spread_ms` after `from_ms` and a grace: one in four the usual, the others one of their own,
/// up to a minute. Returns the ids in the order of expiry.
pub async fn scatter(
    app: &TestApp,
    tenant: &TenantFixture,
    ids: &[String],
    from_ms: i64,
    spread_ms: i64,
) -> Vec<String> {
    let mut order = Vec::new();
    let mut commands = Vec::new();
    for id in ids {
        let expires = from_ms + rand::random_range(0..spread_ms);
        let grace = match rand::random_range(0..4) {
            0 => 5_000,
            _ => rand::random_range(0..=60_000_i64),
        };
        order.push((expires, id.clone()));
        let key = tenant.reservation_key(id);
        let mut command = redis::cmd("HSET");
        command
            .arg(&key)
            .arg("expires_at_ms")
            .arg(expires)
            .arg("grace_ms")
            .arg(grace);
        commands.push((key, command));
        let due = tenant.due_key();
        let mut command = redis::cmd("ZADD");
        command.arg(&due).arg(expires + grace).arg(id);
        commands.push((due, command));
        let other = tenant.other_graces_key();
        let mut command = redis::cmd(if grace == 5_000 { "ZREM" } else { "ZADD" });
        if grace != 5_000 {
            command.arg(&other).arg(expires);
        } else {
            command.arg(&other);
        }
        commands.push((other, command.arg(id).take()));
    }
    for batch in commands.chunks(5_000) {
        app.store.send_all(batch).await.expect("they are changed");
    }
    order.sort();
    order.into_iter().map(|(_, id)| id).collect()
}

#[tokio::test]
async fn more_than_can_be_gathered_are_listed_by_expiry_in_both_directions() {
    let app = with_long_timeout().await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    let now = now_ms(&app.store).await;
    let ids = tenant.write_holds(HOLDS, now + 60_000).await;
    super::cursors::complete(&app, &tenant).await;
    // Few of one minute, so that the longest grace is no more than a few rows.
    let ascending = scatter(&app, &tenant, &ids, now + 600_000, 20 * 3_600_000).await;
    let list = Fixture { app, ids };
    let query = "sort_by=expires_at_ms&status=ACTIVE";
    let seen = list.walk(&format!("{query}&sort_dir=asc"), 200).await;
    assert_eq!(texts(&seen, "reservation_id"), ascending);
    // No two expire in the same millisecond, or their order is that of the ids.
    let mut descending: Vec<(i64, String)> = seen
        .iter()
        .map(|row| {
            (
                -row["expires_at_ms"].as_i64().expect("a time"),
                row["reservation_id"].as_str().expect("an id").to_owned(),
            )
        })
        .collect();
    descending.sort();
    let seen = list.walk(query, 200).await;
    let descending: Vec<_> = descending.into_iter().map(|(_, id)| id).collect();
    assert_eq!(texts(&seen, "reservation_id"), descending);
}

#[tokio::test]
async fn a_minute_with_more_rows_than_a_page_reads_is_listed_completely() {
    let app = with_long_timeout().await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    let now = now_ms(&app.store).await;
    let ids = tenant.write_holds(6_000, now + 60_000).await;
    super::cursors::complete(&app, &tenant).await;
    let ascending = scatter(&app, &tenant, &ids, now + 600_000, 90_000).await;
    let list = Fixture { app, ids };
    let query = "sort_by=expires_at_ms&status=ACTIVE&sort_dir=asc&limit=200";
    let first = list.get(query).await;
    assert_eq!(texts(&rows(&first), "reservation_id"), ascending[..200]);
    let cursor = first.text("/next_cursor");
    let second = list.get(&format!("{query}&cursor={cursor}")).await;
    assert_eq!(texts(&rows(&second), "reservation_id"), ascending[200..400]);
}

#[tokio::test]
async fn a_sparse_filter_makes_pages_short_and_hides_nothing() {
    let app = with_long_timeout().await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    let now = now_ms(&app.store).await;
    let ids = tenant.write_holds(HOLDS, now + 60_000).await;
    super::cursors::complete(&app, &tenant).await;
    let ascending = scatter(&app, &tenant, &ids, now + 600_000, 3_600_000).await;
    let wanted = [0, 5_000, HOLDS - 1].map(|place| ascending[place].clone());
    for id in &wanted {
        let key = tenant.reservation_key(id);
        tenant
            .run::<i64>(&["HSET", &key, "scope_path", "tenant:acme/agent:rare"])
            .await;
    }
    let list = Fixture { app, ids };
    let query = "sort_by=expires_at_ms&status=ACTIVE&agent=rare";
    let seen = list.walk(&format!("{query}&sort_dir=asc"), 50).await;
    assert_eq!(texts(&seen, "reservation_id"), wanted);
    let mut seen = texts(&list.walk(query, 50).await, "reservation_id");
    seen.reverse();
    assert_eq!(seen, wanted);
    let first = list.get(query).await;
    assert_eq!(rows(&first).len(), 1, "short after 5,000 rows");
}

#[tokio::test]
async fn holds_of_one_millisecond_are_read_a_page_at_a_time() {
    let app = with_long_timeout().await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    app.budget("tenant:acme", 1_000, 0).await;
    let mut first = reserve_body("first", 1);
    first["ttl_ms"] = json!(300_000);
    first["grace_period_ms"] = json!(1_000);
    let first = app.post("/v1/reservations", first).await.expect(200);
    let now = now_ms(&app.store).await;
    let mut ids = tenant.write_holds(10_000, now + 600_000).await;
    super::cursors::complete(&app, &tenant).await;
    ids.sort();
    let first = first.text("/reservation_id").to_owned();
    let ascending = [std::slice::from_ref(&first), &ids].concat();
    let descending = [ids.as_slice(), &[first]].concat();
    let list = Fixture { app, ids };
    for (direction, expected) in [("asc", ascending), ("desc", descending)] {
        let query = format!("sort_by=expires_at_ms&status=ACTIVE&sort_dir={direction}");
        let before = extra_trips(&list.app);
        let seen = list.walk(&query, 200).await;
        assert_eq!(texts(&seen, "reservation_id"), expected, "{direction}");
        // Those of another grace are also passed over once among the due times.
        let (trips, most) = (extra_trips(&list.app) - before, 51 * 4 + 10_000 / 101 + 5);
        assert!(trips <= most, "{direction}: {trips} trips for 51 pages");
    }
}

/// Round trips beyond the first of their request.
fn extra_trips(app: &TestApp) -> u64 {
    let metrics = app.telemetry.render().expect("metrics");
    let line = metrics
        .lines()
        .find(|line| line.starts_with("budget_extra_round_trips_total") && line.contains("paging"));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.map_or(0, |value| value.parse().expect("a number"))
}
