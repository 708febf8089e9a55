//! Dispatchers share the partitions: fairly, one owner at a time, and without a gap that lasts.

use std::collections::HashMap;
use std::time::Duration;

use budget_authority::dispatcher::{LEASE, LeaseKeeper, LeaseMetrics};
use budget_authority::domain::ids::Partition;
use budget_authority::store::Store;

use crate::harness::redis::shared;
use crate::harness::redis_fixture::RedisFixture;
use crate::harness::{eventually, store};

fn keeper(store: &Store, name: &str) -> LeaseKeeper {
    keeper_with(store, name, LEASE)
}

/// One whose leases last for a time of the test's choice.
fn keeper_with(store: &Store, name: &str, lease: Duration) -> LeaseKeeper {
    let metrics = LeaseMetrics::register(&prometheus::Registry::new()).expect("a fresh registry");
    LeaseKeeper::new(store.clone(), name.to_owned(), lease, metrics)
}

/// Lets every dispatcher renew; returns the partitions of each. Panics when a partition has two owners.
async fn renew(keepers: &[&LeaseKeeper]) -> HashMap<Partition, usize> {
    let mut owners = HashMap::new();
    for keeper in keepers {
        keeper.run_once().await.expect("Redis answers");
    }
    for (index, keeper) in keepers.iter().enumerate() {
        for lease in keeper.leases().current() {
            let before = owners.insert(lease.partition, index);
            assert_eq!(before, None, "partition {} has two owners", lease.partition);
        }
    }
    owners
}

fn counts(owners: &HashMap<Partition, usize>, keepers: usize) -> Vec<usize> {
    (0..keepers)
        .map(|index| owners.values().filter(|owner| **owner == index).count())
        .collect()
}

/// What was gained may have had work for long, so it is polled at once.
#[tokio::test]
async fn a_pass_says_whether_it_gained_partitions() {
    let store = store(&shared().url());
    let (a, b) = (keeper(&store, "gains-a"), keeper(&store, "gains-b"));
    let gained = async |keeper: &LeaseKeeper| keeper.run_once().await.expect("a reply").gained;
    assert!(gained(&a).await);
    assert!(!gained(&a).await);
    assert!(!gained(&b).await, "those of its share are still held");
    assert!(!gained(&a).await);
    eventually("b has its share", async || gained(&b).await).await;
    a.leave().await;
    eventually("b has the share of a", async || gained(&b).await).await;
}

#[tokio::test]
async fn dispatchers_share_all_partitions_fairly_as_they_come_and_go() {
    let store = store(&shared().url());
    let (a, b, c) = (
        keeper(&store, "a"),
        keeper(&store, "b"),
        keeper(&store, "c"),
    );
    assert_eq!(counts(&renew(&[&a]).await, 1), [1024]);

    // The newcomer gets nothing before the old owner has given it back.
    assert_eq!(b.run_once().await.expect("an answer").held, 0);
    renew(&[&a, &b]).await;
    assert_eq!(counts(&renew(&[&a, &b]).await, 2), [512, 512]);

    renew(&[&a, &b, &c]).await;
    let shares = counts(&renew(&[&a, &b, &c]).await, 3);
    assert_eq!(shares.iter().sum::<usize>(), 1024);
    assert!(
        shares.iter().all(|share| (335..=342).contains(share)),
        "{shares:?}"
    );

    // One that leaves is replaced at the next renewal of the others.
    a.leave().await;
    assert!(a.leases().current().is_empty());
    assert_eq!(counts(&renew(&[&b, &c]).await, 2), [512, 512]);
}

#[tokio::test]
async fn the_leases_of_a_killed_dispatcher_lapse_and_pass_on_with_a_higher_token() {
    let store = store(&shared().url());
    // Longer than a busy machine takes for the lines below.
    let dead = keeper_with(&store, "dead", Duration::from_secs(8));
    let heir = keeper(&store, "heir");
    assert_eq!(counts(&renew(&[&dead]).await, 1), [1024]);
    let token = dead.leases().current()[0].token;
    let taken_over = eventually("the heir has everything", || async {
        let renewal = heir.run_once().await.expect("Redis answers");
        (renewal.held == 1024).then_some(renewal)
    });
    assert_eq!(taken_over.await.dispatchers, 1);
    assert!(
        heir.leases()
            .current()
            .iter()
            .all(|lease| lease.token == token + 1)
    );
    assert!(
        dead.leases().current().is_empty(),
        "the dead one knows, should it wake up"
    );
}

#[tokio::test]
async fn renewals_keep_the_token() {
    let store = store(&shared().url());
    let keeper = keeper_with(&store, "steady", Duration::from_secs(6));
    renew(&[&keeper]).await;
    let before = keeper.leases().current();
    for _ in 0..3 {
        // Real time, and in all more than a lease lasts.
        tokio::time::sleep(Duration::from_millis(2_200)).await;
        renew(&[&keeper]).await;
    }
    assert_eq!(keeper.leases().current(), before);
}

#[tokio::test]
async fn the_partitions_of_a_silent_dispatcher_pass_on_before_its_leases_lapse() {
    let store = store(&shared().url());
    let lease = Duration::from_secs(12);
    let [silent, heir] = ["silent", "heir"].map(|name| keeper_with(&store, name, lease));
    renew(&[&silent]).await;
    let lost = silent.leases().current();
    let left = store.heartbeat("silent", None).await;
    left.expect("Redis answers");
    // It may have just started: a young lease is kept.
    assert_eq!(heir.run_once().await.expect("Redis answers").held, 0);
    let redis = RedisFixture::on(store.clone());
    let half_ms = lease.as_millis() as i64 / 2;
    redis.until_ms(redis.now_ms().await + half_ms + 50).await;
    assert_eq!(heir.run_once().await.expect("Redis answers").held, 1024);
    assert!(
        heir.leases()
            .current()
            .iter()
            .all(|lease| lease.token == lost[0].token + 1)
    );

    // When it sends heartbeats again, it gets a share.
    renew(&[&silent, &heir]).await;
    assert_eq!(counts(&renew(&[&silent, &heir]).await, 2), [512, 512]);
}

#[tokio::test]
async fn a_lease_refused_by_a_script_is_dropped() {
    let store = store(&shared().url());
    let keeper = keeper(&store, "fenced");
    renew(&[&keeper]).await;
    let leases = keeper.leases();
    let lost = leases.current()[7];
    leases.lost(lost);
    assert!(!leases.current().contains(&lost));
    assert_eq!(leases.current().len(), 1023);
}

#[tokio::test]
async fn heartbeats_and_leases_from_before_the_clock_was_set_back_count_as_lapsed() {
    let store = store(&shared().url());
    let redis = RedisFixture::on(store.clone());
    let far = (redis.now_ms().await + 3_600_000).to_string();
    let prefix = store.keys().prefix().to_owned();
    let ghosts = format!("{prefix}:{{dir}}:dispatchers");
    redis.run::<()>(&["ZADD", &ghosts, &far, "ghost"]).await;
    for partition in Partition::all().take(8) {
        let lease = format!("{prefix}:{{{partition}}}:lease");
        let fields = ["owner", "ghost", "token", "5", "until_ms", &far];
        redis
            .run::<()>(&[&["HSET", lease.as_str()][..], &fields].concat())
            .await;
    }
    let keeper = keeper(&store, "alive");
    let renewal = keeper.run_once().await.expect("Redis answers");
    assert_eq!((renewal.dispatchers, renewal.held), (1, 1024));
    let taken = keeper.leases().current();
    assert_eq!(taken.iter().filter(|lease| lease.token == 6).count(), 8);
    // Its own lease from before is renewed as it is.
    let own = format!("{prefix}:{{{}}}:lease", Partition::FIRST);
    redis.run::<()>(&["HSET", &own, "until_ms", &far]).await;
    let again = keeper_with(&store, "alive", LEASE);
    again.run_once().await.expect("Redis answers");
    let kept = again.leases().current();
    let first = kept
        .iter()
        .find(|lease| lease.partition == Partition::FIRST);
    assert_eq!(first.map(|lease| lease.token), Some(6));
}

#[tokio::test]
async fn no_dispatcher_counts_as_dead_until_the_list_was_readable_for_a_while() {
    let store = store(&shared().url());
    let redis = RedisFixture::on(store.clone());
    let keeper = keeper_with(&store, "one", Duration::from_secs(4));
    renew(&[&keeper]).await;
    assert_eq!(keeper.survivors(), None);
    let known = || async {
        keeper.run_once().await.expect("Redis answers");
        keeper.survivors()
    };
    assert_eq!(eventually("it was readable for long", known).await, ["one"]);

    let list = store.keys().dispatchers();
    redis.run::<()>(&["SET", &list, "out of reach"]).await;
    keeper.run_once().await.expect_err("it cannot be read");
    assert_eq!(keeper.survivors(), None);
    redis.run::<()>(&["DEL", &list]).await;
    // Others that live are not on the list yet.
    keeper.run_once().await.expect("Redis answers");
    assert_eq!(keeper.survivors(), None);
    assert_eq!(eventually("it was readable for long", known).await, ["one"]);
}
