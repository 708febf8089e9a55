//! The follower of outboxes: the view of events over all tenants holds each event once, whatever happens to whoever
//! keeps it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use budget_authority::dispatch::{EventFollower, ViewMetrics};
use budget_authority::domain::ids::Partition;
use budget_authority::domain::log_entry::EntryId;
use budget_authority::store::views::View;
use budget_authority::store::{Day, Lease, Store};
use tokio::time::Instant;

use crate::harness::chronicle::{Chronicle, KEEP, everywhere, follow, follower, partition_of};
use crate::harness::desk::Desk;
use crate::harness::process::Process;
use crate::harness::redis::{RedisCluster, shared};
use crate::harness::{eventually, store};

const TENANTS: [&str; 5] = ["acme", "bolt", "cask", "dune", "__system__"];

#[tokio::test]
async fn events_of_all_tenants_are_followed_and_the_watermark_tells_how_far() {
    let store = store(&shared().url());
    let mut chronicle = Chronicle::on(&store);
    let before = chronicle.now_ms().await;
    let pass = follower(&store).run_once(&everywhere()).await;
    let pass = pass.expect("Redis answers");
    assert_eq!((pass.added, pass.passed_over, pass.more), (0, 0, false));
    assert!(pass.watermark_ms >= before);
    assert_eq!(
        store.watermark(View::Events).await.expect("a time"),
        pass.watermark_ms
    );

    let desk = Desk::on(store.clone());
    for tenant in &TENANTS[..4] {
        desk.tenant(tenant).await;
        desk.budget(tenant, &format!("tenant:{tenant}"), 100).await;
    }
    let now = chronicle.now_ms().await;
    chronicle.tell("__system__", now, &[]).await;
    let pass = follower(&store).run_once(&everywhere()).await;
    let pass = pass.expect("Redis answers");
    assert_eq!((pass.added, pass.passed_over, pass.more), (9, 0, false));
    assert!(pass.watermark_ms >= now);
    chronicle.check().await;
    // Each event of a request is found by the request and the trace; the one of the system has a trace alone.
    assert_eq!(chronicle.narrower().await, (9, 17));
    let system = store
        .keys()
        .view("events", Some("__system__"), Day::of_ms(now));
    assert_eq!(chronicle.run::<usize>(&["ZCARD", &system]).await, 1);
}

#[tokio::test]
async fn partitions_that_nobody_has_looked_at_hold_the_watermark_back() {
    let store = store(&shared().url());
    let mut leases = everywhere();
    let last = leases.pop().expect("a partition");
    let first = follower(&store)
        .run_once(&leases)
        .await
        .expect("Redis answers");
    assert_eq!(first.watermark_ms, 0);
    let second = follower(&store)
        .run_once(&[last])
        .await
        .expect("Redis answers");
    assert!(second.watermark_ms > 0);
    let third = follower(&store)
        .run_once(&[last])
        .await
        .expect("Redis answers");
    assert!(third.watermark_ms <= second.watermark_ms + 1_000);
}

/// Appends some events of many sizes, as operations do: some cause one, some many.
async fn happen(chronicle: &mut Chronicle, rounds: usize) {
    for round in 0..rounds {
        for tenant in TENANTS {
            let now = chronicle.now_ms().await;
            let count = [1, 1, 3, 40][(round + tenant.len()) % 4];
            let first = chronicle.append(tenant, now, &[]).await;
            for _ in 1..count {
                chronicle
                    .append(tenant, now, &[("type", "tenant.suspended")])
                    .await;
            }
            chronicle.point(tenant, now, first, count).await;
        }
    }
}

/// Lets a future go on so many times, then drops it: whoever ran it is dead.
async fn killed_after<T>(wakes: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut polls) = (pin!(future), 0);
    std::future::poll_fn(|context| {
        if polls == wakes {
            return std::task::Poll::Ready(None);
        }
        polls += 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

#[tokio::test]
async fn a_follower_that_is_killed_at_any_step_loses_and_repeats_nothing() {
    let store = store(&shared().url());
    let mut chronicle = Chronicle::on(&store);
    let mut finished = false;
    for wakes in 0..200 {
        happen(&mut chronicle, 1).await;
        let (follower, leases) = (follower(&store), everywhere());
        let pass = killed_after(wakes, follower.run_once(&leases)).await;
        if pass.is_some() {
            finished = true;
            break;
        }
    }
    assert!(finished, "200 steps are not enough");
    follow(&store).await;
    chronicle.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_at_the_same_time_add_each_event_once() {
    let store = store(&shared().url());
    let mut chronicle = Chronicle::on(&store);
    let over = Arc::new(AtomicBool::new(false));
    let followers: Vec<_> = (0..3)
        .map(|_| {
            let (store, over) = (store.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let (follower, leases) = (follower(&store), everywhere());
                    let wakes = rand::random_range(1..60);
                    killed_after(wakes, follower.run_once(&leases)).await;
                }
            })
        })
        .collect();
    happen(&mut chronicle, 12).await;
    over.store(true, Ordering::Relaxed);
    for follower in followers {
        follower.await.expect("it ends");
    }
    follow(&store).await;
    chronicle.check().await;
}

#[tokio::test]
async fn a_long_outbox_is_followed_in_steps() {
    let store = store(&shared().url());
    let mut chronicle = Chronicle::on(&store);
    let now = chronicle.now_ms().await;
    for number in 0..250 {
        chronicle.tell("acme", now + number, &[]).await;
    }
    let lease = Lease {
        partition: partition_of("acme"),
        token: 1,
    };
    let mut added = Vec::new();
    loop {
        let pass = follower(&store)
            .run_once(&[lease])
            .await
            .expect("Redis answers");
        added.push(pass.added);
        if !pass.more {
            break;
        }
        // What is not there yet is not promised.
        assert_eq!(store.watermark(View::Events).await.expect("a time"), 0);
    }
    assert_eq!(added, [100, 100, 50]);
    chronicle.check().await;
}

#[tokio::test]
async fn what_is_damaged_or_gone_is_passed_over_and_hides_nothing_else() {
    let store = store(&shared().url());
    let mut chronicle = Chronicle::on(&store);
    let now = chronicle.now_ms().await;
    let outbox = store.keys().outbox(partition_of("acme"));
    let day = Day::of_ms(now).to_string();
    chronicle.tell("acme", now, &[]).await;
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
        chronicle
            .run::<String>(&[&["XADD", &outbox, "*"], *fields].concat())
            .await;
    }
    // A log that is gone: retention has been faster.
    let gone = chronicle.append("acme", now + 1, &[]).await;
    chronicle
        .run::<i64>(&["XDEL", &chronicle.log("acme", now), &gone.to_string()])
        .await;
    chronicle.point("acme", now, gone, 1).await;
    // Facts that no event can be made of.
    for (name, value) in [("type", "Budget X"), ("at_ms", "soon"), ("at_ms", "5")] {
        let key = chronicle.log("acme", now);
        let id = format!("{}-*", now + 2);
        let entry: String = chronicle.run(&["XADD", &key, &id, name, value]).await;
        let entry = budget_authority::domain::log_entry::EntryId::parse(&entry).expect("an entry");
        chronicle.point("acme", now, entry, 1).await;
    }
    chronicle.tell("acme", now + 3, &[]).await;
    let pass = follower(&store)
        .run_once(&everywhere())
        .await
        .expect("Redis answers");
    assert_eq!((pass.added, pass.passed_over), (2, damaged.len() + 1 + 3));
    assert!(pass.watermark_ms > 0);
    let rows = chronicle.view().await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    // None is met again.
    let pass = follower(&store)
        .run_once(&everywhere())
        .await
        .expect("Redis answers");
    assert_eq!((pass.added, pass.passed_over), (0, 0));
}

#[tokio::test]
async fn a_key_of_another_kind_in_the_way_of_one_partition_stops_no_other() {
    let store = store(&shared().url());
    let mut chronicle = Chronicle::on(&store);
    let now = chronicle.now_ms().await;
    chronicle.tell("acme", now, &[]).await;
    chronicle.tell("bolt", now, &[]).await;
    let log = chronicle.log("acme", now);
    chronicle.run::<()>(&["SET", &log, "x"]).await;
    let pass = follower(&store)
        .run_once(&everywhere())
        .await
        .expect("Redis answers");
    assert_eq!((pass.added, pass.passed_over), (1, 1));
}

/// A denial as scripts tell it.
const DENIED: [(&str, &str); 6] = [
    ("type", "reservation.denied"),
    ("data.unit", "TOKENS"),
    ("data.reason_code", "BUDGET_EXCEEDED"),
    ("data.requested_amount", "5"),
    ("scope", "tenant:acme"),
    ("metadata.count", "7"),
];

#[tokio::test]
async fn an_index_of_another_type_stops_the_view_by_name_and_nothing_is_lost_or_counted_twice() {
    let store = store(&shared().url());
    let mut chronicle = Chronicle::on(&store);
    let metrics = ViewMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    let lag = metrics.lag_seconds.with_label_values(&["events"]);
    let follower = EventFollower::new(store.clone(), KEEP, metrics);
    follower.run_once(&everywhere()).await.expect("a pass");
    let now = chronicle.now_ms().await;
    chronicle.tell("acme", now, &DENIED).await;
    chronicle.tell("acme", now, &[]).await;
    let index = store
        .keys()
        .view("events", Some("tenant.updated"), Day::of_ms(now));
    chronicle.run::<()>(&["SET", &index, "x"]).await;
    let whole = store.watermark(View::Events).await.expect("a time");
    for _ in 0..3 {
        let failure = follower.run_once(&everywhere()).await;
        let failure = failure.expect_err("no index").to_string();
        assert!(failure.contains(&index), "{failure}");
    }
    let still = store.watermark(View::Events).await.expect("a time");
    assert_eq!((still, chronicle.view().await.len()), (whole, 0));
    let behind = (chronicle.now_ms().await - whole) as f64 / 1_000.0;
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(follower.run_once(&everywhere()).await.is_err());
    assert!(lag.get() >= behind, "{} {behind}", lag.get());
    chronicle.run::<i64>(&["DEL", &index]).await;
    follow(&store).await;
    chronicle.check().await;
    assert_eq!(denials(&chronicle, now).await, 7);
}

async fn denials(chronicle: &Chronicle, at_ms: i64) -> i64 {
    let minute = chronicle
        .store
        .keys()
        .denials_of_minute(at_ms - at_ms % 60_000);
    chronicle.run(&["ZSCORE", &minute, "BUDGET_EXCEEDED"]).await
}

#[tokio::test]
async fn an_outbox_that_lost_what_was_followed_is_followed_again_from_before_that() {
    let store = store(&shared().url());
    let mut chronicle = Chronicle::on(&store);
    let outbox = store.keys().outbox(partition_of("acme"));
    let now = chronicle.now_ms().await;
    chronicle.tell("acme", now, &DENIED).await;
    chronicle.tell("acme", now, &[]).await;
    follow(&store).await;
    // A replica took over that had not got the last entry, and whose clock is behind.
    let entries: Vec<(String, Vec<String>)> = chronicle.run(&["XRANGE", &outbox, "-", "+"]).await;
    let kept: EntryId = EntryId::parse(&entries[0].0).expect("an entry");
    chronicle.run::<i64>(&["DEL", &outbox]).await;
    let back = |entry: EntryId| format!("{}-{}", entry.ms - 10_000, entry.sequence);
    let again = chronicle.append("acme", now + 1, &[]).await;
    let day = Day::of_ms(now).to_string();
    for (id, first) in [
        (back(kept), entries[0].1[5].clone()),
        (format!("{}-0", kept.ms - 5_000), again.to_string()),
    ] {
        let words = ["XADD", &outbox, &id, "tenant", "acme", "day", &day];
        let words = [&words[..], &["first", &first, "count", "1"]].concat();
        chronicle.run::<String>(&words).await;
    }
    follow(&store).await;
    let event = chronicle.view().await;
    assert_eq!(event.len(), 3, "{event:?}");
    assert_eq!(denials(&chronicle, now).await, 7);
    // From there it goes on as usual, also where the outbox is gone.
    for number in 2..4 {
        let entry = chronicle.append("acme", now + number, &[]).await;
        let id = format!("{}-1", kept.ms - 5_000 + number.unsigned_abs());
        let entry = entry.to_string();
        let words = ["XADD", &outbox, &id, "tenant", "acme", "day", &day];
        let words = [&words[..], &["first", &entry, "count", "1"]].concat();
        chronicle.run::<String>(&words).await;
        follow(&store).await;
        chronicle.run::<i64>(&["DEL", &outbox]).await;
        follow(&store).await;
    }
    chronicle.check().await;
}

async fn in_view(store: &Store) -> usize {
    Chronicle::on(store).view().await.len()
}

#[tokio::test]
async fn with_a_dispatcher_running_an_event_is_in_the_view_within_about_a_second() {
    let store = store(&shared().url());
    let desk = Desk::on(store.clone());
    let mut dispatcher = Process::dispatcher(&shared().url(), store.keys().prefix());
    eventually("the view is kept", || async {
        let watermark = store.watermark(View::Events).await.expect("a time");
        (watermark > 0).then_some(())
    })
    .await;
    for (number, tenant) in TENANTS[..3].iter().enumerate() {
        desk.tenant(tenant).await;
        let told = Instant::now();
        let at_ms = Chronicle::on(&store).now_ms().await;
        eventually("the event is served", || async {
            let served = store.watermark(View::Events).await.expect("a time") > at_ms;
            (served && in_view(&store).await == number + 1).then_some(())
        })
        .await;
        // Half a second to the next look; the rest is for a busy machine.
        assert!(
            told.elapsed() < Duration::from_millis(2_500),
            "{:?}",
            told.elapsed()
        );
    }
    // Killed and started again, it goes on where it was.
    dispatcher.kill();
    desk.tenant("late").await;
    dispatcher.restart();
    eventually("the event is in the view", || async {
        (in_view(&store).await == 4).then_some(())
    })
    .await;
    Chronicle::on(&store).check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_all_partitions_of_all_nodes_are_followed() {
    let cluster = tokio::task::block_in_place(RedisCluster::start);
    let store = store(&cluster.url());
    let mut chronicle = Chronicle::on(&store);
    happen(&mut chronicle, 4).await;
    let desk = Desk::on(store.clone());
    for number in 0..6 {
        desk.tenant(&format!("tenant-{number}")).await;
    }
    follow(&store).await;
    assert!(store.watermark(View::Events).await.expect("a time") > 0);
    chronicle.check().await;
    let partitions = Partition::all().collect::<Vec<_>>();
    let cursors = store.view_cursors(&partitions).await.expect("cursors");
    assert!(cursors.iter().flatten().count() >= 8);
}
