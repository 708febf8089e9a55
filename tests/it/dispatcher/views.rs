//! The views over all tenants in the store: rows, cursors, watermarks.

use std::time::Duration;

use budget_authority::domain::ids::Partition;
use budget_authority::domain::log_entry::EntryId;
use budget_authority::store::dispatcher::index_rows::{Followed, NewRow};
use budget_authority::store::dispatcher::views::{Row, View, id_digest};
use budget_authority::store::{Day, Lane, Store};
use serde_json::json;

use crate::harness::app::TestApp;
use crate::harness::event_log::{everywhere, follower_in};
use crate::harness::redis::shared;
use crate::harness::store;

const KEEP: Duration = Duration::from_secs(86_400);

fn partition(index: u16) -> Partition {
    Partition::new(index).expect("a partition")
}

fn entry(ms: u64, sequence: u64) -> EntryId {
    EntryId { ms, sequence }
}

fn row(index: u16, at_ms: i64, sequence: u64) -> NewRow {
    NewRow {
        denials: None,
        day: Day::of_ms(at_ms),
        at_ms,
        row: Row {
            partition: partition(index),
            entry: entry(at_ms.unsigned_abs(), sequence),
            tenant: "acme".to_owned(),
            kind: Some("budget.funded".to_owned()),
        },
        kinds: vec!["budget.funded".to_owned()],
        ids: vec![id_digest('t', "trace"), id_digest('r', "request")],
    }
}

async fn members(store: &Store, key: &str) -> Vec<String> {
    let mut read = redis::cmd("ZRANGE");
    read.arg(key).arg(0).arg(-1);
    let value = store
        .send(Lane::Background, (key, &read))
        .await
        .expect("a reply");
    redis::from_redis_value(value).expect("members")
}

async fn now_ms(store: &Store) -> i64 {
    store.node_times().await.expect("times")[0].1
}

#[tokio::test]
async fn rows_and_cursor_are_written_together_or_not_at_all() {
    let store = store(&shared().url());
    let now = now_ms(&store).await;
    let day = Day::of_ms(now);
    let first = entry(5, 0);
    let followed = |read, next, rows| Followed {
        partition: partition(7),
        read,
        next,
        rows,
    };
    let index = async |parts: &[Followed]| {
        let result = store.index_followed(parts, KEEP).await;
        result.expect("an answer")
    };
    assert_eq!(
        store
            .view_cursors(&[partition(7), partition(8)])
            .await
            .expect("cursors"),
        [None, None]
    );
    let other = Followed {
        partition: partition(8),
        ..followed(None, entry(6, 1), Vec::new())
    };
    let parts = [followed(None, first, vec![row(7, now, 0)]), other];
    assert_eq!(index(&parts).await, [true, true]);
    // A caller that read the cursor before adds nothing, though it would move it as far.
    for next in [entry(9, 9), first] {
        let late = [followed(None, next, vec![row(7, now, 1)])];
        assert_eq!(index(&late).await, [false]);
    }
    let next = [followed(
        Some(first),
        entry(5, 1),
        vec![row(7, now, 0), row(7, now, 10), row(7, now, 2)],
    )];
    assert_eq!(index(&next).await, [true]);
    assert_eq!(
        store
            .view_cursors(&[partition(7), partition(8)])
            .await
            .expect("cursors"),
        [Some(entry(5, 1)), Some(entry(6, 1))]
    );

    let keys = store.keys();
    let expected = [0, 2, 10].map(|sequence| format!("007 {now}-{sequence:05} acme budget.funded"));
    assert_eq!(
        members(&store, &keys.view("events", None, day)).await,
        expected
    );
    assert_eq!(
        members(&store, &keys.view("events", Some("budget.funded"), day)).await,
        expected
    );
    let by_ids = members(&store, &keys.view_ids("events", day)).await;
    assert_eq!(by_ids.len(), 6);
    assert_eq!(
        by_ids[0],
        format!("{} {now:013} {}", id_digest('r', "request"), expected[0])
    );
    for key in [keys.view("events", None, day), keys.view_ids("events", day)] {
        let mut ttl = redis::cmd("PEXPIRETIME");
        ttl.arg(&key);
        let ends: i64 = redis::from_redis_value(
            store
                .send(Lane::Background, (&key, &ttl))
                .await
                .expect("a reply"),
        )
        .expect("a time");
        assert_eq!(ends, day.plus(1 + 1 + 2).start_ms(), "{key}");
    }
}

#[tokio::test]
async fn rows_without_a_cursor_are_added_once() {
    let store = store(&shared().url());
    let now = now_ms(&store).await;
    let rows = [row(1, now, 0), row(2, now, 0)];
    for _ in 0..2 {
        store
            .index_rows(View::Audit, &rows, KEEP)
            .await
            .expect("added");
    }
    let day = Day::of_ms(now);
    assert_eq!(
        members(&store, &store.keys().view("audit", None, day))
            .await
            .len(),
        2
    );
    assert_eq!(
        members(&store, &store.keys().view_ids("audit", day))
            .await
            .len(),
        4
    );
    let cursors = members(&store, &store.keys().view("events", None, day)).await;
    assert!(cursors.is_empty());
}

#[tokio::test]
async fn a_watermark_is_that_of_the_slowest_partition_and_never_goes_back() {
    let store = store(&shared().url());
    assert_eq!(store.watermark(View::Events).await.expect("a time"), 0);
    let all = |ms: i64| Partition::all().map(|p| (p, ms)).collect::<Vec<_>>();
    let mut most = all(1_700_000_000_500);
    let last = most.pop().expect("partitions").0;
    let set = async |reached: &[(Partition, i64)]| {
        let result = store.set_watermarks(View::Events, reached).await;
        result.expect("a time")
    };
    assert_eq!(set(&most).await, 0);
    assert_eq!(store.watermark(View::Events).await.expect("a time"), 0);
    assert_eq!(set(&[(last, 1_700_000_000_000)]).await, 1_700_000_000_000);
    assert_eq!(set(&all(1_600_000_000_000)).await, 1_700_000_000_000);
    assert_eq!(set(&[(last, 1_800_000_000_000)]).await, 1_700_000_000_500);
    assert_eq!(set(&[]).await, 1_700_000_000_500);
    assert_eq!(
        store.watermark(View::Events).await.expect("a time"),
        1_700_000_000_500
    );
    // Each view has its own.
    assert_eq!(store.watermark(View::Audit).await.expect("a time"), 0);
}

#[tokio::test]
async fn the_watermark_is_the_minimum_over_all_reports() {
    let store = store(&shared().url());
    let (mut model, base) = (vec![0; 1024], 1_700_000_000_000);
    for round in 0..40 {
        // The last report is of all, so that none has no time.
        let share = match round {
            0..4 => 0.6,
            4..39 => 0.2,
            _ => 1.0,
        };
        let some: Vec<(Partition, i64)> = Partition::all()
            .filter(|_| rand::random_bool(share))
            .map(|partition| (partition, base + rand::random_range(0..4) + round))
            .collect();
        for (partition, ms) in &some {
            let known: &mut i64 = &mut model[usize::from(partition.index())];
            *known = (*known).max(*ms);
        }
        let all = store
            .set_watermarks(View::Events, &some)
            .await
            .expect("a time");
        assert_eq!(all, *model.iter().min().expect("partitions"), "{round}");
    }
    assert!(model.iter().all(|ms| *ms > 0));
    let key = store.keys().watermarks("events");
    let mut count = redis::cmd("HLEN");
    count.arg(&key);
    let fields: i64 = redis::from_redis_value(
        store
            .send(Lane::Background, (&key, &count))
            .await
            .expect("a reply"),
    )
    .expect("a number");
    assert!(fields <= 44, "{fields}");
}

#[tokio::test]
async fn events_are_counted_by_type_once_each() {
    let app = TestApp::spawn().await;
    let scope = "tenant:acme/app:a";
    app.budget(scope, 1_000, 500).await;
    let id = app
        .held(
            scope,
            900,
            json!({"overage_policy": "ALLOW_WITH_OVERDRAFT"}),
        )
        .await;
    app.commit(&id, "c", 1_300).await.expect(200);
    let refused = app.create("much", scope, 300, json!({})).await;
    assert_eq!(refused.status, 409);
    let registry = prometheus::Registry::new();
    let follower = follower_in(&app.store, &registry);
    for _ in 0..2 {
        while follower
            .run_once(&everywhere())
            .await
            .expect("Redis responds")
            .more
        {}
    }
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather());
    let text = text.expect("metrics");
    for (event_type, count) in [
        ("budget.debt_incurred", 1),
        ("budget.exhausted", 1),
        ("reservation.commit_overage", 1),
        ("reservation.denied", 1),
        ("budget.over_limit_exited", 0),
        ("other", 0),
    ] {
        let series = format!("budget_events_total{{type=\"{event_type}\"}} {count}\n");
        assert!(text.contains(&series), "{series}: {text}");
    }
}
