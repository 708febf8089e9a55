//! The follower of outboxes with keys that are damaged, missing, or of another type.

use std::sync::Arc;

use budget_authority::dispatcher::{EventFollower, Outboxes, ViewMetrics};
use budget_authority::domain::log_entry::EntryId;
use budget_authority::store::Day;
use budget_authority::store::dispatcher::views::View;

use crate::harness::event_log::{EventLog, KEEP, everywhere, follow, follower, partition_of};
use crate::harness::redis::shared;
use crate::harness::store;

#[tokio::test]
async fn damaged_or_missing_entries_are_skipped_and_hide_no_others() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await;
    let outbox = store.keys().outbox(partition_of("acme"));
    let day = Day::of_ms(now).to_string();
    event_log.emit("acme", now, &[]).await;
    let damaged: &[&[&str]] = &[
        &["x", "y"],
        &[
            "tenant", "acme", "day", "20269999", "first", "1-1", "count", "1",
        ],
        &["tenant", "acme", "day", &day, "first", "one", "count", "1"],
        &["tenant", "acme", "day", &day, "first", "1-1", "count", "-1"],
        &["tenant", "a b", "day", &day, "first", "1-1", "count", "1"],
        &["day", &day, "first", "1-1", "count", "1"],
    ];
    for fields in damaged {
        event_log
            .run::<String>(&[&["XADD", &outbox, "*"], *fields].concat())
            .await;
    }
    // A log that is gone: retention has been faster.
    let gone = event_log.append("acme", now + 1, &[]).await;
    event_log
        .run::<i64>(&["XDEL", &event_log.log("acme", now), &gone.to_string()])
        .await;
    event_log.point("acme", now, gone, 1).await;
    // Facts that cannot be rendered as an event.
    for (name, value) in [("type", "Budget X"), ("at_ms", "soon"), ("at_ms", "5")] {
        let key = event_log.log("acme", now);
        let id = format!("{}-*", now + 2);
        let entry: String = event_log.run(&["XADD", &key, &id, name, value]).await;
        let entry = EntryId::parse(&entry).expect("an entry");
        event_log.point("acme", now, entry, 1).await;
    }
    event_log.emit("acme", now + 3, &[]).await;
    let pass = follower(&store)
        .run_once(&everywhere())
        .await
        .expect("Redis answers");
    assert_eq!((pass.added, pass.skipped), (2, damaged.len() + 1 + 3));
    assert!(pass.watermark_ms > 0);
    let rows = event_log.view().await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    // None is read again.
    let pass = follower(&store)
        .run_once(&everywhere())
        .await
        .expect("Redis answers");
    assert_eq!((pass.added, pass.skipped), (0, 0));
}

#[tokio::test]
async fn a_log_of_the_wrong_type_stops_no_other_partition() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await;
    event_log.emit("acme", now, &[]).await;
    event_log.emit("bolt", now, &[]).await;
    let log = event_log.log("acme", now);
    event_log.run::<()>(&["SET", &log, "x"]).await;
    let pass = follower(&store)
        .run_once(&everywhere())
        .await
        .expect("Redis answers");
    assert_eq!((pass.added, pass.skipped), (1, 1));
}

/// A denial as scripts emit it.
const DENIED: [(&str, &str); 6] = [
    ("type", "reservation.denied"),
    ("data.unit", "TOKENS"),
    ("data.reason_code", "BUDGET_EXCEEDED"),
    ("data.requested_amount", "5"),
    ("scope", "tenant:acme"),
    ("metadata.count", "7"),
];

#[tokio::test]
async fn an_index_of_the_wrong_type_stops_the_view_without_loss_or_repetition() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let metrics = ViewMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    let lag = metrics.lag_seconds.with_label_values(&["events"]);
    let outboxes = Arc::new(Outboxes::new(store.clone()));
    let follower = EventFollower::new(store.clone(), outboxes, KEEP, metrics);
    follower.run_once(&everywhere()).await.expect("a pass");
    let now = event_log.now_ms().await;
    event_log.emit("acme", now, &DENIED).await;
    event_log.emit("acme", now, &[]).await;
    let index = store
        .keys()
        .view("events", Some("tenant.updated"), Day::of_ms(now));
    event_log.run::<()>(&["SET", &index, "x"]).await;
    let whole = store.watermark(View::Events).await.expect("a time");
    for _ in 0..3 {
        let failure = follower.run_once(&everywhere()).await;
        let failure = failure.expect_err("no index").to_string();
        assert!(failure.contains(&index), "{failure}");
    }
    let still = store.watermark(View::Events).await.expect("a time");
    assert_eq!((still, event_log.view().await.len()), (whole, 0));
    let behind = (event_log.now_ms().await - whole) as f64 / 1_000.0;
    event_log.next_ms().await;
    assert!(follower.run_once(&everywhere()).await.is_err());
    assert!(lag.get() >= behind, "{} {behind}", lag.get());
    event_log.run::<i64>(&["DEL", &index]).await;
    follow(&store).await;
    event_log.check().await;
    assert_eq!(denials(&event_log, now).await, 7);
}

async fn denials(event_log: &EventLog, at_ms: i64) -> i64 {
    let minute = event_log
        .store
        .keys()
        .denials_of_minute(at_ms - at_ms % 60_000);
    event_log.run(&["ZSCORE", &minute, "BUDGET_EXCEEDED"]).await
}

#[tokio::test]
async fn an_outbox_that_lost_entries_is_followed_again_from_before_them() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let outbox = store.keys().outbox(partition_of("acme"));
    let now = event_log.now_ms().await;
    event_log.emit("acme", now, &DENIED).await;
    event_log.emit("acme", now, &[]).await;
    follow(&store).await;
    // A replica took over that had not got the last entry, and whose clock is behind.
    let entries: Vec<(String, Vec<String>)> = event_log.run(&["XRANGE", &outbox, "-", "+"]).await;
    let kept: EntryId = EntryId::parse(&entries[0].0).expect("an entry");
    event_log.run::<i64>(&["DEL", &outbox]).await;
    let back = |entry: EntryId| format!("{}-{}", entry.ms - 10_000, entry.sequence);
    let again = event_log.append("acme", now + 1, &[]).await;
    let day = Day::of_ms(now).to_string();
    for (id, first) in [
        (back(kept), entries[0].1[5].clone()),
        (format!("{}-0", kept.ms - 5_000), again.to_string()),
    ] {
        let words = ["XADD", &outbox, &id, "tenant", "acme", "day", &day];
        let words = [&words[..], &["first", &first, "count", "1"]].concat();
        event_log.run::<String>(&words).await;
    }
    follow(&store).await;
    let event = event_log.view().await;
    assert_eq!(event.len(), 3, "{event:?}");
    assert_eq!(denials(&event_log, now).await, 7);
    // From there it continues as usual, also where the outbox is gone.
    for number in 2..4 {
        let entry = event_log.append("acme", now + number, &[]).await;
        let id = format!("{}-1", kept.ms - 5_000 + number.unsigned_abs());
        let entry = entry.to_string();
        let words = ["XADD", &outbox, &id, "tenant", "acme", "day", &day];
        let words = [&words[..], &["first", &entry, "count", "1"]].concat();
        event_log.run::<String>(&words).await;
        follow(&store).await;
        event_log.run::<i64>(&["DEL", &outbox]).await;
        follow(&store).await;
    }
    event_log.check().await;
}

#[tokio::test]
async fn an_unreadable_cursor_counts_as_none() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await;
    for _ in 0..120 {
        event_log.emit("acme", now, &DENIED).await;
    }
    follow(&store).await;
    let (cursors, partition) = (
        store.keys().view_cursors(),
        partition_of("acme").to_string(),
    );
    event_log
        .run::<i64>(&["HSET", &cursors, &partition, "somewhere"])
        .await;
    event_log.emit("acme", now, &[]).await;
    let follower = follower(&store);
    let mut passes = 0;
    while follower.run_once(&everywhere()).await.expect("a pass").more {
        passes += 1;
        assert!(passes < 3, "it goes round in circles");
    }
    event_log.check().await;
    assert_eq!(denials(&event_log, now).await, 120 * 7);
}
