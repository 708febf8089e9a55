//! Events arrive: signed, in order, again after a failure; a receiver that fails too often is disabled.

use std::time::Duration;

use budget_authority::domain::moment::Moment;
use budget_authority::domain::webhook::sign;
use reqwest::Method;
use serde_json::{Value, json};

use super::fan_out::{fan_out, follow};
use crate::admin::webhooks::subscriptions::{made, patch};
use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::behind::umbra;
use crate::harness::deliveries::{RunningDispatcher, deliveries, fund, here, reached, webhook};
use crate::harness::receiver::{ReceivedRequest, Receiver, Reply};
use crate::harness::runtime_calls::tokens;

const SECRET: &str = "a secret of sixteen characters or more";

async fn made_for(app: &TestApp, receiver: &Receiver, more: Value) -> String {
    let mut body = json!({
        "url": receiver.url("/in"), "event_types": ["budget.funded"], "signing_secret": SECRET,
        "headers": {"Authorization": "Bearer t0k3n"},
    });
    for (name, value) in more.as_object().expect("members") {
        body[name] = value.clone();
    }
    made(app, body).await
}

#[tokio::test]
async fn w20_an_event_arrives_signed_with_all_headers_and_its_times_are_stored() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = made_for(&app, &receiver, json!({})).await;
    let _running = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    let rows = reached(&app, &id, "SUCCESS", 1).await;
    let arrived = receiver.arrived();
    let [request] = &arrived[..] else {
        panic!("{arrived:?}")
    };
    let event: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(event["event_type"], "budget.funded");
    let header = |name: &str| {
        request
            .header(name)
            .unwrap_or_else(|| panic!("{name} of {request:?}"))
    };
    assert_eq!(header("x-service-signature"), sign(SECRET, &request.body));
    assert_eq!(header("x-service-event-id"), event["event_id"]);
    assert_eq!(header("x-service-event-type"), "budget.funded");
    assert_eq!(header("x-service-trace-id"), event["trace_id"]);
    assert_eq!(header("x-request-id"), event["request_id"]);
    assert_eq!(header("authorization"), "Bearer t0k3n");
    assert_eq!(header("content-type"), "application/json");
    let row = &rows[0];
    assert_eq!(row["event_id"], event["event_id"]);
    assert_eq!(
        (&row["attempts"], &row["response_status"]),
        (&json!(1), &json!(200))
    );
    assert!(
        row["completed_at"].is_string() && row["error_message"].is_null(),
        "{row}"
    );
    let record = webhook(&app, &id).await;
    assert_eq!(record["last_success_at"], row["completed_at"]);
    assert!(
        record["last_triggered_at"].is_string() && record["updated_at"].is_null(),
        "{record}"
    );
}

#[tokio::test]
async fn w26_valid_trace_flags_of_the_request_are_passed_on() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = made_for(&app, &receiver, json!({})).await;
    let _running = RunningDispatcher::start(&app);
    let parent = format!("00-{}-{}-00", "a1".repeat(16), "b2".repeat(8));
    let path = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
    let body = json!({"operation": "CREDIT", "amount": tokens(1)});
    for (number, parent) in [parent.as_str(), "none"].into_iter().enumerate() {
        let headers = [("X-Admin-API-Key", ADMIN_KEY), ("traceparent", parent)];
        app.call(Method::POST, path, &headers, &body)
            .await
            .expect(200);
        let rows = reached(&app, &id, "SUCCESS", number + 1).await;
        let is_valid = number == 0;
        let row = &rows[number];
        assert_eq!(row["traceparent_inbound_valid"], is_valid, "{row}");
        let flags = if is_valid { "00" } else { "01" };
        assert_eq!(row["trace_flags"], flags, "{row}");
        let arrived = receiver.arrived();
        let sent = arrived[number].header("traceparent").expect("a header");
        let trace = row["trace_id"].as_str().expect("an id");
        assert!(sent.starts_with(&format!("00-{trace}-")) && sent.ends_with(&format!("-{flags}")));
        assert_eq!(trace == "a1".repeat(16), is_valid);
    }
}

#[tokio::test]
async fn an_event_arrives_soon_timed() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = made_for(&app, &receiver, json!({})).await;
    let _running = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    reached(&app, &id, "SUCCESS", 1).await;
    let mut took = Vec::new();
    for count in 2..7 {
        fund(&app, 1).await;
        let rows = reached(&app, &id, "SUCCESS", count).await;
        let at = |name: &str| {
            Moment::parse(rows[count - 1][name].as_str().expect("a time"))
                .expect("a time")
                .as_ms()
        };
        took.push(at("completed_at") - at("attempted_at"));
    }
    // From the queue to the end: nothing waits for the next look at all partitions, which is every second.
    took.sort_unstable();
    assert!(took[2] < 300, "{took:?}");
}

#[tokio::test]
async fn w9_events_of_a_tenant_arrive_in_order() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = made_for(&app, &receiver, json!({})).await;
    fund(&app, 40).await;
    let _running = RunningDispatcher::start(&app);
    let rows = reached(&app, &id, "SUCCESS", 40).await;
    let queued: Vec<_> = rows
        .iter()
        .map(|row| row["event_id"].as_str().expect("an id"))
        .collect();
    let arrived = receiver.arrived();
    let arrived: Vec<_> = arrived
        .iter()
        .map(|request| request.header("x-service-event-id").expect("an id"))
        .collect();
    assert_eq!(arrived, queued);
}

#[tokio::test]
async fn a_failure_is_retried_and_delays_no_others() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(500, "")).await;
    let policy = json!({"max_retries": 2, "initial_delay_ms": 100, "max_delay_ms": 1000});
    let id = made_for(&app, &receiver, json!({"retry_policy": policy})).await;
    let running = RunningDispatcher::start(&app);
    fund(&app, 2).await;
    let rows = reached(&app, &id, "FAILED", 2).await;
    // A dispatcher counts what Redis has recorded, so a moment later.
    for expected in [
        r#"budget_webhook_attempts_total{outcome="failed",reason="http_5xx"} 2"#,
        r#"budget_webhook_attempts_total{outcome="retry",reason="http_5xx"} 4"#,
        "budget_webhook_deliveries_queued_total 2",
        "budget_webhook_delay_seconds_count 2",
        "budget_webhook_lag_seconds 0",
    ] {
        crate::harness::eventually(expected, || async {
            let metrics = running.telemetry.render().expect("metrics");
            metrics.contains(expected).then_some(()).ok_or(metrics)
        })
        .await;
    }
    for row in &rows {
        assert_eq!(
            (&row["attempts"], &row["response_status"]),
            (&json!(3), &json!(500)),
            "{row}"
        );
        assert_eq!(row["error_message"], "HTTP 500");
    }
    assert_eq!(receiver.arrived().len(), 6);
    let record = webhook(&app, &id).await;
    assert_eq!(
        (&record["consecutive_failures"], &record["status"]),
        (&json!(2), &json!("ACTIVE"))
    );
    let types = app.admin_fixture().event_types("umbra");
    assert!(!types.contains(&"webhook.disabled".to_owned()), "{types:?}");
}

#[tokio::test]
async fn w4_the_configured_number_of_failures_disables_a_webhook_and_ends_its_deliveries() {
    let app = here().await;
    let receiver = Receiver::start(Reply::HangUp).await;
    let settings = json!({"retry_policy": {"max_retries": 0}, "disable_after_failures": 3});
    let id = made_for(&app, &receiver, settings).await;
    fund(&app, 6).await;
    let _running = RunningDispatcher::start(&app);
    let rows = reached(&app, &id, "FAILED", 6).await;
    let attempts: Vec<_> = rows
        .iter()
        .map(|row| row["attempts"].as_i64().expect("a number"))
        .collect();
    assert_eq!(attempts, [1, 1, 1, 0, 0, 0], "{rows:?}");
    assert_eq!(rows[5]["error_message"], "The subscription is not active");
    let record = webhook(&app, &id).await;
    assert_eq!(
        (&record["consecutive_failures"], &record["status"]),
        (&json!(3), &json!("DISABLED"))
    );
    let types = app.admin_fixture().event_types("umbra");
    assert_eq!(
        types
            .iter()
            .filter(|name| *name == "webhook.disabled")
            .count(),
        1
    );
    // Once active again, it gets events from now on.
    patch(
        &app,
        &id,
        json!({"status": "ACTIVE", "url": Receiver::start(Reply::Status(204, "")).await.url("/")}),
    )
    .await;
    fund(&app, 1).await;
    reached(&app, &id, "SUCCESS", 1).await;
    assert_eq!(webhook(&app, &id).await["consecutive_failures"], 0);
}

#[tokio::test]
async fn w3_waiting_retries_fail_at_once_when_the_webhook_is_paused_or_deleted() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(503, "")).await;
    let policy = json!({"retry_policy": {"initial_delay_ms": 60_000}});
    let id = made_for(&app, &receiver, policy).await;
    let _running = RunningDispatcher::start(&app);
    fund(&app, 2).await;
    let rows = reached(&app, &id, "RETRYING", 2).await;
    assert!(rows[0]["next_retry_at"].is_string(), "{rows:?}");
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    let rows = reached(&app, &id, "FAILED", 2).await;
    assert_eq!(rows[0]["attempts"], 1);
    assert_eq!(webhook(&app, &id).await["consecutive_failures"], 0);
}

#[tokio::test]
async fn another_dispatcher_continues_after_a_shutdown() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = made_for(&app, &receiver, json!({})).await;
    let first = RunningDispatcher::start(&app);
    fund(&app, 5).await;
    reached(&app, &id, "SUCCESS", 5).await;
    first.stop().await;
    fund(&app, 5).await;
    let _second = RunningDispatcher::start(&app);
    let rows = reached(&app, &id, "SUCCESS", 10).await;
    assert!(rows.iter().all(|row| row["attempts"] == 1), "{rows:?}");
    assert_eq!(receiver.arrived().len(), 10);
}

#[tokio::test]
async fn w17_a_delivery_in_flight_at_a_shutdown_is_returned() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Silence).await;
    let id = made_for(&app, &receiver, json!({})).await;
    let first = RunningDispatcher::start(&app);
    fund(&app, 1).await;
    crate::harness::eventually("it is in flight", || async {
        (deliveries(&app, &id).await.first()?["attempts"] == 1).then_some(())
    })
    .await;
    first.stop().await;
    let well = Receiver::start(Reply::Status(200, "")).await;
    patch(&app, &id, json!({"url": well.url("/")})).await;
    let begun = std::time::Instant::now();
    let _second = RunningDispatcher::start(&app);
    let rows = reached(&app, &id, "SUCCESS", 1).await;
    assert_eq!(rows[0]["attempts"], 2);
    // Its claim would last 35 seconds.
    assert!(begun.elapsed() < Duration::from_secs(25));
}

#[tokio::test]
async fn deliveries_behind_a_returned_one_end_with_the_subscription() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Silence).await;
    let id = made_for(&app, &receiver, json!({})).await;
    fund(&app, 3).await;
    let first = RunningDispatcher::start(&app);
    crate::harness::eventually("it is in flight", || async {
        (deliveries(&app, &id).await.first()?["attempts"] == 1).then_some(())
    })
    .await;
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    first.stop().await;
    let _second = RunningDispatcher::start(&app);
    let rows = reached(&app, &id, "FAILED", 3).await;
    let attempts: Vec<_> = rows.iter().map(|row| row["attempts"].clone()).collect();
    assert_eq!(attempts, [json!(1), json!(0), json!(0)]);
    assert_eq!(webhook(&app, &id).await["consecutive_failures"], 0);
}

#[tokio::test]
async fn missed_events_arrive_once_and_in_order_when_the_receiver_recovers_timed() {
    const EVENTS: usize = 130;
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = made_for(&app, &receiver, json!({})).await;
    let window = app.store.keys().window(umbra(), &id);
    // As if 950 were open already.
    app.run::<()>(&["HSET", &window, "open", "950"]).await;
    fund(&app, EVENTS).await;
    assert_eq!(follow(&fan_out(&app)).await, 50);
    app.run::<()>(&["HSET", &window, "open", "50"]).await;
    let first = RunningDispatcher::start(&app);
    crate::harness::eventually("some arrive", || async {
        (receiver.arrived().len() > 60).then_some(())
    })
    .await;
    first.stop().await;
    let _second = RunningDispatcher::start(&app);
    crate::harness::eventually("all arrive", || async {
        (receiver.arrived().len() >= EVENTS).then_some(())
    })
    .await;
    let allocated = |request: &ReceivedRequest| {
        let event: Value = serde_json::from_slice(&request.body).expect("JSON");
        let figure = event["data"]["new_state"]["allocated"].as_i64();
        figure.expect("a figure")
    };
    let mut arrived: Vec<_> = receiver.arrived().iter().map(allocated).collect();
    // Deliveries in flight when the first one stopped may arrive again.
    arrived.dedup();
    assert!(arrived.is_sorted(), "{arrived:?}");
    assert_eq!(arrived.len(), EVENTS);
}
