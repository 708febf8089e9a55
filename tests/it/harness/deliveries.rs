//! A service with a dispatcher that delivers to receivers on this machine.

use std::net::IpAddr;
use std::time::Duration;

use budget_authority::config::TenantList;
use budget_authority::dispatcher::{self as dispatch, Dispatcher, Settings};
use budget_authority::egress::Egress;
use budget_authority::shutdown::Shutdown;
use budget_authority::store::Store;
use budget_authority::telemetry::Telemetry;
use reqwest::Method;
use serde_json::{Value, json};

use super::admin_fixture::tenant_id;
use super::app::{TestApp, config};
use super::eventually;
use super::receiver::egress;
use super::redis::{is_shared, shared};
use super::retrying_client::LONG_REDIS_TIMEOUT;
use super::runtime_calls::tokens;
use crate::admin::http::umbra_on;
use crate::admin::webhooks::guard::open;
use crate::admin::webhooks::subscriptions::HOOKS;

/// A dispatcher of a service. It stops when dropped.
pub struct RunningDispatcher {
    pub telemetry: Telemetry,
    shutdown: Shutdown,
    dispatcher: Option<Dispatcher>,
}

impl RunningDispatcher {
    /// A dispatcher for a service of [`here`].
    pub fn start(app: &TestApp) -> Self {
        Self::with_lanes(app, 1)
    }

    /// The same, with at most this many deliveries in flight.
    pub fn with_room(app: &TestApp, in_flight: usize) -> Self {
        Self::with(app, 1, in_flight)
    }

    /// The same, with this many first attempts of a lane in flight.
    pub fn with_lanes(app: &TestApp, lane_concurrency: u32) -> Self {
        Self::with(app, lane_concurrency, dispatch::IN_FLIGHT_MAX)
    }

    /// The same, with both.
    pub fn with(app: &TestApp, lane_concurrency: u32, in_flight: usize) -> Self {
        Self::over(&app.redis_url, app, lane_concurrency, in_flight)
    }

    /// The same, over another connection URL of the service's Redis.
    pub fn over(redis_url: &str, app: &TestApp, lane_concurrency: u32, in_flight: usize) -> Self {
        Self::over_with(redis_url, app, lane_concurrency, in_flight, &[])
    }

    /// The same, with more settings.
    pub fn over_with(
        redis_url: &str,
        app: &TestApp,
        lane_concurrency: u32,
        in_flight: usize,
        settings: &[&str],
    ) -> Self {
        let (none, limits) = (TenantList::default(), (lane_concurrency, in_flight, 0));
        Self::launch(redis_url, app, limits, none, settings, local())
    }

    /// A dispatcher with another egress, and with this many first attempts of a lane in flight.
    pub fn reaching(app: &TestApp, lane_concurrency: u32, way_out: Egress) -> Self {
        let limits = (lane_concurrency, dispatch::IN_FLIGHT_MAX, 0);
        Self::launch(
            &app.redis_url,
            app,
            limits,
            TenantList::default(),
            &[],
            way_out,
        )
    }

    /// A dispatcher that has gauges of the budgets of these tenants.
    pub fn with_gauges(app: &TestApp, tenants: &[&str]) -> Self {
        let tenants = TenantList(tenants.iter().map(|name| tenant_id(name)).collect());
        let limits = (1, dispatch::IN_FLIGHT_MAX, 0);
        Self::launch(&app.redis_url, app, limits, tenants, &[], local())
    }

    /// A dispatcher that makes at most this many deliveries in a second to one host. `other.test` has an address of its own.
    pub fn with_host_rate(app: &TestApp, lane_concurrency: u32, host_rate: u32) -> Self {
        let (none, limits) = (
            TenantList::default(),
            (lane_concurrency, dispatch::IN_FLIGHT_MAX, host_rate),
        );
        let addresses = |name: &str| {
            vec![IpAddr::from([
                127,
                0,
                0,
                1 + u8::from(name == "other.test"),
            ])]
        };
        Self::launch(&app.redis_url, app, limits, none, &[], egress(addresses).0)
    }

    fn launch(
        redis_url: &str,
        app: &TestApp,
        (lane_concurrency, in_flight, host_rate): (u32, usize, u32),
        metrics_tenants: TenantList,
        settings: &[&str],
        egress: Egress,
    ) -> Self {
        let (telemetry, shutdown) = (Telemetry::new().expect("distinct names"), Shutdown::new());
        let own = ["--key-prefix", app.store.keys().prefix()];
        let patient: &[&str] = match is_shared(redis_url) {
            true if !settings.contains(&"--redis-timeout-ms") => LONG_REDIS_TIMEOUT,
            _ => &[],
        };
        let config = config(redis_url, &[&own[..], patient, settings].concat());
        let store = config.store.open(telemetry.registry()).expect("a store");
        let settings = Settings {
            dialect: config.store.dialect,
            retention: config.retention,
            secrets: config.secrets,
            egress,
            in_flight,
            lane_concurrency,
            host_rate,
            metrics_tenants,
            evidence: None,
        };
        let dispatcher = dispatch::start(&store, settings, &telemetry, &shutdown);
        tokio::spawn(look_at_memory(store, shutdown.clone()));
        Self {
            telemetry,
            shutdown,
            dispatcher: Some(dispatcher.expect("distinct names")),
        }
    }

    /// Shuts it down as a signal does.
    pub async fn stop(mut self) {
        self.shutdown.begin();
        let dispatcher = self.dispatcher.take().expect("it runs");
        dispatcher.finished(Duration::from_secs(10)).await;
    }
}

/// An egress that resolves every name to this machine.
fn local() -> Egress {
    egress(|_| vec![IpAddr::from([127, 0, 0, 1])]).0
}

/// Reads the memory of Redis, as the process of a dispatcher does.
async fn look_at_memory(store: Store, shutdown: Shutdown) {
    while !shutdown.has_begun() {
        store.look_at_memory(Duration::from_millis(500)).await;
        // The pace of the process while memory is short.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

impl Drop for RunningDispatcher {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

/// A service that resolves every name to this machine and may deliver there.
pub async fn here() -> TestApp {
    here_on(&shared().url()).await
}

/// The same on a Redis of the test's choice.
pub async fn here_on(redis_url: &str) -> TestApp {
    here_with(redis_url, LONG_REDIS_TIMEOUT).await
}

/// The same with settings of the test's choice.
pub async fn here_with(redis_url: &str, settings: &[&str]) -> TestApp {
    let app = TestApp::spawn_reaching_on(redis_url, local(), settings).await;
    let app = umbra_on(app).await;
    open(&app).await;
    app
}

/// Credits the budget of `umbra` `times` times: an event `budget.funded` each.
pub async fn fund(app: &TestApp, times: usize) {
    for _ in 0..times {
        let path = "/v1/admin/budgets/fund?scope=tenant:umbra&unit=TOKENS&tenant_id=umbra";
        let body = json!({"operation": "CREDIT", "amount": tokens(1)});
        app.post_as_admin(path, body).await.expect(200);
    }
}

/// The deliveries to a subscription, oldest first.
pub async fn deliveries(app: &TestApp, id: &str) -> Vec<Value> {
    let path = format!("{HOOKS}/{id}/deliveries?limit=100");
    let page = app.get_as_admin(&path).await.expect(200);
    let mut rows = page.at("/deliveries").as_array().expect("rows").clone();
    rows.reverse();
    rows
}

/// The subscription, as the API returns it.
pub async fn webhook(app: &TestApp, id: &str) -> Value {
    let path = format!("{HOOKS}/{id}");
    app.as_admin(Method::GET, &path, &json!({}))
        .await
        .expect(200)
        .body
        .clone()
}

/// Waits until `count` deliveries to a subscription have this status.
pub async fn reached(app: &TestApp, id: &str, status: &str, count: usize) -> Vec<Value> {
    eventually("the deliveries get there", || async {
        let rows = deliveries(app, id).await;
        let there = rows.iter().filter(|row| row["status"] == status).count();
        (there == count).then_some(rows)
    })
    .await
}
