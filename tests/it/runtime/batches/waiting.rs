//! Requests that wait: their client hangs up, their deadline passes, the service shuts down.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use budget_authority::store::{StoreError, Unavailable};
use serde_json::json;
use tokio::task::{block_in_place, unconstrained};

use super::calls::{Reply, word};
use super::isolation::{ROOT, acme, figures, fixture};
use super::together::{Call, in_order, two_tenants_on};
use crate::harness::app::TestApp;
use crate::harness::redis::RedisServer;
use crate::harness::{patient, store_with};

/// How often a call is polled at most before it is dropped. A reserve has ended before.
const POLLS: usize = 6;

/// Polls a call some times, with time for the others between, and drops it. Returns its reply if it has ended.
async fn abandon(mut call: Call<'_, Reply>, polls: usize) -> Option<Reply> {
    for _ in 0..polls {
        let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
        if let Poll::Ready(reply) = unconstrained(polled).await {
            return Some(reply);
        }
        // Long enough for Redis to reply to what is in flight, mostly.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_is_answered_whichever_other_is_abandoned_and_wherever() {
    let fixture = fixture().await;
    let acme = acme(&fixture);
    let mut number = 0;
    let mut held = 0;
    for abandoned in 0..4 {
        for polls in 0..POLLS {
            let calls = (0..4).map(|position| {
                number += 1;
                let call = acme.reserve(&format!("k{number}"), ROOT, 1, json!({}));
                let call: Call<'_, Option<Reply>> = match position == abandoned {
                    true => Box::pin(abandon(call, polls)),
                    false => Box::pin(async { Some(call.await) }),
                };
                call
            });
            let replies = in_order(calls.collect()).await;
            for (position, reply) in replies.into_iter().enumerate() {
                let word = reply.as_ref().map(word);
                let is_held = word.as_deref() == Some("ALLOW");
                assert!(is_held || position == abandoned, "{position}: {word:?}");
                held += i64::from(is_held);
            }
        }
    }
    let [_, reserved, ..] = figures(&fixture, ROOT).await;
    let abandoned = 4 * POLLS as i64;
    assert!(
        (held..=held + abandoned).contains(&reserved),
        "{reserved} of {held}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_deadline_passes_while_it_waits_is_never_sent() {
    let server = block_in_place(RedisServer::start);
    let mut options = patient(&server.url());
    options.batches.in_flight = 1;
    options.timeout = Duration::from_secs(1);
    let fixture = two_tenants_on(store_with(options)).await;
    fixture.budget_of(0, ROOT, 100).await;
    let acme = acme(&fixture);
    acme.reserve("warm", ROOT, 1, json!({}))
        .await
        .expect("held");
    let pause = |ms| block_in_place(|| server.run::<()>(&["CLIENT", "PAUSE", ms, "ALL"]));
    pause("500");
    let (slow, other) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
    // Its first call takes half of its time.
    let waiting = fixture.store.serve(async {
        let warm = acme.reserve("warm", ROOT, 1, json!({}));
        warm.await.expect("a replay");
        slow.notify_one();
        other.notified().await;
        let begun = Instant::now();
        let reply = acme.reserve("waiting", ROOT, 10, json!({})).await;
        assert!(
            begun.elapsed() < Duration::from_millis(900),
            "it waited for the other"
        );
        reply
    });
    let in_flight = async {
        slow.notified().await;
        pause("3000");
        let call = acme.reserve("in flight", ROOT, 10, json!({}));
        let begun = async {
            // It is polled first, and so in flight.
            tokio::task::yield_now().await;
            other.notify_one();
        };
        tokio::join!(call, begun).0
    };
    let (waiting, in_flight) = tokio::join!(waiting, in_flight);
    let is_unsent = matches!(waiting, Err(StoreError::Unavailable(Unavailable::TimeIsUp)));
    assert!(is_unsent, "{waiting:?}");
    let is_unknown =
        matches!(&in_flight, Err(StoreError::Unavailable(why)) if why.effect_unknown());
    assert!(is_unknown, "{in_flight:?}");
    // Until the pause is over.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    acme.reserve("next", ROOT, 1, json!({}))
        .await
        .expect("held");
    assert_eq!(figures(&fixture, ROOT).await, [88, 12, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_shuts_down_answers_what_waits() {
    let server = block_in_place(RedisServer::start);
    let app = TestApp::spawn_on(&server.url(), &[]).await;
    app.budget("tenant:acme", 1_000, 0).await;
    app.reserve("warm", 1).await;
    block_in_place(|| server.run::<()>(&["CLIENT", "PAUSE", "1000", "ALL"]));
    let service = &app;
    let requests = (0..20).map(|number| -> Call<'_, u16> {
        Box::pin(async move { service.reserve(&format!("k{number}"), 10).await.status })
    });
    let requests = requests.collect();
    let stop = async {
        // Long enough for all requests to wait for Redis, and shorter than its pause.
        tokio::time::sleep(Duration::from_millis(400)).await;
        app.stop();
    };
    let (statuses, ()) = tokio::join!(in_order(requests), stop);
    assert_eq!(statuses, vec![200; 20]);
}
