//! How many requests the keys of a tenant may make.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::admin::http::umbra_on;
use crate::admin::webhooks::subscriptions::{self, OWN, URL};
use crate::harness::app::TestApp;
use crate::harness::receiver::public_names;
use crate::harness::redis::shared;
use crate::harness::response::Response;

/// Calls until a call is refused; how many were not.
async fn until_refused(call: impl AsyncFn(usize) -> Response) -> (usize, Response) {
    for number in 0..50 {
        let response = call(number).await;
        if response.status == 429 {
            return (number, response);
        }
        response.expect(200);
    }
    panic!("none was refused");
}

fn assert_waits(refused: &Response) {
    assert_eq!(refused.error(), (429, "LIMIT_EXCEEDED"), "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.header("x-ratelimit-reset").is_some(), "{refused:?}");
    assert_eq!(refused.at("/details/limit"), &json!(3));
    let present = refused.at("/details/present").as_i64();
    assert!(present.is_some_and(|used| used >= 3), "{refused:?}");
}

#[tokio::test]
async fn the_admin_plane_has_a_rate_per_tenant_and_the_runtime_plane_has_none() {
    let settings = ["--requests-per-second", "1", "--request-burst", "3"];
    let app = TestApp::spawn_on(&shared().url(), &settings).await;
    app.budget("tenant:acme", 1_000, 0).await;
    // Whoever has no valid key uses up nothing.
    let (start, _) = app.keys[0].split_at(app.keys[0].len() - 4);
    for number in 0..5 {
        let wrong = format!("{start}{number:04}");
        let refused = app.get_with(&wrong, "/v1/admin/policies").await;
        refused.expect(401);
    }
    let (listed, refused) = until_refused(async |_| app.get("/v1/admin/policies").await).await;
    assert!(listed >= 3, "{listed}");
    assert_waits(&refused);
    let message = refused.text("/message");
    let named = "Too many requests of the tenant acme: ";
    assert!(message.starts_with(named), "{message}");
    let setting = " are used of 3 at once, and 1 are added per second (BUDGET_REQUESTS_PER_SECOND); try again in 1 s";
    assert!(message.ends_with(setting), "{message}");
    let metrics = app.telemetry.render().expect("metrics");
    let counted = r#"budget_limit_refusals_total{limit="BUDGET_REQUESTS_PER_SECOND"}"#;
    assert!(metrics.contains(counted), "{metrics}");
    // It leaves no audit entry.
    let (keys, caller) = (app.store.keys(), &app.callers[0]);
    let log = |day| keys.audit(caller.partition, "acme", day);
    assert_eq!(app.log_entries(log).await, []);

    let wrong = format!("{start}zzzz");
    app.get_with(&wrong, "/v1/admin/policies").await.expect(401);
    app.get_as(1, "/v1/admin/policies").await.expect(200);
    for number in 0..5 {
        let held = app.reserve(&format!("r{number}"), 1).await.expect(200);
        let path = format!("/v1/reservations/{}", held.text("/reservation_id"));
        for path in [&path, "/v1/reservations", "/v1/balances?tenant=acme"] {
            app.get(path).await.expect(200);
        }
        let tenants = app.as_admin(Method::GET, "/v1/admin/tenants", &json!(null));
        tenants.await.expect(200);
    }
}

#[tokio::test]
async fn a_change_counts_by_the_size_of_its_stored_response() {
    let settings = [
        "--requests-per-second",
        "1",
        "--request-burst",
        "3",
        "--metadata-bytes",
        "1000000",
    ];
    let app = umbra_on(TestApp::spawn_reaching(public_names(), &settings).await).await;
    let key = subscriptions::key(&app).await;
    let large = json!({"text": "x".repeat(400_000)});
    let webhook = json!({"url": URL, "event_types": ["budget.funded"], "metadata": large});
    let made = app.by_key(&key, Method::POST, OWN, &webhook).await;
    made.expect(201);
    let refused = app.get_with(&key, OWN).await;
    assert_eq!(refused.error(), (429, "LIMIT_EXCEEDED"), "{refused:?}");
    let present = refused.at("/details/present").as_i64().expect("a number");
    assert!(
        (60..=99).contains(&present),
        "98 and the request itself, less the seconds since: {present}"
    );
}

#[tokio::test]
async fn the_runtime_plane_has_a_rate_only_where_it_is_set() {
    let settings = ["--runtime-requests-per-second", "1", "--request-burst", "3"];
    let app = TestApp::spawn_on(&shared().url(), &settings).await;
    app.budget("tenant:acme", 1_000, 0).await;
    let reserve = async |number| app.reserve(&format!("r{number}"), 1).await;
    let (held, refused) = until_refused(reserve).await;
    assert_waits(&refused);
    let ledger = app.ledger_key(0, "tenant:acme");
    let reserved: usize = app.run(&["HGET", &ledger, "reserved"]).await;
    assert_eq!(reserved, held, "a refused one holds nothing");
    let (_, refused) = until_refused(async |_| app.get("/v1/reservations").await).await;
    assert_waits(&refused);
    let begun = Instant::now();
    until_refused(async |_| app.get("/v1/reservations").await).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(250), "{took:?}");
    app.get("/v1/admin/policies").await.expect(200);
}
