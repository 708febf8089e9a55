//! A subscription that was behind in every outbox, and was paused, forgets the places at little cost.

use tokio::task::block_in_place;

use super::fan_out::{follow, fund};
use crate::admin::http::umbra_on;
use crate::harness::app::TestApp;
use crate::harness::behind::SubscriptionFixture;
use crate::harness::redis::RedisServer;

/// How many outboxes there are.
const PLACES: usize = 1_024;

/// Reads each place, and removes it.
const ONE_BY_ONE: &str = "
local gone = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if field:find('^behind ') then gone[#gone + 1] = field end
end
return redis.call('HDEL', KEYS[1], unpack(gone))";

/// The places of a subscription that is behind in this many outboxes.
async fn fall_behind(app: &TestApp, window: &str, places: usize) {
    let places: Vec<[String; 2]> = (0..places)
        .map(|place| {
            [
                format!("behind {place:03x}"),
                format!("1763859275000-{place}"),
            ]
        })
        .collect();
    let mut words = vec!["HSET", window];
    words.extend(places.iter().flatten().map(String::as_str));
    app.run::<i64>(&words).await;
}

/// For how long Redis ran scripts during a call, in microseconds.
async fn script_us(app: &TestApp, command: &str, call: impl Future<Output = ()>) -> u64 {
    app.run::<()>(&["CONFIG", "RESETSTAT"]).await;
    call.await;
    let statistics: String = app.run(&["INFO", "commandstats"]).await;
    let prefix = format!("cmdstat_{command}:");
    let line = statistics
        .lines()
        .find_map(|line| line.strip_prefix(&prefix));
    let us = line.and_then(|line| line.split(',').find_map(|word| word.strip_prefix("usec=")));
    us.expect("it ran").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_was_behind_in_every_outbox_forgets_the_places_at_once() {
    let server = block_in_place(RedisServer::start);
    let app = umbra_on(TestApp::spawn_on(&server.url(), &[]).await).await;
    let hooked = SubscriptionFixture::both_on(app).await;
    let (app, window) = (&hooked.app, hooked.window());
    fund(app, 1).await;
    assert_eq!(follow(&hooked.fan_out).await, 2);
    let mut fastest = [u64::MAX; 3];
    for _ in 0..5 {
        for (at, places) in [0, PLACES].into_iter().enumerate() {
            if places > 0 {
                fall_behind(app, &window, places).await;
                let state = [
                    "sources", "1024", "epoch", "7", "missed", "1:1024", "skipped", "3",
                ];
                let words = [&["HSET", window.as_str()][..], &state].concat();
                app.run::<i64>(&words).await;
                let behind = app.store.keys().behind(hooked.partition);
                app.run::<i64>(&["ZADD", &behind, "1", &hooked.id]).await;
            }
            fund(app, 1).await;
            let queued = async { assert_eq!(follow(&hooked.fan_out).await, 2) };
            fastest[at] = script_us(app, "evalsha", queued).await.min(fastest[at]);
        }
        assert_eq!(hooked.place().await, None);
        assert!(!hooked.is_behind().await);
        assert_eq!(hooked.field("skipped").await.as_deref(), Some("3"));
        assert_eq!(hooked.field("owner").await.as_deref(), Some("umbra"));
        assert!(app.run::<i64>(&["TTL", &window]).await > 0);
        let fields: i64 = app.run(&["HLEN", &window]).await;
        assert!(fields < 10, "{fields} are left");
        // The same by reading and removing each place, to compare with.
        fall_behind(app, "compared", PLACES).await;
        let removed = async { app.run(&["EVAL", ONE_BY_ONE, "1", "compared"]).await };
        fastest[2] = script_us(app, "eval", removed).await.min(fastest[2]);
    }
    let open = hooked.field("open").await;
    assert_eq!(open.as_deref(), Some("11"), "all of them are counted");
    let [none, all, one_by_one] = fastest;
    assert!(
        all.saturating_sub(none) < one_by_one / 2,
        "{none} µs without places, {all} µs with them, {one_by_one} µs one by one"
    );
}
