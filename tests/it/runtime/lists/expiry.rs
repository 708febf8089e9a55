//! Active reservations sorted by expiry, however many there are.

use super::{Fixture, rows, texts};
use crate::harness::app::TestApp;
use crate::harness::redis_fixture::now_ms;
use crate::harness::tenant_fixture::TenantFixture;

const HOLDS: usize = 10_400;

/// Gives each hold an expiry within `spread_ms` after `from_ms` and a grace of its own, up to a minute.
async fn scatter(
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
        let grace = rand::random_range(0..=60_000_i64);
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
    }
    for batch in commands.chunks(5_000) {
        app.store.query_all(batch).await.expect("they are changed");
    }
    order.sort();
    order.into_iter().map(|(_, id)| id).collect()
}

#[tokio::test]
async fn more_than_can_be_gathered_are_listed_by_expiry_in_both_directions() {
    let app = TestApp::spawn().await;
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
    let app = TestApp::spawn().await;
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
    let app = TestApp::spawn().await;
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
