//! Sentinel: the store follows the master.

use budget_authority::store::deployment::META;
use budget_authority::store::{Call, Lane, Store, StoreError};
use redis::Value;

use crate::harness::redis::SentinelTrio;
use crate::harness::{eventually, store};

async fn call(store: &Store) -> Result<Value, StoreError> {
    let key = store.keys().meta();
    store
        .send(
            Lane::Request,
            &Call::new(&META.script, &[key]).with(&["1", "2", "3", "4"][..]),
        )
        .await
}

#[tokio::test]
async fn the_store_follows_a_failover() {
    let mut trio = SentinelTrio::start();
    let store = store(&trio.url());
    call(&store).await.expect("it runs");
    assert_eq!(trio.master.run::<i64>(&["DBSIZE"]), 1);
    trio.master.kill();
    eventually("the replica has taken over", || async {
        call(&store).await.ok()
    })
    .await;
    assert_eq!(
        trio.replica.run::<Vec<Value>>(&["ROLE"])[0],
        Value::BulkString(b"master".to_vec())
    );
    assert_eq!(store.metrics().primary_changes.get(), 1);
}

#[tokio::test]
async fn without_a_known_master_calls_are_unavailable() {
    let trio = SentinelTrio::start();
    let url = trio.url().replace("mymaster", "other");
    let error = call(&store(&url)).await.expect_err("no such master");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
}
