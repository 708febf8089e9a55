//! W33: deleting a record by hand loses its delivery, deleting a lane those in it; later ones arrive.

use std::time::Duration;

use budget_authority::domain::ids::Partition;
use budget_authority::store::Day;
use serde_json::json;

use super::fan_out::{fan_out, follow};
use crate::admin::webhooks::subscriptions::{HOOKS, made};
use crate::harness::app::TestApp;
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, fund, here, reached, webhook};
use crate::harness::eventually;
use crate::harness::receiver::{Receiver, Reply};

/// A subscription to events of `umbra`, with its keys.
pub(super) struct DamagedWebhook {
    pub app: TestApp,
    pub id: String,
    at: Partition,
}

impl DamagedWebhook {
    pub async fn own(receiver: &Receiver) -> Self {
        let app = here().await;
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        let id = made(&app, body).await;
        Self {
            app,
            id,
            at: umbra(),
        }
    }

    pub async fn system(receiver: &Receiver) -> Self {
        let app = here().await;
        let body = json!({"url": receiver.url("/in"), "event_types": ["budget.funded"]});
        let made = app.post_as_admin(HOOKS, body).await.expect(201);
        let id = made.text("/subscription/subscription_id").to_owned();
        Self {
            app,
            id,
            at: Partition::FIRST,
        }
    }

    pub async fn queue(&self, count: usize) {
        fund(&self.app, count).await;
        assert_eq!(
            follow(&fan_out(&self.app)).await,
            i64::try_from(count).expect("few")
        );
    }

    fn lane_name(&self) -> String {
        format!("{}:{}:umbra", self.id, umbra())
    }

    pub fn lane(&self) -> String {
        self.app.store.keys().lane(self.at, self.lane_name())
    }

    pub fn retries(&self) -> String {
        self.app
            .store
            .keys()
            .lane(self.at, format!("{}:retries", self.id))
    }

    async fn record(&self, index: &str) -> String {
        let id: String = self.app.run(&["LINDEX", &self.lane(), index]).await;
        self.app.store.keys().delivery(self.at, &id)
    }

    async fn damage(&self, key: &str) {
        self.app.run::<()>(&["SET", key, "something else"]).await;
    }

    pub async fn delete(&self, key: &str) {
        assert_eq!(self.app.run::<i64>(&["DEL", key]).await, 1, "{key}");
    }

    /// Damages the count of an owner's open deliveries.
    pub async fn damage_count(&self, owner: &str) {
        let open = self.app.store.keys().open_deliveries(self.at);
        self.app.run::<i64>(&["HSET", &open, owner, "many"]).await;
    }

    /// Damaged lanes, and retries whose records are damaged, are looked at again after a minute; these now.
    pub async fn look_now(&self) {
        let waits: Vec<String> = self.app.run(&["ZRANGE", &self.retries(), "0", "-1"]).await;
        for id in waits {
            self.app
                .run::<()>(&["ZADD", &self.retries(), "XX", "1", &id])
                .await;
        }
        let lanes = self.app.store.keys().lanes(self.at);
        for lane in [self.lane_name(), format!("{}:retries", self.id)] {
            self.app
                .run::<()>(&["ZADD", &lanes, "XX", "1", &lane])
                .await;
        }
    }

    /// Nothing is open and nothing in flight any more, by each count.
    pub async fn is_even(&self, what: &str) {
        let (window, open) = (
            self.app.store.keys().window(self.at, &self.id),
            self.app.store.keys().open_deliveries(self.at),
        );
        eventually(what, || async {
            let fields = ["HMGET", &window, "open", "flying", "retrying", "replaying"];
            let counts: Vec<Option<String>> = self.app.run(&fields).await;
            let of_owners: Vec<String> = self.app.run(&["HVALS", &open]).await;
            let is_even = counts.iter().flatten().all(|count| count == "0");
            match is_even && of_owners.is_empty() {
                true => Ok(()),
                false => Err((counts, of_owners)),
            }
        })
        .await;
    }
}

pub(super) async fn arrive(receiver: &Receiver, count: usize) {
    eventually("the events arrive", || async {
        let arrived = receiver.arrived().len();
        (arrived == count).then_some(()).ok_or(arrived)
    })
    .await;
}

async fn is_damaged(running: &RunningDispatcher) {
    const METRIC: &str = "budget_webhook_damaged_lanes_total ";
    eventually("the damage is counted", || async {
        let metrics = running.telemetry.render().expect("metrics");
        let mut lines = metrics.lines();
        lines.any(|line| line.strip_prefix(METRIC).is_some_and(|count| count != "0"))
    })
    .await;
}

/// The credits that arrived, in order, by the budget's new sum.
pub fn credits(receiver: &Receiver) -> Vec<i64> {
    let sum = |request: &crate::harness::receiver::ReceivedRequest| {
        let event: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
        event["data"]["new_state"]["allocated"].as_i64()
    };
    receiver.arrived().iter().filter_map(sum).collect()
}

#[tokio::test]
async fn w33_deleting_a_damaged_lane_loses_its_deliveries_and_later_ones_arrive() {
    for is_own in [true, false] {
        let receiver = Receiver::start(Reply::Status(200, "")).await;
        let hook = match is_own {
            true => DamagedWebhook::own(&receiver).await,
            false => DamagedWebhook::system(&receiver).await,
        };
        hook.queue(4).await;
        hook.damage(&hook.lane()).await;
        let running = RunningDispatcher::start(&hook.app);
        is_damaged(&running).await;
        hook.delete(&hook.lane()).await;
        hook.look_now().await;
        fund(&hook.app, 2).await;
        arrive(&receiver, 2).await;
        assert!(credits(&receiver).is_sorted(), "{:?}", credits(&receiver));
    }
}

#[tokio::test]
async fn w33_a_lane_deleted_in_flight_continues() {
    let receiver = Receiver::start(Reply::Held).await;
    let hook = DamagedWebhook::own(&receiver).await;
    let _running = RunningDispatcher::start(&hook.app);
    fund(&hook.app, 3).await;
    arrive(&receiver, 1).await;
    reached(&hook.app, &hook.id, "PENDING", 3).await;
    hook.delete(&hook.lane()).await;
    receiver.reply(Reply::Status(200, ""));
    reached(&hook.app, &hook.id, "SUCCESS", 1).await;
    fund(&hook.app, 2).await;
    arrive(&receiver, 3).await;
    reached(&hook.app, &hook.id, "SUCCESS", 3).await;
}

#[tokio::test]
async fn w33_deleted_retries_stop_no_later_ones() {
    let receiver = Receiver::start(Reply::Status(503, "")).await;
    let hook = DamagedWebhook::own(&receiver).await;
    let _running = RunningDispatcher::start(&hook.app);
    fund(&hook.app, 2).await;
    reached(&hook.app, &hook.id, "RETRYING", 2).await;
    hook.delete(&hook.retries()).await;
    fund(&hook.app, 1).await;
    reached(&hook.app, &hook.id, "RETRYING", 3).await;
    receiver.reply(Reply::Status(200, ""));
    reached(&hook.app, &hook.id, "SUCCESS", 1).await;
}

#[tokio::test]
async fn w33_an_unreadable_count_of_open_deliveries_costs_no_attempt() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let hook = DamagedWebhook::own(&receiver).await;
    hook.queue(3).await;
    hook.damage_count("umbra").await;
    let _running = RunningDispatcher::start(&hook.app);
    let ended = reached(&hook.app, &hook.id, "SUCCESS", 3).await;
    let attempts: Vec<_> = ended.iter().map(|row| &row["attempts"]).collect();
    assert_eq!(attempts, [1, 1, 1]);
    hook.is_even("it is counted from 0").await;
}

#[tokio::test]
async fn w33_a_deleted_delivery_is_no_longer_counted_and_the_others_arrive() {
    for index in ["0", "1", "2"] {
        let receiver = Receiver::start(Reply::Status(200, "")).await;
        let hook = DamagedWebhook::own(&receiver).await;
        hook.queue(3).await;
        let record = hook.record(index).await;
        hook.damage(&record).await;
        let running = RunningDispatcher::start(&hook.app);
        is_damaged(&running).await;
        hook.delete(&record).await;
        hook.look_now().await;
        arrive(&receiver, 2).await;
        fund(&hook.app, 1).await;
        arrive(&receiver, 3).await;
        hook.is_even(index).await;
    }
}

#[tokio::test]
async fn w33_a_delivery_deleted_in_flight_is_no_longer_counted() {
    for is_damaged_before in [true, false] {
        for is_retry in [false, true] {
            let receiver = Receiver::start(Reply::Held).await;
            if is_retry {
                // Late enough that the retry gets another reply.
                receiver.reply(Reply::Late(503, Duration::from_secs(4)));
            }
            let hook = DamagedWebhook::own(&receiver).await;
            let _running = RunningDispatcher::start(&hook.app);
            fund(&hook.app, 1).await;
            arrive(&receiver, 1).await;
            if is_retry {
                receiver.reply(Reply::Held);
                arrive(&receiver, 2).await;
            }
            let keys = hook.app.keys_like("{???}:delivery:*").await;
            let [record] = &keys[..] else {
                panic!("{keys:?}")
            };
            if is_damaged_before {
                hook.damage(record).await;
                receiver.reply(Reply::Status(200, ""));
                // Its attempt ends.
                tokio::time::sleep(Duration::from_millis(2_500)).await;
            }
            hook.delete(record).await;
            hook.look_now().await;
            receiver.reply(Reply::Status(200, ""));
            hook.is_even(&format!("{is_damaged_before} {is_retry}"))
                .await;
            let before = receiver.arrived().len();
            fund(&hook.app, 2).await;
            arrive(&receiver, before + 2).await;
            hook.is_even("the next ones").await;
        }
    }
}

#[tokio::test]
async fn w33_a_repaired_record_with_an_old_claim_is_attempted() {
    let receiver = Receiver::start(Reply::Held).await;
    let hook = DamagedWebhook::own(&receiver).await;
    let running = RunningDispatcher::start(&hook.app);
    fund(&hook.app, 2).await;
    arrive(&receiver, 1).await;
    let record = hook.record("0").await;
    let kept = format!("{record}:kept");
    hook.app.run::<()>(&["RENAME", &record, &kept]).await;
    hook.damage(&record).await;
    let lost = r#"budget_webhook_attempts_total{outcome="lost",reason="success"} 1"#;
    receiver.reply(Reply::Status(200, ""));
    eventually("its attempt ends", || async {
        running.telemetry.render().expect("metrics").contains(lost)
    })
    .await;
    hook.app.run::<()>(&["RENAME", &kept, &record]).await;
    hook.look_now().await;
    reached(&hook.app, &hook.id, "SUCCESS", 2).await;
    hook.is_even("it is repaired").await;
}

#[tokio::test]
async fn w33_a_lane_continues_after_its_first_delivery_is_deleted_and_the_dispatcher_killed() {
    for is_own in [true, false] {
        let receiver = Receiver::start(Reply::Status(200, "")).await;
        let hook = match is_own {
            true => DamagedWebhook::own(&receiver).await,
            false => DamagedWebhook::system(&receiver).await,
        };
        hook.queue(3).await;
        let (keys, at) = (hook.app.store.keys(), hook.at);
        let record = hook.record("0").await;
        let id = record.rsplit("delivery:").next().expect("an id");
        hook.app
            .run::<()>(&["ZADD", &keys.claims(at), "1", id])
            .await;
        hook.app
            .run::<()>(&["ZREM", &keys.lanes(at), &hook.lane_name()])
            .await;
        hook.delete(&record).await;
        let running = RunningDispatcher::start(&hook.app);
        is_damaged(&running).await;
        // A lane is examined with each 50 deliveries, even while its first one seems to be in flight.
        fund(&hook.app, 47).await;
        arrive(&receiver, 49).await;
    }
}

#[tokio::test]
async fn w33_a_delivery_without_a_readable_event_fails_and_its_lane_continues() {
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let hook = DamagedWebhook::own(&receiver).await;
    hook.queue(3).await;
    let [gone, broken] = [hook.record("0").await, hook.record("1").await];
    let app = &hook.app;
    let place: String = app.run(&["HGET", &gone, "place"]).await;
    let words: Vec<&str> = place.split(' ').collect();
    let [partition, tenant, day, entry] = words[..] else {
        panic!("{place}")
    };
    let day = Day::parse(day).expect("a day");
    let log = app.store.keys().events(umbra(), tenant, day);
    assert_eq!(app.run::<i64>(&["XDEL", &log, entry]).await, 1);
    let other: String = app.run(&["XADD", &log, "*", "type", "budget.funded"]).await;
    let elsewhere = format!("{partition} {tenant} {day} {other}");
    app.run::<()>(&["HSET", &broken, "place", &elsewhere]).await;
    let running = RunningDispatcher::start(app);
    arrive(&receiver, 1).await;
    reached(app, &hook.id, "FAILED", 2).await;
    for (record, message) in [
        (gone, "The event is gone"),
        (broken, "The event cannot be rendered"),
    ] {
        let found: String = app.run(&["HGET", &record, "error_message"]).await;
        assert_eq!(found, message);
    }
    // They are counted a moment after Redis has recorded them.
    for reason in ["event_not_found", "event_unreadable"] {
        let name = "budget_webhook_attempts_total";
        let counted = format!(r#"{name}{{outcome="dropped",reason="{reason}"}} 1"#);
        eventually(&counted, || async {
            let metrics = running.telemetry.render().expect("metrics");
            metrics.contains(&counted).then_some(()).ok_or(metrics)
        })
        .await;
    }
    let failures = webhook(app, &hook.id).await["consecutive_failures"].clone();
    assert_eq!(failures, 0, "they do not count");
    hook.is_even("both have ended").await;
}
