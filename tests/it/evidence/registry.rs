//! Numbers and windows of issuers, as every process of a deployment agrees on them.

use budget_authority::evidence::{Issuers, Issuing, ListedKey, Registry, register_issuers};
use budget_authority::store::{Lane, Store, StoreError};
use tokio::task::JoinSet;

use crate::harness::evidence_keys::{issuers, issuers_of, listed, listed_issuers};
use crate::harness::redis_fixture::now_ms;
use crate::harness::{redis, store};

const MINUTE: i64 = 60_000;

struct Deployment {
    store: Store,
    now: i64,
}

impl Deployment {
    async fn new() -> Self {
        let store = store(&redis::shared().url());
        let now = now_ms(&store).await;
        Self { store, now }
    }

    async fn register(&self, issuers: &Issuers) -> Result<Registry, String> {
        let none = Registry::default();
        let registered = register_issuers(&self.store, issuers, &none).await;
        registered.map_err(|error| match error {
            StoreError::Deployment(why) => why,
            other => panic!("{other}"),
        })
    }

    /// A process starts with these keys.
    async fn starts(&self, keys: &[ListedKey]) -> Registry {
        self.register(&issuers(keys)).await.expect("it starts")
    }

    /// A process with these keys is refused, with these words.
    async fn refuses(&self, keys: &[ListedKey], words: &[&str]) {
        let before = self.stored().await;
        let why = self.register(&issuers(keys)).await.expect_err("a refusal");
        for word in words {
            assert!(why.contains(word), "{word}: {why}");
        }
        assert_eq!(self.stored().await, before, "nothing is registered");
    }

    /// The loss in a failover.
    async fn loses(&self, fields: &[&str]) {
        let key = self.store.keys().issuers();
        let mut command = ::redis::cmd("HDEL");
        command.arg(&key).arg(fields);
        self.store
            .send(Lane::Background, (&key, &command))
            .await
            .expect("a hash");
    }

    async fn stored(&self) -> Vec<(String, String)> {
        let key = self.store.keys().issuers();
        let mut command = ::redis::cmd("HGETALL");
        command.arg(&key);
        let reply = self
            .store
            .send(Lane::Background, (&key, &command))
            .await
            .expect("a hash");
        let mut fields: Vec<(String, String)> = ::redis::from_redis_value(reply).expect("fields");
        fields.sort();
        fields
    }
}

fn number_at(registry: &Registry, at_ms: i64) -> Option<u32> {
    registry.chosen(at_ms, at_ms).map(|one| one.number)
}

#[tokio::test]
async fn e20_the_first_key_signs_at_once_and_keeps_its_number() {
    let deployment = Deployment::new().await;
    let now = deployment.now;
    // A retired one of an earlier life beside it.
    let keys = [listed('a', 0, Some(5)), listed('b', 5, None)];
    let registry = deployment.starts(&keys).await;
    assert_eq!(registry.choice(now), "2:5:");
    assert_eq!(number_at(&registry, 4), Some(1));
    assert_eq!(deployment.starts(&keys).await, registry);
    assert_eq!(deployment.stored().await.len(), 2);
}

#[tokio::test]
async fn e20_replicas_that_start_at_the_same_time_agree() {
    let deployment = Deployment::new().await;
    let later = deployment.now + 20 * MINUTE;
    let keys = [listed('a', 0, Some(later)), listed('b', later, None)];
    let mut starting = JoinSet::new();
    for _ in 0..16 {
        let (store, issuers) = (deployment.store.clone(), issuers(&keys));
        let none = Registry::default();
        starting.spawn(async move { register_issuers(&store, &issuers, &none).await });
    }
    let registered = starting.join_all().await.into_iter();
    let registries: Vec<_> = registered.map(|one| one.expect("it starts")).collect();
    for registry in &registries {
        assert_eq!(registry, &registries[0]);
    }
    assert_eq!(deployment.stored().await.len(), 2);
}

#[tokio::test]
async fn e20_a_rotation_is_registered_ten_minutes_ahead_in_any_order_of_starts() {
    let deployment = Deployment::new().await;
    let (now, from) = (deployment.now, deployment.now - MINUTE);
    let old = [listed('a', from, None)];
    deployment.starts(&old).await;
    for ahead in [-1, 0, 9 * MINUTE] {
        let at = now + ahead;
        let early = [listed('a', from, Some(at)), listed('b', at, None)];
        deployment.refuses(&early, &["`a`", "10 minutes"]).await;
    }
    // The other one still signs.
    let beside = [listed('b', now + 20 * MINUTE, None)];
    deployment.refuses(&beside, &["`b`", "overlaps"]).await;

    let at = now + 11 * MINUTE;
    let new = [listed('a', from, Some(at)), listed('b', at, None)];
    let registry = deployment.starts(&new).await;
    let choice = format!("1:{from}:{at} 2:{at}:");
    assert_eq!(registry.choice(now), choice);
    // A replica with the former configuration starts again: it stops in time all the same.
    let former = deployment.starts(&old).await;
    assert_eq!(former.choice(now), format!("1:{from}:{at}"));
    assert!(former.registered(2).is_some(), "it can name the other one");
    // Not begun yet, and already another end: the registered one stays.
    let other = [
        listed('a', from, Some(at + MINUTE)),
        listed('b', at + MINUTE, None),
    ];
    deployment
        .refuses(&other, &["`a`", "window", "never changes"])
        .await;
    assert_eq!(deployment.starts(&new).await, registry);
    // Retired ones may be left out: records still name them.
    let registry = deployment.starts(&new[1..]).await;
    assert_eq!(registry.choice(now), format!("2:{at}:"));
    assert!(registry.registered(1).is_some());
}

#[tokio::test]
async fn e20_a_new_key_must_not_start_soon_while_another_signs() {
    let deployment = Deployment::new().await;
    let (now, end) = (deployment.now, deployment.now + 5 * MINUTE);
    let old = listed('a', 0, Some(end));
    deployment.starts(std::slice::from_ref(&old)).await;
    let soon = [old.clone(), listed('b', end, None)];
    deployment.refuses(&soon, &["`b`", "10 minutes"]).await;
    let later = [old, listed('b', now + 11 * MINUTE, None)];
    deployment.starts(&later).await;
}

#[tokio::test]
async fn e20_after_a_gap_a_key_may_start_at_once() {
    let deployment = Deployment::new().await;
    let now = deployment.now;
    let old = listed('a', 0, Some(now - MINUTE));
    deployment.starts(std::slice::from_ref(&old)).await;
    // An end never changes, and it is over by now.
    deployment
        .refuses(&[listed('a', 0, None)], &["`a`", "never changes"])
        .await;
    let overlapping = [listed('b', now - 2 * MINUTE, None)];
    deployment.refuses(&overlapping, &["`b`", "overlaps"]).await;
    let registry = deployment
        .starts(&[old, listed('b', now - MINUTE, None)])
        .await;
    assert_eq!(number_at(&registry, now), Some(2));
}

#[tokio::test]
async fn e20_the_start_of_a_key_never_changes() {
    let deployment = Deployment::new().await;
    deployment.starts(&[listed('a', 5, None)]).await;
    for from in [4, 6] {
        let keys = [listed('a', from, None)];
        deployment
            .refuses(&keys, &["`a`", "5 open", "start of a window"])
            .await;
    }
}

#[tokio::test]
async fn e19_a_key_keeps_the_form_that_it_was_registered_with() {
    let deployment = Deployment::new().await;
    let (now, from) = (deployment.now, deployment.now - MINUTE);
    let raw = deployment.starts(&[listed('a', from, None)]).await;
    // Replicas with either setting agree, and so do those that add an end.
    let by_set = |keys: &[ListedKey]| listed_issuers(keys);
    let same = deployment
        .register(&by_set(&[listed('a', from, None)]))
        .await;
    assert_eq!(same, Ok(raw));
    let at = now + 11 * MINUTE;
    let both = [listed('a', from, Some(at)), listed('b', at, None)];
    let changed = deployment
        .register(&by_set(&both))
        .await
        .expect("it starts");
    assert_eq!(changed.choice(now), format!("1:{from}:{at} 2:{at}:"));
    let names = |registry: &Registry| {
        let issuers = [1, 2].map(|number| registry.registered(number).expect("an issuer"));
        issuers.map(|one| one.issuer.signer.to_string())
    };
    let [old, new] = names(&changed);
    assert_eq!(old, both[0].key.hex());
    assert!(new.starts_with("did:") && new.ends_with("#b"), "{new}");
    // One that still has the former setting knows them by the same names.
    assert_eq!(deployment.starts(&both).await, changed);
    assert_eq!(deployment.stored().await.len(), 2);
    // The same id in another window is another key.
    let reused = [listed('b', at + MINUTE, None)];
    deployment.refuses(&reused, &["`b`", "overlaps"]).await;
}

#[tokio::test]
async fn e20_another_server_id_takes_over_when_the_former_one_has_ended() {
    let deployment = Deployment::new().await;
    let now = deployment.now;
    deployment.starts(&[listed('a', 0, None)]).await;
    let moved = |keys: &[ListedKey]| issuers_of("https://other.example/v1", keys);
    let refused = deployment.register(&moved(&[listed('a', 0, None)])).await;
    assert!(refused.is_err_and(|why| why.contains("another server id")));
    let end = now + 11 * MINUTE;
    deployment.starts(&[listed('a', 0, Some(end))]).await;
    let keys = [listed('c', 0, Some(9)), listed('b', end, None)];
    let registry = deployment.register(&moved(&keys)).await.expect("it starts");
    let chosen = registry.chosen(end, end);
    let server = chosen.map(|one| one.issuer.server_id.as_str());
    assert_eq!(server, Some("https://other.example/v1"));
    assert_eq!(
        number_at(&registry, end - 1),
        None,
        "this process does not sign by then"
    );
}

#[tokio::test]
async fn e20_a_running_process_learns_in_time_that_its_key_ends() {
    let deployment = Deployment::new().await;
    let (store, now) = (&deployment.store, deployment.now);
    let issuing = Issuing::new(issuers(&[listed('a', 0, None)]));
    let before = issuing.registry(store).await.expect("registered");
    assert_eq!(before.choice(now), "1:0:");
    let end = now + 11 * MINUTE;
    let keys = [listed('a', 0, Some(end)), listed('b', end, None)];
    deployment.starts(&keys).await;
    issuing.refresh(store).await.expect("read again");
    let after = issuing.registry(store).await.expect("known");
    assert_eq!(after.choice(now), format!("1:0:{end}"));
    assert!(after.registered(2).is_some());
}

#[tokio::test]
async fn e20_lost_entries_of_the_registry_are_written_again() {
    let deployment = Deployment::new().await;
    let (store, now) = (&deployment.store, deployment.now);
    let (begun, end) = (now - MINUTE, now + 20 * MINUTE);
    deployment.starts(&[listed('a', 0, Some(begun))]).await;
    // One that no longer lists the first key, and does not know yet that its own one ends.
    let issuing = Issuing::new(issuers(&[listed('b', begun, None)]));
    issuing.registry(store).await.expect("registered");
    let keys = [listed('b', begun, Some(end)), listed('c', end, None)];
    deployment.starts(&keys).await;
    issuing.refresh(store).await.expect("read again");
    let (stored, known) = (deployment.stored().await, issuing.registry(store).await);
    let known = known.expect("known");
    assert_eq!(stored.len(), 3);
    for lost in [&["1", "2", "3"][..], &["1"], &["3"]] {
        deployment.loses(lost).await;
        issuing.refresh(store).await.expect("written again");
        assert_eq!(deployment.stored().await, stored, "{lost:?}");
    }
    // An end, and what follows it.
    deployment.loses(&["2", "3"]).await;
    deployment.starts(&[listed('b', begun, None)]).await;
    issuing.refresh(store).await.expect("written again");
    assert_eq!(deployment.stored().await, stored);
    assert_eq!(issuing.registry(store).await.expect("known"), known);
}

#[tokio::test]
async fn e20_reassigned_numbers_are_refused() {
    let deployment = Deployment::new().await;
    let (store, begun) = (&deployment.store, deployment.now - MINUTE);
    let keys = [listed('a', 0, Some(begun)), listed('b', begun, None)];
    let issuing = Issuing::new(issuers(&keys));
    let known = issuing.registry(store).await.expect("registered");
    deployment.loses(&["1", "2"]).await;
    // It gives the first number to another.
    deployment.starts(&keys[1..]).await;
    let anew = deployment.stored().await;
    let refused = issuing.refresh(store).await.expect_err("another number");
    let why = refused.to_string();
    assert!(why.contains("lost") && why.contains("backup"), "{why}");
    assert_eq!(deployment.stored().await, anew);
    assert_eq!(issuing.registry(store).await.expect("known"), known);
    // Without it, it is written again.
    deployment.loses(&["1"]).await;
    issuing.refresh(store).await.expect("written again");
    assert_eq!(deployment.stored().await.len(), 2);
}

#[tokio::test]
async fn a_damaged_registry_is_reported_and_not_changed() {
    let deployment = Deployment::new().await;
    deployment.starts(&[listed('a', 0, None)]).await;
    let key = deployment.store.keys().issuers();
    let mut command = ::redis::cmd("HSET");
    command.arg(&key).arg("1").arg("from open x y");
    deployment
        .store
        .send(Lane::Background, (&key, &command))
        .await
        .expect("written");
    deployment
        .refuses(&[listed('a', 0, None)], &["issuer 1", "backup"])
        .await;
}
