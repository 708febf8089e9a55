//! A replay outlives the dispatchers that run it.

use std::time::Duration;

use serde_json::json;

use crate::admin::webhooks::subscriptions::made;
use crate::dispatcher::process::Dispatcher;
use crate::dispatcher::replays::{arrived, having, hook, over, past, replayed};
use crate::harness::deliveries::here;
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};

#[tokio::test]
async fn a_replay_completes_after_its_dispatcher_is_killed() {
    let app = here().await;
    let receiver = Receiver::start(Reply::After(Duration::from_millis(20))).await;
    past(&app, 300).await;
    let id = made(&app, hook(&receiver, json!({}))).await;
    replayed(&app, &id, 300).await;
    let first = Dispatcher::start(&app.store);
    eventually("it is in progress", || async {
        receiver.arrived().len() > 60
    })
    .await;
    first.kill();
    let _second = Dispatcher::start(&app.store);
    eventually("all of them arrive", || async {
        having(&app, &id, "SUCCESS").await == 300
    })
    .await;
    let mut seen = arrived(&receiver);
    assert!((300..=301).contains(&seen.len()), "{} attempts", seen.len());
    seen.dedup();
    assert_eq!(
        seen.len(),
        300,
        "what was in flight is repeated, and before what follows it"
    );
    over(&app, &id).await;
    eventually("nothing is left open", || async {
        app.keys_like("*:lane:*").await.is_empty()
    })
    .await;
}
