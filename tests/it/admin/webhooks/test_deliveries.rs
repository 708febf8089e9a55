//! The test of a webhook: one signed request, bounded, to the address that was checked.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use budget_authority::domain::webhook::sign;
use reqwest::Method;
use serde_json::{Value, json};

use crate::admin::http::umbra_on;
use crate::admin::webhooks::guard::{SECURITY, open};
use crate::admin::webhooks::subscriptions::{HOOKS, OWN, key, made, patch};
use crate::harness::app::TestApp;
use crate::harness::receiver::{Receiver, Reply, egress};
use crate::harness::response::Response;

const SECRET: &str = "a secret of sixteen characters or more";

/// A service that resolves every name to this machine and may deliver there.
async fn here() -> TestApp {
    let (way_out, _) = egress(|_| vec![IpAddr::from([127, 0, 0, 1])]);
    let app = umbra_on(TestApp::spawn_reaching(way_out, &[]).await).await;
    open(&app).await;
    app
}

async fn made_for(app: &TestApp, url: &str) -> String {
    let body = json!({
        "url": url, "event_types": ["budget.funded"], "signing_secret": SECRET,
        "headers": {"Authorization": "Bearer t0k3n", "X-Team": "a b"},
    });
    made(app, body).await
}

async fn test(app: &TestApp, id: &str) -> Response {
    app.as_admin(Method::POST, &format!("{HOOKS}/{id}/test"), &json!({}))
        .await
        .expect(200)
}

#[tokio::test]
async fn the_receiver_gets_one_signed_request_with_all_its_headers() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(204, "")).await;
    let url = format!(
        "http://receiver.test:{}/in?key=value",
        receiver.address.port()
    );
    let id = made_for(&app, &url).await;
    patch(&app, &id, json!({"status": "PAUSED"})).await;
    let before = app.get_as_admin(&format!("{HOOKS}/{id}")).await;
    let fixture = app.admin_fixture();
    let events = fixture.event_types("umbra").len();
    let response = app
        .send(
            app.request(Method::POST, &format!("{HOOKS}/{id}/test"))
                .header("X-Admin-API-Key", crate::harness::app::ADMIN_KEY)
                .header(
                    "traceparent",
                    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
                ),
        )
        .await;
    assert_eq!(
        (response.at("/success"), response.at("/response_status")),
        (&json!(true), &json!(204))
    );
    assert!(response.at("/error_message").is_null() && response.at("/response_time_ms").is_i64());
    let arrived = receiver.arrived();
    let [request] = &arrived[..] else {
        panic!("{arrived:?}")
    };
    assert_eq!(request.line, "POST /in?key=value HTTP/1.1");
    let header = |name: &str| {
        request
            .header(name)
            .unwrap_or_else(|| panic!("{name} of {request:?}"))
    };
    assert_eq!(header("x-service-signature"), sign(SECRET, &request.body));
    assert_eq!(header("x-service-event-id"), response.text("/event_id"));
    assert_eq!(header("x-service-event-type"), "system.webhook_test");
    assert_eq!(
        header("x-service-trace-id"),
        "4bf92f3577b34da6a3ce929d0e0e4736"
    );
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("authorization"), "Bearer t0k3n");
    assert_eq!(header("x-team"), "a b");
    assert_eq!(
        header("host"),
        format!("receiver.test:{}", receiver.address.port())
    );
    assert_eq!(
        header("x-request-id"),
        response.header("x-request-id").expect("an id")
    );
    assert!(header("user-agent").starts_with("service-events/"));
    let trace = header("traceparent");
    assert!(
        trace.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && trace.ends_with("-00"),
        "{trace}"
    );
    assert!(!trace.contains("00f067aa0ba902b7"), "a span of its own");
    let event: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(event["event_id"], response.text("/event_id"));
    assert_eq!(
        (&event["category"], &event["tenant_id"]),
        (&json!("system"), &json!("umbra"))
    );
    assert_eq!(
        (&event["data"]["subscription_id"], &event["data"]["test"]),
        (&json!(id), &json!(true))
    );
    // It writes only the audit entry.
    assert_eq!(
        app.get_as_admin(&format!("{HOOKS}/{id}")).await.body,
        before.body
    );
    assert_eq!(fixture.event_types("umbra").len(), events);
    assert_eq!(
        app.get_as_admin(&format!("{HOOKS}/{id}/deliveries"))
            .await
            .body,
        json!({"deliveries": [], "has_more": false})
    );
    let entry = fixture.tenant_audit("umbra").pop().expect("an entry");
    assert_eq!(
        (
            entry.get("operation"),
            entry.get("metadata.success"),
            entry.get("metadata.response_status")
        ),
        (Some("testWebhookSubscription"), Some("true"), Some("204"))
    );
}

#[tokio::test]
async fn the_response_reports_every_kind_of_receiver_in_time() {
    let app = here().await;
    let redirect = "Location: http://127.0.0.1:1/\r\n";
    for (reply, status, message) in [
        (Reply::Status(200, ""), Some(200), None),
        (Reply::Status(302, redirect), Some(302), Some("HTTP 302")),
        (Reply::Status(404, ""), Some(404), Some("HTTP 404")),
        (Reply::Status(500, ""), Some(500), Some("HTTP 500")),
        (Reply::Flood, Some(200), None),
        (
            Reply::HangUp,
            None,
            Some("The connection ended without a response"),
        ),
    ] {
        let receiver = Receiver::start(reply.clone()).await;
        let id = made_for(&app, &receiver.url("/")).await;
        let response = test(&app, &id).await;
        assert_eq!(
            response.at("/success"),
            &json!(message.is_none()),
            "{reply:?}: {response:?}"
        );
        assert_eq!(
            response.at("/response_status").as_i64(),
            status,
            "{reply:?}: {response:?}"
        );
        assert_eq!(
            response.at("/error_message").as_str(),
            message,
            "{reply:?}: {response:?}"
        );
        assert_eq!(receiver.arrived().len(), 1, "{reply:?}");
    }
    let gone = format!("http://127.0.0.1:{}/", crate::harness::redis::free_port());
    let response = test(&app, &made_for(&app, &gone).await).await;
    assert_eq!(response.text("/error_message"), "Connection failed");
    let plain = Receiver::start(Reply::Greeting).await;
    let tls = format!("https://127.0.0.1:{}/", plain.address.port());
    let response = test(&app, &made_for(&app, &tls).await).await;
    assert_eq!(response.text("/error_message"), "TLS/SSL handshake failed");
    assert!(plain.arrived().is_empty());
}

#[tokio::test]
async fn a_silent_receiver_gets_ten_seconds_and_a_dripping_one_no_more() {
    let app = here().await;
    let mut tests = Vec::new();
    for reply in [Reply::Drip, Reply::Silence] {
        let receiver = Receiver::start(reply).await;
        tests.push(made_for(&app, &receiver.url("/")).await);
    }
    let begun = Instant::now();
    let drip = test(&app, &tests[0]).await;
    assert_eq!(drip.at("/response_status"), &json!(200), "{drip:?}");
    assert_eq!(drip.at("/success"), &json!(true), "{drip:?}");
    assert!(begun.elapsed() < Duration::from_secs(8));
    let begun = Instant::now();
    let silence = test(&app, &tests[1]).await;
    let message = silence.text("/error_message");
    assert_eq!(message, "Request timed out", "{silence:?}");
    let took = begun.elapsed();
    assert!(
        took > Duration::from_secs(9) && took < Duration::from_secs(20),
        "{took:?}"
    );
}

#[tokio::test]
async fn a_webhook_is_tested_ten_times_a_minute_at_most() {
    let app = here().await;
    let key = key(&app).await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = made_for(&app, &receiver.url("/")).await;
    let mut refused = None;
    // A minute may end in between.
    for _ in 0..21 {
        let response = app
            .by_key(&key, Method::POST, &format!("{OWN}/{id}/test"), &json!({}))
            .await;
        if response.status != 200 {
            refused = Some(response);
            break;
        }
    }
    let refused = refused.expect("it is limited");
    assert_eq!(refused.error(), (429, "LIMIT_EXCEEDED"), "{refused:?}");
    let seconds = |name: &str| {
        refused
            .header(name)
            .and_then(|text| text.parse::<u64>().ok())
    };
    assert!(
        seconds("retry-after").is_some_and(|wait| (1..=60).contains(&wait)),
        "{refused:?}"
    );
    assert!(seconds("x-ratelimit-reset").is_some());
    assert_eq!(refused.at("/details"), &json!({"limit": 10, "present": 10}));
    let other = made_for(&app, &receiver.url("/")).await;
    assert_eq!(test(&app, &other).await.at("/success"), &json!(true));
}

#[tokio::test]
async fn the_tests_of_all_webhooks_of_a_tenant_are_limited() {
    let (way_out, _) = egress(|_| vec![IpAddr::from([127, 0, 0, 1])]);
    let app = umbra_on(TestApp::spawn_reaching(way_out, &[]).await).await;
    open(&app).await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let refused = loop {
        let id = made_for(&app, &receiver.url("/")).await;
        let path = format!("{HOOKS}/{id}/test");
        let response = app.as_admin(Method::POST, &path, &json!({})).await;
        if response.status != 200 {
            break response;
        }
        // A minute may end in between.
        assert!(receiver.arrived().len() <= 60);
    };
    assert!(receiver.arrived().len() >= 30);
    assert_eq!(refused.error(), (429, "LIMIT_EXCEEDED"), "{refused:?}");
    assert_eq!(refused.at("/details"), &json!({"limit": 30, "present": 30}));
    let message = refused.text("/message");
    let named = "The webhooks of umbra were tested or replayed 30 times in this minute, which is the limit; try again in ";
    assert!(message.starts_with(named), "{message}");
    let wait = refused.header("retry-after").map(str::parse::<u64>);
    assert!(
        wait.is_some_and(|wait| wait.is_ok_and(|wait| (1..=60).contains(&wait))),
        "{refused:?}"
    );
    let counted = "budget_limit_refusals_total{limit=\"webhook_tests_per_minute\"} 1";
    let metrics = app.telemetry.render().expect("metrics");
    assert!(metrics.contains(counted), "{metrics}");
    // Those of the operator belong to another owner.
    let body = json!({"url": receiver.url("/"), "event_types": ["system.high_latency"]});
    let made = app.post_as_admin(HOOKS, body).await;
    test(&app, made.text("/subscription/subscription_id")).await;
}

#[tokio::test]
async fn unknown_names_blocked_addresses_and_closed_ports_look_alike() {
    let begun = AtomicUsize::new(0);
    // Public when the webhooks are created, then the blocked addresses.
    let resolve = move |host: &str| {
        let first = begun.fetch_add(1, Ordering::Relaxed) < 3;
        match host {
            _ if first => vec![IpAddr::from([93, 184, 216, 34])],
            "inside.test" => vec![IpAddr::from([10, 0, 0, 1])],
            "closed.test" => vec![IpAddr::from([127, 0, 0, 1])],
            _ => Vec::new(),
        }
    };
    let (way_out, _) = egress(resolve);
    let app = umbra_on(TestApp::spawn_reaching(way_out, &[]).await).await;
    let rules = json!({"blocked_cidr_ranges": ["10.0.0.0/8"], "allow_http": true});
    app.as_admin(Method::PUT, SECURITY, &rules)
        .await
        .expect(200);
    let port = crate::harness::redis::free_port();
    let mut ids = Vec::new();
    for host in ["inside.test", "closed.test", "missing.test"] {
        ids.push(made_for(&app, &format!("http://{host}:{port}/")).await);
    }
    for id in ids {
        let response = test(&app, &id).await;
        assert_eq!(response.at("/success"), &json!(false));
        assert_eq!(response.text("/error_message"), "Connection failed");
    }
    let refused = |host: &'static str| {
        let url = format!("https://{host}/");
        let body = json!({"url": url, "event_types": ["budget.funded"]});
        let app = &app;
        async move {
            let path = format!("{HOOKS}?tenant_id=umbra");
            let response = app.post_as_admin(&path, body).await;
            assert_eq!(response.error(), (400, "WEBHOOK_URL_INVALID"), "{host}");
            response.text("/message").to_owned()
        }
    };
    assert_eq!(refused("inside.test").await, refused("missing.test").await);
}

#[tokio::test]
async fn the_operators_webhook_is_tested_and_audited_as_the_operators() {
    let app = here().await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let body = json!({"url": receiver.url("/"), "event_types": ["system.high_latency"]});
    let made = app.post_as_admin(HOOKS, body).await;
    let id = made.text("/subscription/subscription_id").to_owned();
    assert_eq!(test(&app, &id).await.at("/success"), &json!(true));
    let event: Value = serde_json::from_slice(&receiver.arrived()[0].body).expect("JSON");
    assert_eq!(event["tenant_id"], "__system__");
    let fixture = app.admin_fixture();
    let entry = fixture
        .audit(
            budget_authority::domain::ids::Partition::FIRST,
            "__system__",
        )
        .pop();
    assert_eq!(
        entry.expect("an entry").get("operation"),
        Some("testWebhookSubscription")
    );
}

#[tokio::test]
async fn the_other_dialect_has_its_own_header_names() {
    let (way_out, _) = egress(|_| vec![IpAddr::from([127, 0, 0, 1])]);
    let settings = ["--dialect", "cycles"];
    let app = umbra_on(TestApp::spawn_reaching(way_out, &settings).await).await;
    open(&app).await;
    let receiver = Receiver::start(Reply::Status(200, "")).await;
    let id = made_for(&app, &receiver.url("/")).await;
    assert_eq!(test(&app, &id).await.at("/success"), &json!(true));
    let request = receiver.arrived().remove(0);
    let signature = sign(SECRET, &request.body);
    assert_eq!(
        request.header("x-cycles-signature"),
        Some(signature.as_str())
    );
    assert!(
        request.header("x-cycles-event-id").is_some()
            && request.header("x-service-event-id").is_none()
    );
    assert!(
        request
            .header("user-agent")
            .is_some_and(|agent| agent.starts_with("cycles-"))
    );
}
