//! Envelopes on a cluster, and while Redis is out of reach.

use std::time::{Duration, Instant};

use budget_authority::domain::ids::EvidenceId;
use budget_authority::evidence::Issuing;
use budget_authority::store::{RedisOptions, Store};
use reqwest::Method;
use tokio::task::{JoinSet, block_in_place};

use crate::harness::app::TestApp;
use crate::harness::evidence_keys::{issuers, listed, settings, signed};
use crate::harness::redis::{RedisCluster, RedisServer};
use crate::harness::resharding::Resharding;
use crate::harness::store_with;

async fn app(redis_url: &str) -> TestApp {
    let own = settings('a');
    let words: Vec<&str> = own.iter().map(String::as_str).collect();
    TestApp::spawn_on(redis_url, &words).await
}

/// Number of stored envelopes.
async fn stored(store: &Store, count: i64) -> Vec<(EvidenceId, String)> {
    let issuers = issuers(&[listed('a', 0, None)]);
    let envelopes: Vec<_> = (0..count).map(|at| signed(&issuers, 'a', at)).collect();
    let kept = store.write_envelopes(&envelopes, Some(3_600_000)).await;
    kept.expect("they are stored");
    envelopes
}

async fn read(app: &TestApp, id: &EvidenceId) -> (u16, String) {
    let path = format!("/v1/evidence/{id}");
    let response = app
        .request(Method::GET, &path)
        .send()
        .await
        .expect("a response");
    (
        response.status().as_u16(),
        response.text().await.expect("a body"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e17_envelopes_on_every_master_are_found_while_their_slot_moves() {
    let cluster = block_in_place(RedisCluster::start);
    let app = app(&cluster.url()).await;
    let envelopes = stored(&app.store, 60).await;
    let ids: Vec<_> = envelopes.iter().map(|(id, _)| id.clone()).collect();
    let found = app.store.envelopes_found(&ids).await.expect("a reply");
    assert_eq!(found, vec![Some(true); 60]);
    for (id, bytes) in &envelopes {
        assert_eq!(read(&app, id).await, (200, bytes.clone()));
    }
    let (id, bytes) = &envelopes[0];
    let key = app.store.keys().evidence(id.partition(), id.as_str());
    let resharding = block_in_place(|| Resharding::begin(&cluster, &key));
    assert_eq!(read(&app, id).await, (200, bytes.clone()), "not moved yet");
    block_in_place(|| resharding.migrate(&key));
    assert_eq!(
        read(&app, id).await,
        (200, bytes.clone()),
        "moved before its slot"
    );
    let again = app.store.write_envelopes(&envelopes[..1], None).await;
    again.expect("it is stored again");
    block_in_place(|| resharding.finish());
    assert_eq!(read(&app, id).await, (200, bytes.clone()), "moved");
    let found = app.store.envelopes_found(&ids[..1]).await.expect("a reply");
    assert_eq!(found, [Some(true)]);
}

#[tokio::test]
async fn e17_without_redis_a_read_is_refused_in_time_and_recovers() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let app = app(&server.url()).await;
    let (id, bytes) = stored(&app.store, 1).await.remove(0);
    assert_eq!(read(&app, &id).await.0, 200);
    server.kill();
    let begun = Instant::now();
    assert_eq!(read(&app, &id).await.0, 503);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    server.restart();
    crate::harness::eventually("it is read again", || async {
        (read(&app, &id).await == (200, bytes.clone())).then_some(())
    })
    .await;
}

#[tokio::test]
async fn e20_concurrent_requests_share_one_read_of_the_registry() {
    let mut server = RedisServer::start();
    let mut options = RedisOptions::new(server.url());
    options.timeout = Duration::from_secs(1);
    let store = store_with(options);
    store.secret().await.expect("it runs");
    server.kill();
    let issuing = Issuing::new(issuers(&[listed('a', 0, None)]));
    let (mut waiting, begun) = (JoinSet::new(), Instant::now());
    for _ in 0..50 {
        let (store, issuing) = (store.clone(), issuing.clone());
        waiting.spawn(async move { issuing.registry(&store).await.is_err() });
    }
    assert_eq!(waiting.join_all().await, vec![true; 50]);
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    server.restart();
    crate::harness::eventually("they are registered", || async {
        issuing.registry(&store).await.ok().map(drop)
    })
    .await;
}
