//! A call of the fan-out takes less than a millisecond of commands, however many subscriptions forget what they missed or fall behind.

use std::time::Duration;

use budget_authority::domain::ids::Partition;
use redis::Value;
use serde_json::json;
use tokio::task::block_in_place;

use super::fan_out::{fan_out, follow, fund};
use crate::admin::http::umbra_on;
use crate::admin::webhooks::replay::{replay, umbra_partition};
use crate::admin::webhooks::subscriptions::HOOKS;
use crate::harness::app::TestApp;
use crate::harness::behind::SubscriptionFixture;
use crate::harness::event_log::EventLog;
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

/// Number of outboxes, and so of places in the window of a subscription of the operator.
const PLACES: usize = 1_024;

/// Commands that take a millisecond or so in a script: 0.8 ms on a quiet machine.
const YARDSTICK: &str = "for _ = 1, 1200 do redis.call('HINCRBY', KEYS[1], 'field', 1) end";

/// Rounds at most: other processes take the processor at times.
const ROUNDS: usize = 40;

/// Subscriptions of the operator on a server of their own.
struct Operator {
    server: RedisServer,
    app: TestApp,
    ids: Vec<String>,
}

impl Operator {
    async fn with(count: usize) -> Self {
        let settings = [
            "--slowlog-log-slower-than",
            "0",
            "--slowlog-max-len",
            "100000",
        ];
        let server = block_in_place(|| RedisServer::start_with(&settings));
        let app = umbra_on(TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await).await;
        let body = json!({"url": "https://93.184.216.34/in", "event_types": ["budget.funded"]});
        let mut ids = Vec::new();
        for _ in 0..count {
            let made = app.post_as_admin(HOOKS, body.clone()).await.expect(201);
            ids.push(made.text("/subscription/subscription_id").to_owned());
        }
        Self { server, app, ids }
    }

    fn window(&self, id: &str) -> String {
        self.app.store.keys().window(Partition::FIRST, id)
    }

    /// Runs the yardstick and returns its time and those of the calls of `fan_out.lua` since the last time, in microseconds.
    fn times(&self) -> (u64, Vec<u64>) {
        let run = |words: &[&str]| self.server.run::<Value>(words);
        run(&["EVAL", YARDSTICK, "1", "yardstick"]);
        let log: Vec<Vec<Value>> = self.server.run(&["SLOWLOG", "GET", "-1"]);
        run(&["SLOWLOG", "RESET"]);
        let (mut yardstick, mut calls) = (0, Vec::new());
        for entry in log {
            let us: u64 = redis::from_redis_value(entry[2].clone()).expect("a number");
            let call: Vec<String> = redis::from_redis_value(entry[3].clone()).expect("words");
            match call.as_slice() {
                [eval, text, ..] if eval == "EVAL" && text == YARDSTICK => yardstick = us,
                [_, _, _, key, ..] if key.ends_with(":fanned") => calls.push(us),
                _ => {}
            }
        }
        (yardstick, calls)
    }
}

/// The least times of the calls of a round, which makes the same calls each time, and of the yardstick.
#[derive(Default)]
struct Fastest {
    calls: Vec<u64>,
    yardstick: Option<u64>,
}

impl Fastest {
    /// Returns whether each call took less than a millisecond.
    fn add(&mut self, (yardstick, calls): (u64, Vec<u64>)) -> bool {
        if self.calls.len() == calls.len() {
            let pairs = self.calls.iter_mut().zip(calls);
            pairs.for_each(|(least, us)| *least = us.min(*least));
        } else {
            self.calls = calls;
        }
        let yardstick = self
            .yardstick
            .map_or(yardstick, |least| least.min(yardstick));
        self.yardstick = Some(yardstick);
        let slowest = self.calls.iter().max().expect("calls were logged");
        println!(
            "{slowest} µs of {} calls, {yardstick} µs for the yardstick",
            self.calls.len()
        );
        *slowest < yardstick
    }
}

/// Lets the window of a subscription say that it was behind before it was paused, with this many places.
async fn was_behind(app: &TestApp, window: &str, places: usize) {
    let state = [
        "sources", "1024", "epoch", "7", "missed", "1:1024", "skipped", "3",
    ];
    let places = (0..places).map(|place| {
        let field = format!("behind {place:03x}");
        [field, format!("1763859275000-{place}")]
    });
    let places: Vec<String> = places.flatten().collect();
    let places = places.iter().map(String::as_str);
    let words: Vec<&str> = ["HSET", window]
        .into_iter()
        .chain(state)
        .chain(places)
        .collect();
    app.run::<i64>(&words).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_that_were_behind_in_every_outbox_forget_that_at_little_cost_timed() {
    let operator = Operator::with(8).await;
    let (app, worker) = (&operator.app, fan_out(&operator.app));
    let behind = app.store.keys().behind(Partition::FIRST);
    let mut fastest = Fastest::default();
    for round in 1..=ROUNDS {
        // In every other round as if Redis had removed half of the places, and no more.
        let (places, is_whole) = (PLACES / (1 + round % 2), round % 2 == 0);
        for id in &operator.ids {
            was_behind(app, &operator.window(id), places).await;
            app.run::<i64>(&["ZADD", &behind, "1", id]).await;
        }
        fund(app, 1).await;
        block_in_place(|| operator.times());
        assert_eq!(follow(&worker).await, 8);
        let times = block_in_place(|| operator.times());
        for id in &operator.ids {
            let window = operator.window(id);
            let names = [
                "sources", "epoch", "missed", "skipped", "owner", "open", "queued",
            ];
            let words = [&["HMGET", window.as_str()][..], &names].concat();
            let found: Vec<Option<String>> = app.run(&words).await;
            let count = round.to_string();
            let left = ["3", "__system__", &count, &count].map(|text| Some(text.to_owned()));
            assert!(found[..3].iter().all(Option::is_none), "{found:?}");
            assert_eq!(found[3..], left, "{id}");
            assert_eq!(app.run::<i64>(&["HLEN", &window]).await, 4, "{id}");
            assert!(app.run::<i64>(&["TTL", &window]).await > 0, "{id}");
        }
        assert_eq!(app.run::<i64>(&["ZCARD", &behind]).await, 0);
        if is_whole && fastest.add(times) {
            return;
        }
    }
    panic!(
        "{:?} µs, yardstick {:?} µs",
        fastest.calls, fastest.yardstick
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_subscriptions_fall_behind_at_little_cost_timed() {
    let operator = Operator::with(200).await;
    let (app, worker) = (&operator.app, fan_out(&operator.app));
    let behind = app.store.keys().behind(Partition::FIRST);
    let mut fastest = Fastest::default();
    for round in 0..ROUNDS {
        // The second event finds the share of the tenant used up.
        fund(app, 4).await;
        block_in_place(|| operator.times());
        assert_eq!(follow(&worker).await, if round == 0 { 250 } else { 0 });
        let times = block_in_place(|| operator.times());
        let count: i64 = app.run(&["ZCARD", &behind]).await;
        assert_eq!(count, 200);
        if round > 0 && fastest.add(times) {
            return;
        }
    }
    panic!(
        "{:?} µs, yardstick {:?} µs",
        fastest.calls, fastest.yardstick
    );
}

#[tokio::test]
async fn a_replay_leaves_what_was_missed_before_a_pause_to_the_next_event() {
    let mut hooked = SubscriptionFixture::own().await;
    fund(&hooked.app, 3).await;
    assert_eq!(follow(&hooked.fan_out).await, 3);
    was_behind(&hooked.app, &hooked.window(), 20).await;
    let response = replay(&hooked.app, &hooked.id, json!({"max_events": 10})).await;
    response.expect(202);
    let log = EventLog::on(&hooked.app.store);
    let lease = Duration::from_secs(60);
    let lease = log.lease_of(umbra_partition(), "d", lease).await;
    let lost = |lost| panic!("{lost:?} is lost");
    let pass = hooked.catch_up.run_once(&[lease], lost).await;
    assert_eq!(pass.expect("Redis answers").replayed, 3);
    for (name, value) in [("sources", "1024"), ("epoch", "7"), ("open", "6")] {
        assert_eq!(hooked.field(name).await.as_deref(), Some(value), "{name}");
    }
    for delivery in hooked.app.keys_like("*:delivery:*").await {
        let epoch: String = hooked.app.run(&["HGET", &delivery, "epoch"]).await;
        assert_eq!(epoch, "0", "{delivery}");
    }
    fund(&hooked.app, 1).await;
    assert_eq!(follow(&hooked.fan_out).await, 1);
    for name in ["sources", "epoch", "missed", "behind 000"] {
        assert_eq!(hooked.field(name).await, None, "{name}");
    }
    assert_eq!(hooked.field("open").await.as_deref(), Some("7"));
}
