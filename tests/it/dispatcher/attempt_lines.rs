//! Log lines of delivery attempts: each names the attempt and its recorded outcome, and none holds a secret.

use serde_json::{Value, json};

use super::fan_out::{fan_out, follow, fund};
use super::process_fixture::text;
use crate::admin::webhooks::subscriptions::made;
use crate::harness::app::{SECRET_KEYS, TestApp};
use crate::harness::behind::umbra;
use crate::harness::deliveries::{deliveries, here};
use crate::harness::eventually;
use crate::harness::logged_dispatcher::LoggedDispatcher;
use crate::harness::receiver::{Receiver, Reply};
use crate::harness::redis::free_port;

const TOKEN: &str = "url-token-Kp4wZx";
const HEADER: &str = "header-value-Vb8rQm";
const SECRET: &str = "signing-secret-Tn6yLc";

/// A subscription with a secret in every member that may hold one.
async fn hook(app: &TestApp, url: String) -> String {
    let body = json!({
        "url": format!("{url}?token={TOKEN}"), "event_types": ["budget.funded"], "signing_secret": SECRET,
        "headers": {"Authorization": HEADER}, "retry_policy": {"max_retries": 0}, "disable_after_failures": 1,
    });
    made(app, body).await
}

/// The only delivery to a subscription.
async fn delivery(app: &TestApp, hook: &str) -> Value {
    let rows = deliveries(app, hook).await;
    assert_eq!(rows.len(), 1);
    rows[0].clone()
}

/// The fields by which a line of an attempt of this delivery is found.
fn expected<'a>(id: &'a str, outcome: &'a str, reason: &'a str) -> [(&'a str, &'a str); 3] {
    [
        ("delivery.id", id),
        ("outcome", outcome),
        ("reason", reason),
    ]
}

/// A line names the attempt, its delivery and event; so does the message.
fn names(line: &Value, hook: &str, row: &Value) {
    assert_eq!(line["level"], "INFO", "{line}");
    assert_eq!(line["webhook.id"], hook, "{line}");
    assert_eq!(line["event.id"], row["event_id"], "{line}");
    assert_eq!(line["trace.id"], row["trace_id"], "{line}");
    assert_eq!(text(line, "trace.id").len(), 32, "{line}");
    assert_eq!(line["attempt"], 1, "{line}");
    let message = text(line, "message");
    assert!(message.contains(&text(row, "delivery_id")), "{line}");
    assert!(message.contains(&text(line, "reason")), "{line}");
}

#[tokio::test]
async fn attempt_log_lines_name_delivery_and_outcome_and_no_secret() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let slow = Receiver::start(Reply::Held).await;
    let well = hook(&app, receiver.url("/in")).await;
    let closed = hook(&app, format!("http://127.0.0.1:{}/in", free_port())).await;
    let late = hook(&app, slow.url("/in")).await;
    let (unlucky, sick) = (
        hook(&app, receiver.url("/in")).await,
        hook(&app, receiver.url("/in")).await,
    );
    fund(&app, 1).await;
    follow(&fan_out(&app)).await;
    let id = async |hook: &str| text(&delivery(&app, hook).await, "delivery_id");
    let keys = app.store.keys();
    let unlucky_id = id(&unlucky).await;
    let record = keys.delivery(umbra(), &unlucky_id);
    app.run::<()>(&["HSET", &record, "lost", "5"]).await;
    let lane = keys.lane(umbra(), format!("{sick}:{}:umbra", umbra()));
    app.run::<()>(&["DEL", &lane]).await;
    app.run::<()>(&["SET", &lane, "something else"]).await;

    let dispatcher = LoggedDispatcher::start(&app, &[]);
    eventually("the slow receiver has it", || async {
        !slow.arrived().is_empty()
    })
    .await;
    // As if its claim had lapsed, and another had it by now.
    let late_id = id(&late).await;
    let record = keys.delivery(umbra(), &late_id);
    app.run::<()>(&["HSET", &record, "claim", "another:1:1"])
        .await;
    slow.reply(Reply::Status(200, ""));

    for (hook, outcome, reason) in [
        (&well, "success", "success"),
        (&closed, "failed", "transport_error"),
        (&late, "lost", "success"),
    ] {
        let delivery_id = id(hook).await;
        let line = dispatcher
            .line(&expected(&delivery_id, outcome, reason))
            .await;
        names(&line, hook, &delivery(&app, hook).await);
        let says_lost = text(&line, "message").contains("claim was lost");
        assert_eq!(says_lost, outcome == "lost", "{line}");
    }
    let log = dispatcher.text();
    let of_late = |line: &&str| line.contains(&late_id) && line.contains("\"outcome\"");
    let count = log.lines().filter(of_late).count();
    assert_eq!(count, 1, "its outcome is logged once: {log}");

    let line = dispatcher
        .line(&[("level", "ERROR"), ("delivery.id", &unlucky_id)])
        .await;
    assert!(text(&line, "message").contains(&unlucky_id), "{line}");
    let line = dispatcher
        .line(&[("level", "ERROR"), ("redis.key", &lane)])
        .await;
    assert!(text(&line, "message").contains(&lane), "{line}");
    let line = dispatcher
        .line(&[("level", "WARN"), ("webhook.id", &closed)])
        .await;
    assert!(text(&line, "message").contains(&closed), "{line}");

    let log = dispatcher.text();
    for secret in [TOKEN, HEADER, SECRET, SECRET_KEYS] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}
