//! How many rows the lists of one tenant may examine in vain.

use std::sync::Arc;
use std::time::{Duration, Instant};

use budget_authority::domain::amount::Unit;
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::app::TestApp;
use crate::harness::redis::RedisServer;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;
use crate::harness::runtime_calls::ask_body;
use crate::harness::tenant_fixture::TenantFixture;

const NOTHING: &str = "/v1/balances?toolset=nope";
/// How long they are asked for, in several loops at once.
const PERIOD: Duration = Duration::from_secs(3);
const LOOPS: usize = 8;
/// Rows of a step, of a second, and at once.
const STEP_ROWS: f64 = 201.0;
const ROWS_PER_SECOND: f64 = 20_000.0;
const BURST_ROWS: f64 = 10_000.0;

/// Number of steps that lists of balances have made.
fn steps(app: &TestApp) -> f64 {
    let name = r#"budget_script_duration_seconds_count{script="balances"}"#;
    let metrics = app.telemetry.render().expect("metrics");
    let count = metrics.lines().find_map(|line| line.strip_prefix(name));
    count.map_or(0.0, |count| count.trim().parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_match_nothing_examine_a_bounded_number_of_rows() {
    let server = tokio::task::block_in_place(RedisServer::start);
    let app = Arc::new(TestApp::spawn_on(&server.url(), LONG_REDIS_TIMEOUT).await);
    let tenant = TenantFixture::bare(&app.store, "acme").await;
    tenant.crowd(12_000, 0).await;
    app.seed(1, "tenant:bolt", Unit::Tokens, 1_000_000, 0).await;

    let (begun, before) = (Instant::now(), steps(&app));
    let mut hostile = JoinSet::new();
    for _ in 0..LOOPS {
        let app = Arc::clone(&app);
        hostile.spawn(async move {
            while begun.elapsed() < PERIOD {
                // So few loops wait less than a second, and none is refused.
                let list = app.get(NOTHING).await.expect(200);
                assert_eq!(list.at("/balances"), &json!([]));
            }
        });
    }
    for number in 0.. {
        let body = ask_body(&number.to_string(), "tenant:bolt", 1);
        let reserved = app.post_as(1, "/v1/reservations", &body).await;
        reserved.expect(200);
        if begun.elapsed() > PERIOD {
            break;
        }
    }
    hostile.join_all().await;
    let rows = (steps(&app) - before) * STEP_ROWS;
    let most = begun.elapsed().as_secs_f64() * ROWS_PER_SECOND + BURST_ROWS;
    // Steps that begin together are charged when they end.
    let most = most + 2.0 * LOOPS as f64 * STEP_ROWS;
    assert!(rows > BURST_ROWS && rows < most, "{rows} of {most} rows");

    // What an index answers, and other tenants, need not wait. The fastest of five, for a busy machine.
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        let page = app
            .get("/v1/balances?tenant=acme&limit=200")
            .await
            .expect(200);
        let rows = page.at("/balances").as_array().expect("rows");
        assert_eq!(rows.len(), 200);
        app.get_as(1, NOTHING).await.expect(200);
        fastest = fastest.min(begun.elapsed());
    }
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}
