//! The order of a list, and its pages.

use std::cmp::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{Fixture, rows, texts};
use crate::harness::app::TestApp;
use crate::harness::redis::{RedisServer, shared};
use crate::harness::redis_fixture::now_ms;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::tenant_fixture::TenantFixture;
use budget_authority::store::Lane;

const SORTS: [&str; 7] = [
    "reservation_id",
    "tenant",
    "scope_path",
    "status",
    "reserved",
    "created_at_ms",
    "expires_at_ms",
];

fn compare(sort: &str, descending: bool, a: &Value, b: &Value) -> Ordering {
    let number = |row: &Value| match sort {
        "reserved" => row["reserved"]["amount"].as_i64(),
        _ => row[sort].as_i64(),
    };
    let text = |row: &Value| match sort {
        "tenant" => row["subject"]["tenant"].as_str().map(str::to_owned),
        _ => row[sort].as_str().map(str::to_owned),
    };
    let by_value = (number(a), text(a)).cmp(&(number(b), text(b)));
    let directed = if descending {
        by_value.reverse()
    } else {
        by_value
    };
    let id = |row: &Value| row["reservation_id"].as_str().map(str::to_owned);
    directed.then_with(|| id(a).cmp(&id(b)))
}

#[tokio::test]
async fn every_sort_orders_ties_by_ascending_id_and_pages_of_any_size_show_each_row_once() {
    let list = Fixture::new().await;
    for sort in SORTS {
        for (direction, descending) in [
            ("", true),
            ("&sort_dir=asc", false),
            ("&sort_dir=DESC", true),
        ] {
            let query = format!("sort_by={}{direction}", sort.to_uppercase());
            let mut expected = list.walk("", 200).await;
            expected.sort_by(|a, b| compare(sort, descending, a, b));
            assert_eq!(expected.len(), 6);
            for limit in [1, 2, 3, 5, 6, 7] {
                let seen = list.walk(&query, limit).await;
                assert_eq!(
                    texts(&seen, "reservation_id"),
                    texts(&expected, "reservation_id"),
                    "{query} by {limit}"
                );
            }
        }
    }
}

#[tokio::test]
async fn without_a_sort_the_newest_come_first() {
    let list = Fixture::new().await;
    let ids = |rows: &[Value]| texts(rows, "reservation_id");
    let newest = ids(&list.walk("sort_by=created_at_ms&sort_dir=desc", 200).await);
    assert_eq!(ids(&list.walk("", 2).await), newest);
    assert_eq!(ids(&list.walk("sort_dir=desc", 2).await), newest);
    let oldest = ids(&list.walk("sort_by=created_at_ms&sort_dir=asc", 200).await);
    assert_eq!(ids(&list.walk("sort_dir=asc", 4).await), oldest);
}

/// Gives each hold of a tenant the fields that a request would have set.
pub async fn complete(app: &TestApp, tenant: &TenantFixture) {
    let script = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
        redis.call('HSET', key, 'action_kind', 'k', 'action_name', 'n', 'idempotency_key', 'i')
    end";
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(0).arg(tenant.reservation_key("*"));
    let reply = app.store.send(Lane::Background, ("any", &command)).await;
    reply.expect("they are completed");
}

#[tokio::test]
async fn reservations_of_one_moment_page_by_ascending_id() {
    let app = TestApp::spawn().await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("now");
    let created = i64::try_from(now.as_millis()).expect("a time") - 1_000;
    let mut ids = tenant.write_holds(7, created + 61_000).await;
    complete(&app, &tenant).await;
    ids.sort();
    let list = Fixture { app, ids };
    for sort in [
        "",
        "sort_dir=asc",
        "sort_by=reserved&sort_dir=asc",
        "sort_by=status",
    ] {
        for limit in [1, 2, 3, 6, 7] {
            let seen = texts(&list.walk(sort, limit).await, "reservation_id");
            assert_eq!(seen, list.ids, "{sort} by {limit}");
        }
    }
}

/// How often Redis ran commands of these names, and the microseconds that it took for all of them.
pub fn spent(redis: &RedisServer, names: &[&str]) -> (u64, u64) {
    let stats: String = redis.run(&["INFO", "commandstats"]);
    let of = |line: &str| {
        let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let mut figures = figures
            .split([',', '='])
            .filter_map(|f| f.parse::<u64>().ok());
        names.contains(&name).then_some(())?;
        Some((figures.next()?, figures.next()?))
    };
    let counted = stats.lines().filter_map(of);
    counted.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

#[tokio::test]
async fn rows_of_one_millisecond_are_read_in_bounded_steps_timed() {
    const HOLDS: usize = 20_000;
    const INDEX_READS: [&str; 4] = ["zcount", "zrange", "zrangebyscore", "zrevrangebyscore"];
    let redis = RedisServer::start();
    let app = TestApp::spawn_on(&redis.url(), LONG_REDIS_TIMEOUT).await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    let created = now_ms(&app.store).await - 1_000;
    let mut ids = tenant.write_holds(HOLDS, created + 3_600_000).await;
    complete(&app, &tenant).await;
    ids.sort();
    let list = Fixture { app, ids };
    let pages = HOLDS as u64 / 200;
    for query in ["", "sort_dir=asc"] {
        let mut fastest = u64::MAX;
        // Now and then something else takes the CPU.
        for _ in 0..3 {
            let before = spent(&redis, &INDEX_READS);
            let seen = texts(&list.walk(query, 200).await, "reservation_id");
            assert!(seen == list.ids, "{query} has each row once, in order");
            let after = spent(&redis, &INDEX_READS);
            let (reads, us) = (after.0 - before.0, after.1 - before.1);
            // Two calls a page.
            assert!(reads <= pages * 48, "{query}: {reads} reads of an index");
            fastest = fastest.min(us);
        }
        // All 20,000 ids take milliseconds.
        assert!(
            fastest < pages * 600,
            "{query}: {fastest} us for {pages} pages"
        );
    }
}

#[tokio::test]
async fn rows_created_between_two_pages_hide_and_repeat_nothing() {
    for query in ["", "sort_by=reserved", "sort_by=expires_at_ms&sort_dir=asc"] {
        let list = Fixture::new().await;
        let before = texts(&list.walk(query, 200).await, "reservation_id");
        let (mut seen, mut cursor, mut created) = (Vec::new(), String::new(), 0);
        loop {
            let response = list.get(&format!("{query}&limit=1&cursor={cursor}")).await;
            seen.extend(texts(&rows(&response), "reservation_id"));
            let Some(next) = response.at("/next_cursor").as_str() else {
                break;
            };
            next.clone_into(&mut cursor);
            if created < 10 {
                created += 1;
                let amount = i64::from(created) * 7;
                list.app.reserve(&format!("new-{created}"), amount).await;
            }
        }
        let mut unique = seen.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), seen.len(), "{query} repeats a row");
        seen.retain(|id| before.contains(id));
        assert_eq!(seen, before, "{query} hides a row");
    }
}

#[tokio::test]
async fn a_cursor_is_valid_only_for_the_same_rows_in_the_same_order() {
    let list = Fixture::new().await;
    let query = "sort_by=reserved&sort_dir=asc&from=2020-01-01T00:00:00Z";
    let first = list.get(&format!("{query}&limit=2")).await;
    let cursor = first.text("/next_cursor");
    let second = list.get(&format!("{query}&limit=2&cursor={cursor}")).await;
    for same in [
        "from=2020-01-01T00:00:00Z&limit=2",
        "from=2020-01-01T01:00:00%2B01:00&limit=2&sort_dir=ASC",
        "from=2020-01-01T00:00:00Z&limit=2&include=metadata&tenant=acme&foo=bar",
    ] {
        let response = list.get(&format!("{same}&cursor={cursor}")).await;
        let ids = texts(&rows(&response), "reservation_id");
        assert_eq!(ids, texts(&rows(&second), "reservation_id"), "{same}");
    }
    let rest = list
        .get(&format!("{query}&limit=200&cursor={cursor}"))
        .await;
    assert_eq!(rows(&rest).len(), 4);
    for other in [
        query.replace("reserved", "status"),
        query.replace("asc", "desc"),
        query.replace("2020", "2021"),
        "sort_by=reserved&sort_dir=asc".to_owned(),
        format!("{query}&to=2100-01-01T00:00:00Z"),
        format!("{query}&expires_from=2020-01-01T00:00:00Z"),
        format!("{query}&expires_to=2100-01-01T00:00:00Z"),
        format!("{query}&finalized_from=2020-01-01T00:00:00Z"),
        format!("{query}&finalized_to=2100-01-01T00:00:00Z"),
        format!("{query}&status=ACTIVE"),
        format!("{query}&workspace=prod"),
        format!("{query}&app=x"),
        format!("{query}&idempotency_key=late"),
    ] {
        let message = list.refused(&format!("{other}&cursor={cursor}")).await;
        assert!(
            message.contains("sort or filters have changed"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_foreign_forged_or_truncated_cursor_is_refused() {
    let list = Fixture::new().await;
    let cursor = list.get("limit=2").await.text("/next_cursor").to_owned();
    let url_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    assert!(cursor.chars().all(url_safe), "{cursor}");
    let path = format!("/v1/reservations?cursor={cursor}");
    list.app
        .get_as(1, &path)
        .await
        .refused(400, "INVALID_REQUEST");
    let balances = format!("/v1/balances?tenant=acme&cursor={cursor}");
    list.app
        .get(&balances)
        .await
        .refused(400, "INVALID_REQUEST");
    list.app
        .get_as_admin(&format!("{path}&tenant=bolt"))
        .await
        .refused(400, "INVALID_REQUEST");
    let admin = list.app.get_as_admin(&format!("{path}&tenant=acme")).await;
    assert_eq!(admin.status, 200, "the same rows in the same order");
    for at in (0..cursor.len()).step_by(5) {
        let other = if cursor.as_bytes()[at] == b'A' {
            "B"
        } else {
            "A"
        };
        list.refused(&format!(
            "cursor={}{other}{}",
            &cursor[..at],
            &cursor[at + 1..]
        ))
        .await;
        if at > 0 {
            list.refused(&format!("cursor={}", &cursor[..at])).await;
        }
    }
    for forged in [
        format!("{cursor}A"),
        format!("{cursor}%3D"),
        "A".repeat(9_000),
    ] {
        list.refused(&format!("cursor={forged}")).await;
    }
}

#[tokio::test]
async fn the_permission_to_list_is_checked_before_the_cursor() {
    let app = TestApp::spawn().await;
    let key = app.add_key(0, &[("permissions", "")]).await;
    app.get_with(&key, "/v1/reservations?cursor=forged")
        .await
        .refused(403, "FORBIDDEN");
    app.get_with(&key, "/v1/reservations?limit=0")
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_sort_without_an_index_gathers_up_to_its_bound() {
    // The bound on rows is what is tested here; without optimisation the one on time would come first.
    let app = TestApp::spawn_on(&shared().url(), LONG_REDIS_TIMEOUT).await;
    let mut tenant = TenantFixture::bare(&app.store, "acme").await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("now");
    let due = i64::try_from(now.as_millis()).expect("a time") + 60_000;
    tenant.write_holds(10_001, due).await;
    complete(&app, &tenant).await;
    for query in ["sort_by=reserved", "sort_by=expires_at_ms"] {
        let response = app.get(&format!("/v1/reservations?{query}")).await;
        assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{query}");
        let message = response.text("/message");
        for part in ["10000", "from", "to"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
