//! Behaviour while Redis's memory gets short: each step, replays, and operations that free memory.

use std::sync::Arc;
use std::time::Duration;

use budget_authority::dispatcher::{DeliverySignal, FanOut, Outboxes};
use prometheus::Registry;
use reqwest::Method;
use serde_json::json;

use crate::dispatcher::retention;
use crate::harness::app::{TestApp, reserve_body};
use crate::harness::event_log::{EventLog, everywhere, follower};
use crate::harness::past_day::PastDay;
use crate::harness::redis::RedisServer;
use crate::harness::response::Response;
use crate::harness::signatures::SIGNATURES;
use crate::harness::{eventually, store};

const ROOT: &str = "tenant:acme";
const DAY_MS: i64 = 86_400_000;

/// Sets `maxmemory` so that about this share of it is used, in percent.
pub(super) fn fill(server: &RedisServer, percent: u64) {
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    let info: String = server.run(&["INFO", "memory"]);
    let figure = |name: &str| -> u64 {
        let value = info.lines().find_map(|line| line.strip_prefix(name));
        value.expect("a figure").trim().parse().expect("a number")
    };
    let used = figure("used_memory:") - figure("mem_not_counted_for_evict:");
    let limit = (used * 1_000 / (percent * 10 + 4)).to_string();
    server.run::<()>(&["CONFIG", "SET", "maxmemory", &limit]);
}

/// A service with a ledger on a Redis of its own.
pub(crate) async fn service(settings: &[&str]) -> (RedisServer, TestApp) {
    let server = RedisServer::start();
    // A test changes the used memory by far less than a step. Redis makes it itself: a buffer for it would be freed in mid-test.
    server.run::<()>(&["SETRANGE", "ballast", "30000000", "x"]);
    let app = TestApp::spawn_on(&server.url(), settings).await;
    app.budget(ROOT, 1_000, 0).await;
    (server, app)
}

/// Fills Redis, and waits until the service has seen it.
pub(crate) async fn filled(server: &RedisServer, app: &TestApp, percent: u64) {
    fill(server, percent);
    eventually("the service has seen it", || async {
        let seen = app.store.fullest_share().percent() as u64;
        (seen.abs_diff(percent) <= 1).then_some(()).ok_or(seen)
    })
    .await;
}

async fn ready(app: &TestApp, path: &str) -> (u16, String) {
    let response = app
        .request(Method::GET, path)
        .send()
        .await
        .expect("a response");
    let status = response.status().as_u16();
    (status, response.text().await.expect("a body"))
}

fn refused(response: Response) {
    let response = response.refused(503, "INTERNAL_ERROR");
    assert_eq!(response.header("retry-after"), Some("5"));
}

#[tokio::test]
async fn from_75_percent_readiness_warns() {
    let (server, app) = service(&[]).await;
    let ratio = async || {
        let text = app.telemetry.render().expect("metrics");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("budget_redis_memory_used_ratio "));
        line.expect("the metric").parse::<f64>().expect("a number")
    };
    filled(&server, &app, 70).await;
    let up = (200, r#"{"status":"UP"}"#.to_owned());
    assert_eq!(ready(&app, "/ready").await, up);
    filled(&server, &app, 78).await;
    let warning =
        "Redis uses 78 % of maxmemory; from 90 % on, creates, events and decisions are refused";
    let warned = json!({"status": "UP", "warning": warning}).to_string();
    assert_eq!(ready(&app, "/ready").await, (200, warned));
    assert_eq!(ready(&app, "/actuator/health/readiness").await, up);
    assert!((0.77..0.80).contains(&ratio().await));
    app.reserve("held", 10).await.expect(200);
    app.reserve("denied", 5_000)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    let denials = app.events().await;
    assert_eq!(denials.len(), 1, "{denials:?}");
}

#[tokio::test]
async fn from_85_percent_denials_are_only_counted() {
    let (server, app) = service(&[]).await;
    filled(&server, &app, 87).await;
    app.with_left_in_minute(Duration::from_secs(15)).await;
    app.reserve("a", 5_000)
        .await
        .refused(409, "BUDGET_EXCEEDED");
    assert_eq!(app.decide("b", ROOT, 5_000).await.at("/decision"), "DENY");
    assert_eq!(app.dry_run("c", ROOT, 5_000).await.at("/decision"), "DENY");
    app.reserve("held", 10).await.expect(200);
    assert!(app.events().await.is_empty() && app.outbox().await.is_empty());
    let denials = app.store.keys().denials(app.callers[0].partition, "acme");
    let counted: [u32; 2] = app.run(&["HMGET", &denials, "count", "suppressed"]).await;
    assert_eq!(counted, [3, 3]);
    // The first denial of the next minute emits the rollup.
    let minute: i64 = app.run(&["HGET", &denials, "minute_ms"]).await;
    let past = (minute - 60_000).to_string();
    app.set(&denials, &[("minute_ms", &past)]).await;
    app.decide("next", ROOT, 5_000).await;
    let events = app.events().await;
    let lines: Vec<_> = events
        .iter()
        .map(|it| it.line(&["metadata.count"]))
        .collect();
    assert_eq!(lines, ["reservation.denied tenant:acme 3"]);
}

#[tokio::test]
async fn from_90_percent_creates_are_refused_and_holds_can_still_end() {
    let (server, app) = service(&[]).await;
    let mut held = Vec::new();
    for key in ["committed", "released", "swept", "extended"] {
        let created = app.reserve(key, 10).await.expect(200);
        held.push(created.text("/reservation_id").to_owned());
    }
    app.backdate(&held[2], 3_600_000).await;
    for percent in [92, 110] {
        filled(&server, &app, percent).await;
        refused(app.reserve("new", 10).await);
        refused(app.post_event("new", ROOT, 10, json!({})).await);
        refused(app.decide("new", ROOT, 10).await);
        refused(app.dry_run("new dry", ROOT, 10).await);
    }
    // Also above maxmemory itself.
    app.commit(&held[0], "commit", 4).await.expect(200);
    app.release(&held[1], "release").await.expect(200);
    app.extend(&held[3], "extend", 60_000).await.expect(200);
    assert_eq!(app.sweep().await, 1);
    assert_eq!(app.figures(ROOT).await, (986, 10, 4, 0));
    filled(&server, &app, 50).await;
    app.reserve("new", 10).await.expect(200);
}

#[tokio::test]
async fn a_replay_gets_its_response_while_memory_is_full() {
    let (server, app) = service(&[]).await;
    let kept = || async {
        let metadata = json!({"metadata": {"a": 1}});
        [
            app.create("create", ROOT, 10, json!({"ttl_ms": 3_600_000}))
                .await,
            app.post_event("event", ROOT, 10, metadata).await,
            app.decide("decide", ROOT, 10).await,
            app.dry_run("dry run", ROOT, 10).await,
        ]
    };
    let mut first = kept().await;
    for percent in [92, 110] {
        filled(&server, &app, percent).await;
        for (first, again) in first.iter_mut().zip(kept().await) {
            first
                .body
                .as_object_mut()
                .expect("members")
                .remove("remaining_ttl_ms");
            let mut again = again.expect(first.status);
            again
                .body
                .as_object_mut()
                .expect("members")
                .remove("remaining_ttl_ms");
            assert_eq!(again.body, first.body);
        }
        let other = app.reserve("create", 11).await;
        other.refused(409, "IDEMPOTENCY_MISMATCH");
        let body = reserve_body("create", 10);
        let unknown = app
            .post_with("sk_live_000_none", "/v1/reservations", &body)
            .await;
        assert_eq!(unknown.status, 401);
    }
}

#[tokio::test]
async fn memory_that_fills_between_two_checks_is_noticed_by_the_next_request() {
    let (server, app) = service(&[]).await;
    let first = app.create("create", ROOT, 10, json!({})).await.expect(200);
    filled(&server, &app, 50).await;
    let trips = || {
        let trips = &app.store.metrics().extra_round_trips;
        trips.with_label_values(&["full"]).get()
    };
    fill(&server, 110);
    let again = app.create("create", ROOT, 10, json!({})).await.expect(200);
    assert_eq!(again.at("/reservation_id"), first.at("/reservation_id"));
    assert!(trips() <= 1, "{} round trips too many", trips());
    refused(app.reserve("new", 10).await);
    assert!(trips() <= 1, "the node is known to be full by then");
}

#[tokio::test]
async fn outboxes_shrink_while_memory_is_full() {
    let server = RedisServer::start();
    let store = store(&server.url());
    let past = PastDay::new(&store, 0).await;
    let outbox = store.keys().outbox(past.lease.partition);
    for number in 1..=300 {
        let id = format!("{}-{number}", past.now_ms - 8 * DAY_MS);
        past.tenant
            .run::<()>(&["XADD", &outbox, &id, "tenant", "acme"])
            .await;
    }
    let mut event_log = EventLog::on(&store);
    let now = event_log.now_ms().await;
    event_log.emit("acme", now, &[]).await;
    fill(&server, 110);
    let follower = follower(&store);
    let mut pass = follower.run_once(&everywhere()).await.expect("memory");
    while pass.more {
        pass = follower.run_once(&everywhere()).await.expect("memory");
    }
    assert!(pass.watermark_ms >= now, "{pass:?}");
    event_log.check().await;
    let queued = Arc::new(DeliverySignal::default());
    let outboxes = Arc::new(Outboxes::new(store.clone()));
    let fan_out = FanOut::new(store.clone(), outboxes, 1, queued, &Registry::new());
    let fan_out = fan_out.expect("distinct names");
    fan_out.run_once(&everywhere()).await.expect("memory");
    while fan_out
        .run_once(&everywhere())
        .await
        .expect("memory")
        .followed
        > 0
    {}
    let retention = retention::retention(&store);
    let trimmed = retention::run(&retention, past.lease).await.outbox;
    assert!(trimmed >= 200, "{trimmed}");
}

/// The scripts that a full Redis also refuses: creates of operators and tenants, and counts for detectors.
#[test]
fn every_other_script_runs_while_memory_is_full() {
    let refused: Vec<_> = SIGNATURES
        .iter()
        .filter(|signature| !signature.flags.contains("allow-oom"))
        .map(|signature| signature.script.path())
        .collect();
    let expected = [
        "runtime/reserve",
        "runtime/refund",
        "runtime/usage_event",
        "runtime/decide",
        "admin/audit_failure",
        "admin/tenants/create_tenant",
        "admin/api_keys/register_api_key",
        "admin/api_keys/create_api_key",
        "admin/api_keys/update_api_key",
        "admin/budgets/create_budget",
        "admin/budgets/fund",
        "admin/budgets/increase",
        "admin/budgets/update_budget",
        "admin/policies/create_policy",
        "admin/policies/update_policy",
        "admin/webhooks/create_webhook",
        "admin/webhooks/update_webhook",
        "admin/webhooks/webhook_test",
        "admin/webhooks/begin_replay",
        "admin/webhooks/queue_replay",
        "admin/webhooks/put_webhook_security",
        "admin/bulk_actions/bulk_fund",
        "dispatcher/count_traffic",
        "dispatcher/count_burn",
    ];
    assert_eq!(refused, expected);
}
