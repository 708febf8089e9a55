//! The follower of outboxes: the view of events over all tenants holds each event once, whatever happens to the process that
//! keeps it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use budget_authority::domain::ids::Partition;
use budget_authority::store::dispatcher::views::View;
use budget_authority::store::{Day, Lease, Store};
use tokio::time::Instant;

use crate::harness::admin_fixture::AdminFixture;
use crate::harness::event_log::{EventLog, everywhere, follow, follower, partition_of};
use crate::harness::process::Process;
use crate::harness::redis::{RedisCluster, shared};
use crate::harness::{eventually, patient, store, store_with};

const TENANTS: [&str; 5] = ["acme", "bolt", "cask", "dune", "__system__"];

#[tokio::test]
async fn events_of_all_tenants_are_followed_up_to_the_watermark() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let before = event_log.now_ms().await;
    let pass = follower(&store).run_once(&everywhere()).await;
    let pass = pass.expect("Redis answers");
    assert_eq!((pass.added, pass.skipped, pass.more), (0, 0, false));
    assert!(pass.watermark_ms >= before);
    assert_eq!(
        store.watermark(View::Events).await.expect("a time"),
        pass.watermark_ms
    );

    let fixture = AdminFixture::on(store.clone());
    for tenant in &TENANTS[..4] {
        fixture.tenant(tenant).await;
        fixture
            .budget(tenant, &format!("tenant:{tenant}"), 100)
            .await;
    }
    let now = event_log.now_ms().await;
    event_log.emit("__system__", now, &[]).await;
    let pass = follower(&store).run_once(&everywhere()).await;
    let pass = pass.expect("Redis answers");
    assert_eq!((pass.added, pass.skipped, pass.more), (9, 0, false));
    assert!(pass.watermark_ms >= now);
    event_log.check().await;
    // Each event of a request is found by the request and the trace; the one of the system has a trace alone.
    assert_eq!(event_log.narrower().await, (9, 17));
    let system = store
        .keys()
        .view("events", Some("__system__"), Day::of_ms(now));
    assert_eq!(event_log.run::<usize>(&["ZCARD", &system]).await, 1);
}

#[tokio::test]
async fn unread_partitions_hold_the_watermark_back() {
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
async fn happen(event_log: &mut EventLog, rounds: usize) {
    for round in 0..rounds {
        for tenant in TENANTS {
            let now = event_log.now_ms().await;
            let count = [1, 1, 3, 40][(round + tenant.len()) % 4];
            let first = event_log.append(tenant, now, &[]).await;
            for _ in 1..count {
                event_log
                    .append(tenant, now, &[("type", "tenant.suspended")])
                    .await;
            }
            event_log.point(tenant, now, first, count).await;
        }
    }
}

/// Polls a future `steps` times, then drops it, as a crash would.
pub(crate) async fn killed_after<T>(wakes: usize, future: impl Future<Output = T>) -> Option<T> {
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
async fn a_follower_killed_at_any_step_loses_and_repeats_nothing() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let mut finished = false;
    for wakes in 0..200 {
        happen(&mut event_log, 1).await;
        let (follower, leases) = (follower(&store), everywhere());
        let pass = killed_after(wakes, follower.run_once(&leases)).await;
        if pass.is_some() {
            finished = true;
            break;
        }
    }
    assert!(finished, "200 steps are not enough");
    follow(&store).await;
    event_log.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_followers_add_each_event_once() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
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
    happen(&mut event_log, 12).await;
    over.store(true, Ordering::Relaxed);
    for follower in followers {
        follower.await.expect("it ends");
    }
    follow(&store).await;
    event_log.check().await;
}

#[tokio::test]
async fn a_long_outbox_is_followed_in_steps() {
    let store = store(&shared().url());
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await;
    for number in 0..250 {
        event_log.emit("acme", now + number, &[]).await;
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
        // Missing rows lie beyond the watermark.
        assert_eq!(store.watermark(View::Events).await.expect("a time"), 0);
    }
    assert_eq!(added, [100, 100, 50]);
    event_log.check().await;
}

async fn in_view(store: &Store) -> usize {
    EventLog::on(store).view().await.len()
}

#[tokio::test]
async fn with_a_dispatcher_running_an_event_is_in_the_view_within_about_a_second() {
    let store = store(&shared().url());
    let fixture = AdminFixture::on(store.clone());
    let mut dispatcher = Process::dispatcher(&shared().url(), store.keys().prefix());
    eventually("the view is kept", || async {
        let watermark = store.watermark(View::Events).await.expect("a time");
        watermark > 0
    })
    .await;
    let mut fastest = Duration::MAX;
    for (number, tenant) in TENANTS[..3].iter().enumerate() {
        fixture.tenant(tenant).await;
        let begun = Instant::now();
        let at_ms = EventLog::on(&store).now_ms().await;
        eventually("the event is served", || async {
            let served = store.watermark(View::Events).await.expect("a time") > at_ms;
            served && in_view(&store).await == number + 1
        })
        .await;
        fastest = fastest.min(begun.elapsed());
    }
    // Half a second to the next look; the rest is for a busy machine.
    assert!(fastest < Duration::from_secs(4), "{fastest:?}");
    // Killed and started again, it continues where it was.
    dispatcher.kill();
    fixture.tenant("late").await;
    dispatcher.restart();
    eventually("the event is in the view", || async {
        in_view(&store).await == 4
    })
    .await;
    EventLog::on(&store).check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_all_partitions_of_all_nodes_are_followed() {
    let cluster = tokio::task::block_in_place(RedisCluster::start);
    let store = store_with(patient(&cluster.url()));
    let mut event_log = EventLog::on(&store);
    happen(&mut event_log, 4).await;
    let fixture = AdminFixture::on(store.clone());
    for number in 0..6 {
        fixture.tenant(&format!("tenant-{number}")).await;
    }
    follow(&store).await;
    assert!(store.watermark(View::Events).await.expect("a time") > 0);
    event_log.check().await;
    let partitions = Partition::all().collect::<Vec<_>>();
    let cursors = store.view_cursors(&partitions).await.expect("cursors");
    assert!(cursors.iter().flatten().count() >= 8);
}
