//! Batches while Redis forgets its scripts, has no memory, or lacks replicas.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use budget_authority::store::{StoreError, Unavailable};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use super::calls::{Reply, words};
use super::isolation::{ROOT, acme, figures};
use super::together::{
    Batch, Call, batches, in_order, one_call, one_in_flight, together, two_tenants_on,
};
use crate::harness::redis::RedisServer;
use crate::harness::replicas::RedisPair;
use crate::harness::{patient, store_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_redis_forgets_its_scripts() {
    let server = block_in_place(RedisServer::start);
    let fixture = two_tenants_on(one_in_flight(&server.url())).await;
    fixture.budget_of(0, ROOT, 1_000_000).await;
    let (acme, is_done) = (acme(&fixture), AtomicBool::new(false));
    let clients = (0..12).map(|client| {
        let client: Call<'_, Vec<Reply>> = Box::pin(async move {
            let mut replies = Vec::new();
            for number in 0..25 {
                let key = format!("{client}-{number}");
                replies.push(acme.reserve(&key, ROOT, 1, json!({})).await);
            }
            replies
        });
        client
    });
    let replies = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                server.run::<()>(&["SCRIPT", "FLUSH"]);
                // Some calls are to find their script.
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let clients = in_order(clients.collect());
        let replies = block_in_place(|| Handle::current().block_on(clients));
        is_done.store(true, Ordering::Relaxed);
        replies
    });
    let replies: Vec<_> = replies.into_iter().flatten().collect();
    assert_eq!(words(&replies), ["ALLOW"; 300].join(" "));
    assert_eq!(figures(&fixture, ROOT).await, [999_700, 300, 0, 0]);
    let (count, members) = batches(&fixture);
    assert!(members > 2 * count, "{members} members of {count} batches");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_memory_creates_are_refused_and_changes_done() {
    let server = block_in_place(RedisServer::start);
    let fixture = two_tenants_on(one_in_flight(&server.url())).await;
    fixture.budget_of(0, ROOT, 100).await;
    let acme = acme(&fixture);
    for key in ["a", "b", "c"] {
        acme.reserve(key, ROOT, 10, json!({})).await.expect("held");
    }
    block_in_place(|| server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]));
    let calls = vec![
        acme.reserve("d", ROOT, 1, json!({})),
        // A replay needs no memory.
        acme.reserve("a", ROOT, 10, json!({})),
        acme.charge("e", ROOT, 1, json!({})),
        acme.decide("f", ROOT, 1),
    ];
    let replies = together(&fixture, Batch::Create, calls).await;
    assert_eq!(words(&replies), "Full ALLOW Full Full");
    let calls = vec![
        acme.commit("a", 5, json!({})),
        acme.release("b"),
        acme.extend("c", json!({})),
    ];
    let replies = together(&fixture, Batch::Change, calls).await;
    assert_eq!(words(&replies), "COMMITTED RELEASED ACTIVE");
    assert_eq!(figures(&fixture, ROOT).await, [85, 10, 5, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_too_few_replicas_the_members_that_succeeded_are_unknown() {
    let pair = block_in_place(RedisPair::start);
    let mut options = patient(&pair.master.url());
    options.batches = one_call();
    (options.wait, options.timeout) = (1, Duration::from_secs(4));
    let fixture = two_tenants_on(store_with(options)).await;
    fixture.budget_of(0, ROOT, 100).await;
    let acme = acme(&fixture);
    acme.reserve("a", ROOT, 10, json!({})).await.expect("held");
    acme.decide("warm", ROOT, 10).await.expect("decided");
    block_in_place(|| pair.replica.freeze());
    let calls = vec![
        acme.reserve("b", ROOT, 20, json!({})),
        acme.reserve("c", ROOT, 200, json!({})),
        acme.reserve("a", ROOT, 10, json!({})),
        acme.reserve("b", ROOT, 21, json!({})),
        acme.decide("d", ROOT, 1),
    ];
    let replies = together(&fixture, Batch::Create, calls).await;
    assert_eq!(
        words(&replies),
        "Unavailable BudgetExceeded Unavailable IdempotencyMismatch Unavailable"
    );
    for unknown in [&replies[0], &replies[2], &replies[4]] {
        let is_missing = matches!(
            unknown,
            Err(StoreError::Unavailable(Unavailable::TooFewReplicas { .. }))
        );
        assert!(is_missing, "{unknown:?}");
    }
    block_in_place(|| {
        pair.replica.thaw();
        pair.until_in_step();
    });
    assert_eq!(figures(&fixture, ROOT).await, [70, 30, 0, 0]);
}
